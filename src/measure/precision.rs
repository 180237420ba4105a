//! How well a level's figures are known: their confidence intervals, and `--precision p99:2%`, which measures until an
//! interval is narrow enough.
//!
//! Throughput and mean latency are judged by how the windows' values differ (batch means), percentiles by order statistics
//! of all samples. Neighbouring requests meet the same queue, so samples are worth less than their number; how much less is
//! told by how the windows' means differ, too.

use crate::measure::summary::ClientSummary;
use crate::plan::{Precision, Statistic};
use crate::stats::{Interval, batch_means, effective_size_of_batches, percentile_interval};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// What is needed of each window by itself.
#[derive(Clone, Copy, Debug)]
pub struct WindowFigures {
    /// Inferences a second.
    pub throughput: f64,
    /// Mean of the headline latency in nanoseconds.
    pub mean_latency_ns: f64,
}

impl WindowFigures {
    /// Those of a window.
    pub fn of(window: &ClientSummary) -> Self {
        Self { throughput: window.throughput(), mean_latency_ns: window.latency.mean_ns() }
    }
}

/// The interval of a figure: latencies in nanoseconds, throughput in inferences a second. `all` is `windows` merged. `None`
/// where there is too little to tell.
pub fn interval(of: Statistic, windows: &[WindowFigures], all: &ClientSummary) -> Option<Interval> {
    let each = |value: fn(&WindowFigures) -> f64| windows.iter().map(value).collect::<Vec<_>>();
    let mean_latencies = || each(|window| window.mean_latency_ns);
    match of {
        Statistic::Throughput => batch_means(&each(|window| window.throughput), CONFIDENCE),
        Statistic::MeanLatency => batch_means(&mean_latencies(), CONFIDENCE),
        Statistic::Percentile(percentile) => {
            let variance = all.latency.std_ns().powi(2);
            let effective = effective_size_of_batches(all.latency.count(), variance, &mean_latencies());
            percentile_interval(&all.latency.histogram, percentile, effective, CONFIDENCE)
        }
    }
}

/// The intervals that a level's report gives: throughput, mean latency, the usual percentiles and the one asked for.
pub fn intervals(
    windows: &[WindowFigures],
    all: &ClientSummary,
    percentile: Option<f64>,
) -> Vec<(Statistic, Interval)> {
    let mut percentiles = vec![50.0, 90.0, 95.0, 99.0];
    percentiles.extend(percentile.filter(|asked| !percentiles.contains(asked)));
    let wanted = [Statistic::Throughput, Statistic::MeanLatency].into_iter();
    let wanted = wanted.chain(percentiles.into_iter().map(Statistic::Percentile));
    wanted.filter_map(|of| Some((of, interval(of, windows, all)?))).collect()
}

/// Whether a figure is known as well as `wanted`.
pub fn is_precise(wanted: Precision, windows: &[WindowFigures], all: &ClientSummary) -> bool {
    let value = value(wanted.of, all);
    interval(wanted.of, windows, all).is_some_and(|interval| interval.relative_half_width(value) <= wanted.share)
}

/// A figure of the windows `all`, in the units of its interval.
pub fn value(of: Statistic, all: &ClientSummary) -> f64 {
    match of {
        Statistic::Throughput => all.throughput(),
        Statistic::MeanLatency => all.latency.mean_ns(),
        Statistic::Percentile(percentile) => all.latency.percentile_ns(percentile) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::sample;
    use crate::measure::window;

    /// A window of latencies 1000, 2000, … ns, all shifted.
    fn window_of(requests: u64, shift: u64) -> ClientSummary {
        let mut client = sample::client(0, 0);
        client.requests = requests;
        for number in 1..=requests {
            let ns = number * 1000 + shift;
            client.latency.histogram.record(ns).unwrap();
            client.latency.sum_ns += u128::from(ns);
        }
        client
    }

    fn figures(windows: &[ClientSummary]) -> Vec<WindowFigures> {
        windows.iter().map(WindowFigures::of).collect()
    }

    fn merge(windows: &[ClientSummary]) -> ClientSummary {
        let (first, rest) = windows.split_first().unwrap();
        rest.iter().fold(first.clone(), window::merge)
    }

    fn precise(of: Statistic, share: f64, windows: &[ClientSummary]) -> bool {
        is_precise(Precision { of, share }, &figures(windows), &merge(windows))
    }

    #[test]
    fn equal_windows_are_known_well_and_unequal_ones_are_not() {
        let equal = vec![window_of(2000, 0); 3];
        let unequal = [window_of(2000, 0), window_of(1000, 900_000), window_of(3000, 0)];
        for of in [Statistic::Throughput, Statistic::MeanLatency] {
            assert!(precise(of, 0.01, &equal));
            assert!(!precise(of, 0.2, &unequal));
            assert!(!precise(of, 0.2, &equal[..1]), "one window does not tell");
        }
    }

    #[test]
    fn percentiles_get_wider_where_windows_drift() {
        let of = Statistic::Percentile(90.0);
        let width = |windows: &[ClientSummary]| {
            let all = merge(windows);
            interval(of, &figures(windows), &all).unwrap().relative_half_width(all.latency.percentile_ns(90.0) as f64)
        };
        let steady = width(&vec![window_of(2000, 0); 3]);
        assert!(steady < 0.01, "{steady}");
        assert!(width(&[window_of(2000, 0), window_of(2000, 50_000), window_of(2000, 100_000)]) > 3.0 * steady);
        assert!(precise(of, 0.01, &vec![window_of(2000, 0); 3]));
        assert!(!precise(Statistic::Percentile(99.9), 0.01, &[window_of(500, 0)]));
    }
}
