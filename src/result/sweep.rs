//! The steps of a sweep, and what it found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How close the highest sustained and the lowest unsustained rate of a search are, as a share of the latter.
pub const RESOLUTION: f64 = 0.03;

/// What to run next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepStep {
    /// Many requests outstanding; its completion rate is the observation.
    Burst,
    /// An open loop at this rate (requests a second), long enough to show whether it is sustained.
    Confirm(f64),
    /// An open loop at this rate, measured and reported.
    Measure(f64),
    /// The measured point with this number (from 0), once more; the new result replaces the old one.
    Again(usize, f64),
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepObservation {
    /// Requests completed a second.
    pub completed_rate: f64,
    /// Whether the server kept up: it reached the rate, and the number of outstanding requests did not grow.
    pub sustained: bool,
    /// Whether its windows agreed. If not, the step cannot show that a rate is sustained unless the search found so.
    pub settled: bool,
    /// The latency that the report uses, in nanoseconds.
    pub latency_ns: f64,
}

/// A step that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTaken {
    /// What was run.
    pub step: SweepStep,
    /// Its result.
    pub observed: SweepObservation,
}

/// What a sweep found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepResult {
    /// Highest sustained rate below all unsustained ones, in requests a second.
    pub saturation: f64,
    /// Lowest rate that was not sustained; absent if every rate was.
    pub unsustained: Option<f64>,
    /// Rate after which latency grows faster than load (`measure::sweep`).
    pub knee: Option<f64>,
}
