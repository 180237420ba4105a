//! A distribution of times.

mod bounds;
mod file;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::distribution::bounds::within;
use crate::distribution::file::DistributionFile;
pub use crate::distribution::file::coarse;

/// Longest time that a distribution can represent; longer ones count as this.
pub const MAX_TIME_NS: u64 = 3_600_000_000_000;

/// Significant digits of recorded times. Each takes tenfold room: with three, a histogram has 43 000 entries, which Miri takes
/// minutes to walk through.
pub const DIGITS: u8 = if cfg!(miri) { 1 } else { 3 };

/// A distribution of times in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(into = "DistributionFile", try_from = "DistributionFile")]
#[schemars(with = "DistributionFile")]
pub struct Distribution {
    /// Recorded values, with three significant digits, 1 ns to 1 h.
    pub histogram: Histogram<u64>,
    /// Exact sum of the values.
    pub sum_ns: u128,
}

impl Distribution {
    /// An empty distribution.
    pub fn empty() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_TIME_NS, DIGITS).expect("constant bounds are valid");
        Self { histogram, sum_ns: 0 }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Arithmetic mean in nanoseconds, from the exact sum; 0 where empty.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// Standard deviation of a sample (n - 1, as perf_analyzer's) in nanoseconds, from the histogram; 0 of fewer than two.
    pub fn std_ns(&self) -> f64 {
        let count = self.count() as f64;
        if count < 2.0 { 0.0 } else { self.histogram.stdev() * (count / (count - 1.0)).sqrt() }
    }

    /// Value at a percentile (0 to 100) in nanoseconds; 0 where empty.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.value_at_percentile(percentile) }
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all distributions have the same bounds");
        self.sum_ns += other.sum_ns;
    }
}
