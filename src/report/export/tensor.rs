//! A tensor's elements as JSON: valid for any bytes.

use std::borrow::Cow;
use std::io::{self, Write};

use half::{bf16, f16};
use serde::de::IgnoredAny;

use crate::data::Payload;
use crate::export::key;
use crate::model::DataType;

/// Writes the elements of a tensor, flattened: one alone as it is, several as a list, none as `""`.
///
/// Numbers that JSON does not have (NaN and the infinities) become `null`. Strings that are not UTF-8 get replacement
/// characters. Bytes that are left over at the end make no element.
pub fn write(out: &mut impl Write, datatype: DataType, bytes: &[u8]) -> io::Result<()> {
    match datatype {
        DataType::Bool => list(out, bytes.chunks_exact(1), |out, element| out.write_all(truth(element))),
        DataType::Uint8 => list(out, bytes.chunks_exact(1), |out, e| write!(out, "{}", e[0])),
        DataType::Int8 => list(out, bytes.chunks_exact(1), |out, e| write!(out, "{}", i8::from_le_bytes([e[0]]))),
        DataType::Uint16 => list(out, bytes.as_chunks().0.iter(), |out, &e| write!(out, "{}", u16::from_le_bytes(e))),
        DataType::Int16 => list(out, bytes.as_chunks().0.iter(), |out, &e| write!(out, "{}", i16::from_le_bytes(e))),
        DataType::Uint32 => list(out, bytes.as_chunks().0.iter(), |out, &e| write!(out, "{}", u32::from_le_bytes(e))),
        DataType::Int32 => list(out, bytes.as_chunks().0.iter(), |out, &e| write!(out, "{}", i32::from_le_bytes(e))),
        DataType::Uint64 => list(out, bytes.as_chunks().0.iter(), |out, &e| write!(out, "{}", u64::from_le_bytes(e))),
        DataType::Int64 => list(out, bytes.as_chunks().0.iter(), |out, &e| write!(out, "{}", i64::from_le_bytes(e))),
        DataType::Fp16 => list(out, bytes.as_chunks().0.iter(), |out, &e| float(out, f16::from_le_bytes(e).to_f64())),
        DataType::Bf16 => list(out, bytes.as_chunks().0.iter(), |out, &e| float(out, bf16::from_le_bytes(e).to_f64())),
        DataType::Fp32 => list(out, bytes.as_chunks().0.iter(), |out, &e| float(out, f64::from(f32::from_le_bytes(e)))),
        DataType::Fp64 => list(out, bytes.as_chunks().0.iter(), |out, &e| float(out, f64::from_le_bytes(e))),
        DataType::Bytes => list(out, Strings(bytes), |out, element| string(out, &String::from_utf8_lossy(element))),
        DataType::Json => list(out, Strings(bytes), |out, element| {
            let text = String::from_utf8_lossy(element);
            if is_event_without_choice(&text) { string(out, &format!(": {text}")) } else { string(out, &text) }
        }),
    }
}

/// Whether this is a server-sent event whose list of choices is empty, as the usage at a stream's end. genai-perf takes the first choice
/// of each event, and ends where there is none; comments it passes over.
fn is_event_without_choice(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Event {
        choices: Vec<IgnoredAny>,
    }
    let event = text.strip_prefix("data:").map(serde_json::from_str::<Event>);
    matches!(event, Some(Ok(Event { choices })) if choices.is_empty())
}

/// The first element of packed texts.
pub fn first_text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(Strings(bytes).next().unwrap_or_default())
}

/// Whether the first of packed texts is a server-sent event without a name, that is more than the end of a stream and is no comment
/// in the file.
pub fn is_event(bytes: &[u8]) -> bool {
    let text = first_text(bytes);
    let data = text.strip_prefix("data:").map(str::trim);
    data.is_some_and(|data| data != "[DONE]") && !is_event_without_choice(&text)
}

/// Writes a JSON string.
pub fn string(out: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// Writes a JSON number, or `null` if JSON has none for it.
pub fn float(out: &mut impl Write, value: f64) -> io::Result<()> {
    Ok(serde_json::to_writer(out, &value)?)
}

fn truth(element: &[u8]) -> &'static [u8] {
    if element[0] == 0 { b"false" } else { b"true" }
}

fn list<W: Write, T>(
    out: &mut W,
    elements: impl Iterator<Item = T>,
    write_element: impl Fn(&mut W, T) -> io::Result<()>,
) -> io::Result<()> {
    let mut elements = elements.peekable();
    let Some(first) = elements.next() else { return out.write_all(b"\"\"") };
    if elements.peek().is_none() {
        return write_element(out, first);
    }
    out.write_all(b"[")?;
    write_element(out, first)?;
    for element in elements {
        out.write_all(b",")?;
        write_element(out, element)?;
    }
    out.write_all(b"]")
}

/// The elements of a BYTES tensor; a truncated one ends where the tensor does.
struct Strings<'a>(&'a [u8]);

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, tail) = self.0.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX).min(tail.len());
        let (element, tail) = tail.split_at(length);
        self.0 = tail;
        Some(element)
    }
}

/// The inputs of a payload, the first of which may have been another text. Those whose memory cannot be read (a device
/// that went away) are shown as `""`.
pub(super) fn inputs(payload: Option<&Payload>, first: Option<&[u8]>) -> Vec<u8> {
    let mut text = vec![b'{'];
    for (index, input) in payload.map_or(&[][..], |payload| &payload.inputs).iter().enumerate() {
        let named = key(&mut text, index == 0, &input.name);
        let written = named.and_then(|()| match first.filter(|_| index == 0) {
            Some(first) => string(&mut text, &String::from_utf8_lossy(first)),
            None => {
                let bytes = input.region.bytes(input.offset, input.len).unwrap_or_default();
                write(&mut text, input.datatype, &bytes)
            }
        });
        debug_assert!(written.is_ok(), "writing to memory does not fail");
    }
    text.push(b'}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(datatype: DataType, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write(&mut out, datatype, bytes).unwrap();
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).expect("valid JSON");
        text
    }

    fn packed<const N: usize>(elements: &[[u8; N]]) -> Vec<u8> {
        elements.concat()
    }

    #[test]
    fn numbers_of_every_type() {
        assert_eq!(json(DataType::Bool, &[0, 1, 7]), "[false,true,true]");
        assert_eq!(json(DataType::Int8, &[255, 1]), "[-1,1]");
        assert_eq!(json(DataType::Uint8, &[255]), "255");
        assert_eq!(json(DataType::Int16, &(-2_i16).to_le_bytes()), "-2");
        assert_eq!(json(DataType::Uint64, &u64::MAX.to_le_bytes()), "18446744073709551615");
        assert_eq!(json(DataType::Int64, &i64::MIN.to_le_bytes()), "-9223372036854775808");
        assert_eq!(
            json(DataType::Fp32, &packed(&[0.1_f32.to_le_bytes(), 2_f32.to_le_bytes()])),
            "[0.10000000149011612,2.0]"
        );
        assert_eq!(json(DataType::Fp64, &0.1_f64.to_le_bytes()), "0.1");
        assert_eq!(json(DataType::Fp16, &f16::from_f32(1.5).to_le_bytes()), "1.5");
        assert_eq!(json(DataType::Bf16, &bf16::from_f32(-3.0).to_le_bytes()), "-3.0");
    }

    #[test]
    fn events_without_a_choice_become_comments() {
        let written = |text: &str| {
            let bytes = [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
            serde_json::from_str::<String>(&json(DataType::Json, &bytes)).unwrap()
        };
        let usage = "data: {\"id\":1,\"choices\": [],\"usage\":{\"completion_tokens\":9}}\n\n";
        assert_eq!(written(usage), format!(": {usage}"));
        let others = [
            "data: {\"choices\":[{\"delta\":{}}]}\n\n",
            "data: {\"done\":true}\n\n",
            "data: [DONE]\n\n",
            "{\"choices\":[]}",
        ];
        for text in others {
            assert_eq!(written(text), text);
        }
    }

    #[test]
    fn what_json_cannot_say_is_null() {
        let odd = packed(&[f32::NAN.to_le_bytes(), f32::INFINITY.to_le_bytes(), 1_f32.to_le_bytes()]);
        assert_eq!(json(DataType::Fp32, &odd), "[null,null,1.0]");
        assert_eq!(json(DataType::Fp16, &f16::NEG_INFINITY.to_le_bytes()), "null");
    }

    #[test]
    fn strings_empty_tensors_and_cut_ones() {
        assert_eq!(json(DataType::Bytes, b"\x03\0\0\0a\"b"), r#""a\"b""#);
        assert_eq!(json(DataType::Bytes, b"\x01\0\0\0a\0\0\0\0\x02\0\0\0bc"), r#"["a","","bc"]"#);
        assert_eq!(json(DataType::Bytes, b"\x02\0\0\0\xff\x00"), r#""�\u0000""#);
        assert_eq!(json(DataType::Bytes, b"\xff\xff\xff\xffab"), r#""ab""#);
        assert_eq!(json(DataType::Bytes, b"\x01\0"), r#""""#);
        assert_eq!(json(DataType::Fp32, &[]), r#""""#);
        assert_eq!(json(DataType::Int32, &[1, 0, 0, 0, 9]), "1");
    }
}
