//! [`ModelSpec`], read from the metadata and configuration JSON that Triton's C API and HTTP endpoint share.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::json::{ConfigJson, Dimension, Kind, MetadataJson, SettingsJson, StepJson, TensorJson};
use crate::model::{ConfigMark, DataType};

/// A model by name and, if asked for, version. No version means the latest that is ready.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// A tensor that every request has, with a batch dimension where the model has one.
    pub fn plain(name: impl Into<String>, datatype: DataType, shape: Vec<i64>) -> Self {
        Self { name: name.into(), datatype, shape, optional: false, shape_tensor: false }
    }

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
    /// By what its configuration is known again.
    pub config: ConfigMark,
}

impl ModelSpec {
    /// A model of which nothing but its tensors is known: it neither batches nor keeps sequences, and answers each request once.
    pub fn plain(id: &ModelId, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Self {
        Self {
            id: id.clone(),
            versions: Vec::new(),
            platform: String::new(),
            max_batch_size: 0,
            inputs,
            outputs,
            scheduler: Scheduler::Default,
            decoupled: false,
            response_cache: false,
            sequences: false,
            composing: Vec::new(),
            config: ConfigMark::default(),
        }
    }

    /// This model, of which the server tells the tensors alone. With `batches`, it batches where the first dimension of every
    /// input is open.
    pub fn unconfigured(mut self, batches: bool) -> Self {
        let is_open = |tensor: &TensorSpec| tensor.shape.first() == Some(&-1);
        if batches && !self.inputs.is_empty() && self.inputs.iter().all(is_open) {
            self.max_batch_size = ANY_BATCH;
            for tensor in self.inputs.iter_mut().chain(&mut self.outputs) {
                match is_open(tensor) {
                    true => drop(tensor.shape.remove(0)),
                    false => tensor.shape_tensor = true,
                }
            }
        }
        self
    }

    /// Reads `metadata` (as of `/v2/models/M`) and `config` (as of `/v2/models/M/config`) of model `id`.
    ///
    /// # Errors
    /// Where a member is missing or has another form than the protocol's; the message names it.
    pub fn from_json(id: &ModelId, metadata: &Value, config: &Value) -> Result<Self> {
        let refuse = |what, error| Error::server(format!("model '{id}': its {what} cannot be read: {error}"));
        let metadata = MetadataJson::deserialize(metadata).map_err(|error| refuse("metadata", error))?;
        let mark = ConfigMark::of(config);
        let config = ConfigJson::deserialize(config).map_err(|error| refuse("configuration", error))?;
        Ok(Self { config: mark, ..Self::new(id, metadata, &config)? })
    }

    /// The same of JSON that was read already.
    ///
    /// # Errors
    /// Where a tensor has an unknown datatype.
    pub fn new(id: &ModelId, metadata: MetadataJson, config: &ConfigJson) -> Result<Self> {
        let scheduler = match config {
            config if config.sequence_batching.is_some() => Scheduler::Sequence,
            config if config.ensemble_scheduling.is_some() => Scheduler::Ensemble,
            config if config.dynamic_batching.is_some() => Scheduler::Dynamic,
            _ => Scheduler::Default,
        };
        let max_batch_size = config.max_batch_size.unsigned();
        let batched = max_batch_size > 0;
        Ok(Self {
            id: id.clone(),
            versions: metadata.versions,
            platform: metadata.platform,
            max_batch_size,
            inputs: tensors(id, metadata.inputs, &config.input, batched)?,
            outputs: tensors(id, metadata.outputs, &config.output, batched)?,
            scheduler,
            sequences: scheduler == Scheduler::Sequence,
            decoupled: config.model_transaction_policy.decoupled,
            response_cache: config.response_cache.enable,
            composing: config.ensemble_scheduling.as_ref().map_or_else(Vec::new, |ensemble| composing(&ensemble.step)),
            config: ConfigMark::default(),
        })
    }
}

/// Batches that a model may take of which nobody says how large they may be.
const ANY_BATCH: u64 = u32::MAX as u64;

fn tensors(id: &ModelId, metadata: Vec<TensorJson>, config: &[SettingsJson], batched: bool) -> Result<Vec<TensorSpec>> {
    let settings: HashMap<&str, &SettingsJson> = config.iter().rev().map(|item| (item.name.as_str(), item)).collect();
    metadata.into_iter().map(|entry| tensor(id, entry, &settings, batched)).collect()
}

fn tensor(
    id: &ModelId,
    entry: TensorJson,
    settings: &HashMap<&str, &SettingsJson>,
    batched: bool,
) -> Result<TensorSpec> {
    let TensorJson { name, datatype: Kind(datatype), shape } = entry;
    let datatype = datatype.map_err(|word| {
        Error::server(format!("model '{id}': tensor '{name}' has datatype '{word}', which this program does not know"))
    })?;
    let settings = settings.get(name.as_str());
    // Metadata have the batch dimension in front of shape tensors, too, though these are never batched.
    let shape = shape.into_iter().map(|Dimension(dimension)| dimension).skip(usize::from(batched)).collect();
    Ok(TensorSpec {
        datatype,
        shape,
        optional: settings.is_some_and(|item| item.optional),
        shape_tensor: settings.is_some_and(|item| item.is_shape_tensor),
        name,
    })
}

fn composing(steps: &[StepJson]) -> Vec<ModelId> {
    let mut known = HashSet::new();
    let id = |step: &StepJson| ModelId {
        name: step.model_name.clone(),
        version: u64::try_from(step.model_version.signed()).ok().filter(|&version| version > 0),
    };
    steps.iter().map(id).filter(|id| known.insert(id.clone())).collect()
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
    fn without_a_configuration_open_first_dimensions_are_batches_if_asked() {
        let tensor = |name: &str, shape: &[i64]| TensorSpec::plain(name, DataType::Fp32, shape.to_vec());
        let of = |inputs, outputs| ModelSpec::plain(&ModelId::latest("m"), inputs, outputs);
        let open = of(vec![tensor("A", &[-1, 4])], vec![tensor("B", &[-1]), tensor("C", &[2])]);
        assert_eq!(open.clone().unconfigured(false), open);
        let batching = open.unconfigured(true);
        assert_eq!((batching.max_batch_size, batching.inputs[0].shape.as_slice()), (ANY_BATCH, &[4][..]));
        assert_eq!((batching.outputs[0].shape.len(), batching.outputs[0].shape_tensor), (0, false));
        assert_eq!((batching.outputs[1].shape.as_slice(), batching.outputs[1].shape_tensor), (&[2][..], true));
        for inputs in [vec![tensor("A", &[-1]), tensor("B", &[3, -1])], vec![tensor("A", &[])], vec![]] {
            let fixed = of(inputs, vec![]);
            assert_eq!(fixed.clone().unconfigured(true), fixed);
        }
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
