//! Reloads models on a server over the network that loads models on request.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::backend::{Backend, IndexEntry, InferError, LOAD_LIMIT, ModelControl};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::kserve::refusals::Refusal;
use crate::model::{ConfigMark, ModelId};

/// How long a server may keep a model that it was asked to unload: it waits for the requests of others.
const UNLOAD_LIMIT: Duration = Duration::from_secs(60);
/// How often the model's state is polled meanwhile.
const POLL: Duration = Duration::from_millis(5);

/// The repository extension of KServe's protocol.
pub trait Repository: Backend + ModelControl {
    /// How a model is configured; `None` if the server does not tell, or not all.
    ///
    /// # Errors
    /// If the server does not answer: what it was loaded with must not be lost for that.
    fn configuration_of(&self, id: &ModelId) -> Result<Option<Value>>;

    /// Unloads a model, and those that were loaded for it alone. Returns whether the server does so on request.
    ///
    /// # Errors
    /// The server's reason, where it is another.
    fn unload(&self, model: &str) -> Result<bool>;
}

/// A server's refusal to load a model.
pub fn not_loaded(refusal: InferError) -> Error {
    if Refusal::NotOnRequest.is_in(&refusal.message) {
        return Error::server(refusal.to_string()).advice(
            "start the server with --model-control-mode=explicit and --load-model, so that it loads models on request",
        );
    }
    Error::server(refusal.message)
}

/// Reloads each model once, with its present configuration. Returns whether the server does so on request.
///
/// # Errors
/// If a model is missing now, or the server does not release it.
pub fn reload(server: &impl Repository, models: &[ModelId]) -> Result<bool> {
    for (at, id) in models.iter().enumerate() {
        if models[..at].iter().any(|earlier| earlier.name == id.name) {
            continue;
        }
        let before = server.configuration_of(id)?;
        if !server.unload(&id.name)? {
            return Ok(false);
        }
        let gone = await_unloaded(server, &id.name);
        // Even if unloading timed out: others need the model.
        let loaded = load_again(server, id, before.as_ref());
        loaded
            .map_err(|error| error.context(format_args!("model '{}' was unloaded and does not load again", id.name)))?;
        gone?;
    }
    Ok(true)
}

/// Loads a model from its files; where it was loaded with another configuration than theirs, with that one.
fn load_again(server: &impl Repository, id: &ModelId, before: Option<&Value>) -> Result<()> {
    server.load(&id.name, None, LOAD_LIMIT)?;
    let (Some(before), Some(after)) = (before, server.configuration_of(id)?) else { return Ok(()) };
    if ConfigMark::new(before) == ConfigMark::new(&after) {
        Ok(())
    } else {
        server.load(&id.name, Some(before), LOAD_LIMIT)
    }
}

fn await_unloaded(server: &impl Repository, model: &str) -> Result<()> {
    let end = Stamp::now().plus_duration(UNLOAD_LIMIT);
    let is_held =
        |row: &IndexEntry| row.name == model && matches!(row.state.as_str(), "READY" | "LOADING" | "UNLOADING");
    while server.index()?.iter().any(is_held) {
        if Stamp::now() >= end {
            let waited = UNLOAD_LIMIT.as_secs();
            return Err(Error::server(format!(
                "the server still held model '{model}' {waited} s after it was asked to unload it"
            )));
        }
        thread::sleep(POLL);
    }
    Ok(())
}
