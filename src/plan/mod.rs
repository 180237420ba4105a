//! The validated plan of a run. Past this module there are no strings to parse and no contradictions.
//!
//! The command line becomes a [`Draft`]: a [`Plan`] and the flags that were given. [`Draft::validate`] holds it against
//! one table of rules and hands out the plan. Once the model is known, [`Plan::settle`] decides what depends on it.

mod checkup;
mod connection;
mod data;
mod draft;
mod load;
mod measurement;
mod model_rules;
mod openai;
mod search;
mod server;
mod target;
mod validate;

use std::path::PathBuf;

pub use crate::data::DataSource;
use crate::model::ModelSpec;
pub use checkup::Checkup;
pub use connection::{Compression, Connection, CredentialFile, Protocol, Tls};
pub use data::DataPlan;
pub use draft::{Draft, Given};
pub use load::{
    Distribution, LoadMode, LoadPlan, MAX_CONCURRENCY, MAX_RATE, Periodic, Range, SequencePlan, Spacing, Stage,
    StageLength, StageLoad, TokenInput, TokenUse, Wait,
};
pub use measurement::{
    DecoupledLatency, Goodput, LatencyEnd, LatencyOrigin, MeasurementPlan, OnDisturbance, Precision, Statistic,
    WindowRule,
};
pub use openai::OpenAiPlan;
pub use search::{LevelValue, Outcome, Search};
pub use server::{LogLevel, ServerLog, ServerPlan};
pub use target::{MetricsPlan, MixEntry, ServiceKind, Target, TraceLevel, TraceSettings};

/// Everything that a run does, decided before it starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which model, where.
    pub target: Target,
    /// When requests leave.
    pub load: LoadPlan,
    /// What they carry.
    pub data: DataPlan,
    /// How long to measure, and when to believe it.
    pub measurement: MeasurementPlan,
    /// What is written where.
    pub output: ReportPlan,
    /// Seed of every random draw.
    pub seed: u64,
    /// The same run several times over, along one dimension.
    pub matrix: Option<Matrix>,
    /// What the user should know about the flags, one sentence each; said on standard error before the run.
    pub notes: Vec<String>,
    /// The same, as far as it depends on the models.
    pub model_notes: Vec<ModelNote>,
}

/// A sentence about flags that some models have a use for.
#[derive(Clone, Debug)]
pub struct ModelNote {
    /// Whether a model has.
    pub used: fn(&ModelSpec) -> bool,
    /// What is said where none has.
    pub text: String,
}

/// The dimension along which one run is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// Every placement of tensors that the machine offers.
    Memory,
    /// In process, HTTP and gRPC, each also with shared memory.
    Transports {
        /// The URL of a running server for the network's part; `None` starts one.
        running: Option<String>,
    },
}

/// What the command `trace-summary` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFiles {
    /// The files; at least one.
    pub files: Vec<PathBuf>,
    /// Every trace is printed, too.
    pub each: bool,
}

/// What is written where.
#[derive(Clone, Debug, Default)]
pub struct ReportPlan {
    /// CSV file (`-f`).
    pub csv: Option<PathBuf>,
    /// Further CSV columns.
    pub verbose_csv: bool,
    /// Raw records as JSON.
    pub profile_export: Option<PathBuf>,
    /// Windows are printed as they come (1), and more (2).
    pub verbosity: u8,
}
