//! [`Management`]: what the server reports about a model on its management port: whether it is registered, its workers,
//! and how it batches.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::backend::{ErrorCode, InferError};
use crate::engine::http1::{Headers, Patience, Questions};
use crate::engine::{Connector, Endpoint, ServerWait, escape_path, malformed};
use crate::error::{Error, Result};
use crate::plan::{ConnectionPlan, TorchServePlan};
use crate::torchserve::{is_final, refusal};
use crate::wire::TlsClient;

/// TorchServe's own management port.
const PORT: u16 = 8081;
/// The header that a server with tokens checks. Its management key differs from its inference key.
const TOKEN: &str = "Authorization";

/// What the server reports about a version of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Registered {
    /// The version, as the server writes it.
    pub(super) model_version: String,
    /// What runs its handler.
    pub(super) runtime: String,
    /// Maximum requests given to a worker at once.
    pub(super) batch_size: u64,
    /// How long the first of them waits for others, in milliseconds.
    pub(super) max_batch_delay: u64,
    workers: Vec<Worker>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Worker {
    status: String,
}

impl Registered {
    /// Reads the server's answer: a list, of one version unless all were requested.
    ///
    /// # Errors
    /// If it is not one.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let all: Vec<Self> = serde_json::from_slice(body).map_err(|error| format!("no description: {error}"))?;
        all.into_iter().next().ok_or_else(|| "it describes no version".to_owned())
    }

    /// Workers that accept requests.
    fn ready(&self) -> usize {
        self.workers.iter().filter(|worker| worker.status.eq_ignore_ascii_case("READY")).count()
    }

    /// What to report about it besides the figures.
    pub(super) fn note(&self, model: &str) -> String {
        let (ready, all) = (self.ready(), self.workers.len());
        let version = Some(&self.model_version).filter(|version| !version.is_empty());
        let name = version.map_or_else(|| model.to_owned(), |version| format!("{model} {version}"));
        let batches = match self.batch_size {
            0 | 1 => "each of which takes one request at a time".to_owned(),
            size => {
                let delay = self.max_batch_delay;
                format!("which take up to {size} requests at once and wait up to {delay} ms for that many")
            }
        };
        format!("model '{name}': {ready} of {all} workers are ready, {batches}")
    }
}

/// The management API.
pub(super) struct Management {
    questions: Questions,
}

impl Management {
    /// That of the plan, if it names one. Sends nothing yet.
    ///
    /// # Errors
    /// If the address, the key or a certificate is wrong.
    pub(super) fn new(plan: &TorchServePlan, connection: &ConnectionPlan) -> Result<Option<Self>> {
        let Some(url) = &plan.management_url else { return Ok(None) };
        let endpoint = Endpoint::parse_flag("--management-url", url, PORT)?;
        let tls = endpoint.secure.then(|| TlsClient::new(&connection.tls, &["http/1.1"])).transpose()?;
        let mut fields = connection.headers.clone();
        if let Some(key) = &plan.management_key {
            fields.retain(|(name, _)| !name.eq_ignore_ascii_case(TOKEN));
            fields.push((TOKEN.to_owned(), format!("Bearer {key}")));
        }
        let connector = Arc::new(Connector::new(endpoint, tls));
        Ok(Some(Self { questions: Questions::new(connector, Headers::new(&fields)?) }))
    }

    /// What the server reports about a model, once a worker of it is ready; waits for as long as `wait` allows.
    ///
    /// # Errors
    /// If the model is not registered or has no worker, or the server does not answer.
    pub(super) fn describe(&self, name: &str, version: Option<&str>, wait: ServerWait) -> Result<Registered> {
        let version = version.map(|version| format!("/{}", escape_path(version))).unwrap_or_default();
        let path = format!("{}/models/{}{version}", self.questions.prefix(), escape_path(name));
        let mut found = Registered::default();
        let attempt = |limit| {
            found = self.ask(&path, limit)?;
            match found.ready() {
                0 => Err(InferError::new(NO_WORKER, format!("none of its {} workers is ready", found.workers.len()))),
                _ => Ok(()),
            }
        };
        // A healthy server has registered the models that it was started with.
        let is_final = |error: &InferError| error.code == ErrorCode::Http(404) || is_final(error);
        match wait.retry(attempt, is_final) {
            Ok(()) => Ok(found),
            Err(error) => Err(self.unknown(name, &error)),
        }
    }

    fn ask(&self, path: &str, limit: Duration) -> Result<Registered, InferError> {
        let answer = self.questions.get(path, Patience::Within(limit))?;
        if answer.status != 200 {
            return Err(refusal(&answer));
        }
        Registered::read(&answer.body).map_err(malformed)
    }

    fn unknown(&self, name: &str, error: &InferError) -> Error {
        let next = match error.code {
            ErrorCode::Http(404) => "register it, or name another with -m or -x",
            ErrorCode::Http(400..=403) => "pass the key for management with --management-key KEY",
            _ if error.code == ErrorCode::from(NO_WORKER) => {
                "scale it up (PUT /models/NAME?min_worker=1), or wait for it with --server-wait SECONDS"
            }
            _ => "name the management port with --management-url, or leave that out",
        };
        Error::server(format!("--management-url {}: model '{name}': {error}; {next}", self.questions.url()))
    }
}

/// The code for a model that is not registered.
const NO_WORKER: &str = "Unavailable";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_registered_is_told_in_a_line() {
        let body = br#"[{"modelName":"m","modelVersion":"1.0","modelUrl":"m.mar","runtime":"python","minWorkers":2,"maxWorkers":2,
            "batchSize":4,"maxBatchDelay":50,"loadedAtStartup":true,
            "workers":[{"id":"9000","status":"READY","gpu":false},{"id":"9001","status":"LOADING"}],
            "jobQueueStatus":{"remainingCapacity":100,"pendingRequests":0}}]"#;
        let found = Registered::read(body).unwrap();
        assert_eq!((found.ready(), found.batch_size, found.runtime.as_str()), (1, 4, "python"));
        assert_eq!(
            found.note("m"),
            "model 'm 1.0': 1 of 2 workers are ready, which take up to 4 requests at once and wait up to 50 ms for that many"
        );
        let plain = Registered { workers: found.workers, batch_size: 1, ..Registered::default() };
        assert_eq!(plain.note("m"), "model 'm': 1 of 2 workers are ready, each of which takes one request at a time");
        for other in [&b"[]"[..], b"{}", b"[1]", b"", br#"[{"batchSize":-1}]"#] {
            assert!(Registered::read(other).is_err(), "{}", String::from_utf8_lossy(other));
        }
    }
}
