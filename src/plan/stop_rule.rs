//! What ends a run early.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A share of failed requests within some time that ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StopRule {
    /// More than this share of the requests that were over failed, 0 to 1.
    pub share: f64,
    /// Within the latest so much time.
    #[serde(rename = "over_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub over: Duration,
    /// So many requests have to have been over in it; 0 waits until all of the time has gone by.
    pub least: u64,
}

impl fmt::Display for StopRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "errors>{}% over {:?}", self.share * 100.0, self.over)?;
        if self.least > 0 { write!(f, " of {}", self.least) } else { Ok(()) }
    }
}
