//! Whether a loaded model takes requests.

use std::time::Duration;

use crate::backend::IndexEntry;
use crate::c_api::ffi::Server;
use crate::c_api::index;
use crate::engine::ServerWait;
use crate::error::{Error, Result};
use crate::model::ModelId;
use crate::unready::UNREADY;

/// Waits for a loaded model to be ready, unless it lacks the requested version.
///
/// # Errors
/// Why it is not.
pub fn await_ready(server: &Server, id: &ModelId, limit: Duration) -> Result<()> {
    let is_ready = |_| if server.is_ready(id) { Ok(()) } else { Err(UNREADY) };
    ServerWait::new(limit).retry(is_ready, |_| !is_loaded(server, id)).map_err(|unready: &str| {
        if !is_loaded(server, id) {
            return lacks_version(server, id);
        }
        let reason = server.unready_reason(id).unwrap_or_else(|| unready.to_owned());
        let waited = limit.as_secs_f64();
        Error::server(format!("model '{id}' was not ready within {waited} s (--server-wait): {reason}"))
    })
}

/// Whether the requested version is loaded, or any if none was requested.
fn is_loaded(server: &Server, id: &ModelId) -> bool {
    let is_wanted = |entry: &IndexEntry| id.version.is_none_or(|version| entry.version == version.to_string());
    let loaded = |entry: &IndexEntry| entry.name == id.name && entry.state == "READY" && is_wanted(entry);
    index(server).is_ok_and(|entries| entries.iter().any(loaded))
}

fn lacks_version(server: &Server, id: &ModelId) -> Error {
    let latest = ModelId::latest(&id.name);
    let metadata = server.model_metadata(&latest).unwrap_or_default();
    let versions = metadata["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let versions: Vec<&str> = versions.iter().filter_map(|version| version.as_str()).collect();
    Error::server(match id.version {
        Some(version) => {
            let ready = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
            format!(
                "model '{}' has no version {version} that is ready: name another (-x, --model-mix); ready: {ready}",
                id.name
            )
        }
        None => format!("model '{}' is loaded but has no version that is ready; look at its version_policy", id.name),
    })
}
