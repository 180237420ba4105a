//! Requests, rendered once: no two requests of a payload differ.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use half::{bf16, f16};

use super::Way;
use crate::data::{InputTensor, Payload};
use crate::engine::http1::write_length;
use crate::error::{Error, Result};
use crate::model::{DataType, ModelSpec};

/// The requests of all payloads, heads included.
pub struct Bodies(Vec<Vec<u8>>);

impl Bodies {
    /// Renders every payload.
    ///
    /// # Errors
    /// If a tensor cannot be read.
    pub fn render(way: &Way, signature: &str, models: &[ModelSpec], payloads: &[Payload]) -> Result<Self> {
        let render = |payload: &Payload| {
            let body = body(signature, &payload.inputs)?;
            let path = way.path(&models[payload.model].id);
            let mut request = way.headers.begin("POST", &format!("{path}:predict"), &way.endpoint);
            way.headers.write_own(&mut request, "Content-Type", "application/json");
            way.headers.write_given(&mut request);
            write_length(&mut request, body.len());
            request.extend_from_slice(&body);
            Ok(request)
        };
        payloads.iter().map(render).collect::<Result<_>>().map(Self)
    }

    /// A payload's request.
    #[inline]
    pub fn get(&self, payload: u32) -> &[u8] {
        &self.0[payload as usize]
    }
}

fn body(signature: &str, inputs: &[InputTensor]) -> Result<Vec<u8>> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut body = format!("{{\"signature_name\":{},\"inputs\":{{", quoted(signature)).into_bytes();
    for (index, input) in inputs.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        body.extend_from_slice(format!("{comma}{}:", quoted(&input.name)).as_bytes());
        let bytes = input.region.bytes(input.offset, input.len)?;
        let mut elements = Elements { datatype: input.datatype, rest: &bytes };
        nest(&mut body, &input.shape, &mut elements)
            .ok_or_else(|| Error::input(format!("input '{}' is cut off", input.name)))?;
    }
    body.extend_from_slice(b"}}");
    Ok(body)
}

/// Writes the next elements as lists of lists; `None` if there are too few.
fn nest(out: &mut Vec<u8>, dims: &[i64], elements: &mut Elements<'_>) -> Option<()> {
    let Some((&count, inner)) = dims.split_first() else { return elements.write_next(out) };
    out.push(b'[');
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        nest(out, inner, elements)?;
    }
    out.push(b']');
    Some(())
}

/// Packed elements that are still to be written.
struct Elements<'a> {
    datatype: DataType,
    rest: &'a [u8],
}

impl Elements<'_> {
    fn write_next(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let text = match self.datatype {
            DataType::Bool => (self.take()? != [0_u8]).to_string(),
            DataType::Uint8 => u8::from_le_bytes(self.take()?).to_string(),
            DataType::Uint16 => u16::from_le_bytes(self.take()?).to_string(),
            DataType::Uint32 => u32::from_le_bytes(self.take()?).to_string(),
            DataType::Uint64 => u64::from_le_bytes(self.take()?).to_string(),
            DataType::Int8 => i8::from_le_bytes(self.take()?).to_string(),
            DataType::Int16 => i16::from_le_bytes(self.take()?).to_string(),
            DataType::Int32 => i32::from_le_bytes(self.take()?).to_string(),
            DataType::Int64 => i64::from_le_bytes(self.take()?).to_string(),
            DataType::Fp16 => float(f64::from(f16::from_le_bytes(self.take()?)), None),
            DataType::Bf16 => float(f64::from(bf16::from_le_bytes(self.take()?)), None),
            DataType::Fp32 => {
                let value = f32::from_le_bytes(self.take()?);
                float(f64::from(value), serde_json::to_string(&value).ok())
            }
            DataType::Fp64 => float(f64::from_le_bytes(self.take()?), None),
            DataType::Bytes | DataType::Json => {
                let length = u32::from_le_bytes(self.take()?) as usize;
                let (text, tail) = self.rest.split_at_checked(length)?;
                self.rest = tail;
                format!("{{\"b64\":\"{}\"}}", BASE64_STANDARD.encode(text))
            }
        };
        out.extend_from_slice(text.as_bytes());
        Some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, tail) = self.rest.split_first_chunk()?;
        self.rest = tail;
        Some(*bytes)
    }
}

/// A number, or the bare word that this JSON has for what is none; `short` is its text where that is known.
fn float(value: f64, short: Option<String>) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => short.or_else(|| serde_json::to_string(&value).ok()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfserving::sample::input;

    #[test]
    fn tensors_are_lists_of_lists_with_everything_that_they_may_hold() {
        let floats = [0.1_f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
        let inputs = [
            input("x", DataType::Fp32, &[2, 2], &floats),
            input("h", DataType::Fp16, &[1], &f16::from_f32(1.5).to_le_bytes()),
            input("s", DataType::Bytes, &[2, 1], b"\x02\0\0\0\xff\0\0\0\0\0"),
            input("n", DataType::Int64, &[], &(-7_i64).to_le_bytes()),
            input("b", DataType::Bool, &[2], &[1, 0]),
            input("e", DataType::Int8, &[2, 0], &[]),
        ];
        assert_eq!(
            String::from_utf8(body("serving_default", &inputs).unwrap()).unwrap(),
            r#"{"signature_name":"serving_default","inputs":{"x":[[0.1,NaN],[Infinity,-Infinity]],"h":[1.5],"#
                .to_owned()
                + r#""s":[[{"b64":"/wA="}],[{"b64":""}]],"n":-7,"b":[true,false],"e":[[],[]]}}"#
        );
        assert!(body("s", &[input("x", DataType::Int16, &[2], &[0])]).is_err());
    }
}
