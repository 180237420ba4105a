//! [`Unit`]: what the values of figures are, and their text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number::{bandwidth, exact_time, plain, significant, time};
use crate::terms::Statistic;

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
    pub fn new(statistic: Statistic) -> Self {
        match statistic {
            Statistic::Throughput => Self::PerSecond,
            Statistic::MeanLatency | Statistic::Percentile(_) => Self::Nanoseconds,
        }
    }

    /// What a value of it counts, after the value; empty for those that say it themselves.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "infer/s",
            Self::RequestsPerSecond => "requests/s",
            Self::ResponsesPerSecond => "responses/s",
            Self::TokensPerSecond => "tokens/s",
            Self::Tokens => "tokens",
            Self::BytesPerSecond => "B/s",
            Self::Nanoseconds | Self::Share | Self::Ratio => "",
        }
    }

    /// A value for people: `12.3 ms`, `228 infer/s`, `97 %`.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => time(value),
            Self::Share => format!("{} %", plain(100.0 * value)),
            Self::Ratio => format!("{value:.3}"),
            Self::BytesPerSecond => bandwidth(value),
            counted => format!("{} {}", plain(value), counted.name()),
        }
    }

    /// An interval of it, with its unit once where both ends have the same: `39 to 44 ms`; a value where both show the same.
    pub fn show_between(self, low: f64, high: f64) -> String {
        between(&self.show(low), &self.show(high))
    }

    /// A value that is held against a bound, with more digits: `12.3457 ms`, `1228.46 infer/s`.
    pub fn show_exactly(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => exact_time(value),
            Self::Share => format!("{} %", significant(100.0 * value)),
            Self::Ratio | Self::BytesPerSecond => self.show(value),
            _ if value.abs() >= 1e6 => self.show(value),
            counted => format!("{} {}", significant(value), counted.name()),
        }
    }

    /// An interval of such values.
    pub fn show_exactly_between(self, low: f64, high: f64) -> String {
        between(&self.show_exactly(low), &self.show_exactly(high))
    }
}

/// From one value to another, with the unit once where both have the same.
pub(super) fn between(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => high.to_owned(),
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_their_unit_once() {
        assert_eq!(Unit::PerSecond.show(1234.4), "1234 infer/s");
        assert_eq!(Unit::Share.show(0.971), "97.1 %");
        assert_eq!(Unit::Nanoseconds.show_between(39e6, 44e6), "39 to 44 ms");
        assert_eq!(Unit::Nanoseconds.show_between(6.001e9, 6.002e9), "6 s");
        assert_eq!(Unit::Nanoseconds.show_between(900e3, 1.2e6), "900 µs to 1.2 ms");
        assert_eq!(Unit::TokensPerSecond.show_between(10.0, 11.5), "10 to 11.5 tokens/s");
        assert_eq!(Unit::BytesPerSecond.show(1.87e10), "18.7 GB/s");
        assert_eq!(Unit::Nanoseconds.show_exactly_between(12.04e6, 13e6), "12.04 to 13 ms");
        assert_eq!(Unit::Share.show_exactly(0.97125), "97.125 %");
        assert_eq!(Unit::PerSecond.show_exactly(1228.46), "1228.46 infer/s");
    }
}
