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
    pub fn new(name: Option<String>, version: Option<String>) -> Option<Self> {
        let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
        let identity = Self { name, version, backends: Vec::new() };
        (!identity.name.is_empty() || !identity.version.is_empty()).then_some(identity)
    }

    /// Whether it is a Triton older than this release of its core.
    pub fn is_triton_before(&self, major: u32, minor: u32) -> bool {
        let release = release(&self.version);
        self.name == "triton" && (1, 0) <= release && release < (major, minor)
    }
}

/// A release of Triton's core by its version, such as (2, 51); (0, 0) for what is no version.
pub fn release(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_numbers_are_compared_by_part() {
        assert_eq!(release("2.51.0"), (2, 51));
        assert!(release("2.61.0") > release("2.9.1"));
        assert_eq!(release("unknown"), (0, 0));
        let is_old = |name: &str, version: &str| {
            ServerIdentity::new(Some(name.to_owned()), Some(version.to_owned())).unwrap().is_triton_before(2, 35)
        };
        assert!(is_old("triton", "2.33.0") && !is_old("triton", "2.35.0"));
        assert!(!is_old("triton", "custom") && !is_old("other", "1.0.0"));
    }
}
