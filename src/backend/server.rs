//! What a server calls itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a server calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerIdentity {
    /// Its name, such as `triton`.
    pub name: String,
    /// Its version, such as `2.51.0`.
    pub version: String,
}

impl ServerIdentity {
    /// What it says; none where that is nothing.
    pub fn of(name: Option<String>, version: Option<String>) -> Option<Self> {
        let identity = Self { name: name.unwrap_or_default(), version: version.unwrap_or_default() };
        (!identity.name.is_empty() || !identity.version.is_empty()).then_some(identity)
    }
}
