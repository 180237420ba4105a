//! Statistics of a level: which are shown, their values, and how sure their intervals are.

use crate::stats::{CERTAIN_HALF_WIDTH, Interval};
use crate::summary::ClientSummary;
use crate::terms::{PERCENTILES, Statistic};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Those that every report shows and further ones, ascending, each once.
pub fn percentiles(further: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = PERCENTILES.into_iter().chain(further).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// A figure of the windows `all`, in the units of its interval.
pub fn value(statistic: Statistic, all: &ClientSummary) -> f64 {
    match statistic {
        Statistic::Throughput => all.throughput(),
        Statistic::MeanLatency => all.latency.mean_ns(),
        Statistic::Percentile(percentile) => all.latency.percentile_ns(percentile) as f64,
    }
}

/// What the interval of a figure with this value takes for its standard error, by the side that nothing makes longer.
pub fn standard_error(value: f64, interval: Interval) -> f64 {
    (value - interval.low) / CERTAIN_HALF_WIDTH
}
