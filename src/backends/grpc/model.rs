//! Models and statistics from the messages of the control plane.

use crate::backends::grpc::proto::control::{
    Duration, InferStats, ModelConfig, ModelMetadata, ModelStats, StatisticsResponse, TensorMetadata,
};
use crate::error::{Error, Result};
use crate::model::statistics::{CountedTime, ModelStatistics, StatisticsSnapshot};
use crate::model::{DataType, ModelId, ModelSpec, Scheduler, TensorSpec};

/// The model that `metadata` and `config` describe.
///
/// # Errors
/// Where a tensor has a datatype that this program does not know.
pub fn model(id: &ModelId, metadata: ModelMetadata, config: &ModelConfig) -> Result<ModelSpec> {
    let batched = config.max_batch_size > 0;
    let input_flags = |name: &str| {
        let found = config.input.iter().find(|input| input.name == name);
        found.map_or((false, false), |input| (input.optional, input.is_shape_tensor))
    };
    let output_flags = |name: &str| {
        let found = config.output.iter().find(|output| output.name == name);
        (false, found.is_some_and(|output| output.is_shape_tensor))
    };
    let inputs = metadata.inputs.iter().map(|entry| tensor(id, entry, input_flags(&entry.name), batched));
    let outputs = metadata.outputs.iter().map(|entry| tensor(id, entry, output_flags(&entry.name), batched));
    Ok(ModelSpec {
        id: id.clone(),
        inputs: inputs.collect::<Result<_>>()?,
        outputs: outputs.collect::<Result<_>>()?,
        versions: metadata.versions,
        platform: metadata.platform,
        max_batch_size: u64::try_from(config.max_batch_size).unwrap_or(0),
        scheduler: scheduler(config),
        sequences: config.sequence_batching.is_some(),
        decoupled: config.model_transaction_policy.as_ref().is_some_and(|policy| policy.decoupled),
        response_cache: config.response_cache.as_ref().is_some_and(|cache| cache.enable),
        composing: composing(config),
    })
}

fn scheduler(config: &ModelConfig) -> Scheduler {
    if config.sequence_batching.is_some() {
        Scheduler::Sequence
    } else if config.ensemble_scheduling.is_some() {
        Scheduler::Ensemble
    } else if config.dynamic_batching.is_some() {
        Scheduler::Dynamic
    } else {
        Scheduler::Default
    }
}

/// `(optional, shape_tensor)` are the configuration's flags.
fn tensor(
    id: &ModelId,
    entry: &TensorMetadata,
    (optional, shape_tensor): (bool, bool),
    batched: bool,
) -> Result<TensorSpec> {
    let (name, datatype) = (&entry.name, &entry.datatype);
    let known = DataType::parse(datatype).ok_or_else(|| {
        Error::server(format!(
            "model '{id}': tensor '{name}' has datatype '{datatype}', which this program does not know"
        ))
    })?;
    // Metadata have it in front of shape tensors, too, though these are never batched.
    let dropped = usize::from(batched && !entry.shape.is_empty());
    let shape = entry.shape[dropped..].to_vec();
    Ok(TensorSpec { name: name.clone(), datatype: known, shape, optional, shape_tensor })
}

fn composing(config: &ModelConfig) -> Vec<ModelId> {
    let mut models = Vec::new();
    for step in config.ensemble_scheduling.iter().flat_map(|ensemble| &ensemble.step) {
        let version = u64::try_from(step.model_version).ok().filter(|&version| version > 0);
        let id = ModelId { name: step.model_name.clone(), version };
        if !models.contains(&id) {
            models.push(id);
        }
    }
    models
}

/// The counters of all models that were asked about.
pub fn statistics(response: StatisticsResponse) -> StatisticsSnapshot {
    let entries = response.model_stats.into_iter();
    StatisticsSnapshot {
        models: entries.map(|entry| ((entry.name.clone(), entry.version.clone()), counters(&entry))).collect(),
    }
}

fn counters(entry: &ModelStats) -> ModelStatistics {
    let stats = entry.inference_stats.unwrap_or_default();
    let InferStats { success, fail, queue, compute_input, compute_infer, compute_output, cache_hit, cache_miss } =
        stats;
    ModelStatistics {
        inferences: entry.inference_count,
        executions: entry.execution_count,
        success: time(success),
        fail: time(fail),
        queue: time(queue),
        compute_input: time(compute_input),
        compute_infer: time(compute_infer),
        compute_output: time(compute_output),
        cache_hit: time(cache_hit),
        cache_miss: time(cache_miss),
    }
}

fn time(duration: Option<Duration>) -> CountedTime {
    duration.map_or_else(CountedTime::default, |duration| CountedTime { count: duration.count, ns: duration.ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::grpc::proto::control::{Empty, Ensemble, EnsembleStep, InputConfig, TransactionPolicy};

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
                InputConfig { name: "A".into(), optional: true, ..InputConfig::default() },
                InputConfig { name: "S".into(), is_shape_tensor: true, ..InputConfig::default() },
            ],
            dynamic_batching: Some(Empty {}),
            model_transaction_policy: Some(TransactionPolicy { decoupled: true }),
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
        let step = |name: &str, version| EnsembleStep { model_name: name.into(), model_version: version };
        let config = ModelConfig {
            ensemble_scheduling: Some(Ensemble { step: vec![step("a", -1), step("b", 3), step("a", -1)] }),
            ..ModelConfig::default()
        };
        let spec = model(&ModelId::latest("e"), ModelMetadata::default(), &config).unwrap();
        assert_eq!(spec.composing, [ModelId::latest("a"), ModelId { name: "b".into(), version: Some(3) }]);
        let odd = ModelMetadata { inputs: vec![entry("A", "FP8", &[1])], ..ModelMetadata::default() };
        assert!(model(&ModelId::latest("e"), odd, &config).unwrap_err().to_string().contains("FP8"));
    }

    #[test]
    fn counters_that_an_older_server_lacks_are_zero() {
        let stats = InferStats { success: Some(Duration { count: 2, ns: 30 }), ..InferStats::default() };
        let entry = ModelStats {
            name: "m".into(),
            version: "1".into(),
            inference_count: 4,
            inference_stats: Some(stats),
            ..ModelStats::default()
        };
        let snapshot = statistics(StatisticsResponse { model_stats: vec![entry] });
        let counted = &snapshot.models[&("m".to_owned(), "1".to_owned())];
        assert_eq!((counted.inferences, counted.success), (4, CountedTime { count: 2, ns: 30 }));
        assert_eq!(counted.cache_hit, CountedTime::default());
    }
}
