//! Models from the messages of the control plane.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::kserve_grpc::proto::{ModelConfig, ModelMetadata, TensorFlags, TensorMetadata};
use crate::model::{DataType, ModelId, ModelSpec, Scheduler, TensorSpec};

/// The model that `metadata` and `config` describe.
///
/// # Errors
/// If a tensor has a datatype that this program does not know.
pub fn model(id: &ModelId, metadata: ModelMetadata, config: &ModelConfig) -> Result<ModelSpec> {
    let batched = config.max_batch_size > 0;
    let tensors = |entries: &[TensorMetadata], flags: &[TensorFlags]| {
        let flags: HashMap<&str, &TensorFlags> = flags.iter().map(|flags| (flags.name.as_str(), flags)).collect();
        let flags = |name: &str| flags.get(name).copied();
        entries.iter().map(|entry| tensor(id, entry, flags(&entry.name), batched)).collect::<Result<_>>()
    };
    Ok(ModelSpec {
        id: id.clone(),
        inputs: tensors(&metadata.inputs, &config.input)?,
        outputs: tensors(&metadata.outputs, &config.output)?,
        versions: metadata.versions,
        platform: metadata.platform,
        max_batch_size: u64::try_from(config.max_batch_size).unwrap_or(0),
        scheduler: scheduler(config),
        sequences: config.sequence_batching,
        correlation: config.correlation,
        decoupled: config.decoupled,
        response_cache: config.response_cache,
        composing: composing(config),
        config: config.mark.clone(),
    })
}

fn scheduler(config: &ModelConfig) -> Scheduler {
    if config.sequence_batching {
        Scheduler::Sequence
    } else if config.ensemble_steps.is_some() {
        Scheduler::Ensemble
    } else if config.dynamic_batching {
        Scheduler::Dynamic
    } else {
        Scheduler::Default
    }
}

/// A tensor as the metadata describe it, with the `flags` of its configuration.
fn tensor(id: &ModelId, entry: &TensorMetadata, flags: Option<&TensorFlags>, batched: bool) -> Result<TensorSpec> {
    let (name, datatype) = (&entry.name, &entry.datatype);
    let element_type = DataType::parse(datatype).ok_or_else(|| {
        Error::server(format!(
            "model '{id}': tensor '{name}' has datatype '{datatype}', which this program does not know"
        ))
    })?;
    // Metadata include it for shape tensors, too, though these are never batched.
    let dropped = usize::from(batched && !entry.shape.is_empty());
    let shape = entry.shape[dropped..].to_vec();
    Ok(TensorSpec {
        name: name.clone(),
        datatype: element_type,
        shape,
        optional: flags.is_some_and(|flags| flags.optional),
        shape_tensor: flags.is_some_and(|flags| flags.is_shape_tensor),
    })
}

fn composing(config: &ModelConfig) -> Vec<ModelId> {
    let mut models = Vec::new();
    for (name, version) in config.ensemble_steps.iter().flatten() {
        let version = u64::try_from(*version).ok().filter(|&version| version > 0);
        let id = ModelId { name: name.clone(), version };
        if !models.contains(&id) {
            models.push(id);
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, datatype: &str, shape: &[i64]) -> TensorMetadata {
        TensorMetadata { name: name.into(), datatype: datatype.into(), shape: shape.to_vec() }
    }

    #[test]
    fn batch_dimension_is_dropped_and_flags_are_read() {
        let metadata = ModelMetadata {
            inputs: vec![entry("A", "FP32", &[-1, 16]), entry("S", "INT32", &[-1, 2])],
            outputs: vec![entry("B", "BYTES", &[-1, -1])],
            ..ModelMetadata::default()
        };
        let config = ModelConfig {
            max_batch_size: 8,
            input: vec![
                TensorFlags { name: "A".into(), optional: true, ..TensorFlags::default() },
                TensorFlags { name: "S".into(), is_shape_tensor: true, ..TensorFlags::default() },
            ],
            dynamic_batching: true,
            decoupled: true,
            ..ModelConfig::default()
        };
        let spec = model(&ModelId::latest("m"), metadata, &config).unwrap();
        assert_eq!((spec.inputs[0].shape.as_slice(), spec.inputs[0].optional), (&[16][..], true));
        assert_eq!((spec.inputs[1].shape.as_slice(), spec.inputs[1].shape_tensor), (&[2][..], true));
        assert_eq!(spec.outputs[0].shape, [-1]);
        assert_eq!((spec.scheduler, spec.decoupled, spec.max_batch_size), (Scheduler::Dynamic, true, 8));
    }

    #[test]
    fn ensembles_and_unknown_datatypes() {
        let step = |name: &str, version| (name.to_owned(), version);
        let config = ModelConfig {
            ensemble_steps: Some(vec![step("a", -1), step("b", 3), step("a", -1)]),
            ..ModelConfig::default()
        };
        let spec = model(&ModelId::latest("e"), ModelMetadata::default(), &config).unwrap();
        assert_eq!(spec.composing, [ModelId::latest("a"), ModelId { name: "b".into(), version: Some(3) }]);
        let odd = ModelMetadata { inputs: vec![entry("A", "FP8", &[1])], ..ModelMetadata::default() };
        assert!(model(&ModelId::latest("e"), odd, &config).unwrap_err().to_string().contains("FP8"));
    }
}
