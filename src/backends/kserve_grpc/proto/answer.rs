//! Answers of the control plane, each with a size limit. A message of two bytes can stand for a struct of hundreds, so
//! potentially long messages are parsed by hand, with a limit on every list.

use serde_json::Value as Json;

use crate::kserve_grpc::proto::config_json;
use crate::model::statistics::{CountedTime, MAX_BATCHES, ModelStatistics, StatisticsSnapshot};
use crate::model::{ConfigMark, CorrelationForm};
use crate::wire::protobuf::{Value, each, malformed, nested, take_varint};

/// Size limit of descriptive answers.
const LONG: u64 = 64 << 20;
/// Size limit of all others.
const SHORT: u64 = 1 << 20;

/// Maximum number of tensors of a model, inputs and outputs together.
const MAX_TENSORS: usize = 100_000;
/// Maximum number of dimensions of a tensor.
const MAX_DIMS: usize = 64;
/// Maximum number of versions of a model, and of steps of an ensemble.
const MAX_ENTRIES: usize = 10_000;

/// An answer of the control plane.
pub trait Answer: Sized {
    /// Size limit of its message.
    const MOST: u64;

    /// Parses the message.
    ///
    /// # Errors
    /// What is wrong with it, to follow "the server's answer".
    fn read(message: &[u8]) -> Result<Self, String>;
}

impl<M: prost::Message + Default> Answer for M {
    const MOST: u64 = SHORT;

    fn read(message: &[u8]) -> Result<Self, String> {
        M::decode(message).map_err(|error| format!("is malformed: {error}"))
    }
}

/// `ModelMetadataResponse`, as far as it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelMetadata {
    /// Versions that are ready.
    pub versions: Vec<String>,
    /// Kind of model.
    pub platform: String,
    /// Inputs, in order.
    pub inputs: Vec<TensorMetadata>,
    /// Outputs, in order.
    pub outputs: Vec<TensorMetadata>,
}

/// `TensorMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorMetadata {
    /// Name in the model.
    pub name: String,
    /// Datatype's name.
    pub datatype: String,
    /// Dimensions, including the batch; -1 for open ones.
    pub shape: Vec<i64>,
}

/// `ModelConfig`, as far as it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelConfig {
    /// 0 if the model does not batch.
    pub max_batch_size: i32,
    /// Flags of inputs.
    pub input: Vec<TensorFlags>,
    /// Flags of outputs.
    pub output: Vec<TensorFlags>,
    /// Whether the dynamic batcher is on.
    pub dynamic_batching: bool,
    /// Whether requests come in sequences.
    pub sequence_batching: bool,
    /// The form of correlation IDs that they ask for.
    pub correlation: CorrelationForm,
    /// Models of an ensemble's steps, with their versions; `None` if it is not an ensemble.
    pub ensemble_steps: Option<Vec<(String, i64)>>,
    /// Whether it is decoupled.
    pub decoupled: bool,
    /// Whether responses may come from a cache.
    pub response_cache: bool,
    /// Its fingerprint.
    pub mark: ConfigMark,
}

/// Properties of a tensor that only the configuration contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorFlags {
    /// Name in the model.
    pub name: String,
    /// A shape tensor.
    pub is_shape_tensor: bool,
    /// May be left out.
    pub optional: bool,
    /// The number of its dimensions, without the batch's.
    pub rank: usize,
}

fn text(value: Value<'_>) -> Result<String, String> {
    value.text().map(str::to_owned).ok_or_else(malformed)
}

fn number(value: Value<'_>) -> Result<u64, String> {
    if let Value::Number(number) = value { Ok(number) } else { Err(malformed()) }
}

/// The longest that a list may be, and what it lists.
#[derive(Clone, Copy)]
struct Limit {
    most: usize,
    entries: &'static str,
}

/// Appends to a list with a maximum length.
fn push<T>(list: &mut Vec<T>, limit: Limit, entry: T) -> Result<(), String> {
    let Limit { most, entries } = limit;
    if list.len() == most {
        return Err(format!("lists more than {most} {entries}"));
    }
    list.push(entry);
    Ok(())
}

const TENSORS: Limit = Limit { most: MAX_TENSORS, entries: "tensors" };
const DIMS: Limit = Limit { most: MAX_DIMS, entries: "dimensions of a tensor" };
const VERSIONS: Limit = Limit { most: MAX_ENTRIES, entries: "versions of a model" };
const STEPS: Limit = Limit { most: MAX_ENTRIES, entries: "steps of an ensemble" };

impl Answer for ModelMetadata {
    const MOST: u64 = LONG;

    fn read(message: &[u8]) -> Result<Self, String> {
        let mut metadata = Self::default();
        each(message, |field, value| match field {
            2 => push(&mut metadata.versions, VERSIONS, text(value)?),
            3 => text(value).map(|platform| metadata.platform = platform),
            4 => push(&mut metadata.inputs, TENSORS, tensor(nested(value)?)?),
            5 => push(&mut metadata.outputs, TENSORS, tensor(nested(value)?)?),
            _ => Ok(()),
        })?;
        Ok(metadata)
    }
}

fn tensor(message: &[u8]) -> Result<TensorMetadata, String> {
    let mut tensor = TensorMetadata::default();
    each(message, |field, value| match (field, value) {
        (1, value) => text(value).map(|name| tensor.name = name),
        (2, value) => text(value).map(|datatype| tensor.datatype = datatype),
        (3, Value::Number(dim)) => push(&mut tensor.shape, DIMS, dim as i64),
        (3, Value::Bytes(mut packed)) => {
            while !packed.is_empty() {
                let dim = take_varint(&mut packed).ok_or_else(malformed)?;
                push(&mut tensor.shape, DIMS, dim as i64)?;
            }
            Ok(())
        }
        _ => Ok(()),
    })?;
    Ok(tensor)
}

/// `ModelConfigResponse`: its configuration, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelConfigResponse {
    /// The configuration.
    pub config: Option<ModelConfig>,
}

impl Answer for ModelConfigResponse {
    const MOST: u64 = LONG;

    fn read(message: &[u8]) -> Result<Self, String> {
        let mut response = Self::default();
        each(message, |field, value| match field {
            1 => config(nested(value)?).map(|config| response.config = Some(config)),
            _ => Ok(()),
        })?;
        Ok(response)
    }
}

/// The whole configuration of `ModelConfigResponse` as JSON; none if it has fields that this program does not know.
pub struct WholeConfig(pub Option<Json>);

impl Answer for WholeConfig {
    const MOST: u64 = LONG;

    fn read(message: &[u8]) -> Result<Self, String> {
        let mut whole = None;
        each(message, |field, value| {
            if field == 1 {
                whole = config_json::read(nested(value)?);
            }
            Ok(())
        })?;
        Ok(Self(whole))
    }
}

fn config(message: &[u8]) -> Result<ModelConfig, String> {
    let mut config = ModelConfig::default();
    each(message, |field, value| {
        match field {
            4 => config.max_batch_size = number(value)? as i32,
            5 => push(&mut config.input, TENSORS, flags(nested(value)?, 4)?)?,
            6 => push(&mut config.output, TENSORS, flags(nested(value)?, 3)?)?,
            11 => config.dynamic_batching = true,
            13 => {
                config.sequence_batching = true;
                if takes_text_ids(nested(value)?)? {
                    config.correlation = CorrelationForm::Text;
                }
            }
            15 => {
                let listed = config.ensemble_steps.get_or_insert_default();
                each(nested(value)?, |field, value| match field {
                    1 => push(listed, STEPS, step(nested(value)?)?),
                    _ => Ok(()),
                })?;
            }
            17 => config.mark.backend = text(value)?,
            19 => config.decoupled = is_set(nested(value)?)?,
            24 => config.response_cache = is_set(nested(value)?)?,
            _ => {}
        }
        Ok(())
    })?;
    config.mark.hash = config_json::read(message).and_then(|whole| ConfigMark::new(&whole).hash);
    Ok(config)
}

/// Whether a `ModelSequenceBatching` has a control of kind CORRID with the datatype TYPE_STRING.
fn takes_text_ids(message: &[u8]) -> Result<bool, String> {
    const CORRID: u64 = 3;
    const TYPE_STRING: u64 = 13;
    let mut takes = false;
    each_nested(message, 2, |control_input| {
        each_nested(control_input, 2, |control| {
            let (mut kind, mut datatype) = (0, 0);
            each(control, |field, value| {
                match field {
                    1 => kind = number(value)?,
                    4 => datatype = number(value)?,
                    _ => {}
                }
                Ok(())
            })?;
            takes |= (kind, datatype) == (CORRID, TYPE_STRING);
            Ok(())
        })
    })?;
    Ok(takes)
}

/// Visits the messages in one field.
fn each_nested(message: &[u8], wanted: u32, mut visit: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
    each(message, |field, value| if field == wanted { visit(nested(value)?) } else { Ok(()) })
}

/// `dims` is the field with the dimensions: 4 of a `ModelInput`, 3 of a `ModelOutput`.
fn flags(message: &[u8], dims: u32) -> Result<TensorFlags, String> {
    let mut flags = TensorFlags::default();
    each(message, |field, value| {
        match (field, value) {
            (1, value) => flags.name = text(value)?,
            (6, value) => flags.is_shape_tensor = number(value)? != 0,
            // Only for inputs: outputs have no such field.
            (8, value) => flags.optional = number(value)? != 0,
            (field, Value::Number(_)) if field == dims => flags.rank += 1,
            // The last byte of a number is the one below 128.
            (field, Value::Bytes(packed)) if field == dims => {
                flags.rank += packed.iter().filter(|&&byte| byte < 0x80).count();
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(flags)
}

fn step(message: &[u8]) -> Result<(String, i64), String> {
    let mut step = (String::new(), 0);
    each(message, |field, value| {
        match field {
            1 => step.0 = text(value)?,
            2 => step.1 = number(value)? as i64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(step)
}

/// The first field, a flag, of a message without other fields of interest.
fn is_set(message: &[u8]) -> Result<bool, String> {
    let mut set = false;
    each(message, |field, value| {
        if field == 1 {
            set = number(value)? != 0;
        }
        Ok(())
    })?;
    Ok(set)
}

/// `ModelStatisticsResponse`. Fields that an older server lacks are 0.
pub struct Statistics(pub StatisticsSnapshot);

impl Answer for Statistics {
    const MOST: u64 = LONG;

    fn read(message: &[u8]) -> Result<Self, String> {
        let mut snapshot = StatisticsSnapshot::default();
        let mut entries = 0;
        each(message, |field, value| {
            if field == 1 {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err(format!("lists more than {MAX_ENTRIES} versions of a model"));
                }
                let (key, counters) = model_statistics(nested(value)?)?;
                snapshot.models.insert(key, counters);
            }
            Ok(())
        })?;
        Ok(Self(snapshot))
    }
}

fn model_statistics(message: &[u8]) -> Result<((String, String), ModelStatistics), String> {
    let (mut key, mut counters) = ((String::new(), String::new()), ModelStatistics::default());
    each(message, |field, value| {
        match field {
            1 => key.0 = text(value)?,
            2 => key.1 = text(value)?,
            4 => counters.inferences = number(value)?,
            5 => counters.executions = number(value)?,
            6 => each(nested(value)?, |field, value| {
                let time = match field {
                    1 => &mut counters.success,
                    2 => &mut counters.fail,
                    3 => &mut counters.queue,
                    4 => &mut counters.compute_input,
                    5 => &mut counters.compute_infer,
                    6 => &mut counters.compute_output,
                    7 => &mut counters.cache_hit,
                    8 => &mut counters.cache_miss,
                    _ => return Ok(()),
                };
                *time = counted(nested(value)?)?;
                Ok(())
            })?,
            7 if counters.batches.len() < MAX_BATCHES => {
                let (size, executions) = batches(nested(value)?)?;
                counters.batches.insert(size, executions);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, counters))
}

/// `InferBatchStatistics`: a batch's size, and how often one was executed.
fn batches(message: &[u8]) -> Result<(u64, u64), String> {
    let (mut size, mut executions) = (0, 0);
    each(message, |field, value| {
        match field {
            1 => size = number(value)?,
            3 => executions = counted(nested(value)?)?.count,
            _ => {}
        }
        Ok(())
    })?;
    Ok((size, executions))
}

/// `StatisticDuration`: events, and their nanoseconds together.
fn counted(message: &[u8]) -> Result<CountedTime, String> {
    let mut time = CountedTime::default();
    each(message, |field, value| {
        match field {
            1 => time.count = number(value)?,
            2 => time.ns = number(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kserve_grpc::proto::tests::{message, numbers};
    use crate::wire::protobuf::put_varint;

    #[test]
    fn metadata_are_read_packed_or_not() {
        let mut packed = Vec::new();
        [-1_i64, 16].iter().for_each(|&dim| put_varint(&mut packed, dim as u64));
        let first = message(&[(1, b"A"), (2, b"FP32"), (3, &packed)]);
        let second = [message(&[(1, b"B"), (2, b"BYTES")]), numbers(&[(3, u64::MAX), (3, 7)])].concat();
        let read =
            ModelMetadata::read(&message(&[(1, b"m"), (2, b"1"), (2, b"3"), (3, b"p"), (4, &first), (5, &second)]));
        let tensor = |name: &str, datatype: &str, shape: &[i64]| TensorMetadata {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
        };
        let expected = ModelMetadata {
            versions: vec!["1".to_owned(), "3".to_owned()],
            platform: "p".to_owned(),
            inputs: vec![tensor("A", "FP32", &[-1, 16])],
            outputs: vec![tensor("B", "BYTES", &[-1, 7])],
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn configurations_are_read() {
        let input = [message(&[(1, b"A")]), numbers(&[(8, 1)])].concat();
        let output = [message(&[(1, b"B")]), numbers(&[(6, 1)])].concat();
        let step = [message(&[(1, b"s")]), numbers(&[(2, u64::MAX)])].concat();
        let ensemble = message(&[(1, &step)]);
        let fields = message(&[(5, &input), (6, &output), (15, &ensemble), (19, &[8, 1]), (24, &[8, 0])]);
        let whole = message(&[(1, &[numbers(&[(4, 8)]), fields].concat())]);
        let expected = ModelConfig {
            max_batch_size: 8,
            input: vec![TensorFlags { name: "A".to_owned(), is_shape_tensor: false, optional: true, rank: 0 }],
            output: vec![TensorFlags { name: "B".to_owned(), is_shape_tensor: true, optional: false, rank: 0 }],
            ensemble_steps: Some(vec![("s".to_owned(), -1)]),
            decoupled: true,
            mark: ConfigMark::new(&json!({
                "max_batch_size": 8, "input": [{"name": "A", "optional": true}], "output": [{"name": "B", "is_shape_tensor": true}],
                "ensemble_scheduling": {"step": [{"model_name": "s", "model_version": -1}]},
                "model_transaction_policy": {"decoupled": true}, "response_cache": {"enable": false},
            })),
            ..ModelConfig::default()
        };
        assert_eq!(ModelConfigResponse::read(&whole).unwrap().config, Some(expected));
        assert_eq!(ModelConfigResponse::read(&[]).unwrap().config, None);
        assert!(config(&message(&[(11, &[])])).unwrap().dynamic_batching);
    }

    #[test]
    fn dimensions_are_counted_packed_or_not() {
        let mut packed = Vec::new();
        [-1_i64, 300, 3].iter().for_each(|&dim| put_varint(&mut packed, dim as u64));
        let input = [message(&[(1, b"A"), (4, &packed)]), numbers(&[(3, 1)])].concat();
        let output = [message(&[(1, b"B"), (4, b"labels.txt")]), numbers(&[(3, u64::MAX), (3, 7)])].concat();
        let read = config(&message(&[(5, &input), (6, &output)])).unwrap();
        assert_eq!((read.input[0].rank, read.output[0].rank), (3, 2));
    }

    #[test]
    fn the_control_of_correlation_ids_decides_their_form() {
        let sequences = |kind: u64, datatype: u64| {
            let control_input = message(&[(1, b"ID"), (2, &numbers(&[(1, kind), (4, datatype)]))]);
            config(&message(&[(13, &message(&[(2, &control_input)]))])).unwrap().correlation
        };
        assert_eq!(sequences(3, 13), CorrelationForm::Text);
        for (kind, datatype) in [(3, 5), (2, 13), (3, 0)] {
            assert_eq!(sequences(kind, datatype), CorrelationForm::Number);
        }
    }

    #[test]
    fn counters_that_an_older_server_lacks_are_zero() {
        let success = numbers(&[(1, 2), (2, 30)]);
        let stats = message(&[(1, &success)]);
        let entry = [message(&[(1, b"m"), (2, b"1")]), numbers(&[(4, 4)]), message(&[(6, &stats)])].concat();
        let Statistics(snapshot) = Statistics::read(&message(&[(1, &entry)])).unwrap();
        let counted = &snapshot.models[&("m".to_owned(), "1".to_owned())];
        assert_eq!((counted.inferences, counted.success), (4, CountedTime { count: 2, ns: 30 }));
        assert_eq!(counted.cache_hit, CountedTime::default());
    }

    #[test]
    fn lists_end() {
        let many = |field: u32, count: usize| message(&vec![(field, &[][..]); count]);
        assert!(Statistics::read(&many(1, MAX_ENTRIES)).is_ok());
        for (refused, word) in [
            (Statistics::read(&many(1, MAX_ENTRIES + 1)).map(drop), "10000 versions"),
            (ModelMetadata::read(&many(2, MAX_ENTRIES + 1)).map(drop), "10000 versions"),
            (ModelMetadata::read(&many(5, MAX_TENSORS + 1)).map(drop), "100000 tensors"),
            (ModelMetadata::read(&message(&[(4, &message(&[(3, &[1; 65])]))])).map(drop), "64 dimensions"),
            (config(&many(5, MAX_TENSORS + 1)).map(drop), "100000 tensors"),
            (config(&message(&[(15, &many(1, MAX_ENTRIES + 1))])).map(drop), "10000 steps"),
        ] {
            assert!(refused.unwrap_err().contains(word), "{word}");
        }
    }

    #[test]
    fn malformed_answers_are_errors() {
        for bytes in [&[0x0a, 5, 1][..], &[0x08, 1], &[0x0a, 2, 0x0a, 9]] {
            assert!(Statistics::read(bytes).is_err(), "{bytes:?}");
            assert!(ModelConfigResponse::read(bytes).is_err(), "{bytes:?}");
        }
        assert!(ModelMetadata::read(&message(&[(3, &[0xff])])).is_err());
    }
}
