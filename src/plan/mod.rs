//! The validated plan of a run. Past this module there are no strings to parse and no contradictions.
//!
//! The command line becomes a [`Draft`]: a [`Plan`] and the flags that were given. [`Draft::validate`] checks it
//! against one table of rules and returns the plan. Once the models are known, [`Plan::check_models`] checks it against
//! them.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod checkup;
mod comparison;
mod connection;
mod data;
mod draft;
mod dynamic_grpc;
pub mod flags;
mod invocation;
mod load;
mod model_rules;
mod openai;
mod pages;
mod ranks;
mod requirement;
mod run_of_file;
mod search;
mod server;
mod starter;
mod target;
mod tfserving;
mod torchserve;
mod tracing;
mod tune;
mod validate;
mod variant;

use ::{backend, model, shm, terms, wire};
use base::{error, exit};

use std::path::PathBuf;
use std::time::Duration;

use crate::backend::ReplyRule;
use crate::exit::Codes;
use crate::model::ModelSpec;
use crate::terms::{MeasurementPlan, OnDisturbance, ReportFolder, Rounds, StabilityRule, Stage};
pub use crate::wire::coding::Compression;
pub use crate::wire::{CredentialFile, Tls};
pub use ::data::DataSource;
pub use checkup::Checkup;
pub use comparison::Comparison;
pub use connection::{ConnectionPlan, Protocol, Spread, TensorFormat};
pub use data::DataPlan;
pub use draft::{Draft, Given};
pub use dynamic_grpc::{DynamicGrpcPlan, GrpcMethod};
pub use invocation::Invocation;
pub use load::{Calls, LoadPlan, MAX_CONCURRENCY, MAX_RATE, SequencePlan, Wait};
pub use openai::OpenAiPlan;
pub use pages::{Pages, ReportOf};
pub use ranks::RanksPlan;
pub use requirement::{Bound, Decision, Figure, GatePlan, LevelName, Relation, Requirement};
pub use run_of_file::RunOfFile;
pub use search::{Outcome, Search};
pub use server::{INSTALL_DIRECTORY, INSTALL_VARIABLE, LogLevel, ServerLog, ServerPlan};
pub use starter::Starter;
pub use target::{API_MAJOR, MetricsPlan, MixEntry, ServiceKind, Survey, Target, TraceLevel, TraceSettings};
pub use tfserving::TfServingPlan;
pub use torchserve::TorchServePlan;
pub use tracing::{TraceFilePlan, TracingPlan};
pub use tune::{Searched, ServerSetting, Setting, TuneLoad, TunePlan};
pub use variant::Variant;

/// Everything that a run does, decided before it starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which model, where.
    pub target: Target,
    /// When requests leave.
    pub load: LoadPlan,
    /// What they carry.
    pub data: DataPlan,
    /// How long to measure, and when the result is valid.
    pub measurement: MeasurementPlan,
    /// What is written where.
    pub output: ReportPlan,
    /// What is traced of its requests.
    pub tracing: TracingPlan,
    /// Conditions that the result must meet.
    pub gate: GatePlan,
    /// Seed of every random draw.
    pub seed: u64,
    /// The command line.
    pub invocation: Invocation,
    /// The same run several times over, along one dimension.
    pub matrix: Option<Matrix>,
    /// Sizes in bytes of inputs with free dimensions that a matrix covers; empty if the other flags decide.
    pub matrix_sizes: Vec<u64>,
    /// Several variants of the run, the reference first; empty if there is only one.
    pub variants: Vec<Variant>,
    /// How variants, or cells of a matrix, take turns; `None` without them.
    pub rounds: Option<Rounds>,
    /// What the user should know about the flags, one sentence each; printed on standard error before the run.
    pub notes: Vec<String>,
    /// The same, as far as it depends on the models.
    pub model_notes: Vec<ModelNote>,
}

/// How long a level that has not settled is measured where nobody says how many windows are enough. The rates of servers on
/// shared machines wander by a tenth or two within seconds.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

impl Plan {
    /// The plan with the defaults that callers of the program with those exit codes expect.
    #[must_use]
    pub fn for_callers_of(mut self, codes: Codes) -> Self {
        // perf_analyzer's callers know how many windows a level takes.
        let usual = if codes == Codes::Own { OnDisturbance::Replace } else { OnDisturbance::Mark };
        self.measurement.on_disturbance.get_or_insert(usual);
        let usual = if codes == Codes::Own { StabilityRule::Interval } else { StabilityRule::Windows };
        self.measurement.stability_rule.get_or_insert(usual);
        let by_figures = self.measurement.settles_by_interval() || self.measurement.precision.is_some();
        let usual = if codes == Codes::Own && by_figures { GIVE_UP_AFTER } else { Duration::ZERO };
        self.measurement.give_up_after.get_or_insert(usual);
        self.measurement.long_count_windows = codes == Codes::PerfAnalyzers;
        self.output.as_upstream = codes == Codes::PerfAnalyzers;
        self.target.openai.without_usage = codes == Codes::PerfAnalyzers;
        if codes == Codes::PerfAnalyzers && self.data.replies == ReplyRule::Readable {
            // Its callers count what the server calls a success.
            self.data.replies = ReplyRule::Any;
        }
        self
    }

    /// How many requests the run sends at most, if that follows from its load.
    pub fn most_requests(&self) -> Option<u64> {
        let (stages, measurement) = (self.load.mode.stages(), &self.measurement);
        let warm_up: u64 = self.load.warm_up.iter().map(Stage::most_requests).sum::<Option<u64>>()?;
        if !stages.is_empty() {
            return Some(warm_up + stages.iter().map(Stage::most_requests).sum::<Option<u64>>()?);
        }
        let levels = self.load.mode.levels(measurement.binary_search)? as u64;
        let level = measurement.request_count?.saturating_add(measurement.warmup_requests);
        Some(level.saturating_mul(levels).saturating_add(warm_up))
    }

    /// The same plan with another batch size.
    #[must_use]
    pub fn with_batch_size(mut self, size: u64) -> Self {
        (self.data.batch_size, self.data.batch_sizes) = (size, vec![size]);
        self
    }
}

/// A note about flags that only some models use.
#[derive(Clone, Debug)]
pub struct ModelNote {
    /// Whether a model uses them.
    pub used: fn(&ModelSpec) -> bool,
    /// The note, if none does.
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
    /// Whether every trace is printed, too.
    pub each: bool,
    /// Number of the slowest traces of each model to print.
    pub slowest: usize,
    /// Whether JSON is printed instead of text.
    pub json: bool,
    /// Where the traces are written in Chrome's format.
    pub export: Option<PathBuf>,
}

/// Where this program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Name or address of this machine; IPv6 addresses without brackets.
    pub host: String,
    /// TCP port; 0 for any that is free.
    pub port: u16,
}

impl ReportPlan {
    /// Whether single requests are written into a file.
    pub fn exports_requests(&self) -> bool {
        self.profile_export.is_some() || self.requests.is_some()
    }
}

/// What is written where.
#[derive(Clone, Debug, Default)]
pub struct ReportPlan {
    /// CSV file (`-f`).
    pub csv: Option<PathBuf>,
    /// Further CSV columns.
    pub verbose_csv: bool,
    /// The result as JSON.
    pub summary: Option<PathBuf>,
    /// The result of an earlier run to continue.
    pub resume: Option<PathBuf>,
    /// Pictures and tables for people.
    pub pages: Pages,
    /// A folder of reports in inference-perf's form.
    pub folder: Option<ReportFolder>,
    /// Raw records as JSON.
    pub profile_export: Option<PathBuf>,
    /// A row for each request, as Parquet.
    pub requests: Option<PathBuf>,
    /// Windows are printed as they come (1), and more (2).
    pub verbosity: u8,
    /// A dashboard is shown during the run.
    pub live: bool,
    /// Where the run's figures can be read while it goes on.
    pub metrics_listen: Option<ListenAddress>,
    /// A collector of OpenTelemetry that gets the figures at the end.
    pub otlp_endpoint: Option<String>,
    /// CSV and export have what perf_analyzer's callers expect: no row of a level beyond the limit, its version.
    pub as_upstream: bool,
}
