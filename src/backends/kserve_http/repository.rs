//! Loads models with other configurations, through the repository extension of a server that loads models on request.

use std::time::Duration;

use serde_json::{Value, json};

use crate::backend::ModelControl;
use crate::backends::kserve_http::HttpBackend;
use crate::backends::kserve_http::render::model_path;
use crate::engine::http1::Patience;
use crate::error::{Error, Result};
use crate::model::ModelId;

/// How long a model may take to load.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

impl ModelControl for HttpBackend {
    fn configuration(&self, id: &ModelId) -> Result<Value> {
        let path = model_path(&self.format.endpoint, id, "/config");
        self.control.get_json(&path, &format!("configuration of model '{id}'"), Patience::Setup)
    }

    fn load(&self, model: &str, configuration: Option<&Value>) -> Result<()> {
        let endpoint = &self.format.endpoint;
        let path = model_path(endpoint, &ModelId::latest(model), "/load");
        let path = path.replacen("/v2/models/", "/v2/repository/models/", 1);
        let body = match configuration {
            Some(configuration) => json!({ "parameters": { "config": configuration.to_string() } }),
            None => json!({}),
        };
        let what = format!("load of model '{model}'");
        let answer = self.control.post(&path, &body.to_string(), Patience::Within(LOAD_LIMIT));
        let answer = answer.map_err(|error| self.control.error(&what, &error))?;
        match answer.refusal() {
            None => Ok(()),
            Some(refusal) if refusal.message.contains("not allowed") => {
                Err(Error::server(refusal.to_string()).advice(
                    "start the server with --model-control-mode=explicit and --load-model, so that it loads models on request",
                ))
            }
            Some(refusal) => Err(Error::server(refusal.message)),
        }
    }
}
