//! TorchServe over HTTP/1.1.
//!
//! ```text
//! TorchServe   readiness, the server's counters; opens clients
//! service      a client's slots: uploads as requests, answers as responses
//! upload       files, read once, as multipart forms           reply        what the server says
//! management   whether a model is there, and its workers
//! statistics   counters of models, from its metrics
//! ```
//!
//! What is sent is what perf_analyzer sends: a form with one part, `data`, that holds a file. The input `TORCHSERVE_INPUT` names it.

#[cfg(fuzzing)]
pub mod fuzzing;
mod management;
mod reply;
mod service;
mod statistics;
mod upload;

use std::sync::Arc;

use self::management::{Management, Registered};
use self::reply::{is_unhealthy, reason};
use self::service::Predictions;
use self::upload::{Uploads, Way};
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, ErrorCode, InferError, Network, Threading,
};
use crate::data::Payload;
use crate::engine::http1::{self, Answer, Headers, Patience, Questions};
use crate::engine::{Route, ServerWait, advice};
use crate::error::{Error, Result};
use crate::metrics::MetricsSource;
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::shm::Allowance;
use crate::stdio::note;

/// The only input: a path.
const INPUT: &str = "TORCHSERVE_INPUT";

/// A server reached over TorchServe's inference API.
pub struct TorchServe {
    route: Route,
    way: Way,
    control: Questions,
    metrics: Option<MetricsSource>,
    management: Option<Management>,
    wait: ServerWait,
    uploads: Prepared<Uploads>,
    /// Memory limit for files.
    memory: Arc<Allowance>,
}

impl TorchServe {
    /// Connects to the server that the plan names, and waits until it reports that it is healthy, for as long as the
    /// plan allows.
    ///
    /// # Errors
    /// If the address, a header or a certificate is wrong, or the server cannot be reached in time.
    pub fn connect(plan: &Plan) -> Result<Self> {
        let connection = &plan.target.connection;
        let wait = ServerWait::new(connection.server_wait);
        let route = Route::to(connection, plan.target.service.port(&connection.protocol), &["http/1.1"])?;
        let headers = Headers::new(&connection.headers)?;
        let endpoint = route.endpoint().clone();
        let has_page = connection.metrics_url.is_some();
        let metrics = has_page.then(|| MetricsSource::new(connection, &endpoint)).transpose()?;
        let backend = Self {
            control: Questions::new(Arc::clone(&route.connector), headers.clone()),
            way: Way { endpoint, headers, version: plan.target.version_label.clone() },
            route,
            metrics,
            management: Management::new(&plan.target.torchserve, connection)?,
            wait,
            uploads: Prepared::default(),
            memory: Allowance::new(plan.data.max_input_memory),
        };
        backend.await_healthy(wait)?;
        if backend.metrics.is_some() {
            backend.metrics(0, &mut |_| ())?;
        }
        Ok(backend)
    }

    fn uploads(&self, models: &[ModelSpec], payloads: &Arc<[Payload]>) -> Result<Arc<Uploads>> {
        self.uploads.get_or_make(payloads, || Uploads::read(&self.way, models, payloads, &self.memory))
    }

    fn await_healthy(&self, wait: ServerWait) -> Result<()> {
        let path = format!("{}/ping", self.way.endpoint.prefix);
        let attempt = |limit| match self.control.get(&path, Patience::Within(limit))? {
            Answer { status: 200, body, .. } if is_unhealthy(&body) => {
                Err(InferError::new(ErrorCode::Http(200), "Unhealthy: none of its workers runs"))
            }
            // A proxy between us and the server may not forward it.
            Answer { status: 200 | 404 | 405 | 501, .. } => Ok(()),
            answer => Err(refusal(&answer)),
        };
        wait.retry(attempt, is_final).map_err(|error| {
            let url = self.way.endpoint.http_url();
            let problem = match error.code {
                ErrorCode::Http(_) => format!("the server at {url} does not say that it is healthy"),
                _ if advice::is_other_protocol(&error) => format!("what answers at {url} speaks another protocol"),
                _ => format!("no server answers at {url}"),
            };
            let next = match error.code {
                ErrorCode::Http(400..=403) => "pass its token with -H 'Authorization: Bearer KEY'".to_owned(),
                _ => advice::no_answer(&error, &self.way.endpoint),
            };
            Error::server(format!("{problem}: {error}; {next}"))
        })
    }
}

/// Why a control request was refused, in the server's words.
fn refusal(answer: &Answer) -> InferError {
    let server_error = reason(&answer.body).map(|text| InferError::new(ErrorCode::Http(answer.status), text));
    server_error.or_else(|| answer.refusal()).unwrap_or_else(|| InferError::new(ErrorCode::Http(answer.status), ""))
}

/// Whether waiting is pointless: the server rejects our credentials, or TLS fails.
fn is_final(error: &InferError) -> bool {
    matches!(error.code, ErrorCode::Http(400..=403)) || advice::https(error).is_some()
}

impl Backend for TorchServe {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "TORCHSERVE",
            threading: Threading::Driven,
            client_times: Some(ClientTimes::HTTP),
            cancels_alone: false,
            statistics: self.metrics.is_some(),
        }
    }

    /// The server does not describe a model's inputs and outputs.
    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let model = ModelSpec::plain(id, vec![TensorSpec::plain(INPUT, DataType::Bytes, vec![1])], Vec::new());
        let Some(management) = &self.management else { return Ok(model) };
        let found = management.describe(&id.name, self.way.version_of(id).as_deref(), self.wait)?;
        note!("{}", found.note(&id.name));
        let Registered { model_version, runtime, .. } = found;
        Ok(ModelSpec { versions: vec![model_version], platform: runtime, ..model })
    }

    /// Reads the files.
    fn prepare(&self, models: &Arc<[ModelSpec]>, payloads: &Arc<[Payload]>) -> Result<()> {
        self.uploads(models, payloads).map(drop)
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        let version = self.way.version_of(id);
        let mut counters = statistics::Counters::new(&id.name, version.as_deref());
        self.metrics(0, &mut |line| counters.take(line))?;
        Ok(counters.snapshot())
    }

    fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        match &self.metrics {
            Some(metrics) => metrics.read(line).map_err(|error| {
                error.advice("TorchServe has them at port 8082, path /metrics, where its metrics_mode is prometheus")
            }),
            None => Err(Error::usage("the server's metrics need --metrics-url")),
        }
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let uploads = self.uploads(&spec.models, &spec.payloads)?;
        let service = Predictions::new(uploads, self.way.headers.clone(), &spec);
        http1::open(service, self.route.clone(), &spec, sink)
    }
}
