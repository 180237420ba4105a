//! A trial in the record of a search, and whether it is believed: what was measured is, and not what a hand or a broken disk has put there.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::result::{Figures, TrialFigures};
use crate::tune::{Observation, Trial};

/// Seconds that a search, or a trial in it, can take: up to thirty years.
pub const SECONDS: RangeInclusive<f64> = 0.0..=1e9;
/// Rates, times in nanoseconds and all else that is measured.
const MEASURED: RangeInclusive<f64> = 0.0..=1e18;
/// The logarithm of anything of that kind; a constraint that nobody asked for is missed by minus a thousand million.
const LOGARITHM: RangeInclusive<f64> = -1e9..=1e3;

/// A trial and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked.
    pub trial: Trial,
    /// Its result.
    pub observation: Observation,
    /// The figures, where there are any.
    pub measured: Option<TrialFigures>,
    /// The line that it was read from, which is written as it was.
    #[serde(skip)]
    pub line: Option<String>,
}

impl Entry {
    /// Whether a trial can have come to this.
    pub fn is_believed(&self) -> bool {
        let Self { trial, observation, measured, .. } = self;
        let found = observation.found.as_ref().ok();
        let logarithms = found.iter().flat_map(|found| [found.score, found.violation]);
        let loads = measured.as_ref().and_then(|trial| trial.load_s);
        let mut seconds = [trial.unit_s, observation.seconds].into_iter().chain(loads);
        logarithms.into_iter().all(|logarithm| LOGARITHM.contains(&logarithm))
            && seconds.all(|seconds| SECONDS.contains(&seconds))
            && measured.as_ref().is_none_or(|trial| are_measured(&trial.figures))
    }
}

fn are_measured(figures: &Figures) -> bool {
    let Figures { throughput, latency_ns, mean_ns, errors, queue_us, compute_us, executed_batch, .. } = figures;
    let percentiles = figures.percentiles.iter().flat_map(|at| [&at.percentile, &at.latency_ns]);
    let all = [throughput, latency_ns, mean_ns, errors, queue_us, compute_us, executed_batch];
    all.into_iter().chain(percentiles).chain(figures.named.values()).all(|value| MEASURED.contains(value))
}
