//! A fingerprint of a configuration.

use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::canonical::canonical;

/// A fingerprint of a model's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMark {
    /// The backend that runs the model, such as `python`; empty if the server does not say.
    pub backend: String,
    /// SHA-256 of the canonical configuration, including auto-completed parts; `None` if the server does not report the
    /// configuration, or over gRPC has fields that this program does not know.
    pub hash: Option<String>,
}

impl ConfigMark {
    /// The fingerprint of a configuration: the same in process, over HTTP and over gRPC. JSON objects are sorted here.
    pub fn new(config: &Value) -> Self {
        let backend = config["backend"].as_str().unwrap_or_default().to_owned();
        let bytes = digest(&SHA256, canonical(config).to_string().as_bytes());
        let hash = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { backend, hash: Some(hash) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_and_every_value_does() {
        let mark = |text: &str| ConfigMark::new(&serde_json::from_str(text).unwrap());
        let first = mark(r#"{"backend":"python","max_batch_size":8}"#);
        assert_eq!(first, mark(r#"{ "max_batch_size": 8, "backend": "python" }"#));
        assert_ne!(first.hash, mark(r#"{"backend":"python","max_batch_size":4}"#).hash);
        assert_eq!((first.backend.as_str(), first.hash.map(|hash| hash.len())), ("python", Some(64)));
    }
}
