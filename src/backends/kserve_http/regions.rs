//! Shared memory over HTTP.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::json;

use crate::backend::InferError;
use crate::engine::http1::{Patience, Questions};
use crate::engine::malformed;
use crate::kserve::regions::{Handle, Kind, ListedRegion, RegionCalls};

/// A region that the server knows.
#[derive(Deserialize)]
struct RegionStatus {
    name: String,
    key: String,
}

impl RegionCalls for Questions {
    fn protocol(&self) -> &'static str {
        "http"
    }

    fn server(&self) -> String {
        self.url()
    }

    fn register(&self, name: &str, handle: Handle<'_>, bytes: u64, limit: Duration) -> Result<(), InferError> {
        let (kind, body) = match handle {
            Handle::System { key } => (Kind::System, json!({"key": key, "offset": 0, "byte_size": bytes})),
            Handle::Cuda { device, raw } => {
                let raw = json!({"b64": BASE64_STANDARD.encode(raw)});
                (Kind::Cuda, json!({"raw_handle": raw, "device_id": device, "byte_size": bytes}))
            }
        };
        send(self, &path(self, kind, name, "register"), &body.to_string(), Patience::Within(limit))
    }

    fn unregister(&self, name: &str, kind: Kind) -> Result<(), InferError> {
        send(self, &path(self, kind, name, "unregister"), "", Patience::Sample)
    }

    fn listed(&self) -> Result<Vec<ListedRegion>, InferError> {
        let answer = self.get(&format!("{}/v2/systemsharedmemory/status", self.prefix()), Patience::Sample)?;
        if let Some(refusal) = answer.refusal() {
            return Err(refusal);
        }
        let regions: Vec<RegionStatus> =
            serde_json::from_slice(&answer.body).map_err(|error| malformed(error.to_string()))?;
        Ok(regions.into_iter().map(|RegionStatus { name, key }| ListedRegion { name, key }).collect())
    }
}

fn path(questions: &Questions, kind: Kind, name: &str, verb: &str) -> String {
    let kind = match kind {
        Kind::System => "systemsharedmemory",
        Kind::Cuda => "cudasharedmemory",
    };
    format!("{}/v2/{kind}/region/{name}/{verb}", questions.prefix())
}

fn send(questions: &Questions, path: &str, body: &str, patience: Patience) -> Result<(), InferError> {
    questions.post(path, body, patience)?.refusal().map_or(Ok(()), Err)
}
