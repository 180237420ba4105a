//! What a server calls itself, and what it runs models with.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a server calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerIdentity {
    /// Its name, such as `triton`.
    pub name: String,
    /// Its version, such as `2.51.0`.
    pub version: String,
    /// The backends that run the models, in process; no network protocol reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendIdentity>,
}

impl ServerIdentity {
    /// What it says; none if that is nothing.
    pub fn of(name: Option<String>, version: Option<String>) -> Option<Self> {
        let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
        let identity = Self { name, version, backends: Vec::new() };
        (!identity.name.is_empty() || !identity.version.is_empty()).then_some(identity)
    }
}

/// The build of a backend, identified by what is loaded, because Triton's backends report no version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendIdentity {
    /// Its name, such as `onnxruntime`.
    pub name: String,
    /// The library that is loaded.
    #[schemars(with = "String")]
    pub library: PathBuf,
    /// SHA-256 of that file; absent if it cannot be read, or is larger than 256 MiB.
    pub sha256: Option<String>,
    /// Loaded libraries next to it that have a version in their names, such as `libonnxruntime.so.1.19.2`.
    pub versions: Vec<String>,
}
