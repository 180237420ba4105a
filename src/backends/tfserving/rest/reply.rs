//! Answers: `{"outputs": …}`, with the name of an output only where there are several.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use half::{bf16, f16};
use serde::Deserialize;
use serde_json::Value;

use crate::backend::{InferError, OutputView, Outputs};
use crate::engine::malformed;
use crate::json::{in_legal_form, pack_elements};
use crate::model::{DataType, ModelSpec, TensorSpec};

/// Deepest nesting of lists.
const MAX_DIMS: usize = 254;

#[derive(Deserialize)]
struct ReplyJson {
    #[serde(default)]
    outputs: Option<Value>,
}

/// One output.
struct Output {
    name: String,
    datatype: DataType,
    shape: Vec<i64>,
    bytes: Vec<u8>,
}

/// The outputs of an answer.
pub struct ReplyOutputs(Vec<Output>);

impl ReplyOutputs {
    /// Reads those outputs of an answer that the model's signature describes.
    ///
    /// # Errors
    /// If the body is no answer, or a value is not of its output's type.
    pub fn read(body: &[u8], model: &ModelSpec) -> Result<Self, InferError> {
        let reply: ReplyJson = serde_json::from_slice(&in_legal_form(body))
            .map_err(|error| malformed(format!("its JSON cannot be read: {error}")))?;
        let outputs = reply.outputs.ok_or_else(|| malformed("its JSON has no outputs"))?;
        let named: Vec<(String, Value)> = match (outputs, model.outputs.as_slice()) {
            (Value::Object(members), _) if !members.contains_key("b64") => members.into_iter().collect(),
            (value, [only]) => vec![(only.name.clone(), value)],
            // The only one has a shape that the signature leaves open: there is nothing to check.
            (_, []) => return Ok(Self(Vec::new())),
            _ => return Err(malformed("its only output has no name, but the model has several")),
        };
        let read = |(name, value): (String, Value)| {
            let spec = model.outputs.iter().find(|output| output.name == name)?;
            Some(output(spec, model.max_batch_size > 0 && !spec.shape_tensor, &value))
        };
        named.into_iter().filter_map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl Outputs for ReplyOutputs {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        for Output { name, datatype, shape, bytes } in &self.0 {
            visitor(OutputView { name, datatype: *datatype, shape, bytes });
        }
    }
}

fn output(spec: &TensorSpec, batched: bool, value: &Value) -> Result<Output, InferError> {
    let (name, datatype) = (spec.name.clone(), spec.datatype);
    let refuse = |why: String| malformed(format!("output '{name}': {why}"));
    let mut shape = Vec::new();
    let mut inner = value;
    while let (Value::Array(items), true) = (inner, shape.len() < MAX_DIMS) {
        shape.push(items.len() as i64);
        let Some(first) = items.first() else { break };
        inner = first;
    }
    if shape.last() == Some(&0) {
        // The lists end at a dimension of 0: those behind it are the signature's.
        let inner = spec.shape.iter().skip(shape.len() - usize::from(batched));
        shape.extend(inner.map(|&dim| dim.max(0)));
    }
    let mut bytes = Vec::new();
    pack(&mut bytes, datatype, value, &shape).map_err(refuse)?;
    Ok(Output { name, datatype, shape, bytes })
}

/// Appends the elements of lists of that shape.
fn pack(out: &mut Vec<u8>, datatype: DataType, value: &Value, shape: &[i64]) -> Result<(), String> {
    match (value, shape.split_first()) {
        (Value::Array(items), Some((&count, inner))) if items.len() as i64 == count => {
            items.iter().try_for_each(|item| pack(out, datatype, item, inner))
        }
        (Value::Array(_), _) | (_, Some(_)) => Err("its lists are not all of the same length".to_owned()),
        (Value::Object(members), None) if datatype == DataType::Bytes => {
            let text = members.get("b64").and_then(Value::as_str).ok_or("a string has no b64")?;
            let text = BASE64_STANDARD.decode(text).map_err(|error| format!("a string is not base64: {error}"))?;
            out.extend((text.len() as u32).to_le_bytes());
            out.extend_from_slice(&text);
            Ok(())
        }
        (value, None) => match datatype {
            DataType::Fp16 => half_of(value, datatype).map(|value| out.extend(f16::from_f64(value).to_le_bytes())),
            DataType::Bf16 => half_of(value, datatype).map(|value| out.extend(bf16::from_f64(value).to_le_bytes())),
            _ => pack_elements(out, datatype, value),
        },
    }
}

/// A number of 16 bits, read as one of 64.
fn half_of(value: &Value, datatype: DataType) -> Result<f64, String> {
    let mut wide = Vec::new();
    pack_elements(&mut wide, DataType::Fp64, value)
        .map_err(|_| format!("its value {value} does not fit {datatype}"))?;
    Ok(wide.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelId;

    /// Name, shape and packed elements.
    type Read = (String, Vec<i64>, Vec<u8>);

    fn read(outputs: &[(&str, DataType)], body: &str) -> Result<Vec<Read>, String> {
        let outputs = outputs.iter().map(|&(name, datatype)| TensorSpec::plain(name, datatype, vec![-1])).collect();
        let model = ModelSpec::plain(&ModelId::latest("m"), Vec::new(), outputs);
        let read = ReplyOutputs::read(body.as_bytes(), &model).map_err(|error| error.message)?;
        Ok(read.0.into_iter().map(|output| (output.name, output.shape, output.bytes)).collect())
    }

    #[test]
    fn outputs_have_names_where_there_are_several() {
        let single = read(&[("y", DataType::Fp32)], r#"{"outputs": [[1.5, NaN]]}"#).unwrap();
        assert_eq!((single[0].0.as_str(), &single[0].1[..]), ("y", &[1, 2][..]));
        assert_eq!(single[0].2[..4], 1.5_f32.to_le_bytes());
        let two = &[("a", DataType::Bytes), ("b", DataType::Fp16)];
        let several = read(two, r#"{"outputs": {"a": [{"b64": "/w=="}, "x"], "b": 1.5, "c": []}}"#).unwrap();
        assert_eq!(several[0].2, b"\x01\0\0\0\xff\x01\0\0\0x");
        assert_eq!((&several[1].1[..], &several[1].2[..]), (&[][..], &[0, 0x3e][..]));
        let empty = read(&[("y", DataType::Int32)], r#"{"outputs": [[], []]}"#).unwrap();
        assert_eq!((&empty[0].1[..], empty[0].2.len()), (&[2, 0][..], 0));
        assert!(read(&[], r#"{"outputs": [[1]]}"#).unwrap().is_empty(), "one whose shape nobody knows");
    }

    #[test]
    fn lists_end_at_a_dimension_of_0() {
        let shape = |dims: &[i64], batch: u64, body: &str| {
            let outputs = vec![TensorSpec::plain("y", DataType::Fp32, dims.to_vec())];
            let mut model = ModelSpec::plain(&ModelId::latest("m"), Vec::new(), outputs);
            model.max_batch_size = batch;
            let read = ReplyOutputs::read(body.as_bytes(), &model).map_err(|error| error.message).unwrap();
            (read.0[0].shape.clone(), read.0[0].bytes.len())
        };
        assert_eq!(shape(&[-1, 4], 0, r#"{"outputs": []}"#), (vec![0, 4], 0));
        assert_eq!(shape(&[-1, 4], 8, r#"{"outputs": [[]]}"#), (vec![1, 0, 4], 0));
        assert_eq!(shape(&[-1, -1], 0, r#"{"outputs": []}"#), (vec![0, 0], 0));
        assert_eq!(shape(&[-1], 0, r#"{"outputs": [[], []]}"#), (vec![2, 0], 0), "deeper than the signature");
    }

    #[test]
    fn what_is_no_answer_is_said() {
        let outputs = &[("y", DataType::Int32)];
        for (body, words) in [
            (r#"{"predictions": [1]}"#, "no outputs"),
            ("[]", "no outputs"),
            ("[", "cannot be read"),
            (r#"{"outputs": [[1], [1, 2]]}"#, "not all of the same length"),
            (r#"{"outputs": [[1], 2]}"#, "not all of the same length"),
            (r#"{"outputs": [1.5]}"#, "does not fit INT32"),
            (r#"{"outputs": [{"b64": "/w=="}]}"#, "does not fit INT32"),
        ] {
            let error = read(outputs, body).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
