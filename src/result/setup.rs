//! [`Setup`]: what was measured, and how.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{ClientTimes, ServerIdentity};
use crate::clock::Stamp;
use crate::host::Host;
use crate::model::ModelSpec;
use crate::summary::{EntrySummary, Headline};
use crate::terms::{Flag, LoadMode, MeasurementPlan};

/// What was measured, and how: what the plan says, and what the server and its models make of it. It stands above the levels.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Setup {
    /// Which program measured.
    pub program: Program,
    /// The flags as given; values that may be secrets are left out.
    pub command_line: Vec<String>,
    /// Every flag that has a value or is on.
    pub flags: Vec<Flag>,
    /// When it began.
    pub began: Timestamp,
    /// The monotonic clock at that time, in nanoseconds; the windows' timestamps use this clock.
    #[serde(rename = "began_ns")]
    pub began_stamp: Stamp,
    /// Where it ran.
    pub host: Host,
    /// How long levels are measured, and when they count as valid.
    pub measurement: MeasurementPlan,
    /// The load, over its range.
    pub mode: LoadMode,
    /// Inferences per request.
    pub batch_size: u64,
    /// Most threads that issue requests.
    pub max_threads: usize,
    /// Maximum outstanding requests in open loops; none if only memory limits them.
    pub max_outstanding: Option<usize>,
    /// Maximum connections for requests; none if only the load limits them.
    #[serde(default)]
    pub max_connections: Option<usize>,
    /// Seed of every random draw.
    pub seed: u64,
    /// What reports show beside the usual.
    #[serde(skip)]
    pub detail: Detail,
    /// Whether each outstanding request of a closed loop has a thread that waits for it.
    pub synchronous: bool,
    /// The service, such as `TRITON_C_API`.
    pub service_kind: String,
    /// How the report names the client's share of a request.
    #[serde(skip)]
    pub client_times: Option<ClientTimes>,
    /// Whether the client times how long sending and receiving take.
    #[serde(default)]
    pub times_transfers: bool,
    /// The server's name for itself, if it reports one.
    #[serde(default)]
    pub server: Option<ServerIdentity>,
    /// The addresses of the servers that requests are spread over; empty with a single one.
    #[serde(default)]
    pub servers: Vec<String>,
    /// The models that requests go to, and the models that those call.
    pub models: Vec<ModelIdentity>,
    /// Whether the model is decoupled.
    pub decoupled: bool,
    /// Whether the model takes sequences.
    pub sequences: bool,
    /// What the headline latency is.
    pub headline: Headline,
    /// The client's own cost per request, measured on the null backend, in nanoseconds.
    pub client_cost_ns: f64,
    /// The entries of a mix; empty with a single model.
    pub entries: Vec<EntrySummary>,
    /// Whether these are the turns of conversations instead.
    #[serde(default)]
    pub turns: bool,
}

/// Which program it was.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// `triton-bench`.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Program {
    /// This one.
    pub fn this() -> Self {
        Self { name: "triton-bench".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// What reports show beside the usual; no part of a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Further columns in CSV files.
    pub verbose_csv: bool,
    /// Under the name perf_analyzer, whose callers know its lines and columns.
    pub as_upstream: bool,
    /// Several batch sizes were asked for.
    pub batch_sizes: bool,
    /// Windows are printed as they come (1), and more (2).
    pub verbosity: u8,
}

/// Which model it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelIdentity {
    /// Its name.
    pub name: String,
    /// Versions that are ready.
    pub versions: Vec<String>,
    /// What runs it, as the server reports.
    pub platform: String,
    /// Largest batch; 0 where it does not batch.
    pub max_batch_size: u64,
    /// The backend that runs it, such as `python`; empty if unknown.
    #[serde(default)]
    pub backend: String,
    /// SHA-256 of its configuration, auto-completed parts included, the same in process, over HTTP and over gRPC: JSON
    /// with sorted keys, without fields that are at their defaults. Absent if the server does not report it, or if over
    /// gRPC it has fields that this program does not know.
    #[serde(default)]
    pub config_hash: Option<String>,
}

impl Setup {
    /// The service's kind, in words.
    pub fn service(&self) -> &str {
        match self.service_kind.as_str() {
            "TRITON_C_API" => "Triton in process",
            "TRITON" => "Triton over the network",
            "OPENAI" => "OpenAI API",
            "TENSORFLOW_SERVING" => "TensorFlow Serving",
            "TORCHSERVE" => "TorchServe",
            "DYNAMIC_GRPC" => "gRPC",
            kind => kind,
        }
    }

    /// A moment by the wall clock at the run's beginning. Levels of an earlier run that was resumed lie before it.
    pub fn wall_time(&self, moment: Stamp) -> Timestamp {
        let after = |earlier: Stamp, later: Stamp| SignedDuration::try_from(later - earlier).unwrap_or_default();
        let since_then = after(self.began_stamp, moment) - after(moment, self.began_stamp);
        self.began.checked_add(since_then).unwrap_or(self.began)
    }

    /// Whether the entries are turns, as all are of sessions.
    pub fn has_turns(&self) -> bool {
        self.turns || self.mode.sessions().is_some()
    }

    /// Whether the client's times of a request are not shown: most services have none for requests with any number of
    /// responses.
    pub fn hides_times(&self) -> bool {
        self.decoupled && !self.client_times.is_some_and(|times| times.streams)
    }
}

impl ModelIdentity {
    /// The identity of a model.
    pub fn new(model: &ModelSpec) -> Self {
        Self {
            name: model.id.name.clone(),
            versions: model.versions.clone(),
            platform: model.platform.clone(),
            max_batch_size: model.max_batch_size,
            backend: model.config.backend.clone(),
            config_hash: model.config.hash.clone(),
        }
    }
}

/// A plain setup for the tests of everything that reads one.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::RunResult;
    use crate::summary::{LevelSummary, sample};
    use crate::terms::WindowRule;

    /// One level of concurrency 1 of a plain model over HTTP.
    pub fn setup() -> Setup {
        let window = WindowRule::Time(Duration::from_secs(5));
        let (stability_rule, on_disturbance) = (None, None);
        Setup {
            program: Program::this(),
            command_line: ["-m", "m", "--seed", "1"].map(str::to_owned).to_vec(),
            flags: Vec::new(),
            began: Timestamp::now(),
            began_stamp: Stamp::now(),
            host: Host::this(),
            measurement: MeasurementPlan { window, stability_rule, max_errors: 0.01, on_disturbance, ..sample::plan() },
            mode: LoadMode::one_concurrency(1),
            batch_size: 1,
            max_threads: 16,
            max_outstanding: None,
            max_connections: None,
            seed: 1,
            detail: Detail::default(),
            synchronous: true,
            service_kind: "TRITON".to_owned(),
            client_times: Some(ClientTimes::HTTP),
            times_transfers: true,
            server: None,
            servers: Vec::new(),
            models: Vec::new(),
            decoupled: false,
            sequences: false,
            headline: Headline::ServiceTime,
            client_cost_ns: 123.4,
            entries: Vec::new(),
            turns: false,
        }
    }

    /// What a run with such levels came to.
    pub fn result(setup: &Setup, levels: &[LevelSummary]) -> RunResult {
        RunResult { levels: levels.to_vec(), ..RunResult::new(Arc::new(setup.clone())) }
    }
}
