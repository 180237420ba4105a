//! TensorFlow Serving over REST, in the column form, which carries tensors of any shape.
//!
//! ```text
//! TfServingRest   readiness, metadata; opens clients          body    tensors as JSON
//! service         a client's slots                            reply   JSON as tensors
//! ```

mod body;
#[cfg(fuzzing)]
pub mod fuzzing;
mod metadata;
mod reply;
mod service;

use std::sync::Arc;

use self::body::Bodies;
use self::service::Predictions;
use super::SERVICE_KIND;
use super::signature::Wanted;
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, ErrorCode, InferError, Network, Threading,
};
use crate::data::Payload;
use crate::engine::http1::{self, Headers, Patience, Questions};
use crate::engine::{Endpoint, Route, ServerWait, advice, escape_path};
use crate::error::{Error, Result};
use crate::model::{ModelId, ModelSpec};
use crate::plan::Plan;
use crate::prepared::Prepared;

/// How models are asked.
struct Way {
    endpoint: Endpoint,
    headers: Headers,
    /// `-x` if it is not a number.
    label: Option<String>,
}

impl Way {
    /// `/v1/models/MODEL[/versions/VERSION|/labels/LABEL]`.
    fn path(&self, id: &ModelId) -> String {
        let version = match (id.version, &self.label) {
            (Some(version), _) => format!("/versions/{version}"),
            (None, Some(label)) => format!("/labels/{}", escape_path(label)),
            (None, None) => String::new(),
        };
        format!("{}/v1/models/{}{version}", self.endpoint.prefix, escape_path(&id.name))
    }
}

/// A server that is reached over TensorFlow Serving's REST API.
pub struct TfServingRest {
    route: Route,
    way: Way,
    control: Questions,
    wanted: Wanted,
    wait: ServerWait,
    bodies: Prepared<Bodies>,
}

impl TfServingRest {
    /// For the server that the plan names. Sends nothing yet.
    ///
    /// # Errors
    /// If the address, a header or a certificate is wrong.
    pub fn new(plan: &Plan) -> Result<Self> {
        let connection = &plan.target.connection;
        let route = Route::to(connection, plan.target.service.port(&connection.protocol), &["http/1.1"])?;
        let headers = Headers::new(&connection.headers)?;
        Ok(Self {
            control: Questions::new(Arc::clone(&route.connector), headers.clone()),
            way: Way { endpoint: route.endpoint().clone(), headers, label: plan.target.version_label.clone() },
            route,
            wanted: Wanted::new(plan),
            wait: ServerWait::new(connection.server_wait),
            bodies: Prepared::default(),
        })
    }

    /// Whether a matching version is available; read from the metadata if the server does not report versions.
    fn ask_ready(&self, id: &ModelId, patience: Patience) -> Result<(), InferError> {
        let answer = self.control.get(&self.way.path(id), patience)?;
        let Some(refusal) = answer.refusal() else {
            return metadata::unavailable(&answer.body)
                .map_or(Ok(()), |states| Err(InferError::new("Unavailable", states)));
        };
        match refusal.code {
            ErrorCode::Http(404 | 405 | 501) => {
                let asked = self.control.get(&format!("{}/metadata", self.way.path(id)), patience)?;
                asked.refusal().map_or(Ok(()), |_| Err(refusal))
            }
            _ => Err(refusal),
        }
    }

    fn bodies(&self, models: &[ModelSpec], payloads: &Arc<[Payload]>) -> Result<Arc<Bodies>> {
        self.bodies.get_or_make(payloads, || Bodies::render(&self.way, self.wanted.signature(), models, payloads))
    }
}

impl Backend for TfServingRest {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: SERVICE_KIND,
            threading: Threading::Driven,
            client_times: Some(ClientTimes::HTTP),
            cancels_alone: false,
            statistics: false,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let ready = self
            .wait
            .retry(|limit| self.ask_ready(id, Patience::Within(limit)), |error| advice::https(error).is_some());
        ready.map_err(|error| {
            let waited = self.wait.seconds();
            let problem = format!("model '{id}' was not ready within {waited} s (--server-wait)");
            let failed: Error = self.control.error(&problem, &error);
            advice::https(&error).into_iter().fold(failed, Error::advice)
        })?;
        let path = format!("{}/metadata", self.way.path(id));
        let subject = "error: failed to get model metadata";
        let answer: metadata::Answer = self.control.get_json(&path, subject, Patience::Setup)?;
        self.wanted.model(id, answer.metadata(self.wanted.signature()))
    }

    fn prepare(&self, models: &Arc<[ModelSpec]>, payloads: &Arc<[Payload]>) -> Result<()> {
        self.bodies(models, payloads).map(drop)
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let service =
            Predictions::new(self.bodies(&spec.models, &spec.payloads)?, self.way.headers.clone(), spec.clone());
        http1::open(service, self.route.clone(), &spec, sink)
    }
}
