//! [`Setup`]: what was measured, and how.

use crate::backend::Capabilities;
use crate::measure::summary::{EntrySummary, Headline};
use crate::plan::Plan;

/// What was measured, and how: the plan, and what the server and its models make of it. It stands above the levels.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What was asked for.
    pub plan: Plan,
    /// Whether each outstanding request of a closed loop has a thread that waits for it.
    pub synchronous: bool,
    /// What the backend is and can do.
    pub capabilities: Capabilities,
    /// Whether the model is decoupled.
    pub decoupled: bool,
    /// Whether the model takes sequences.
    pub sequences: bool,
    /// What the headline latency is.
    pub headline: Headline,
    /// The client's own cost per request, measured on the null backend, in nanoseconds.
    pub client_cost_ns: f64,
    /// The entries of a mix; empty where there is one model.
    pub entries: Vec<EntrySummary>,
}
