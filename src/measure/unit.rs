//! What the values of figures are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Statistic;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Inferences a second.
    PerSecond,
    /// Requests a second.
    RequestsPerSecond,
    /// Responses a second.
    ResponsesPerSecond,
    /// Tokens a second.
    TokensPerSecond,
    /// Tokens.
    Tokens,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// A share, 0 to 1.
    Share,
    /// A share of the baseline's value.
    Ratio,
}

impl Unit {
    /// That of a statistic.
    pub fn of(statistic: Statistic) -> Self {
        match statistic {
            Statistic::Throughput => Self::PerSecond,
            Statistic::MeanLatency | Statistic::Percentile(_) => Self::Nanoseconds,
        }
    }
}
