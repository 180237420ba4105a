//! KServe v2 over gRPC.
//!
//! ```text
//! GrpcBackend   models, statistics, shared memory, trace settings; opens clients
//! service       a client's slots: requests as messages, messages as responses
//! request       requests, encoded once              control   single calls that are waited for
//! rules         checks of answers                   regions   shared memory over gRPC
//! proto         protocol buffers                    model     models from metadata and configuration
//! repository    loads and unloads models
//! ```

mod control;
#[cfg(fuzzing)]
pub mod fuzzing;
mod model;
mod proto;
mod regions;
mod repository;
mod request;
mod rules;
mod service;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, IndexEntry, InferError, ModelControl,
    Network, ServerIdentity, Threading,
};
use crate::engine::calls::{self, CallHeaders, CallPlan, Questions, status};
use crate::engine::{Reminder, Route, ServerWait, advice, is_unanswered};
use crate::error::{Error, Result};
use crate::kserve::extensions::Extensions;
use crate::kserve::refusals::Refusal;
use crate::kserve::regions::Registry;
use crate::kserve::reload::reload;
use crate::kserve::request_ids;
use crate::kserve::trace_settings::{TraceControl, TraceValues};
use crate::kserve_grpc::control::{CALL_LIMIT, Control, SAMPLE_LIMIT};
use crate::kserve_grpc::model::Source;
use crate::kserve_grpc::proto::control::{
    Empty, IndexRow, ModelRequest, Ready, RepositoryIndex, ServerMetadata, TraceSetting, TraceValue,
};
use crate::kserve_grpc::proto::{Answer, ModelConfig, ModelConfigResponse, ModelMetadata, Statistics};
use crate::kserve_grpc::request::{RequestForm, Streams};
use crate::kserve_grpc::service::KserveGrpc;
use crate::metrics::MetricsSource;
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::model_list::Prospects;
use crate::plan::{Compression, ConnectionPlan};
use crate::unready::UNREADY;

/// Port of a server's gRPC endpoint if `-u` names none.
pub const DEFAULT_PORT: u16 = 8001;

/// The service that all calls are to.
const SERVICE: &str = "inference.GRPCInferenceService";

/// A server that is reached over gRPC.
pub struct GrpcBackend {
    route: Route,
    headers: CallHeaders,
    control: Arc<Control>,
    registry: Arc<Registry>,
    metrics: MetricsSource,
    streaming: bool,
    compression: Compression,
    wait: ServerWait,
    extensions: Extensions,
    /// The server's own name and version.
    server: Option<ServerIdentity>,
    /// Whether it does not say what it is.
    is_mute: bool,
    /// Whether it does not say what it is, or reports no model configurations, and so is not Triton.
    is_foreign: AtomicBool,
    /// Whether the first dimension is the batch's if no configuration says so.
    batches: bool,
}

impl GrpcBackend {
    /// Connects to the server that `connection` names, and waits until it is ready, for as long as the plan allows.
    /// Metrics come over HTTP, by default from Triton's metrics port on the same host.
    ///
    /// # Errors
    /// If the address, metadata or a certificate is wrong, or the server does not answer or is not ready in time,
    /// with its reason.
    pub fn connect(connection: &ConnectionPlan) -> Result<Self> {
        let route = Route::to(connection, DEFAULT_PORT, &["h2"])?;
        let endpoint = route.endpoint();
        let headers = CallHeaders::new(SERVICE, endpoint, connection)?;
        let metrics = MetricsSource::new(connection, endpoint)?;
        let control = Arc::new(Control(Questions::new(Arc::clone(&route.connector), headers.clone())));
        let registry = Arc::new(Registry::new(control.clone()));
        let regions = Arc::clone(&registry);
        let mut backend = Self {
            registry,
            control,
            metrics,
            route: route.reminding(Reminder::new(move || regions.register_again())),
            headers,
            streaming: connection.protocol.streams(),
            compression: connection.protocol.compression(),
            wait: ServerWait::new(connection.server_wait),
            extensions: Extensions::default(),
            server: None,
            is_mute: false,
            is_foreign: AtomicBool::new(false),
            batches: false,
        };
        backend.await_ready("the server", |limit| backend.ask_ready(limit), None)?;
        backend.introduce()?;
        Ok(backend)
    }

    /// Whether it takes requests; a server that has no such question, or not for us, takes them as soon as it answers anything.
    fn ask_ready(&self, limit: Duration) -> Result<(), InferError> {
        let ready = match self.control.call("ServerReady", &Empty {}, limit) {
            Ok(Ready { ready }) => ready,
            Err(error) if is_withheld(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        // One of its models may not be ready, which need not be ours.
        let is_live = || self.call::<_, Ready>("ServerLive", &Empty {}).is_ok_and(|answer| answer.ready);
        let is_open = ready || is_live();
        is_open.then_some(()).ok_or_else(|| status::error(status::UNAVAILABLE, "it says that it is not ready"))
    }

    /// Asks what it is and what it can; Dynamo's frontend and ModelMesh do not say.
    fn introduce(&mut self) -> Result<()> {
        match self.call::<_, ServerMetadata>("ServerMetadata", &Empty {}) {
            Ok(metadata) => {
                self.extensions = Extensions::new(&metadata.extensions);
                self.server = ServerIdentity::new(Some(metadata.name), Some(metadata.version));
            }
            Err(error) if is_lacking(&error) => self.is_mute = true,
            Err(error) => return Err(self.failed("reading its metadata", &error)),
        }
        Ok(())
    }

    /// Whether a model takes requests; of a server that has no such question, whether it knows the model.
    fn ask_model(&self, id: &ModelId, limit: Duration) -> Result<(), InferError> {
        match self.control.call("ModelReady", &named(id), limit) {
            Ok(Ready { ready: true }) => Ok(()),
            Ok(Ready { ready: false }) => Err(self.not_ready(id)),
            Err(error) if is_withheld(&error) => {
                self.control.call::<_, ModelMetadata>("ModelMetadata", &named(id), limit).map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// With `batches`, treats the first dimension of tensors as the batch's if the server does not say.
    pub fn with_batches(self, batches: bool) -> Self {
        Self { batches, ..self }
    }

    /// A model's configuration; `None` if the server does not report configurations.
    fn config(&self, request: &ModelRequest, doing: &str) -> Result<Option<ModelConfig>> {
        match self.call::<_, ModelConfigResponse>("ModelConfig", request) {
            Ok(ModelConfigResponse { config: Some(config) }) => Ok(Some(config)),
            Ok(_) => Err(self.failed(doing, &status::error(status::BROKEN, "the answer holds no configuration"))),
            Err(error) if error.code == status::UNIMPLEMENTED.into() => Ok(None),
            Err(error) => Err(self.failed(doing, &error)),
        }
    }

    fn call<Q: prost::Message, A: Answer>(&self, method: &str, request: &Q) -> Result<A, InferError> {
        self.control.call(method, request, CALL_LIMIT)
    }

    /// An error of this server, with the failed action.
    fn failed(&self, doing: &str, error: &InferError) -> Error {
        Error::server(format!("gRPC server {}: {doing}: {error}", self.route.endpoint()))
    }

    /// Retries until it succeeds, until a model's `prospects` are none, or until time is up; at least once.
    fn await_ready(
        &self,
        subject: &str,
        ask: impl FnMut(Duration) -> Result<(), InferError>,
        prospects: Option<Prospects<'_>>,
    ) -> Result<()> {
        let is_hopeless = || prospects.as_ref().is_some_and(|model| model.are_none(self.is_absent(model.id())));
        let is_final = |reason: &InferError| advice::grpcs(reason).is_some() || is_hopeless();
        let ready = self.wait.retry(ask, is_final);
        let why = || prospects.and_then(Prospects::why);
        ready.map_err(|reason| match (advice::grpcs(&reason), why()) {
            (Some(advice), _) => self.failed(&format!("{subject} is not ready"), &reason).advice(advice),
            (None, Some(why)) => self.failed(&why, &reason),
            (None, None) => {
                let waited = self.wait.seconds();
                let failed =
                    self.failed(&format!("{subject} was not ready within {waited} s (--server-wait)"), &reason);
                advice::no_grpc(&reason, self.route.endpoint()).into_iter().fold(failed, Error::advice)
            }
        })
    }

    /// Whether it is a Triton before 23.06.
    fn marks_no_final(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.is_triton_before(2, 35))
    }

    /// Whether the server has finished loading, and does not know the model.
    fn is_absent(&self, id: &ModelId) -> bool {
        let ready = self.call::<_, Ready>("ServerReady", &Empty {});
        let metadata = || self.call::<_, ModelMetadata>("ModelMetadata", &named(id));
        ready.is_ok_and(|answer| answer.ready) && metadata().is_err_and(|error| !is_unanswered(&error))
    }

    /// Why a model is not ready, in the server's words when asked for the model itself.
    fn not_ready(&self, id: &ModelId) -> InferError {
        let unknown = self.call::<_, ModelMetadata>("ModelMetadata", &named(id)).err();
        unknown.unwrap_or_else(|| status::error(status::UNAVAILABLE, UNREADY))
    }
}

/// Whether a server has no such method. A proxy in front of it that does not know the path says nothing about it.
fn is_lacking(error: &InferError) -> bool {
    error.code == status::UNIMPLEMENTED.into() && !error.message.starts_with("HTTP status")
}

/// The same, or whether it, or what guards it, keeps the method from us.
fn is_withheld(error: &InferError) -> bool {
    let is_refused =
        [status::PERMISSION_DENIED, status::UNAUTHENTICATED].iter().any(|code| error.code == (*code).into());
    is_lacking(error) || is_refused || Refusal::Restricted.is_in(&error.message)
}

fn named(id: &ModelId) -> ModelRequest {
    let version = id.version.map_or_else(String::new, |version| version.to_string());
    ModelRequest { name: id.name.clone(), version }
}

impl TraceControl for GrpcBackend {
    fn traces(&self, model: Option<&str>) -> Result<TraceValues> {
        let request = TraceSetting { settings: HashMap::new(), model_name: model.unwrap_or_default().to_owned() };
        let answer: TraceSetting =
            self.call("TraceSetting", &request).map_err(|error| self.failed("reading its trace settings", &error))?;
        Ok(answer.settings.into_iter().map(|(name, words)| (name, Some(words.value))).collect())
    }

    fn put_traces(&self, model: &str, values: &TraceValues) -> Result<()> {
        // An empty list means the server's own setting.
        let value = |words: &Option<Vec<String>>| TraceValue { value: words.clone().unwrap_or_default() };
        let settings = values.iter().map(|(name, words)| (name.clone(), value(words))).collect();
        let request = TraceSetting { settings, model_name: model.to_owned() };
        let set: Result<TraceSetting, InferError> = self.control.call("TraceSetting", &request, SAMPLE_LIMIT);
        set.map(drop).map_err(|error| self.failed(&format!("trace settings of model '{model}'"), &error))
    }
}

impl Backend for GrpcBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "TRITON",
            threading: Threading::Driven,
            client_times: Some(ClientTimes::GRPC),
            cancels_alone: self.streaming && !self.route.renew,
            statistics: self.extensions.statistics,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let request = named(id);
        let ready = |limit| self.ask_model(id, limit);
        self.await_ready(&format!("model '{id}'"), ready, Some(Prospects::new(self, id)))?;
        let metadata: ModelMetadata = self
            .call("ModelMetadata", &request)
            .map_err(|error| self.failed(&format!("reading the metadata of model '{id}'"), &error))?;
        let config = self.config(&request, &format!("reading the configuration of model '{id}'"))?;
        self.is_foreign.store(config.is_none() || self.is_mute, Ordering::Relaxed);
        self.extensions.say_what_lacks(&self.route.endpoint().to_string(), config.is_some(), false);
        let source = Source { id, is_triton: self.server.as_ref().is_some_and(|server| server.name == "triton") };
        match config {
            Some(config) => model::model(source, metadata, &config),
            None => {
                let model = model::model(source, metadata, &ModelConfig::default())?.unconfigured(self.batches);
                self.extensions.say_if_undescribed(&model);
                Ok(model)
            }
        }
    }

    fn server(&self) -> Option<ServerIdentity> {
        self.server.clone()
    }

    fn index(&self) -> Result<Vec<IndexEntry>> {
        let answer: RepositoryIndex =
            self.call("RepositoryIndex", &Empty {}).map_err(|error| self.failed("listing its models", &error))?;
        let entry =
            |row: IndexRow| IndexEntry { name: row.name, version: row.version, state: row.state, reason: row.reason };
        Ok(answer.models.into_iter().map(entry).collect())
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        self.control
            .call("ModelStatistics", &named(id), SAMPLE_LIMIT)
            .map(|Statistics(snapshot)| snapshot)
            .map_err(|error| self.failed(&format!("reading the statistics of model '{id}'"), &error))
    }

    fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        // Without a name, they are those of all models.
        let nobody = ModelRequest { name: String::new(), version: String::new() };
        match self.control.call("ModelStatistics", &nobody, SAMPLE_LIMIT) {
            Ok(Statistics(snapshot)) => Ok(Some(snapshot)),
            Err(error) if is_unanswered(&error) => Err(self.failed("reading the statistics of all models", &error)),
            Err(_) => Ok(None),
        }
    }

    fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        self.metrics.read(line)
    }

    fn reload(&self, models: &[ModelId]) -> Result<bool> {
        reload(self, models)
    }

    fn control(&self) -> Option<&dyn ModelControl> {
        Some(self)
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let method = if self.streaming { "ModelStreamInfer" } else { "ModelInfer" };
        let streams = match self.streaming {
            true if self.route.renew || self.is_foreign.load(Ordering::Relaxed) => Streams::Own,
            // Where the number of responses is open, only such a server itself can say what it lacks.
            true if self.marks_no_final() && !spec.models.iter().any(|model| model.decoupled) => Streams::Unmarked,
            true => Streams::Shared,
            false => Streams::None,
        };
        let streaming = streams.are_shared();
        // The deadline of a stream would apply to all its requests together.
        let deadline = self.route.limit.filter(|_| !streaming);
        let plan = CallPlan {
            route: self.route.clone(),
            fields: self.headers.fields(method, Some(self.compression), deadline),
            streaming,
        };
        let form = RequestForm { encoding: self.compression, streams };
        let method = KserveGrpc::new(spec.clone(), Arc::clone(&self.registry), form)?;
        let sink = request_ids::reporting(&spec, sink, method.number());
        calls::open(method, plan, &spec, sink)
    }
}
