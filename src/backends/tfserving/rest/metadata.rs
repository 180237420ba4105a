//! What the server says of a model, in JSON.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::tfserving::datatype;
use crate::tfserving::signature::{Metadata, Signature, Tensor};

#[derive(Deserialize)]
struct StatusJson {
    #[serde(default)]
    model_version_status: Vec<VersionJson>,
}

#[derive(Deserialize)]
struct VersionJson {
    #[serde(default)]
    version: Value,
    #[serde(default)]
    state: String,
    #[serde(default)]
    status: ReasonJson,
}

#[derive(Default, Deserialize)]
struct ReasonJson {
    #[serde(default)]
    error_message: String,
}

/// The states of a model's versions if none is available. A body without versions is no obstacle.
pub fn unavailable(body: &[u8]) -> Option<String> {
    let StatusJson { model_version_status: versions } = serde_json::from_slice(body).ok()?;
    if versions.is_empty() || versions.iter().any(|version| version.state == "AVAILABLE") {
        return None;
    }
    let state = |VersionJson { version, state, status }: &VersionJson| {
        let version = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
        let reason = if status.error_message.is_empty() { "" } else { ", " };
        format!("version {version} is {state}{reason}{}", status.error_message)
    };
    Some(versions.iter().take(4).map(state).collect::<Vec<_>>().join("; "))
}

/// The answer to the question for metadata.
#[derive(Deserialize)]
pub struct Answer {
    metadata: MetadataJson,
}

#[derive(Deserialize)]
struct MetadataJson {
    signature_def: SignaturesJson,
}

#[derive(Deserialize)]
struct SignaturesJson {
    signature_def: BTreeMap<String, SignatureJson>,
}

#[derive(Deserialize)]
struct SignatureJson {
    #[serde(default)]
    inputs: BTreeMap<String, TensorJson>,
    #[serde(default)]
    outputs: BTreeMap<String, TensorJson>,
}

#[derive(Deserialize)]
struct TensorJson {
    #[serde(default)]
    dtype: String,
    #[serde(default)]
    tensor_shape: ShapeJson,
}

#[derive(Default, Deserialize)]
struct ShapeJson {
    #[serde(default)]
    dim: Vec<DimJson>,
    #[serde(default)]
    unknown_rank: bool,
}

#[derive(Deserialize)]
struct DimJson {
    #[serde(default)]
    size: Value,
}

impl Answer {
    /// What it says of the signature `wanted`.
    pub fn metadata(self, wanted: &str) -> Metadata {
        let mut metadata = Metadata::default();
        for (name, signature) in self.metadata.signature_def.signature_def {
            metadata.note(&name);
            if name == wanted {
                let tensors = |tensors: BTreeMap<String, TensorJson>| {
                    tensors.into_iter().map(|(name, info)| tensor(name, info)).collect()
                };
                metadata.signature =
                    Some(Signature { inputs: tensors(signature.inputs), outputs: tensors(signature.outputs) });
            }
        }
        metadata
    }
}

fn tensor(name: String, info: TensorJson) -> Tensor {
    let TensorJson { dtype, tensor_shape } = info;
    // Whole numbers of 64 bits are text in this JSON.
    let size = |DimJson { size }: &DimJson| {
        let number = size.as_i64().or_else(|| size.as_str()?.parse().ok());
        number.unwrap_or(0).max(-1)
    };
    let dims = (!tensor_shape.unknown_rank).then(|| tensor_shape.dim.iter().map(size).collect());
    Tensor { name, datatype: datatype::of_name(&dtype), dims }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DataType;

    #[test]
    fn signatures_and_states_are_read() {
        let answer: Answer = serde_json::from_str(
            r#"{"model_spec": {"name": "m"}, "metadata": {"signature_def": {"signature_def": {"s": {"inputs": {
                "x": {"dtype": "DT_HALF", "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": 3}], "unknown_rank": false}},
                "z": {"dtype": "DT_VARIANT", "tensor_shape": {"unknown_rank": true}}}}}}}}"#,
        )
        .unwrap();
        let signature = answer.metadata("s").signature.unwrap();
        assert_eq!(
            (&signature.inputs[0].datatype, &signature.inputs[0].dims),
            (&Ok(DataType::Fp16), &Some(vec![-1, 3]))
        );
        assert_eq!(signature.inputs[1].dims, None);
        let loading =
            br#"{"model_version_status": [{"version": "3", "state": "LOADING", "status": {"error_message": "x"}}]}"#;
        assert_eq!(unavailable(loading).unwrap(), "version 3 is LOADING, x");
        assert_eq!(unavailable(br#"{"model_version_status": [{"version": "3", "state": "AVAILABLE"}]}"#), None);
    }
}
