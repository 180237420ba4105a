//! What a search has seen, for its result.

use serde_json::Value;

use crate::model::ModelId;
use crate::plan::{Searched, TunePlan};
use crate::result::TrialFigures;
use crate::result::disturbance::Disturbance;
use crate::tune::{Planner, Trial};

/// A trial and its figures.
pub struct CompletedTrial {
    /// The trial.
    pub trial: Trial,
    /// Its figures.
    pub measured: TrialFigures,
}

/// Everything about a search.
pub struct Search<'a> {
    /// The plan.
    pub plan: &'a TunePlan,
    /// What was searched.
    pub search: &'a [Searched],
    /// Who searched.
    pub planner: &'a Planner,
    /// What was measured.
    pub completed: &'a [CompletedTrial],
    /// The models as they were found.
    pub bases: &'a [(ModelId, Value)],
    /// Whether the search was interrupted.
    pub interrupted: bool,
}

impl Search<'_> {
    /// How many measurements others disturbed, of how many, and the worst of it.
    pub fn disturbances(&self) -> (usize, usize, Option<Disturbance>) {
        let all = self.completed.iter().filter_map(|completed| completed.measured.disturbance);
        (all.clone().count(), self.completed.len(), all.reduce(|worst, next| worst.worst(&next)))
    }
}
