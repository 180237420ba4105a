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
            Self::Share { share, over, least } => {
                write!(f, "errors>{}% over {over:?}", share * 100.0)?;
                if *least > 0 { write!(f, " of {least}") } else { Ok(()) }
            }
            Self::InARow { failures } => write!(f, "consecutive>={failures}"),
        }
    }
}
