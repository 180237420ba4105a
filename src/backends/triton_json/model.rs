//! Metadata and configurations. Unused parts are skipped while parsing, so that a long answer takes little memory.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::{ConfigMark, CorrelationForm, DataType, ModelId, ModelSpec, Scheduler, TensorSpec};
use crate::triton_json::number::{Dimension, Number, or_default};

/// An element type, or the unknown word.
#[derive(Clone, Debug)]
struct Kind(Result<DataType, Box<str>>);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(Self(DataType::parse(&word).ok_or_else(|| word.into())))
    }
}

/// A model's metadata (from `/v2/models/M`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MetadataJson {
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    platform: String,
    #[serde(default, deserialize_with = "or_default")]
    inputs: Vec<TensorJson>,
    #[serde(default, deserialize_with = "or_default")]
    outputs: Vec<TensorJson>,
}

/// An input or output of the metadata.
#[derive(Clone, Debug, Deserialize)]
struct TensorJson {
    name: String,
    datatype: Kind,
    #[serde(default, deserialize_with = "or_default")]
    shape: Vec<Dimension>,
}

/// A model's configuration (from `/v2/models/M/config`).
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ConfigJson {
    #[serde(default)]
    max_batch_size: Number,
    #[serde(default, deserialize_with = "or_default")]
    input: Vec<SettingsJson>,
    #[serde(default, deserialize_with = "or_default")]
    output: Vec<SettingsJson>,
    sequence_batching: Option<SequencesJson>,
    dynamic_batching: Option<IgnoredAny>,
    ensemble_scheduling: Option<EnsembleJson>,
    #[serde(default, deserialize_with = "or_default")]
    model_transaction_policy: PolicyJson,
    #[serde(default, deserialize_with = "or_default")]
    response_cache: CacheJson,
}

/// An input or output of the configuration.
#[derive(Clone, Debug, Deserialize)]
struct SettingsJson {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    optional: bool,
    #[serde(default, deserialize_with = "or_default")]
    is_shape_tensor: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct EnsembleJson {
    #[serde(default, deserialize_with = "or_default")]
    step: Vec<StepJson>,
}

#[derive(Clone, Debug, Deserialize)]
struct StepJson {
    model_name: String,
    #[serde(default)]
    model_version: Number,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SequencesJson {
    #[serde(default, deserialize_with = "or_default")]
    control_input: Vec<ControlInputJson>,
}

#[derive(Clone, Debug, Deserialize)]
struct ControlInputJson {
    #[serde(default, deserialize_with = "or_default")]
    control: Vec<ControlJson>,
}

#[derive(Clone, Debug, Deserialize)]
struct ControlJson {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    data_type: String,
}

impl SequencesJson {
    /// How the model's backend wants correlation IDs, if it gets them.
    fn correlation(&self) -> CorrelationForm {
        let mut controls = self.control_input.iter().flat_map(|input| &input.control);
        let is_text =
            |control: &ControlJson| control.kind == "CONTROL_SEQUENCE_CORRID" && control.data_type == "TYPE_STRING";
        if controls.any(is_text) { CorrelationForm::Text } else { CorrelationForm::Number }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PolicyJson {
    #[serde(default, deserialize_with = "or_default")]
    decoupled: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct CacheJson {
    #[serde(default, deserialize_with = "or_default")]
    enable: bool,
}

/// Parses `metadata` (from `/v2/models/M`) and `config` (from `/v2/models/M/config`) of model `id`.
///
/// # Errors
/// If a member is missing or has another form than the protocol's; the message names it.
pub fn model(id: &ModelId, metadata: &Value, config: &Value) -> Result<ModelSpec> {
    let refuse = |part, error| Error::server(format!("model '{id}': its {part} cannot be read: {error}"));
    let metadata = MetadataJson::deserialize(metadata).map_err(|error| refuse("metadata", error))?;
    let mark = ConfigMark::new(config);
    let config = ConfigJson::deserialize(config).map_err(|error| refuse("configuration", error))?;
    Ok(ModelSpec { config: mark, ..model_of(id, metadata, &config)? })
}

/// The same from parsed JSON.
///
/// # Errors
/// If a tensor has an unknown datatype.
pub fn model_of(id: &ModelId, metadata: MetadataJson, config: &ConfigJson) -> Result<ModelSpec> {
    let scheduler = match config {
        config if config.sequence_batching.is_some() => Scheduler::Sequence,
        config if config.ensemble_scheduling.is_some() => Scheduler::Ensemble,
        config if config.dynamic_batching.is_some() => Scheduler::Dynamic,
        _ => Scheduler::Default,
    };
    let max_batch_size = config.max_batch_size.unsigned();
    let batched = max_batch_size > 0;
    Ok(ModelSpec {
        id: id.clone(),
        versions: metadata.versions,
        platform: metadata.platform,
        max_batch_size,
        inputs: tensors(id, metadata.inputs, &config.input, batched)?,
        outputs: tensors(id, metadata.outputs, &config.output, batched)?,
        scheduler,
        sequences: scheduler == Scheduler::Sequence,
        correlation: config.sequence_batching.as_ref().map(SequencesJson::correlation).unwrap_or_default(),
        decoupled: config.model_transaction_policy.decoupled,
        response_cache: config.response_cache.enable,
        composing: config.ensemble_scheduling.as_ref().map_or_else(Vec::new, |ensemble| composing(&ensemble.step)),
        config: ConfigMark::default(),
    })
}

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
    // Metadata include the batch dimension for shape tensors, too, though these are never batched.
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
    let mut ids_seen = HashSet::new();
    let id = |step: &StepJson| ModelId {
        name: step.model_name.clone(),
        version: u64::try_from(step.model_version.signed()).ok().filter(|&version| version > 0),
    };
    steps.iter().map(id).filter(|id| ids_seen.insert(id.clone())).collect()
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
        let spec = model(&ModelId::latest("m"), &metadata, &config).unwrap();
        assert_eq!(spec.inputs[0].shape, [16]);
        assert!(spec.inputs[0].optional);
        assert_eq!(spec.inputs[0].fixed_bytes(), Some(64));
        assert_eq!(spec.inputs[1].shape, [2]);
        assert_eq!(spec.outputs[0].shape, [-1]);
        assert_eq!(spec.outputs[0].fixed_bytes(), None);
        assert_eq!(spec.scheduler, Scheduler::Dynamic);
    }

    #[test]
    fn the_control_of_correlation_ids_decides_their_form() {
        let form = |control: Value| {
            let config = json!({"sequence_batching": {"control_input": [{"name": "ID", "control": [control]}]}});
            model(&ModelId::latest("s"), &json!({}), &config).unwrap().correlation
        };
        assert_eq!(form(json!({"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_STRING"})), CorrelationForm::Text);
        assert_eq!(
            form(json!({"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"})),
            CorrelationForm::Number
        );
        assert_eq!(
            form(json!({"kind": "CONTROL_SEQUENCE_START", "data_type": "TYPE_INVALID"})),
            CorrelationForm::Number
        );
    }

    #[test]
    fn ensemble_steps_are_named_once() {
        let config = json!({"max_batch_size": 0, "ensemble_scheduling": {"step": [
            {"model_name": "a", "model_version": -1}, {"model_name": "b", "model_version": "3"}, {"model_name": "a", "model_version": -1}]}});
        let spec = model(&ModelId::latest("e"), &json!({}), &config).unwrap();
        assert_eq!(spec.scheduler, Scheduler::Ensemble);
        assert_eq!(spec.composing, [ModelId::latest("a"), ModelId { name: "b".into(), version: Some(3) }]);
    }
}
