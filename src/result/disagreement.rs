//! [`Disagreement`]: the figures in which windows differ by more than allowed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::terms::Statistic;

/// Windows that have to agree.
pub const STABLE_WINDOWS: usize = 3;

/// A figure in which windows differ by more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disagreement {
    /// Which.
    #[serde(rename = "of")]
    pub statistic: Statistic,
    /// The smallest value of a window: inferences a second, or nanoseconds.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// By how much the largest may exceed the smallest, as a share of it.
    pub allowed: f64,
}

/// `throughput of the last 3 windows is 9100 to 10400 infer/sec, 14% apart, where -s allows 10%`.
impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, word) = if self.statistic == Statistic::Throughput { (1.0, "infer/sec") } else { (1e3, "usec") };
        let [low, high] = [self.low, self.high].map(|value| short(value / unit));
        write!(f, "{} of the last {STABLE_WINDOWS} windows is {low} to {high} {word}", self.statistic)?;
        if self.low > 0.0 {
            write!(f, ", {}% apart", short(self.spread() * 100.0))?;
        }
        write!(f, ", where -s allows {}%", (self.allowed * 1e8).round() / 1e6)
    }
}

/// Three digits are enough to see a difference.
fn short(value: f64) -> String {
    let decimals = if value >= 100.0 { 0 } else { 1 };
    format!("{value:.decimals$}")
}

impl Disagreement {
    /// By how much the largest value exceeds the smallest, as a share of it.
    pub fn spread(&self) -> f64 {
        self.high / self.low - 1.0
    }
}
