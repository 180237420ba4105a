//! Tensors as JSON: packed elements to numbers and strings, and back.

use std::borrow::Cow;

use serde_json::Value;

use crate::model::DataType;

/// Appends packed elements as a flat JSON array.
///
/// # Errors
/// Names what JSON cannot represent: 16-bit floats, strings that are not UTF-8.
pub(super) fn write_elements(out: &mut Vec<u8>, datatype: DataType, bytes: &[u8]) -> Result<(), String> {
    out.push(b'[');
    match datatype {
        DataType::Bool => write_all::<1>(out, bytes, |[byte]| Ok((byte != 0).to_string()))?,
        DataType::Uint8 => write_all(out, bytes, |raw| Ok(u8::from_le_bytes(raw).to_string()))?,
        DataType::Uint16 => write_all(out, bytes, |raw| Ok(u16::from_le_bytes(raw).to_string()))?,
        DataType::Uint32 => write_all(out, bytes, |raw| Ok(u32::from_le_bytes(raw).to_string()))?,
        DataType::Uint64 => write_all(out, bytes, |raw| Ok(u64::from_le_bytes(raw).to_string()))?,
        DataType::Int8 => write_all(out, bytes, |raw| Ok(i8::from_le_bytes(raw).to_string()))?,
        DataType::Int16 => write_all(out, bytes, |raw| Ok(i16::from_le_bytes(raw).to_string()))?,
        DataType::Int32 => write_all(out, bytes, |raw| Ok(i32::from_le_bytes(raw).to_string()))?,
        DataType::Int64 => write_all(out, bytes, |raw| Ok(i64::from_le_bytes(raw).to_string()))?,
        DataType::Fp32 => write_all(out, bytes, |raw| Ok(float_text(f32::from_le_bytes(raw))))?,
        DataType::Fp64 => write_all(out, bytes, |raw| Ok(float_text(f64::from_le_bytes(raw))))?,
        DataType::Bytes => write_texts(out, bytes)?,
        DataType::Fp16 | DataType::Bf16 | DataType::Json => {
            return Err(format!("{datatype} values cannot be represented in JSON"));
        }
    }
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b']');
    Ok(())
}

fn write_all<const N: usize>(
    out: &mut Vec<u8>,
    bytes: &[u8],
    mut text: impl FnMut([u8; N]) -> Result<String, String>,
) -> Result<(), String> {
    for raw in bytes.as_chunks::<N>().0 {
        out.extend_from_slice(text(*raw)?.as_bytes());
        out.push(b',');
    }
    Ok(())
}

/// A number, or the bare word for what JSON does not have, which Triton reads as it writes it.
fn float_text(value: impl serde::Serialize + Into<f64> + Copy) -> String {
    match value.into() {
        wide if wide.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => serde_json::to_string(&value).expect("finite numbers have a form in JSON"),
    }
}

fn write_texts(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), String> {
    let mut remaining = bytes;
    while !remaining.is_empty() {
        let (element, after) = split_element(remaining).ok_or("its BYTES elements are cut off")?;
        let text = std::str::from_utf8(element).map_err(|_| "it holds BYTES that are not UTF-8".to_owned())?;
        serde_json::to_writer(&mut *out, text).map_err(|error| error.to_string())?;
        out.push(b',');
        remaining = after;
    }
    Ok(())
}

/// The first element of a BYTES tensor and what follows it.
fn split_element(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, tail) = bytes.split_first_chunk::<4>()?;
    tail.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Words for numbers that JSON does not have. Triton writes them anyway.
const NOT_JSON: [&str; 3] = ["NaN", "Infinity", "Inf"];

/// A server's JSON, with words for numbers that JSON does not have turned into strings, which [`pack_elements`]
/// accepts.
pub(super) fn in_legal_form(json: &[u8]) -> Cow<'_, [u8]> {
    if !json.windows(3).any(|three| three == b"NaN" || three == b"Inf") {
        return Cow::Borrowed(json);
    }
    let (mut out, mut at, mut in_string) = (Vec::with_capacity(json.len() + 64), 0, false);
    while at < json.len() {
        let tail = &json[at..];
        let sign = usize::from(tail[0] == b'-');
        let word = NOT_JSON.iter().find(|word| !in_string && tail[sign..].starts_with(word.as_bytes()));
        let length = match word {
            Some(word) => sign + word.len(),
            None if in_string && tail[0] == b'\\' => tail.len().min(2),
            None => 1,
        };
        in_string ^= tail[0] == b'"';
        out.extend(word.map(|_| b'"'));
        out.extend_from_slice(&tail[..length]);
        out.extend(word.map(|_| b'"'));
        at += length;
    }
    Cow::Owned(out)
}

/// Why a server's JSON cannot be read, if that is known.
pub(super) fn why_unreadable(json: &[u8]) -> &'static str {
    if std::str::from_utf8(json).is_ok() {
        return "";
    }
    "; it is not UTF-8, because Triton writes the bytes of BYTES outputs as they are: --output-tensor-format binary takes them"
}

/// Appends the elements of a JSON array, nested or flat, packed.
///
/// # Errors
/// Says which value does not fit the type.
pub(super) fn pack_elements(out: &mut Vec<u8>, datatype: DataType, value: &Value) -> Result<(), String> {
    if let Value::Array(items) = value {
        return items.iter().try_for_each(|item| pack_elements(out, datatype, item));
    }
    pack(out, datatype, value).ok_or_else(|| format!("its value {value} does not fit {datatype}"))
}

fn pack(out: &mut Vec<u8>, datatype: DataType, value: &Value) -> Option<()> {
    match datatype {
        DataType::Bool => out.push(u8::from(value.as_bool().or_else(|| Some(value.as_u64()? != 0))?)),
        DataType::Uint8 => out.push(u8::try_from(value.as_u64()?).ok()?),
        DataType::Uint16 => out.extend(u16::try_from(value.as_u64()?).ok()?.to_le_bytes()),
        DataType::Uint32 => out.extend(u32::try_from(value.as_u64()?).ok()?.to_le_bytes()),
        DataType::Uint64 => out.extend(value.as_u64()?.to_le_bytes()),
        DataType::Int8 => out.extend(i8::try_from(value.as_i64()?).ok()?.to_le_bytes()),
        DataType::Int16 => out.extend(i16::try_from(value.as_i64()?).ok()?.to_le_bytes()),
        DataType::Int32 => out.extend(i32::try_from(value.as_i64()?).ok()?.to_le_bytes()),
        DataType::Int64 => out.extend(value.as_i64()?.to_le_bytes()),
        DataType::Fp32 => out.extend((float(value)? as f32).to_le_bytes()),
        DataType::Fp64 => out.extend(float(value)?.to_le_bytes()),
        DataType::Bytes => {
            let text = value.as_str()?.as_bytes();
            out.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
            out.extend_from_slice(text);
        }
        DataType::Fp16 | DataType::Bf16 | DataType::Json => return None,
    }
    Some(())
}

/// A number, or the word for one that JSON does not have.
fn float(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| number_of_word(value.as_str()?))
}

/// Whether a string stands for a number that JSON does not have.
pub(super) fn is_number_word(word: &str) -> bool {
    number_of_word(word).is_some()
}

fn number_of_word(word: &str) -> Option<f64> {
    match word {
        "NaN" | "-NaN" => Some(f64::NAN),
        "Infinity" | "Inf" => Some(f64::INFINITY),
        "-Infinity" | "-Inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_survive_the_way_to_json_and_back() {
        let floats = [f64::INFINITY, f64::NEG_INFINITY, -0.5].map(f64::to_le_bytes).concat();
        let cases: [(DataType, Vec<u8>, &str); 7] = [
            (DataType::Bool, vec![1, 0], "[true,false]"),
            (DataType::Int16, vec![0xff, 0xff, 2, 0], "[-1,2]"),
            (DataType::Uint64, u64::MAX.to_le_bytes().to_vec(), "[18446744073709551615]"),
            (DataType::Fp32, 0.1_f32.to_le_bytes().to_vec(), "[0.1]"),
            (DataType::Fp32, f32::NAN.to_le_bytes().to_vec(), "[NaN]"),
            (DataType::Fp64, floats, "[Infinity,-Infinity,-0.5]"),
            (DataType::Bytes, b"\x02\0\0\0\"a\0\0\0\0".to_vec(), "[\"\\\"a\",\"\"]"),
        ];
        for (datatype, bytes, text) in cases {
            let mut json = Vec::new();
            write_elements(&mut json, datatype, &bytes).unwrap();
            assert_eq!(String::from_utf8(json.clone()).unwrap(), text);
            let mut packed = Vec::new();
            pack_elements(&mut packed, datatype, &serde_json::from_slice(&in_legal_form(&json)).unwrap()).unwrap();
            assert_eq!(packed, bytes);
        }
    }

    #[test]
    fn words_that_are_no_json_are_read_outside_of_strings() {
        let json = br#"{"a":[NaN,-Infinity,1,Infinity],"NaN\\":"\"NaN,Inf"}"#;
        let value: Value = serde_json::from_slice(&in_legal_form(json)).unwrap();
        assert_eq!(value["NaN\\"], "\"NaN,Inf");
        let mut packed = Vec::new();
        pack_elements(&mut packed, DataType::Fp32, &value["a"]).unwrap();
        let read: Vec<f32> = packed.as_chunks::<4>().0.iter().map(|raw| f32::from_le_bytes(*raw)).collect();
        assert!(read[0].is_nan());
        assert_eq!(read[1..], [f32::NEG_INFINITY, 1.0, f32::INFINITY]);
        assert_eq!(in_legal_form(b"[1]"), Cow::Borrowed(b"[1]"));
        assert!(
            why_unreadable(b"[\"\xff\"]").contains("--output-tensor-format binary") && why_unreadable(b"[").is_empty()
        );
    }

    #[test]
    fn what_json_cannot_carry_is_said() {
        for (datatype, bytes) in [
            (DataType::Fp16, vec![0, 0]),
            (DataType::Bytes, vec![9, 0, 0, 0, 1]),
            (DataType::Bytes, vec![1, 0, 0, 0, 0xff]),
        ] {
            assert!(write_elements(&mut Vec::new(), datatype, &bytes).is_err());
        }
        assert!(pack_elements(&mut Vec::new(), DataType::Uint8, &serde_json::json!([256])).is_err());
        assert!(pack_elements(&mut Vec::new(), DataType::Int32, &serde_json::json!(["1"])).is_err());
    }
}
