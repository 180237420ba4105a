//! Loading and unloading models, through the repository extension of a server that does so on request.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use crate::backend::{InferError, LOAD_LIMIT, ModelControl};
use crate::engine::is_unanswered;
use crate::error::{Error, Result};
use crate::kserve::refusals::is_unsupported;
use crate::kserve::reload::{Repository, not_loaded};
use crate::kserve_grpc::proto::WholeConfig;
use crate::kserve_grpc::proto::control::{Choice, Empty, RepositoryParameter, RepositoryRequest};
use crate::kserve_grpc::{GrpcBackend, named};
use crate::model::ModelId;

impl GrpcBackend {
    fn unread(&self, id: &ModelId, error: &InferError) -> Error {
        self.failed(&format!("reading the configuration of model '{id}'"), error)
    }

    /// Asks the repository to do something with a model.
    fn ask(
        &self,
        method: &str,
        model: &str,
        parameter: Option<(&str, Choice)>,
        limit: Duration,
    ) -> Result<(), InferError> {
        let parameter = parameter.map(|(name, choice)| (name.to_owned(), RepositoryParameter { choice: Some(choice) }));
        let parameters: HashMap<String, RepositoryParameter> = parameter.into_iter().collect();
        let request = RepositoryRequest { model_name: model.to_owned(), parameters };
        self.control.call::<_, Empty>(method, &request, limit).map(drop)
    }
}

impl ModelControl for GrpcBackend {
    fn configuration(&self, id: &ModelId) -> Result<Value> {
        let WholeConfig(whole) = self.call("ModelConfig", &named(id)).map_err(|error| self.unread(id, &error))?;
        let unknown = || {
            let reason = format!("the configuration of model '{id}' has fields that this version does not know");
            Error::server(reason).advice("use -i http, over which the server writes it out itself")
        };
        whole.ok_or_else(unknown)
    }

    fn load(&self, model: &str, configuration: Option<&Value>, limit: Duration) -> Result<()> {
        let parameter = configuration.map(|configuration| ("config", Choice::Text(configuration.to_string())));
        self.ask("RepositoryModelLoad", model, parameter, limit).map_err(|error| match is_unanswered(&error) {
            true => self.failed(&format!("loading model '{model}'"), &error),
            false => not_loaded(error),
        })
    }
}

impl Repository for GrpcBackend {
    fn configuration_of(&self, id: &ModelId) -> Result<Option<Value>> {
        match self.call::<_, WholeConfig>("ModelConfig", &named(id)) {
            Ok(WholeConfig(whole)) => Ok(whole),
            Err(error) if is_unanswered(&error) => Err(self.unread(id, &error)),
            Err(_) => Ok(None),
        }
    }

    fn unload(&self, model: &str) -> Result<bool> {
        match self.ask("RepositoryModelUnload", model, Some(("unload_dependents", Choice::Flag(true))), LOAD_LIMIT) {
            Ok(()) => Ok(true),
            Err(error) if is_unsupported(&error) => Ok(false),
            Err(error) => Err(self.failed(&format!("unloading model '{model}'"), &error)),
        }
    }
}
