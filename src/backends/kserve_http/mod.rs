//! KServe v2 over HTTP/1.1.
//!
//! ```text
//! HttpBackend    models, statistics, shared memory, trace settings; opens clients
//! service        a client's slots: requests as bytes, answers as responses
//! templates, template, render    every payload rendered once; only slot tags and sequence fields are patched
//! reply, outputs, inline, body   what came back, and whether it is an answer
//! repository     loads and unloads models
//! regions        shared memory over HTTP
//! ```

mod body;
#[cfg(fuzzing)]
pub mod fuzzing;
mod inline;
mod outputs;
mod regions;
mod render;
mod reply;
mod repository;
mod service;
mod template;
mod templates;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::render::{Format, model_path};
use self::service::KserveHttp;
use self::templates::Templates;
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, ErrorCode, IndexEntry, InferError,
    ModelControl, Network, ServerIdentity, Threading,
};
use crate::engine::http1::{self, Headers, Patience, Questions};
use crate::engine::{Reminder, Route, ServerWait, advice};
use crate::error::{Error, Result};
use crate::kserve::extensions::Extensions;
use crate::kserve::regions::Registry;
use crate::kserve::reload::reload;
use crate::kserve::request_ids;
use crate::kserve::trace_settings::{TraceControl, TraceValues};
use crate::metrics::MetricsSource;
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ConfigMark, ModelId, ModelSpec};
use crate::model_list::Prospects;
use crate::plan::{ConnectionPlan, TensorFormat, TraceSettings};
use crate::triton_json::{ConfigJson, StatisticsJson, model_of};
use crate::unready::UNREADY;

/// Port of Triton's HTTP endpoint if `-u` names none.
pub const DEFAULT_PORT: u16 = 8000;

/// The server's metadata, as far as they matter.
#[derive(Deserialize)]
struct ServerJson {
    extensions: Option<Vec<String>>,
    name: Option<String>,
    version: Option<String>,
}

/// A server reached by KServe v2 over HTTP.
pub struct HttpBackend {
    route: Route,
    format: Arc<Format>,
    control: Arc<Questions>,
    metrics: MetricsSource,
    registry: Arc<Registry>,
    templates: Mutex<Option<Arc<Templates>>>,
    extensions: Extensions,
    /// The server's own name and version.
    server: Option<ServerIdentity>,
    /// Whether tensors travel as JSON because the server accepts nothing else.
    falls_back: bool,
    /// Whether the first dimension is the batch's if no configuration says so.
    batches: bool,
    wait: ServerWait,
}

impl HttpBackend {
    /// Connects to the server, waiting until it is live for as long as `connection` allows. Metrics are read by default from
    /// Triton's metrics port on the same host.
    ///
    /// # Errors
    /// If the address, a header or a certificate is wrong, or the server cannot be reached in time.
    pub fn connect(connection: &ConnectionPlan) -> Result<Self> {
        let (inputs, outputs) = connection.protocol.tensor_formats();
        let wait = ServerWait::new(connection.server_wait);
        let route = Route::to(connection, DEFAULT_PORT, &["http/1.1"])?;
        let endpoint = route.endpoint().clone();
        let headers = Headers::new(&connection.headers)?;
        let control = Arc::new(Questions::new(route.connector.clone(), headers.clone()));
        let metrics = MetricsSource::new(connection, &endpoint)?;
        let compression = connection.protocol.compression();
        let format = Format { endpoint, headers, json_inputs: false, json_outputs: false, compression };
        let registry = Arc::new(Registry::new(control.clone()));
        let regions = Arc::clone(&registry);
        let mut backend = Self {
            registry,
            templates: Mutex::new(None),
            extensions: Extensions::default(),
            server: None,
            falls_back: false,
            batches: false,
            route: route.reminding(Reminder::new(move || regions.register_again())),
            format: Arc::new(format.clone()),
            control,
            metrics,
            wait,
        };
        backend.wait_until_live()?;
        let metadata = backend.metadata()?;
        backend.extensions = Extensions::new(&metadata.extensions.unwrap_or_default());
        backend.server = ServerIdentity::new(metadata.name, metadata.version);
        let is_json = |wanted| match wanted {
            TensorFormat::Served => !backend.extensions.binary_tensors,
            TensorFormat::Binary => false,
            TensorFormat::Json => true,
        };
        let format = Format { json_inputs: is_json(inputs), json_outputs: is_json(outputs), ..format };
        backend.falls_back = [inputs, outputs].contains(&TensorFormat::Served) && !backend.extensions.binary_tensors;
        backend.format = Arc::new(format);
        Ok(backend)
    }

    /// With `batches`, treats the first dimension of tensors as the batch's if the server does not say.
    pub fn with_batches(self, batches: bool) -> Self {
        Self { batches, ..self }
    }

    fn trace_path(&self, model: Option<&str>) -> String {
        match model {
            Some(name) => model_path(&self.format.endpoint, &ModelId::latest(name), "/trace/setting"),
            None => format!("{}/v2/trace/setting", self.format.endpoint.prefix),
        }
    }

    fn wait_until_live(&self) -> Result<()> {
        let about = format!("{}/v2", self.format.endpoint.prefix);
        let path = format!("{about}/health/live");
        let refusal = |error: &InferError| {
            let url = self.format.endpoint.http_url();
            let problem = match error.code {
                ErrorCode::Http(_) => format!("what answers at {url} does not say that it is a live server"),
                _ if advice::is_other_protocol(error) => format!("what answers at {url} speaks another protocol"),
                _ => format!("no server answers at {url}"),
            };
            let next = match advice::is_http2(error) {
                true => "is this its gRPC port? use -i grpc".to_owned(),
                false => advice::no_answer(error, &self.format.endpoint),
            };
            Error::server(format!("{problem}: {error}; {next}"))
        };
        let attempt = |limit| self.ask_either(&path, &about, limit);
        let is_final = |error: &InferError| advice::https(error).is_some() || advice::is_other_protocol(error);
        self.wait.retry(attempt, is_final).map_err(|error| refusal(&error))
    }

    /// Whether the server agrees at `path`; where it has no such path, or keeps its health from us (`--http-restricted-api`),
    /// whether it answers at `other`.
    fn ask_either(&self, path: &str, other: &str, limit: Duration) -> Result<(), InferError> {
        let ask = |path: &str| self.control.get(path, Patience::Within(limit)).map(|answer| answer.refusal());
        match ask(path)? {
            Some(refusal) if is_withheld(&refusal.code) && ask(other)?.is_none() => Ok(()),
            refusal => refusal.map_or(Ok(()), Err),
        }
    }

    /// Trusts the server's list of its capabilities.
    fn metadata(&self) -> Result<ServerJson> {
        let path = format!("{}/v2", self.format.endpoint.prefix);
        self.control.get_json(&path, "server metadata", Patience::Setup)
    }

    /// A model's configuration; `None` if the server does not report configurations.
    fn config(&self, id: &ModelId) -> Result<Option<(ConfigJson, ConfigMark)>> {
        let (path, subject) =
            (model_path(&self.format.endpoint, id, "/config"), format!("configuration of model '{id}'"));
        let answer = self.control.get(&path, Patience::Setup).map_err(|error| self.control.error(&subject, &error))?;
        // The request is for an extension of the protocol: it is the path that is unknown.
        if is_lacking(&ErrorCode::Http(answer.status)) {
            return Ok(None);
        }
        let config = self.control.read_json(&answer, &subject)?;
        let whole: Option<Value> = serde_json::from_slice(&answer.body).ok();
        Ok(Some((config, whole.as_ref().map(ConfigMark::new).unwrap_or_default())))
    }

    /// Whether the server has finished loading, and does not know the model.
    fn is_absent(&self, id: &ModelId) -> bool {
        let answer = |path: &str| self.control.get(path, Patience::Sample).ok();
        let ready = answer(&format!("{}/v2/health/ready", self.format.endpoint.prefix));
        ready.is_some_and(|ready| ready.refusal().is_none())
            && answer(&model_path(&self.format.endpoint, id, "")).is_some_and(|reply| reply.refusal().is_some())
    }

    /// The error of a model that is not ready, in the server's words when asked for the model itself: about readiness
    /// it only says no. `why` is what its list of models says.
    fn not_ready(&self, id: &ModelId, refusal: InferError, why: Option<String>) -> Error {
        let asked = self.control.get(&model_path(&self.format.endpoint, id, ""), Patience::Sample);
        let reason = match asked {
            Ok(reply) => reply.refusal().unwrap_or_else(|| InferError::new(refusal.code, UNREADY)),
            Err(_) => refusal,
        };
        if let Some(why) = why {
            return self.control.error(&why, &reason);
        }
        let waited = self.wait.seconds();
        self.control.error(&format!("model '{id}' was not ready within {waited} s (--server-wait)"), &reason)
    }

    fn templates_for(&self, spec: &ClientSpec) -> Result<Arc<Templates>> {
        let mut cached = self.templates.lock();
        if let Some(templates) = cached.as_ref().filter(|templates| templates.fit(spec)) {
            return Ok(templates.clone());
        }
        let templates = Arc::new(Templates::new(self.format.clone(), self.registry.clone(), spec)?);
        *cached = Some(templates.clone());
        Ok(templates)
    }
}

/// Whether that says that a server has no such path.
fn is_lacking(code: &ErrorCode) -> bool {
    matches!(code, ErrorCode::Http(404 | 405 | 501))
}

/// Whether that says that a server has no such path, or not for us.
fn is_withheld(code: &ErrorCode) -> bool {
    is_lacking(code) || matches!(code, ErrorCode::Http(401 | 403))
}

/// Trace settings in the protocol's format: levels in a list, numbers as text, `null` for the server's own.
fn trace_json(values: &TraceValues) -> Value {
    let value = |name: &str, words: &Option<Vec<String>>| match words {
        Some(words) if name != TraceSettings::LEVEL => Value::from(words.first().cloned()),
        words => Value::from(words.clone()),
    };
    values.iter().map(|(name, words)| (name.clone(), value(name, words))).collect::<Map<_, _>>().into()
}

impl TraceControl for HttpBackend {
    fn traces(&self, model: Option<&str>) -> Result<TraceValues> {
        let path = self.trace_path(model);
        let settings: Value = self.control.get_json(&path, "trace settings", Patience::Setup)?;
        let words = |value: &Value| match value {
            Value::Array(words) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            value => vec![value.as_str().map_or_else(|| value.to_string(), str::to_owned)],
        };
        let settings = settings.as_object().into_iter().flatten();
        Ok(settings.map(|(name, value)| (name.clone(), Some(words(value)))).collect())
    }

    fn put_traces(&self, model: &str, values: &TraceValues) -> Result<()> {
        let subject = format!("trace settings of model '{model}'");
        let (path, body) = (self.trace_path(Some(model)), trace_json(values).to_string());
        let answer =
            self.control.post(&path, &body, Patience::Sample).map_err(|error| self.control.error(&subject, &error))?;
        answer.refusal().map_or(Ok(()), |refusal| Err(self.control.error(&subject, &refusal)))
    }
}

impl Backend for HttpBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "TRITON",
            threading: Threading::Driven,
            client_times: Some(ClientTimes::HTTP),
            cancels_alone: false,
            statistics: self.extensions.statistics,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let endpoint = &self.format.endpoint;
        let [ready, about] = ["/ready", ""].map(|below| model_path(endpoint, id, below));
        let attempt = |limit| self.ask_either(&ready, &about, limit);
        let prospects = Prospects::new(self, id);
        let ready = self.wait.retry(attempt, |_: &InferError| prospects.are_none(self.is_absent(id)));
        ready.map_err(|error| self.not_ready(id, error, prospects.why()))?;
        let metadata = self.control.get_json(&about, &format!("metadata of model '{id}'"), Patience::Setup)?;
        let config = self.config(id)?;
        self.extensions.say_what_lacks(&endpoint.http_url(), config.is_some(), self.falls_back);
        match config {
            Some((config, mark)) => Ok(ModelSpec { config: mark, ..model_of(id, metadata, &config)? }),
            None => {
                let model = model_of(id, metadata, &ConfigJson::default())?.unconfigured(self.batches);
                self.extensions.say_if_undescribed(&model);
                Ok(model)
            }
        }
    }

    fn index(&self) -> Result<Vec<IndexEntry>> {
        let (path, subject) = (format!("{}/v2/repository/index", self.format.endpoint.prefix), "index of models");
        let answer =
            self.control.post(&path, "{}", Patience::Setup).map_err(|error| self.control.error(subject, &error))?;
        self.control.read_json(&answer, subject)
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        let path = model_path(&self.format.endpoint, id, "/stats");
        let subject = format!("statistics of model '{id}'");
        self.control.get_json::<StatisticsJson>(&path, &subject, Patience::Sample).map(Into::into)
    }

    fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        let path = format!("{}/v2/models/stats", self.format.endpoint.prefix);
        let answer = self.control.get(&path, Patience::Sample);
        let answer = answer.map_err(|error| self.control.error("statistics of all models", &error))?;
        let read = || serde_json::from_slice::<StatisticsJson>(&answer.body).ok().map(Into::into);
        Ok(if answer.refusal().is_some() { None } else { read() })
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

    fn server(&self) -> Option<ServerIdentity> {
        self.server.clone()
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let service = KserveHttp::new(self.templates_for(&spec)?, spec.clone());
        let sink = request_ids::reporting(&spec, sink, service.number());
        http1::open(service, self.route.clone(), &spec, sink)
    }
}
