//! Models from the messages of the control plane.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::kserve_grpc::proto::{ModelConfig, ModelMetadata, TensorFlags, TensorMetadata};
use crate::model::{DataType, ModelId, ModelSpec, Scheduler, TensorSpec};

/// A model and the kind of server that describes it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub id: &'a ModelId,
    /// Whether the server is Triton, whose metadata of a model that batches include the batch dimension.
    pub is_triton: bool,
}

/// The model that `metadata` and `config` describe.
///
/// # Errors
/// If a tensor has a datatype that this program does not know.
pub fn model(source: Source<'_>, metadata: ModelMetadata, config: &ModelConfig) -> Result<ModelSpec> {
    let (id, batched) = (source.id, config.max_batch_size > 0);
    let tensors = |entries: &[TensorMetadata], flags: &[TensorFlags]| {
        let flags: HashMap<&str, &TensorFlags> = flags.iter().map(|flags| (flags.name.as_str(), flags)).collect();
        let flags = |name: &str| flags.get(name).copied();
        let read = |entry: &TensorMetadata| {
            let flags = flags(&entry.name);
            // Dynamo's frontend gives the dimensions of the configuration, in which the batch's is not.
            let is_bare = !source.is_triton && flags.is_some_and(|flags| flags.rank == entry.shape.len());
            tensor(id, entry, flags, batched && !is_bare)
        };
        entries.iter().map(read).collect::<Result<_>>()
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

/// A tensor as the metadata describe it, with the `flags` of its configuration; `batched`: its first dimension is the batch's.
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

    fn source(id: &ModelId) -> Source<'_> {
        Source { id, is_triton: true }
    }

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
        let spec = model(source(&ModelId::latest("m")), metadata, &config).unwrap();
        assert_eq!((spec.inputs[0].shape.as_slice(), spec.inputs[0].optional), (&[16][..], true));
        assert_eq!((spec.inputs[1].shape.as_slice(), spec.inputs[1].shape_tensor), (&[2][..], true));
        assert_eq!(spec.outputs[0].shape, [-1]);
        assert_eq!((spec.scheduler, spec.decoupled, spec.max_batch_size), (Scheduler::Dynamic, true, 8));
    }

    #[test]
    fn a_shape_with_the_rank_of_the_configuration_lacks_the_batch_unless_it_is_tritons() {
        let config = ModelConfig {
            max_batch_size: 4,
            input: ["A", "B", "C"]
                .map(|name| TensorFlags { name: name.into(), rank: 1, ..TensorFlags::default() })
                .into(),
            ..ModelConfig::default()
        };
        let shapes = |is_triton| {
            // Dynamo writes the datatypes of the configuration, too.
            let inputs =
                vec![entry("A", "TYPE_STRING", &[-1]), entry("B", "FP32", &[-1, 16]), entry("D", "FP32", &[-1, 2])];
            let metadata = ModelMetadata { inputs, ..ModelMetadata::default() };
            let id = ModelId::latest("m");
            let spec = model(Source { id: &id, is_triton }, metadata, &config).unwrap();
            assert_eq!(spec.inputs[0].datatype, DataType::Bytes);
            spec.inputs.into_iter().map(|input| input.shape).collect::<Vec<_>>()
        };
        assert_eq!(shapes(false), [vec![-1], vec![16], vec![2]]);
        assert_eq!(shapes(true), [vec![], vec![16], vec![2]]);
    }

    #[test]
    fn ensembles_and_unknown_datatypes() {
        let step = |name: &str, version| (name.to_owned(), version);
        let config = ModelConfig {
            ensemble_steps: Some(vec![step("a", -1), step("b", 3), step("a", -1)]),
            ..ModelConfig::default()
        };
        let spec = model(source(&ModelId::latest("e")), ModelMetadata::default(), &config).unwrap();
        assert_eq!(spec.composing, [ModelId::latest("a"), ModelId { name: "b".into(), version: Some(3) }]);
        let odd = ModelMetadata { inputs: vec![entry("A", "FP8", &[1])], ..ModelMetadata::default() };
        assert!(model(source(&ModelId::latest("e")), odd, &config).unwrap_err().to_string().contains("FP8"));
    }
}
