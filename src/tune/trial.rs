//! Candidates, trials and their results.

use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::space::Place;

/// Parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seconds in all, loading included.
    pub budget_s: f64,
    /// Differences up to this share count as no difference.
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
    /// Against all remaining candidates.
    Race,
    /// Against the best, from which it differs by one step.
    Step,
    /// To determine how much better the best are than the present configuration.
    Confirmation,
}

/// A request to measure a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number; 0 is the current configuration.
    pub candidate: usize,
    /// Why.
    pub phase: Phase,
    /// Which round of the search it belongs to.
    pub round: usize,
    /// For how long, in seconds.
    pub unit_s: f64,
    /// Seed of its load.
    pub seed: u64,
    /// Whether it repeats the trial before it, which others have disturbed.
    #[serde(default)]
    pub again: bool,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// How long it took, loading included.
    pub seconds: f64,
    /// The measurement, or why there is none.
    pub found: Result<Found, String>,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The objective as a logarithm, signed so that more is better.
    pub score: f64,
    /// Distance of the worst constraint from its limit, as a logarithm: above 0 it is violated.
    pub violation: f64,
    /// Whether others took part of the machine meanwhile.
    #[serde(default)]
    pub disturbed: bool,
    /// The group of settings (see [`crate::Dimension::group`]) whose model held the requests up, where several
    /// models are searched.
    #[serde(default)]
    pub bottleneck: Option<usize>,
}

/// A candidate, and everything known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its settings; `None` for the present configuration if that is not among the points.
    pub place: Option<Place>,
    /// Its measurements.
    pub trials: Vec<MeasuredTrial>,
    /// Its state in the search.
    pub status: Status,
    /// The group of settings that held its requests up in the last trial.
    pub bottleneck: Option<usize>,
}

/// A trial that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredTrial {
    /// Why it was measured.
    pub phase: Phase,
    /// In which round.
    pub round: usize,
    /// For how long.
    pub unit_s: f64,
    /// The objective's logarithm.
    pub score: f64,
    /// The violation.
    pub violation: f64,
    /// Whether others disturbed it.
    pub disturbed: bool,
}

/// The state of a candidate in the search.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// It is in the search.
    Open,
    /// It left the race after this rung, for this reason.
    Dropped {
        /// Which rung, from 1.
        rung: usize,
        /// Why.
        reason: Reason,
        /// Whether measurements prove it worse; otherwise more time may bring it back.
        is_shown: bool,
    },
    /// It could not be loaded or measured.
    Failed(String),
    /// It was never measured, because of the results of others.
    RuledOut(Reason),
}

impl Candidate {
    /// A new candidate.
    pub fn new(place: Option<Place>) -> Self {
        Self { place, trials: Vec::new(), status: Status::Open, bottleneck: None }
    }

    /// Its violations in trials that `counts` accepts.
    pub fn violations(&self, counts: impl Fn(&MeasuredTrial) -> bool) -> Vec<f64> {
        self.trials.iter().filter(|trial| counts(trial)).map(|trial| trial.violation).collect()
    }

    /// Whether it may still be measured.
    pub fn is_open(&self) -> bool {
        self.status == Status::Open
    }

    /// Whether it could not be loaded or measured.
    pub fn has_failed(&self) -> bool {
        matches!(self.status, Status::Failed(_))
    }
}
