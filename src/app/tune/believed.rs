//! What of a record is believed: what a search has measured, and not what a hand or a broken disk has put there.

use std::ops::RangeInclusive;

use crate::app::tune::record::Entry;
use crate::result::Figures;

/// Seconds that a search, or a trial in it, can take: up to thirty years.
pub const SECONDS: RangeInclusive<f64> = 0.0..=1e9;
/// Rates, times in nanoseconds and all else that is measured.
const MEASURED: RangeInclusive<f64> = 0.0..=1e18;
/// The logarithm of anything of that kind; a constraint that nobody asked for is missed by minus a thousand million.
const LOGARITHM: RangeInclusive<f64> = -1e9..=1e3;

/// Whether a trial can have come to this.
pub fn is_believed(entry: &Entry) -> bool {
    let found = entry.observation.found.as_ref().ok();
    let are_logarithms =
        found.is_none_or(|found| [found.score, found.violation].iter().all(|logarithm| LOGARITHM.contains(logarithm)));
    let measured = entry.measured.as_ref();
    let loads = measured.and_then(|visit| visit.load_s);
    are_logarithms
        && [entry.trial.unit_s, entry.observation.seconds].iter().chain(&loads).all(|seconds| SECONDS.contains(seconds))
        && measured.is_none_or(|visit| are_measured(&visit.figures))
}

fn are_measured(figures: &Figures) -> bool {
    let Figures { throughput, latency_ns, mean_ns, errors, queue_us, compute_us, executed_batch, .. } = figures;
    let percentiles = figures.percentiles.iter().flat_map(|at| [&at.percentile, &at.latency_ns]);
    let all = [throughput, latency_ns, mean_ns, errors, queue_us, compute_us, executed_batch];
    all.into_iter().chain(percentiles).all(|value| MEASURED.contains(value))
}
