//! Everything a run came to, as one value: every report reads it and nothing else, and the exit code follows from it.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod advice;
pub mod answer;
mod at_starts;
pub mod bare;
pub mod batches;
pub mod breakdown;
pub mod checked;
pub mod compare;
pub mod cost;
pub mod disagreement;
pub mod disturbance;
mod exit_code;
pub mod figures;
mod file;
mod harmless;
mod host;
pub mod lateness;
mod level;
pub mod number;
pub mod outcome;
pub mod ratio;
pub mod reasons;
pub mod remark;
pub mod restarts;
pub mod rounds;
pub mod server;
pub mod server_metrics;
pub mod setup;
mod slices;
pub mod statistic;
pub mod summary;
pub mod sweep;
pub mod tensors;
pub mod timeline;
mod tune;
mod unit;
mod upstream;
pub mod variants;

use ::{backend, model, record, shm, terms};
use ::stats::{self, seed};
use base::{clock, error, exit, machine, seconds, stdio};

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::outcome::Outcome;
use crate::record::{LoadReport, PeriodicBatch};
use crate::remark::Remark;
use crate::summary::LevelSummary;
use crate::sweep::{StepTaken, SweepResult};

pub use checked::Checked;
pub use file::{TuneFile, is_report};
pub use harmless::harmless;
pub use host::Host;
pub use level::Distinction;
pub use setup::{Detail, ModelIdentity, Program, Setup};
pub use tune::{
    CandidateResult, CandidateStatus, Figures, LatencyAt, MemberFigures, TUNE_VERSION, TrialFigures, TuneFigures,
    TuneResult, TuneVerdict,
};
pub use unit::Unit;
pub use variants::VariantsResult;

/// What a run came to. It grows while the run goes on; entries are only added, so a run that is broken off keeps its levels.
#[derive(Clone, Debug, Deserialize)]
pub struct RunResult {
    /// What was measured, and how.
    #[serde(flatten)]
    pub setup: Arc<Setup>,
    /// When this result was complete: at the end of the run, or of its last level if the run was ended from outside.
    #[serde(default)]
    pub ended: Option<Timestamp>,
    /// Levels, stages or rates of a sweep, in the order in which they were measured.
    pub levels: Vec<LevelSummary>,
    /// What a sweep found.
    pub sweep: Option<SweepResult>,
    /// The steps taken so far, in order; they determine what it measures next.
    #[serde(default)]
    pub sweep_steps: Vec<StepTaken>,
    /// What a periodic load came to, which has no levels.
    pub periodic: Option<PeriodicResult>,
    /// Results of variants (`--variant`, `--matrix`), which have cells instead of levels.
    #[serde(default)]
    pub variants: Option<VariantsResult>,
    /// Outcomes of the requirements (`--require`).
    pub requirements: Vec<Checked>,
    /// Whether the server went away while it was measured.
    pub server_gone: bool,
    /// Whether it was ended before everything was measured; what is missing was not.
    #[serde(default)]
    pub interrupted: bool,
    /// Whether it is still going on: a file says this that whatever ends the run leaves behind.
    #[serde(skip)]
    pub unfinished: bool,
}

impl RunResult {
    /// The batch size of a level, where levels differ in it.
    pub fn distinguishing_batch_size(&self, level: &LevelSummary) -> Option<u64> {
        let batch_size = level.client.batch_size;
        self.levels.iter().any(|other| other.client.batch_size != batch_size).then_some(batch_size)
    }

    /// The same, complete now. How long that took is read off the monotonic clock: a step of the wall clock must not put the
    /// end before the beginning.
    #[must_use]
    pub fn closed(&self) -> Self {
        let ended = self.setup.began.checked_add(Stamp::now() - self.setup.began_stamp);
        Self { ended: Some(ended.unwrap_or_else(|_| Timestamp::now())), ..self.clone() }
    }

    /// The same as far as it got, for a file that stays if the run is killed: interrupted, unless another one follows.
    #[must_use]
    pub fn so_far(&self) -> Self {
        Self { interrupted: true, unfinished: true, ..self.closed() }
    }

    /// Nothing yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        Self {
            setup,
            ended: None,
            levels: Vec::new(),
            sweep: None,
            sweep_steps: Vec::new(),
            periodic: None,
            variants: None,
            requirements: Vec::new(),
            server_gone: false,
            interrupted: false,
            unfinished: false,
        }
    }
}

/// Result of a periodic load.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PeriodicResult {
    /// Its batches, in order.
    pub batches: Vec<PeriodicBatch>,
    /// The outcomes of its requests.
    pub requests: LoadReport,
    /// Failures by reason, most frequent first.
    pub errors: Vec<(InferError, u64)>,
    /// What its responses contradict.
    #[serde(default)]
    pub remarks: Vec<Remark>,
    /// [`Outcome::Valid`], [`Outcome::Interrupted`] or [`Outcome::Failed`].
    pub outcome: Outcome,
}
