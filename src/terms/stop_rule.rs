//! What ends a run early.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Failed requests that end the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StopRule {
    /// A share of the requests of some time.
    Share {
        /// More than this share of the requests that ended failed, 0 to 1.
        share: f64,
        /// Whether exactly that share is enough.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        or_equal: bool,
        /// Within this much of the latest time.
        #[serde(rename = "over_s", with = "crate::seconds")]
        #[schemars(with = "f64")]
        over: Duration,
        /// This many requests must have ended in that time; 0 waits until all of the time has passed.
        least: u64,
    },
    /// In a row, without a success in between.
    InARow {
        /// This many of them.
        failures: u64,
    },
}

impl fmt::Display for StopRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { share, or_equal, over, least } => {
                let relation = if *or_equal { ">=" } else { ">" };
                write!(f, "errors{relation}{}% over {over:?}", percent(*share))?;
                if *least > 0 { write!(f, " of {least}") } else { Ok(()) }
            }
            Self::InARow { failures } => write!(f, "consecutive>={failures}"),
        }
    }
}

/// A share in per cent, without the last digits of a product: 7 and not 7.000000000000001.
fn percent(share: f64) -> f64 {
    (share * 1e11).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cent_are_the_share_again() {
        for number in 0..=100 {
            let share = f64::from(number) / 100.0;
            assert_eq!(format!("{}", percent(share)), format!("{number}"));
            assert_eq!(format!("{}", percent(share)).parse::<f64>().unwrap() / 100.0, share, "{number}");
        }
    }
}
