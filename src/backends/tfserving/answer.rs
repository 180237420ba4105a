//! `PredictResponse`s, read in place.
//!
//! A server may send elements raw or in typed lists. A list that is shorter than its shape is filled up with its last
//! value, as TensorFlow reads it.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::backend::{InferError, OutputView, Outputs};
use crate::engine::malformed;
use crate::model::{DataType, ModelSpec};
use crate::tfserving::datatype;
use crate::tfserving::proto::{entry, shape};
use crate::wire::protobuf::{self, Fields, Value, take_varint};

/// Limit on the memory of elements that a list only implies; a message of a few bytes must not fill our memory.
const MAX_IMPLIED: u64 = 16 << 20;
/// An element takes at most this many bytes in memory for each byte of a message.
const MAX_PER_BYTE: u64 = 8;

const NO_MESSAGE: &str = "it is not a message of the protocol";

/// Field of a `TensorProto` with raw elements.
const CONTENT: u32 = 4;

/// The outputs of a `PredictResponse`.
pub struct Answer<'a> {
    message: &'a [u8],
    model: &'a ModelSpec,
    /// Maximum bytes of a tensor.
    most: u64,
    unpacked: RefCell<Vec<u8>>,
}

/// Checks only that it is an answer, as is done for every answer.
///
/// # Errors
/// If it is not such a message, or has no outputs although its model does.
#[inline]
pub fn glance(message: &[u8], model: &ModelSpec) -> Result<(), InferError> {
    let mut fields = Fields::new(message);
    let mut has_outputs = model.outputs.is_empty();
    for (field, _) in fields.by_ref() {
        has_outputs |= field == 1;
    }
    match (fields.is_broken(), has_outputs) {
        (true, _) => Err(malformed(NO_MESSAGE)),
        (false, false) => Err(malformed("it has no outputs")),
        (false, true) => Ok(()),
    }
}

impl<'a> Answer<'a> {
    /// Reads an answer of a model; `most` limits every tensor, `buffer` is where typed lists are unpacked.
    ///
    /// # Errors
    /// If it is not such a message, or a tensor is inconsistent.
    pub fn read(message: &'a [u8], model: &'a ModelSpec, most: u64, buffer: Vec<u8>) -> Result<Self, InferError> {
        let most = most.min(MAX_IMPLIED.max(MAX_PER_BYTE.saturating_mul(message.len() as u64)));
        let answer = Self { message, model, most, unpacked: RefCell::new(buffer) };
        let mut fields = Fields::new(message);
        for (field, value) in fields.by_ref() {
            if field == 1 {
                let (name, tensor) = entry(value).map_err(|why| malformed(format!("an output {why}")))?;
                let refuse = |why: String| malformed(format!("output '{name}' {why}"));
                if let Some(tensor) = Tensor::read(tensor).map_err(refuse)? {
                    tensor.elements(most, &mut answer.unpacked.borrow_mut()).map_err(refuse)?;
                }
            }
        }
        if fields.is_broken() { Err(malformed(NO_MESSAGE)) } else { Ok(answer) }
    }

    /// The buffer, for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.unpacked.into_inner()
    }
}

impl Outputs for Answer<'_> {
    /// Shows those outputs that the signature describes.
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        for (_, value) in Fields::new(self.message).filter(|field| field.0 == 1) {
            let Ok((name, tensor)) = entry(value) else { continue };
            let Ok(Some(tensor)) = Tensor::read(tensor) else { continue };
            if !self.model.outputs.iter().any(|output| output.name == name) {
                continue;
            }
            let mut buffer = self.unpacked.borrow_mut();
            let Ok(bytes) = tensor.elements(self.most, &mut buffer) else { continue };
            visitor(OutputView { name, datatype: tensor.datatype, shape: &tensor.shape, bytes: &bytes });
        }
    }
}

/// Appends the strings of a tensor's raw content: the lengths of all, then the bytes of all, as TensorFlow encodes them.
fn raw_strings(mut raw: &[u8], count: u64, buffer: &mut Vec<u8>) -> Result<(), String> {
    let cut = || "has strings that are cut off".to_owned();
    let mut lengths = Vec::new();
    for _ in 0..count {
        let length = take_varint(&mut raw).and_then(|length| u32::try_from(length).ok());
        lengths.push(length.ok_or_else(cut)?);
    }
    for length in lengths {
        let (text, tail) = raw.split_at_checked(length as usize).ok_or_else(cut)?;
        buffer.extend_from_slice(&length.to_le_bytes());
        buffer.extend_from_slice(text);
        raw = tail;
    }
    if raw.is_empty() { Ok(()) } else { Err("has more strings than its shape".to_owned()) }
}

/// A `TensorProto`.
struct Tensor<'a> {
    datatype: DataType,
    shape: Vec<i64>,
    message: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// `None` if its type is not one of ours.
    fn read(message: &'a [u8]) -> Result<Option<Self>, String> {
        let (mut number, mut dims) = (0, Some(Vec::new()));
        let mut fields = Fields::new(message);
        for (field, value) in fields.by_ref() {
            match (field, value) {
                (1, Value::Number(value)) => number = value,
                (2, Value::Bytes(bytes)) => dims = shape(bytes)?,
                _ => {}
            }
        }
        if fields.is_broken() {
            return Err(protobuf::malformed());
        }
        let shape = dims.ok_or("has no shape")?;
        Ok(datatype::of_number(number).ok().map(|datatype| Self { datatype, shape, message }))
    }

    /// Packed elements: where they are, or unpacked into `buffer`.
    fn elements<'b>(&self, most: u64, buffer: &'b mut Vec<u8>) -> Result<Cow<'b, [u8]>, String>
    where
        'a: 'b,
    {
        let raw = Fields::new(self.message).filter(|field| field.0 == CONTENT).last().and_then(|field| field.1.bytes());
        let raw = raw.filter(|raw| !raw.is_empty());
        if let Some(raw) = raw.filter(|_| self.datatype != DataType::Bytes) {
            return Ok(Cow::Borrowed(raw));
        }
        let size = self.datatype.size().unwrap_or(4) as u64;
        let product = |product: u64, &dim: &i64| product.checked_mul(u64::try_from(dim).ok()?);
        let count = self.shape.iter().try_fold(1, product);
        let count = count.filter(|count| count.checked_mul(size).is_some_and(|bytes| bytes <= most));
        let count =
            count.ok_or_else(|| format!("has the shape {:?}, which is more than an answer holds", self.shape))?;
        buffer.clear();
        if let Some(raw) = raw {
            return raw_strings(raw, count, buffer).map(|()| Cow::Borrowed(&buffer[..]));
        }
        let listed = self.unpack(buffer)?;
        let left = count
            .checked_sub(listed.count)
            .ok_or_else(|| format!("of shape {:?} comes with {} elements", self.shape, listed.count))?;
        let last = if listed.count > 0 { buffer[listed.last..].to_vec() } else { vec![0; size as usize] };
        if (last.len() as u64).checked_mul(left).is_none_or(|bytes| bytes > most) {
            return Err(format!("repeats its last element {left} times, which is more than an answer holds"));
        }
        (0..left).for_each(|_| buffer.extend_from_slice(&last));
        Ok(Cow::Borrowed(buffer))
    }

    /// Appends the typed list's elements.
    fn unpack(&self, buffer: &mut Vec<u8>) -> Result<Listed, String> {
        let mut listed = Listed::default();
        let size = self.datatype.size();
        for (_, value) in Fields::new(self.message).filter(|field| field.0 == list_of(self.datatype)) {
            match (value, size) {
                (Value::Bytes(text), None) => {
                    listed.add(buffer.len(), 1);
                    buffer.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    buffer.extend_from_slice(text);
                }
                (Value::Bytes(packed), Some(size)) if self.is_float() => {
                    if !packed.len().is_multiple_of(size) {
                        return Err("has a list that is cut off".to_owned());
                    }
                    buffer.extend_from_slice(packed);
                    listed.add(buffer.len().saturating_sub(size), packed.len() / size);
                }
                (Value::Bytes(mut packed), Some(size)) => {
                    while !packed.is_empty() {
                        let number = take_varint(&mut packed).ok_or("has a list that is cut off")?;
                        listed.add(buffer.len(), 1);
                        buffer.extend_from_slice(&self.element(number)[..size]);
                    }
                }
                (Value::Number(number) | Value::Fixed(number), Some(size)) => {
                    listed.add(buffer.len(), 1);
                    buffer.extend_from_slice(&self.element(number)[..size]);
                }
                (_, None) => return Err("has strings that are not valid".to_owned()),
            }
        }
        Ok(listed)
    }

    /// Whether elements of its list are as wide as in memory.
    fn is_float(&self) -> bool {
        matches!(self.datatype, DataType::Fp32 | DataType::Fp64)
    }

    /// A number of its list, of which the element's number of bytes count.
    fn element(&self, number: u64) -> [u8; 8] {
        let number = if self.datatype == DataType::Bool { u64::from(number != 0) } else { number };
        number.to_le_bytes()
    }
}

/// The contents of a typed list.
#[derive(Default)]
struct Listed {
    count: u64,
    /// Start of the last element.
    last: usize,
}

impl Listed {
    fn add(&mut self, last: usize, count: usize) {
        if count > 0 {
            self.last = last;
            self.count += count as u64;
        }
    }
}

/// The field of a `TensorProto` that lists elements of a type.
fn list_of(datatype: DataType) -> u32 {
    match datatype {
        DataType::Fp16 | DataType::Bf16 => 13,
        DataType::Fp32 => 5,
        DataType::Fp64 => 6,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Uint8 | DataType::Uint16 => 7,
        DataType::Bytes | DataType::Json => 8,
        DataType::Int64 => 10,
        DataType::Bool => 11,
        DataType::Uint32 => 16,
        DataType::Uint64 => 17,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelId, TensorSpec};
    use crate::wire::protobuf::{put_bytes, put_number, put_varint};

    fn tensor(datatype: DataType, dims: &[i64], list: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut tensor = Vec::new();
        put_number(&mut tensor, 1, u64::from(datatype::number(datatype)));
        let mut shape = Vec::new();
        for &dim in dims {
            let mut size = Vec::new();
            put_number(&mut size, 1, dim as u64);
            put_bytes(&mut shape, 2, &size);
        }
        put_bytes(&mut tensor, 2, &shape);
        list(&mut tensor);
        tensor
    }

    fn answer(tensor: &[u8]) -> Vec<u8> {
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, b"y");
        put_bytes(&mut entry, 2, tensor);
        let mut message = Vec::new();
        put_bytes(&mut message, 1, &entry);
        message
    }

    fn seen(datatype: DataType, tensor: &[u8]) -> Result<(Vec<i64>, Vec<u8>), InferError> {
        let outputs = vec![TensorSpec::plain("y", datatype, vec![-1])];
        let model = ModelSpec::plain(&ModelId::latest("m"), Vec::new(), outputs);
        let message = answer(tensor);
        let answer = Answer::read(&message, &model, 1 << 20, Vec::new())?;
        let mut content = None;
        answer.visit(&mut |output| content = Some((output.shape.to_vec(), output.bytes.to_vec())));
        Ok(content.unwrap())
    }

    fn packed(numbers: &[u64]) -> Vec<u8> {
        let mut packed = Vec::new();
        numbers.iter().for_each(|&number| put_varint(&mut packed, number));
        packed
    }

    #[test]
    fn elements_are_the_same_raw_and_listed() {
        let raw = |datatype, dims: &[i64], bytes: &[u8]| tensor(datatype, dims, |out| put_bytes(out, 4, bytes));
        let floats = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
        for (datatype, field, list, bytes) in [
            (DataType::Fp32, 5, floats.clone(), floats.clone()),
            (DataType::Int8, 7, packed(&[u64::MAX, 5]), vec![255, 5]),
            (DataType::Uint16, 7, packed(&[65_535, 1]), vec![255, 255, 1, 0]),
            (DataType::Int64, 10, packed(&[u64::MAX, 1]), [[255; 8], 1_u64.to_le_bytes()].concat()),
            (DataType::Bool, 11, packed(&[1, 0]), vec![1, 0]),
            (DataType::Fp16, 13, packed(&[0x3c00, 0x4000]), vec![0, 0x3c, 0, 0x40]),
            (DataType::Uint64, 17, packed(&[1, 1 << 40]), [1_u64, 1 << 40].map(u64::to_le_bytes).concat()),
        ] {
            let expected = Ok((vec![2], bytes.clone()));
            assert_eq!(seen(datatype, &tensor(datatype, &[2], |out| put_bytes(out, field, &list))), expected);
            assert_eq!(seen(datatype, &raw(datatype, &[2], &bytes)), expected, "{datatype}");
        }
        let strings = tensor(DataType::Bytes, &[2], |out| {
            put_bytes(out, 8, b"ab");
            put_bytes(out, 8, b"");
        });
        assert_eq!(seen(DataType::Bytes, &strings), Ok((vec![2], b"\x02\0\0\0ab\0\0\0\0".to_vec())));
        assert_eq!(seen(DataType::Bytes, &raw(DataType::Bytes, &[2], b"\x02\0ab")), seen(DataType::Bytes, &strings));
        for broken in [&b"\x02\0a"[..], b"\x02", b"\x02\0abc"] {
            assert!(seen(DataType::Bytes, &raw(DataType::Bytes, &[2], broken)).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn short_lists_go_on_with_their_last_value() {
        let list = tensor(DataType::Int32, &[3], |out| put_number(out, 7, 9));
        assert_eq!(seen(DataType::Int32, &list).unwrap().1, [9_i32; 3].map(i32::to_le_bytes).concat());
        let none = tensor(DataType::Fp32, &[2], |_| ());
        assert_eq!(seen(DataType::Fp32, &none).unwrap().1, [0; 8]);
    }

    #[test]
    fn what_is_no_tensor_is_refused_and_takes_no_memory() {
        let refused = |tensor: &[u8]| seen(DataType::Fp32, tensor).unwrap_err().message;
        let huge = tensor(DataType::Fp32, &[1 << 40, 1 << 20], |_| ());
        assert!(refused(&huge).contains("more than an answer holds"));
        let long = tensor(DataType::Bytes, &[1000], |out| put_bytes(out, 8, &[b'x'; 10_000]));
        assert!(refused(&long).contains("repeats its last element"));
        let more = tensor(DataType::Int32, &[1], |out| put_bytes(out, 7, &packed(&[1, 2])));
        assert!(refused(&more).contains("comes with 2 elements"));
        let odd = tensor(DataType::Fp32, &[1], |out| put_bytes(out, 5, &[0; 3]));
        assert!(refused(&odd).contains("is cut off"));
        assert!(refused(&[0x12]).contains("malformed"));
    }
}
