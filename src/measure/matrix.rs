//! What a matrix came to: the same load several ways, in rounds that take turns, and what each way costs.
//!
//! Rounds take turns so that whatever the machine does in the meantime meets all ways alike, and costs are told by the
//! differences within a round.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::precision::CONFIDENCE;
use crate::measure::summary::{ClientSummary, LevelLoad};
use crate::stats::{Interval, batch_means};

/// What one way came to in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Inferences a second.
    pub throughput: f64,
    /// Mean latency, or the percentile that was asked for, in nanoseconds.
    pub latency_ns: f64,
    /// Requests that failed.
    pub failed: u64,
}

impl Round {
    /// A round from its windows.
    pub fn of(client: &ClientSummary, percentile: Option<f64>) -> Self {
        Self { throughput: client.throughput(), latency_ns: client.key_latency_ns(percentile), failed: client.failed }
    }
}

/// One way, and its rounds in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// The way, as the table names it.
    pub name: String,
    /// What it came to in each round.
    pub rounds: Vec<Round>,
    /// Why there are no (further) rounds, where it could not be used.
    pub problem: Option<String>,
}

/// All ways at one load; the first is what the others are held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixTable {
    /// The load.
    pub load: LevelLoad,
    /// The ways.
    pub rows: Vec<MatrixRow>,
}

/// A mean, and where the true one lies with [`CONFIDENCE`]; no interval where there is a single round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The mean of the rounds.
    pub mean: f64,
    /// Its interval.
    pub interval: Option<Interval>,
}

impl MatrixRow {
    /// Inferences a second.
    pub fn throughput(&self) -> Option<Figure> {
        figure(self.rounds.iter().map(|round| round.throughput))
    }

    /// Latency in nanoseconds.
    pub fn latency_ns(&self) -> Option<Figure> {
        figure(self.rounds.iter().map(|round| round.latency_ns))
    }

    /// Nanoseconds of latency above those of `base`, round by round.
    pub fn extra_ns(&self, base: &Self) -> Option<Figure> {
        figure(self.beside(base).map(|(own, base)| own.latency_ns - base.latency_ns))
    }

    /// Throughput as a share of that of `base`, round by round.
    pub fn share(&self, base: &Self) -> Option<Figure> {
        let pairs = self.beside(base).filter(|(_, base)| base.throughput > 0.0);
        figure(pairs.map(|(own, base)| own.throughput / base.throughput))
    }

    /// Requests that failed in all rounds.
    pub fn failed(&self) -> u64 {
        self.rounds.iter().map(|round| round.failed).sum()
    }

    fn beside<'a>(&'a self, base: &'a Self) -> impl Iterator<Item = (&'a Round, &'a Round)> {
        self.rounds.iter().zip(&base.rounds)
    }
}

fn figure(values: impl Iterator<Item = f64>) -> Option<Figure> {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(Figure { mean, interval: batch_means(&values, CONFIDENCE) })
}

#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    /// A way whose rounds have these throughputs and latencies in microseconds.
    pub(crate) fn row(name: &str, rounds: &[(f64, f64)]) -> MatrixRow {
        let round = |&(throughput, us): &(f64, f64)| Round { throughput, latency_ns: us * 1e3, failed: 0 };
        MatrixRow { name: name.to_owned(), rounds: rounds.iter().map(round).collect(), problem: None }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::row;

    #[test]
    fn costs_are_told_within_rounds() {
        // The machine gets slower from round to round; the cost stays.
        let base = row("base", &[(1000.0, 10.0), (500.0, 20.0), (250.0, 40.0)]);
        let other = row("other", &[(500.0, 15.0), (250.0, 25.0), (125.0, 45.0)]);
        let extra = other.extra_ns(&base).unwrap();
        let interval = extra.interval.unwrap();
        assert!((extra.mean - 5_000.0).abs() < 1e-9 && interval.high - interval.low < 1e-6, "{extra:?}");
        assert!((other.share(&base).unwrap().mean - 0.5).abs() < 1e-12);
        assert!(other.latency_ns().unwrap().interval.unwrap().high > 50_000.0, "the latency itself is known badly");
    }

    #[test]
    fn what_was_not_measured_has_no_figures() {
        let base = row("base", &[(1.0, 1.0)]);
        assert_eq!(row("none", &[]).share(&base), None);
        assert_eq!(base.throughput().unwrap().interval, None, "one round tells no interval");
    }
}
