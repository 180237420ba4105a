//! TensorFlow Serving over gRPC.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, InferError, Network, Threading,
};
use crate::data::Payload;
use crate::engine::calls::{self, CallHeaders, CallPlan, Questions, status};
use crate::engine::{Route, ServerWait, advice};
use crate::error::{Error, Result};
use crate::model::{ModelId, ModelSpec};
use crate::plan::{Compression, Plan};
use crate::prepared::Prepared;
use crate::tfserving::proto;
use crate::tfserving::request::Requests;
use crate::tfserving::service::Predict;
use crate::tfserving::signature::Wanted;

/// The service for predictions, and the one that describes models.
const PREDICTIONS: &str = "tensorflow.serving.PredictionService";
const MODELS: &str = "tensorflow.serving.ModelService";
/// Maximum bytes of an answer that describes a model.
const LONG: u64 = 64 << 20;
/// Time limit of a control request about a model.
const QUESTION: Duration = Duration::from_secs(10);

/// A server reached over TensorFlow Serving's gRPC API.
pub struct TfServingGrpc {
    route: Route,
    headers: CallHeaders,
    predictions: Questions,
    models: Questions,
    compression: Compression,
    label: Option<String>,
    wanted: Wanted,
    wait: ServerWait,
    requests: Prepared<Requests>,
}

impl TfServingGrpc {
    /// For the server that the plan names. Sends nothing yet.
    ///
    /// # Errors
    /// If the address, a header or a certificate is wrong.
    pub fn new(plan: &Plan) -> Result<Self> {
        let connection = &plan.target.connection;
        let route = Route::to(connection, plan.target.service.port(&connection.protocol), &["h2"])?;
        let headers = CallHeaders::new(PREDICTIONS, route.endpoint(), connection)?;
        let of_models = CallHeaders::new(MODELS, route.endpoint(), connection)?;
        Ok(Self {
            predictions: Questions::new(Arc::clone(&route.connector), headers.clone()),
            models: Questions::new(Arc::clone(&route.connector), of_models),
            route,
            headers,
            compression: connection.protocol.compression(),
            label: plan.target.version_label.clone(),
            wanted: Wanted::new(plan),
            wait: ServerWait::new(connection.server_wait),
            requests: Prepared::default(),
        })
    }

    fn model_spec(&self, id: &ModelId, signature: Option<&str>) -> Vec<u8> {
        proto::model_spec(id, self.label.as_deref(), signature)
    }

    /// An error of this server, with what was being done.
    fn failed(&self, doing: &str, error: &InferError) -> Error {
        let failed = Error::server(format!("gRPC server {}: {doing}: {error}", self.route.endpoint()));
        advice::no_grpc(error, self.route.endpoint()).into_iter().fold(failed, Error::advice)
    }

    /// Whether a matching version is available; read from the metadata if the server does not report versions.
    fn ask_ready(&self, id: &ModelId, limit: Duration) -> Result<(), InferError> {
        let message = proto::status_request(&self.model_spec(id, None));
        match self.models.ask("GetModelStatus", &message, LONG, limit.min(QUESTION)) {
            Ok(answer) => match proto::unavailable(&answer).map_err(unreadable)? {
                None => Ok(()),
                Some(states) => Err(status::error(status::UNAVAILABLE, states)),
            },
            Err(error) if error.code == status::UNIMPLEMENTED.into() => self.ask_metadata(id, limit).map(drop),
            Err(error) => Err(error),
        }
    }

    fn ask_metadata(&self, id: &ModelId, limit: Duration) -> Result<Vec<u8>, InferError> {
        let message = proto::metadata_request(&self.model_spec(id, None));
        self.predictions.ask("GetModelMetadata", &message, LONG, limit.min(QUESTION))
    }

    fn requests(&self, models: &[ModelSpec], payloads: &Arc<[Payload]>) -> Result<Arc<Requests>> {
        let spec = |model: &ModelSpec| self.model_spec(&model.id, Some(self.wanted.signature()));
        self.requests.get_or_make(payloads, || Requests::encode(models, payloads, self.compression, spec))
    }
}

fn unreadable(why: String) -> InferError {
    status::error(status::BROKEN, format!("the server's answer {why}"))
}

impl Backend for TfServingGrpc {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: super::SERVICE_KIND,
            threading: Threading::Driven,
            client_times: Some(ClientTimes::GRPC),
            cancels_alone: false,
            statistics: false,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let ready = self.wait.retry(|limit| self.ask_ready(id, limit), |reason| advice::grpcs(reason).is_some());
        ready.map_err(|reason| {
            let waited = self.wait.seconds();
            self.failed(&format!("model '{id}' was not ready within {waited} s (--server-wait)"), &reason)
        })?;
        let doing = "error: failed to get model metadata";
        let answer = self.ask_metadata(id, QUESTION).map_err(|error| self.failed(doing, &error))?;
        let metadata = proto::metadata(&answer, self.wanted.signature()).map_err(unreadable);
        self.wanted.model(id, metadata.map_err(|error| self.failed(doing, &error))?)
    }

    fn prepare(&self, models: &Arc<[ModelSpec]>, payloads: &Arc<[Payload]>) -> Result<()> {
        self.requests(models, payloads).map(drop)
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let plan = CallPlan {
            route: self.route.clone(),
            fields: self.headers.fields("Predict", Some(self.compression), self.route.limit),
            streaming: false,
        };
        let requests = self.requests(&spec.models, &spec.payloads)?;
        calls::open(Predict::new(requests, spec.clone()), plan, &spec, sink)
    }
}
