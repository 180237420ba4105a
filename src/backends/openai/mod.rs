//! Endpoints that take and give JSON, as OpenAI's do: chat completions, completions, embeddings, or any other.
//!
//! ```text
//! OpenAiBackend   where requests go; opens clients
//! bodies          payloads as requests: sent as they are, unless fields are to be set
//! turns           conversations: what was said before
//! messages        what was answered in them
//! service         a client's slots: requests as bytes
//! answer          what comes back for one request: a body, or events
//! stream          what the events of an answer have said so far
//! parsed_answer   what one JSON document of an answer says
//! choices         what the choices of OpenAI's completions say
//! texts           what a request asks and an answer says, for whoever counts their tokens or goes on with them
//! usage           how many tokens a server counts
//! several         how many several texts of an answer count
//! refusal         errors in the service's words
//! ```

mod answer;
mod bodies;
mod choices;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod messages;
mod parsed_answer;
mod refusal;
mod service;
mod several;
mod shown;
mod stream;
mod texts;
mod turns;
mod usage;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;

pub use self::texts::{prompt, texts};

use self::bodies::Bodies;
use self::service::OpenAi;
use self::stream::Wanted;
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, MAX_REPLY_BYTES, Network, Threading,
};
use crate::engine::http1::{self, Headers, Patience, Questions};
use crate::engine::{Deadline, Route, ServerWait, advice, connect, failure};
use crate::error::{Error, Result};
use crate::metrics::MetricsSource;
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::plan::{MetricsPlan, OpenAiPlan, Target};

/// Port if `-u` names none.
pub const DEFAULT_PORT: u16 = 8000;

/// The input that holds a request's body.
const PAYLOAD: &str = "payload";
/// The input with the turns that a turn of a session follows.
const AFTER: &str = "after";
/// Maximum bytes of an event, unless `--max-reply-bytes` is given: a stream brings a few tokens at a time.
const MAX_EVENT_BYTES: u64 = 16 << 20;
/// The output that holds an answer, or an event of one.
const RESPONSE: &str = "response";

/// An endpoint reached over HTTP.
pub struct OpenAiBackend {
    route: Route,
    headers: Headers,
    plan: OpenAiPlan,
    /// The models of a mix are written into the payloads.
    mixed: bool,
    /// The server's own page of metrics, if they are collected.
    metrics: Option<MetricsSource>,
    bodies: Mutex<Option<Arc<Bodies>>>,
}

/// The answer of `/v1/models`, as far as it is read.
#[derive(Deserialize)]
struct ModelList {
    data: Vec<ListedName>,
}

#[derive(Deserialize)]
struct ListedName {
    id: String,
}

impl OpenAiBackend {
    /// Reaches the server, waiting until it takes connections for as long as `target` allows. Nothing is requested:
    /// these services have no common endpoint for it.
    ///
    /// # Errors
    /// If the address, a header or a certificate is wrong, or the server cannot be reached in time.
    pub fn connect(target: &Target) -> Result<Self> {
        let connection = &target.connection;
        let route = Route::to(connection, DEFAULT_PORT, &["http/1.1"])?;
        let headers = Headers::new(&connection.headers)?;
        let source = |_: &MetricsPlan| MetricsSource::beside(route.endpoint(), &headers, connection);
        let metrics = target.metrics.as_ref().map(source).transpose()?;
        let backend = Self {
            route,
            headers,
            plan: target.openai.clone(),
            mixed: !target.mix.is_empty(),
            metrics,
            bodies: Mutex::new(None),
        };
        backend.await_server(ServerWait::new(connection.server_wait))?;
        Ok(backend)
    }

    fn await_server(&self, wait: ServerWait) -> Result<()> {
        let attempt = |limit| connect(&self.route.connector, Deadline::within(limit)).map_err(|error| failure(&error));
        let reached = wait.retry(|limit| attempt(limit).map(drop), |error| advice::https(error).is_some());
        reached.map_err(|error| {
            let (url, next) = (self.route.endpoint().http_url(), advice::no_answer(&error, self.route.endpoint()));
            Error::server(format!("no server answers at {url}: {error}; {next}"))
        })
    }

    /// The first model of the list that most of these servers have at `/v1/models`, as inference-perf takes it.
    ///
    /// # Errors
    /// If the server has no such list, or it is empty.
    pub fn first_model(&self) -> Result<String> {
        let questions = Questions::new(self.route.connector.clone(), self.headers.clone());
        let prefix = questions.prefix().trim_end_matches('/');
        let path = if prefix.ends_with("/v1") { format!("{prefix}/models") } else { format!("{prefix}/v1/models") };
        let list: ModelList = questions.get_json(&path, "its list of models", Patience::Setup)?;
        let first = list.data.into_iter().next().map(|model| model.id).filter(|name| !name.is_empty());
        first.ok_or_else(|| Error::server(format!("{}: its list of models at {path} names none", questions.url())))
    }

    /// What is kept of answers.
    fn wanted(&self, spec: &ClientSpec) -> Wanted {
        let OpenAiPlan { sessions, tokenizer, streaming, .. } = &self.plan;
        let limit = spec.max_reply_bytes;
        let event = if limit == MAX_REPLY_BYTES { MAX_EVENT_BYTES } else { limit };
        let event = usize::try_from(event).unwrap_or(usize::MAX);
        Wanted { limit, event, message: *sessions, content: tokenizer.is_some(), streams: *streaming }
    }

    fn bodies_for(&self, spec: &ClientSpec) -> Result<Arc<Bodies>> {
        let mut cached = self.bodies.lock();
        if let Some(bodies) = cached.as_ref().filter(|bodies| bodies.fit(spec)) {
            return Ok(bodies.clone());
        }
        let bodies = Arc::new(Bodies::new(self.route.endpoint(), &self.headers, &self.plan, self.mixed, spec)?);
        *cached = Some(bodies.clone());
        Ok(bodies)
    }
}

impl Backend for OpenAiBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "OPENAI",
            threading: Threading::Driven,
            client_times: Some(ClientTimes::HTTP),
            cancels_alone: false,
            statistics: false,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let document = |name: &str| vec![TensorSpec::plain(name, DataType::Json, vec![1])];
        let mut inputs = document(PAYLOAD);
        if self.plan.sessions {
            inputs.push(TensorSpec::plain("session_id", DataType::Bytes, vec![1]));
            let optional =
                |name, datatype, dim| TensorSpec { optional: true, ..TensorSpec::plain(name, datatype, vec![dim]) };
            inputs.push(optional("delay", DataType::Uint64, 1));
            inputs.push(optional(AFTER, DataType::Int32, -1));
            inputs.push(optional("wait", DataType::Uint64, 1));
        }
        Ok(ModelSpec::plain(id, inputs, document(RESPONSE)))
    }

    fn generates(&self) -> bool {
        true
    }

    fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        match &self.metrics {
            Some(metrics) => metrics.read(line),
            None => Err(Error::server("this service keeps no metrics")),
        }
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let service = OpenAi::new(self.bodies_for(&spec)?, self.headers.clone(), self.wanted(&spec));
        http1::open(service, self.route.clone(), &spec, sink)
    }
}

#[cfg(test)]
mod tests;
