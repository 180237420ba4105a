//! [`ModelSpec`], read from the metadata and configuration JSON that Triton's C API and HTTP endpoint share.

use std::fmt;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::DataType;

/// A model by name and, if asked for, version. No version means the latest that is ready.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId {
    /// Name in the repository.
    pub name: String,
    /// Version number, or the server's choice.
    pub version: Option<u64>,
}

impl ModelId {
    /// The latest version of `name`.
    pub fn latest(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: None }
    }

    /// The version as the C API wants it: -1 for the server's choice.
    pub fn version_code(&self) -> i64 {
        self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}:{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub datatype: DataType,
    /// Dimensions of one batch element (the batch dimension is not here); -1 where the request decides.
    pub shape: Vec<i64>,
    /// An input that a request may leave out.
    pub optional: bool,
    /// A shape tensor: its values are dimensions, it has no batch dimension and is sent once per batch.
    pub shape_tensor: bool,
}

impl TensorSpec {
    /// Elements of one batch element, if every dimension is fixed.
    pub fn fixed_elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(u64::try_from(dim).ok()?))
    }

    /// Bytes of one batch element, if every dimension is fixed and elements have a fixed size.
    pub fn fixed_bytes(&self) -> Option<u64> {
        self.fixed_elements()?.checked_mul(self.datatype.size()? as u64)
    }
}

/// How the server schedules a model's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// One request at a time per instance.
    Default,
    /// Requests are merged into batches.
    Dynamic,
    /// Requests of a sequence go to one instance, in order.
    Sequence,
    /// A graph of other models.
    Ensemble,
}

/// Everything about a model that the load, the data and the report need.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// The name, and the version that was asked for.
    pub id: ModelId,
    /// Versions that the server offers, as it writes them.
    pub versions: Vec<String>,
    /// `platform` of the metadata.
    pub platform: String,
    /// 0 where the model does not batch.
    pub max_batch_size: u64,
    /// Inputs in the model's order.
    pub inputs: Vec<TensorSpec>,
    /// Outputs in the model's order.
    pub outputs: Vec<TensorSpec>,
    /// How requests are scheduled.
    pub scheduler: Scheduler,
    /// Any number of responses may come for a request.
    pub decoupled: bool,
    /// Responses may come from the server's cache.
    pub response_cache: bool,
    /// Whether requests belong to sequences: because of its scheduler, or because a model that it calls has such a one.
    pub sequences: bool,
    /// Models that this ensemble's steps name, without repeats.
    pub composing: Vec<ModelId>,
}

impl ModelSpec {
    /// Reads `metadata` (as of `/v2/models/M`) and `config` (as of `/v2/models/M/config`) of model `id`.
    ///
    /// # Errors
    /// Where a member is missing or has another form than the protocol's; the message names it.
    pub fn from_json(id: &ModelId, metadata: &Value, config: &Value) -> Result<Self> {
        let max_batch_size = number(&config["max_batch_size"]).unwrap_or(0);
        let scheduler = match config {
            config if config.get("sequence_batching").is_some() => Scheduler::Sequence,
            config if config.get("ensemble_scheduling").is_some() => Scheduler::Ensemble,
            config if config.get("dynamic_batching").is_some() => Scheduler::Dynamic,
            _ => Scheduler::Default,
        };
        let batched = max_batch_size > 0;
        Ok(Self {
            id: id.clone(),
            versions: strings(&metadata["versions"]),
            platform: metadata["platform"].as_str().unwrap_or_default().to_owned(),
            max_batch_size,
            inputs: tensors(id, &metadata["inputs"], &config["input"], batched)?,
            outputs: tensors(id, &metadata["outputs"], &config["output"], batched)?,
            scheduler,
            sequences: scheduler == Scheduler::Sequence,
            decoupled: config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false),
            response_cache: config["response_cache"]["enable"].as_bool().unwrap_or(false),
            composing: composing(&config["ensemble_scheduling"]["step"]),
        })
    }
}

fn tensors(id: &ModelId, metadata: &Value, config: &Value, batched: bool) -> Result<Vec<TensorSpec>> {
    let entries = metadata.as_array().map_or(&[][..], Vec::as_slice);
    entries.iter().map(|entry| tensor(id, entry, config, batched)).collect()
}

fn tensor(id: &ModelId, entry: &Value, config: &Value, batched: bool) -> Result<TensorSpec> {
    let name = entry["name"].as_str().unwrap_or_default();
    let datatype = entry["datatype"].as_str().unwrap_or_default();
    let datatype = DataType::parse(datatype).ok_or_else(|| {
        Error::server(format!(
            "model '{id}': tensor '{name}' has datatype '{datatype}', which this program does not know"
        ))
    })?;
    let settings = config.as_array().and_then(|list| list.iter().find(|item| item["name"] == entry["name"]));
    let flag = |key: &str| settings.and_then(|item| item[key].as_bool()).unwrap_or(false);
    let shape_tensor = flag("is_shape_tensor");
    let mut shape: Vec<i64> = entry["shape"].as_array().map_or(&[][..], Vec::as_slice).iter().map(signed).collect();
    // Metadata have it in front of shape tensors, too, though these are never batched.
    if batched && !shape.is_empty() {
        shape.remove(0);
    }
    Ok(TensorSpec { name: name.to_owned(), datatype, shape, optional: flag("optional"), shape_tensor })
}

fn composing(steps: &Value) -> Vec<ModelId> {
    let mut models = Vec::new();
    for step in steps.as_array().map_or(&[][..], Vec::as_slice) {
        let version = signed(&step["model_version"]);
        let id = ModelId {
            name: step["model_name"].as_str().unwrap_or_default().to_owned(),
            version: u64::try_from(version).ok().filter(|&version| version > 0),
        };
        if !models.contains(&id) {
            models.push(id);
        }
    }
    models
}

/// An integer that JSON may carry as a number or, as protobuf's JSON does for 64 bits, as a string. -1 if neither.
fn signed(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(-1)
}

fn number(value: &Value) -> Option<u64> {
    u64::try_from(signed(value)).ok()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn batch_dimension_is_dropped_and_flags_are_read() {
        let metadata = json!({"name": "m", "versions": ["1"], "platform": "", "inputs": [
            {"name": "A", "datatype": "FP32", "shape": [-1, 16]},
            {"name": "S", "datatype": "INT32", "shape": [-1, 2]}],
            "outputs": [{"name": "B", "datatype": "BYTES", "shape": [-1, -1]}]});
        let config = json!({"max_batch_size": 8, "dynamic_batching": {},
            "input": [{"name": "A", "optional": true}, {"name": "S", "is_shape_tensor": true}]});
        let spec = ModelSpec::from_json(&ModelId::latest("m"), &metadata, &config).unwrap();
        assert_eq!(spec.inputs[0].shape, [16]);
        assert!(spec.inputs[0].optional);
        assert_eq!(spec.inputs[0].fixed_bytes(), Some(64));
        assert_eq!(spec.inputs[1].shape, [2]);
        assert_eq!(spec.outputs[0].shape, [-1]);
        assert_eq!(spec.outputs[0].fixed_bytes(), None);
        assert_eq!(spec.scheduler, Scheduler::Dynamic);
    }

    #[test]
    fn ensemble_steps_are_named_once() {
        let config = json!({"max_batch_size": 0, "ensemble_scheduling": {"step": [
            {"model_name": "a", "model_version": -1}, {"model_name": "b", "model_version": "3"}, {"model_name": "a", "model_version": -1}]}});
        let spec = ModelSpec::from_json(&ModelId::latest("e"), &json!({}), &config).unwrap();
        assert_eq!(spec.scheduler, Scheduler::Ensemble);
        assert_eq!(spec.composing, [ModelId::latest("a"), ModelId { name: "b".into(), version: Some(3) }]);
    }
}
