//! Candidates, what is asked of them and what they came to.

use serde::{Deserialize, Serialize};

use crate::tune::space::Place;

/// What a search may take, and what counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seconds in all, loading included.
    pub budget_s: f64,
    /// Differences up to this share count as none.
    pub margin: f64,
    /// Seed of every draw.
    pub seed: u64,
    /// Shortest measurement, in seconds.
    pub unit_s: f64,
}

/// Why a candidate is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// To order the others.
    Calibration,
    /// Against all that are left.
    Race,
    /// Beside the best, which it differs from by a step.
    Step,
    /// To tell by how much the best are better than the present one.
    Confirmation,
}

/// A candidate is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number; 0 is the present configuration.
    pub candidate: usize,
    /// Why.
    pub phase: Phase,
    /// Which round of the search it belongs to.
    pub round: usize,
    /// For how long, in seconds.
    pub unit_s: f64,
    /// Seed of its load.
    pub seed: u64,
}

/// What a trial came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// How long it took, loading included.
    pub seconds: f64,
    /// What was found, or why nothing was.
    pub found: Result<Found, String>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The objective as a logarithm, such that more is better.
    pub score: f64,
    /// How far the worst of the constraints is from its limit, as a logarithm: above 0 it does not hold.
    pub violation: f64,
}

/// A candidate, and everything that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its settings; none where it is the present configuration and that is not among the points.
    pub place: Option<Place>,
    /// What it came to each time.
    pub visits: Vec<Visit>,
    /// What became of it.
    pub fate: Fate,
}

/// A trial that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Why it was measured.
    pub phase: Phase,
    /// In which round.
    pub round: usize,
    /// For how long.
    pub unit_s: f64,
    /// The objective's logarithm.
    pub score: f64,
    /// The constraints'.
    pub violation: f64,
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It is in the search.
    Open,
    /// It left the race after this rung, for this reason.
    Dropped {
        /// Which rung, from 1.
        rung: usize,
        /// Why.
        reason: String,
        /// Whether what was measured shows it; else more time may bring it back.
        is_shown: bool,
    },
    /// It could not be loaded or measured.
    Failed(String),
    /// It was never measured, because of what others came to.
    RuledOut(String),
}

impl Candidate {
    /// One that nothing is known of.
    pub fn new(place: Option<Place>) -> Self {
        Self { place, visits: Vec::new(), fate: Fate::Open }
    }

    /// Its violations in visits that `counts` admits.
    pub fn violations(&self, counts: impl Fn(&Visit) -> bool) -> Vec<f64> {
        self.visits.iter().filter(|visit| counts(visit)).map(|visit| visit.violation).collect()
    }

    /// Whether it may still be measured.
    pub fn is_open(&self) -> bool {
        self.fate == Fate::Open
    }

    /// Whether it could not be loaded or measured.
    pub fn has_failed(&self) -> bool {
        matches!(self.fate, Fate::Failed(_))
    }
}
