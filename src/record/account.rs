//! The final counts of a load's requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of every request of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadReport {
    /// Sent, including requests that only end sequences.
    pub sent: u64,
    /// Succeeded.
    pub completed: u64,
    /// Failed.
    pub failed: u64,
    /// Never completed.
    pub outstanding: u64,
    /// Found no free slot when they were due in an open loop: the maximum was outstanding, or every serial sequence had
    /// one.
    pub held_back: u64,
}

impl LoadReport {
    /// The sum of two loads.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            outstanding: self.outstanding + other.outstanding,
            held_back: self.held_back + other.held_back,
        }
    }

    /// Whether every request is accounted for.
    pub fn adds_up(&self) -> bool {
        self.sent == self.completed + self.failed + self.outstanding
    }
}
