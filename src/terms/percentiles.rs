//! Which percentiles are shown where none is asked for.

/// The percentile that says how bad it gets, where none is asked for.
pub const TAIL: f64 = 99.0;
/// Farther out: shown where a distribution is told in full.
pub const FAR_TAIL: f64 = 99.9;

/// Of a latency: those of perf_analyzer's report, which every report of ours shows.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, TAIL];
/// Of a distribution that is told in full.
pub const ALL_PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, TAIL, FAR_TAIL];
/// Of each of many distributions that share a table: the median and the tail.
pub const FEW_PERCENTILES: [f64; 2] = [50.0, TAIL];
