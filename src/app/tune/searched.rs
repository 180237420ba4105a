//! What a search has seen, for its result.

use serde_json::Value;

use crate::model::ModelId;
use crate::plan::{Searched, TunePlan};
use crate::result::VisitFigures;
use crate::result::disturbance::Disturbance;
use crate::tune::{Planner, Trial};

/// A trial and its figures.
pub struct Seen {
    /// The trial.
    pub trial: Trial,
    /// Its figures.
    pub measured: VisitFigures,
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
    pub seen: &'a [Seen],
    /// The models as they were found.
    pub bases: &'a [(ModelId, Value)],
    /// Whether the search was interrupted.
    pub interrupted: bool,
}

impl Search<'_> {
    /// How many measurements others disturbed, of how many, and the worst of it.
    pub fn disturbances(&self) -> (usize, usize, Option<Disturbance>) {
        let all = self.seen.iter().filter_map(|visit| visit.measured.disturbance);
        (all.clone().count(), self.seen.len(), all.reduce(|worst, next| worst.worst(&next)))
    }
}
