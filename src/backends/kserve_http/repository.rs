//! Loads and unloads models, through the repository extension of a server that loads models on request.

use serde_json::{Value, json};

use std::time::Duration;

use crate::backend::{InferError, LOAD_LIMIT, ModelControl};
use crate::engine::http1::Patience;
use crate::error::Result;
use crate::kserve::refusals::is_unsupported;
use crate::kserve::reload::{Repository, not_loaded};
use crate::kserve_http::HttpBackend;
use crate::kserve_http::render::model_path;
use crate::model::ModelId;

impl HttpBackend {
    /// Asks the repository to `act` on a model, such as `load`. Returns why it refuses, where it does.
    fn ask(&self, model: &str, act: &str, body: &Value, limit: Duration) -> Result<Option<InferError>> {
        let path = model_path(&self.format.endpoint, &ModelId::latest(model), &format!("/{act}"));
        let path = path.replacen("/v2/models/", "/v2/repository/models/", 1);
        let answer = self.control.post(&path, &body.to_string(), Patience::Within(limit));
        let answer = answer.map_err(|error| self.control.error(&format!("{act} of model '{model}'"), &error))?;
        Ok(answer.refusal())
    }
}

impl ModelControl for HttpBackend {
    fn configuration(&self, id: &ModelId) -> Result<Value> {
        let path = model_path(&self.format.endpoint, id, "/config");
        self.control.get_json(&path, &format!("configuration of model '{id}'"), Patience::Setup)
    }

    fn load(&self, model: &str, configuration: Option<&Value>, limit: Duration) -> Result<()> {
        let body = match configuration {
            Some(configuration) => json!({ "parameters": { "config": configuration.to_string() } }),
            None => json!({}),
        };
        self.ask(model, "load", &body, limit)?.map_or(Ok(()), |refusal| Err(not_loaded(refusal)))
    }
}

impl Repository for HttpBackend {
    fn configuration_of(&self, id: &ModelId) -> Result<Option<Value>> {
        let path = model_path(&self.format.endpoint, id, "/config");
        let answer = self.control.get(&path, Patience::Setup);
        let answer = answer.map_err(|error| self.control.error(&format!("configuration of model '{id}'"), &error))?;
        Ok(if answer.refusal().is_none() { serde_json::from_slice(&answer.body).ok() } else { None })
    }

    fn unload(&self, model: &str) -> Result<bool> {
        match self.ask(model, "unload", &json!({ "parameters": { "unload_dependents": true } }), LOAD_LIMIT)? {
            None => Ok(true),
            Some(refusal) if is_unsupported(&refusal) => Ok(false),
            Some(refusal) => Err(self.control.error(&format!("unload of model '{model}'"), &refusal)),
        }
    }
}
