//! [`Checked`]: what a requirement came to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unit;
use crate::level::Distinction;
use crate::stats::{Bounds, Interval};
use crate::summary::LevelLoad;

/// The remark where latencies are not known to be low because requests wait whose time they lack.
pub const STILL_UNDER_WAY: &str =
    "undecided: requests are still under way that have waited for long, and no latency has their time yet";

/// Outcome of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// At 95 % confidence it is met.
    Passed,
    /// At 95 % confidence it is not met, or there is nothing to judge.
    Failed,
    /// Neither is certain.
    Undecided,
}

/// A requirement, checked against a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// As written.
    pub text: String,
    /// The variant that it was checked against, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The level; none if there is no such level.
    pub level: Option<LevelLoad>,
    /// What tells it apart from other levels with this load.
    #[serde(flatten)]
    pub distinction: Distinction,
    /// What the value is.
    pub unit: Unit,
    /// The figure's value, or its ratio to the baseline's value if that is what it is compared with. Rates are per
    /// second, latencies in nanoseconds, errors a share.
    pub value: Option<f64>,
    /// The 95 % confidence interval of its value; none if there is too little data.
    pub interval: Option<Interval>,
    /// The one-sided bounds of its value, by which it is judged.
    #[serde(default)]
    pub bounds: Bounds,
    /// The bound that the value is compared with, in the same unit.
    pub bound: Option<f64>,
    /// Its outcome.
    pub outcome: Judgement,
    /// For how many seconds its level was measured.
    #[serde(default)]
    pub measured_s: Option<f64>,
    /// Whether the run passes this requirement.
    pub passes: bool,
    /// Whether it is left undecided, neither passed nor missed.
    #[serde(default)]
    pub open: bool,
    /// Whether it is the baseline of which too little is known for a decision.
    #[serde(default)]
    pub vague_baseline: bool,
    /// Further remarks.
    pub note: Option<String>,
}

impl Checked {
    /// What a ratio is one of, after the value; empty for other units.
    pub fn relation(&self) -> &'static str {
        match (self.unit, &self.variant) {
            (Unit::Ratio, Some(_)) => " of the reference's",
            (Unit::Ratio, None) => " of the baseline's",
            _ => "",
        }
    }
}
