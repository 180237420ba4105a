//! `PredictRequest`s, encoded once, because all requests of a payload are equal.

use bytes::Bytes;

use crate::data::{InputTensor, Payload};
use crate::engine::calls::{MessageBody, tensor_bytes};
use crate::error::{Error, Result};
use crate::model::{DataType, ModelSpec};
use crate::plan::Compression;
use crate::tfserving::datatype;
use crate::wire::grpc::MAX_MESSAGE;
use crate::wire::protobuf::{put_bytes, put_number, put_prefix, varint_len};

/// Fields of `PredictRequest`.
mod field {
    pub const MODEL_SPEC: u32 = 1;
    pub const INPUTS: u32 = 2;
    pub const OUTPUT_FILTER: u32 = 3;
}

/// Fields of `TensorProto`.
mod tensor {
    pub const DTYPE: u32 = 1;
    pub const SHAPE: u32 = 2;
    pub const CONTENT: u32 = 4;
    pub const STRINGS: u32 = 8;
}

/// The requests of all payloads.
pub struct Requests(Vec<(Vec<u8>, Vec<Bytes>)>);

impl Requests {
    /// Encodes every payload; `spec_of` returns the model, version and signature that requests to a model name.
    ///
    /// # Errors
    /// If a tensor cannot be read, or a request is longer than gRPC allows.
    pub fn encode(
        models: &[ModelSpec],
        payloads: &[Payload],
        encoding: Compression,
        spec_of: impl Fn(&ModelSpec) -> Vec<u8>,
    ) -> Result<Self> {
        let encode = |payload: &Payload| {
            let model = &models[payload.model];
            let message = message(&spec_of(model), payload)?;
            if message.length() > MAX_MESSAGE {
                return Err(Error::input(format!(
                    "a request to model '{}' takes {} bytes, but a gRPC message holds at most {MAX_MESSAGE}; use a smaller batch",
                    model.id,
                    message.length()
                )));
            }
            message.finish(encoding)
        };
        payloads.iter().map(encode).collect::<Result<_>>().map(Self)
    }

    /// A payload's request: bytes to copy, then the parts that follow.
    #[inline]
    pub fn get(&self, payload: u32) -> (&[u8], &[Bytes]) {
        let (head, parts) = &self.0[payload as usize];
        (head, parts)
    }
}

/// A `PredictRequest`.
fn message(model_spec: &[u8], payload: &Payload) -> Result<MessageBody> {
    let mut message = MessageBody::default();
    put_bytes(message.copied(), field::MODEL_SPEC, model_spec);
    for input in &payload.inputs {
        put_input(&mut message, input)?;
    }
    for name in wanted_outputs(payload) {
        put_bytes(message.copied(), field::OUTPUT_FILTER, name.as_bytes());
    }
    Ok(message)
}

/// The outputs with expected values; none means all.
fn wanted_outputs(payload: &Payload) -> Vec<&str> {
    let steps = payload.expected.as_ref().and_then(|expected| expected.members(1).next());
    let mut names: Vec<&str> =
        steps.into_iter().flat_map(|step| step.responses.iter().flatten()).map(|output| &*output.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// An entry of the map of inputs: the name, and a `TensorProto` whose elements come last.
fn put_input(message: &mut MessageBody, input: &InputTensor) -> Result<()> {
    let elements = tensor_bytes(input)?;
    let mut tensor = Vec::new();
    put_number(&mut tensor, tensor::DTYPE, u64::from(datatype::number(input.datatype)));
    put_bytes(&mut tensor, tensor::SHAPE, &shape(&input.shape));
    if input.datatype == DataType::Bytes {
        put_strings(&mut tensor, &elements);
        put_entry(message.copied(), &input.name, &tensor, 0);
        return Ok(());
    }
    put_prefix(&mut tensor, tensor::CONTENT, elements.len());
    put_entry(message.copied(), &input.name, &tensor, elements.len());
    message.put_tensor(&elements);
    Ok(())
}

/// Writes an entry of which `missing` bytes follow.
fn put_entry(out: &mut Vec<u8>, name: &str, tensor: &[u8], missing: usize) {
    let value = tensor.len() + missing;
    let key = 1 + varint_len(name.len() as u64) + name.len();
    put_prefix(out, field::INPUTS, key + 1 + varint_len(value as u64) + value);
    put_bytes(out, 1, name.as_bytes());
    put_prefix(out, 2, value);
    out.extend_from_slice(tensor);
}

/// A `TensorShapeProto`.
fn shape(dims: &[i64]) -> Vec<u8> {
    let mut shape = Vec::new();
    for &dim in dims {
        put_prefix(&mut shape, 2, 1 + varint_len(dim as u64));
        put_number(&mut shape, 1, dim as u64);
    }
    shape
}

/// Packed strings, each preceded by its length, as separate fields.
fn put_strings(out: &mut Vec<u8>, mut packed: &[u8]) {
    while let Some((length, tail)) = packed.split_first_chunk() {
        let (text, tail) = tail.split_at(tail.len().min(u32::from_le_bytes(*length) as usize));
        put_bytes(out, tensor::STRINGS, text);
        packed = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelId;
    use crate::tfserving::proto::model_spec;
    use crate::tfserving::sample::input;
    use crate::wire::grpc::PREFIX_LEN;

    /// As in the published format: model `m`, signature `serving_default`, input `x`, FP32 [1,2] of 1.0 and 2.0.
    const GOLDEN: &str =
        "0a140a016d1a0f73657276696e675f64656661756c74121b0a0178121608011208120208011202080222080000803f00000040";

    fn encoded(inputs: Vec<InputTensor>, encoding: Compression) -> Vec<u8> {
        let payload =
            Payload { model: 0, batch: 1, stream: 0, step: 0, inputs, parameters: Vec::new(), expected: None };
        let model = ModelSpec::plain(&ModelId::latest("m"), Vec::new(), Vec::new());
        let spec = |model: &ModelSpec| model_spec(&model.id, None, Some("serving_default"));
        let requests = Requests::encode(&[model], &[payload], encoding, spec).unwrap();
        let (head, parts) = requests.get(0);
        parts.iter().fold(head.to_vec(), |body, part| [&body, &part[..]].concat())
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn a_request_is_the_golden_one() {
        let body = encoded(vec![input("x", DataType::Fp32, &[1, 2], &floats(&[1.0, 2.0]))], Compression::None);
        assert_eq!(hex(&body[..PREFIX_LEN]), "0000000033");
        assert_eq!(hex(&body[PREFIX_LEN..]), GOLDEN);
    }

    #[test]
    fn large_tensors_stay_where_they_are_and_the_bytes_are_the_same() {
        let large = vec![7; 10_000];
        let inputs =
            || vec![input("a", DataType::Int8, &[10_000], &large), input("b", DataType::Fp32, &[1], &floats(&[1.0]))];
        let body = encoded(inputs(), Compression::None);
        assert_eq!(u32::from_be_bytes(body[1..PREFIX_LEN].try_into().unwrap()) as usize, body.len() - PREFIX_LEN);
        let at = body.windows(large.len()).position(|part| part == large).unwrap();
        assert_eq!(hex(&body[at - 3..at]), "22904e", "tensor_content");
        assert!(hex(&body[at + large.len()..]).starts_with("12130a0162"), "the second entry follows");
        let packed = encoded(inputs(), Compression::Gzip);
        assert!(packed[0] == 1 && packed.len() < 500);
    }

    #[test]
    fn strings_are_fields_of_their_own() {
        let body = encoded(vec![input("s", DataType::Bytes, &[2], b"\x02\0\0\0ab\0\0\0\0")], Compression::None);
        assert!(hex(&body).ends_with("12130a0173120e0807120412020802420261624200"), "{}", hex(&body));
    }

    #[test]
    fn versions_are_numbers_and_labels_are_labels() {
        let numbered = ModelId { name: "m".to_owned(), version: Some(300) };
        assert_eq!(hex(&model_spec(&numbered, None, None)), "0a016d120308ac02");
        assert_eq!(hex(&model_spec(&ModelId::latest("m"), Some("best"), None)), "0a016d220462657374");
    }
}
