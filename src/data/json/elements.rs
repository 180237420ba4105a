//! Tensor contents in JSON: arrays of values, and base64, converted to packed little-endian bytes.

use std::fmt::Display;
use std::str::FromStr;

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, DecodeSliceError, Engine};
use half::{bf16, f16};

use crate::json::document;
use crate::json::lexer::{Fault, Kind, Lexer};
use crate::model::DataType;
use crate::shm::RegionBuilder;
use crate::strings;

/// Standard alphabet; the padding is optional.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Characters of base64 decoded at a time; a multiple of four.
const CHUNK: usize = 1 << 14;

/// Reads an array of values of `datatype`, appends their bytes and returns how many there were.
pub fn read_array(lexer: &mut Lexer<'_>, datatype: DataType, out: &mut RegionBuilder) -> Result<u64, Fault> {
    match datatype {
        DataType::Bool => each(lexer, out, |lexer| boolean(lexer).map(|value| [u8::from(value)])),
        DataType::Uint8 => each(lexer, out, |lexer| integer(lexer, datatype, u8::MIN, u8::MAX).map(u8::to_le_bytes)),
        DataType::Uint16 => {
            each(lexer, out, |lexer| integer(lexer, datatype, u16::MIN, u16::MAX).map(u16::to_le_bytes))
        }
        DataType::Uint32 => {
            each(lexer, out, |lexer| integer(lexer, datatype, u32::MIN, u32::MAX).map(u32::to_le_bytes))
        }
        DataType::Uint64 => {
            each(lexer, out, |lexer| integer(lexer, datatype, u64::MIN, u64::MAX).map(u64::to_le_bytes))
        }
        DataType::Int8 => each(lexer, out, |lexer| integer(lexer, datatype, i8::MIN, i8::MAX).map(i8::to_le_bytes)),
        DataType::Int16 => each(lexer, out, |lexer| integer(lexer, datatype, i16::MIN, i16::MAX).map(i16::to_le_bytes)),
        DataType::Int32 => each(lexer, out, |lexer| integer(lexer, datatype, i32::MIN, i32::MAX).map(i32::to_le_bytes)),
        DataType::Int64 => each(lexer, out, |lexer| integer(lexer, datatype, i64::MIN, i64::MAX).map(i64::to_le_bytes)),
        DataType::Fp16 => {
            let parse = |text: &str| text.parse().ok().map(f16::from_f64);
            each(lexer, out, |lexer| float(lexer, datatype, parse, f16::is_infinite).map(f16::to_le_bytes))
        }
        DataType::Bf16 => {
            let parse = |text: &str| text.parse().ok().map(bf16::from_f64);
            each(lexer, out, |lexer| float(lexer, datatype, parse, bf16::is_infinite).map(bf16::to_le_bytes))
        }
        DataType::Fp32 => {
            let parse = |text: &str| text.parse().ok();
            each(lexer, out, |lexer| float(lexer, datatype, parse, f32::is_infinite).map(f32::to_le_bytes))
        }
        DataType::Fp64 => {
            let parse = |text: &str| text.parse().ok();
            each(lexer, out, |lexer| float(lexer, datatype, parse, f64::is_infinite).map(f64::to_le_bytes))
        }
        DataType::Bytes => texts(lexer, out),
        DataType::Json => documents(lexer, out),
    }
}

fn each<'a, const N: usize>(
    lexer: &mut Lexer<'a>,
    out: &mut RegionBuilder,
    mut convert: impl FnMut(&mut Lexer<'a>) -> Result<[u8; N], Fault>,
) -> Result<u64, Fault> {
    lexer.enter();
    let (mut first, mut count) = (true, 0);
    while lexer.more(b']', &mut first)? {
        let bytes = convert(lexer)
            .map_err(|fault| Fault { message: format!("element {count}: {}", fault.message), ..fault })?;
        out.write(&bytes).map_err(|e| lexer.breach(e.to_string()))?;
        count += 1;
    }
    Ok(count)
}

fn texts(lexer: &mut Lexer<'_>, out: &mut RegionBuilder) -> Result<u64, Fault> {
    lexer.enter();
    let (mut first, mut count) = (true, 0);
    while lexer.more(b']', &mut first)? {
        let kind = lexer.peek()?;
        if kind != Kind::Text {
            return Err(lexer.breach(format!(
                "element {count}: unable to find string data in json: a BYTES tensor takes strings, got {}",
                kind.name()
            )));
        }
        let text = lexer.string()?;
        strings::append(out, text.as_bytes()).map_err(|e| lexer.breach(e.to_string()))?;
        count += 1;
    }
    Ok(count)
}

fn documents(lexer: &mut Lexer<'_>, out: &mut RegionBuilder) -> Result<u64, Fault> {
    lexer.enter();
    let (mut first, mut count) = (true, 0);
    while lexer.more(b']', &mut first)? {
        read_document(lexer, out)?;
        count += 1;
    }
    Ok(count)
}

/// Appends any value as a document.
pub fn read_document(lexer: &mut Lexer<'_>, out: &mut RegionBuilder) -> Result<(), Fault> {
    let mut text = Vec::new();
    document::compact(lexer, &mut text)?;
    strings::append(out, &text).map_err(|e| lexer.breach(e.to_string()))
}

fn boolean(lexer: &mut Lexer<'_>) -> Result<bool, Fault> {
    let at = lexer.offset();
    let unfit = |got: &str| {
        Fault::rule(at, format!("unable to find bool data in json: a BOOL tensor takes true, false, 0 or 1, got {got}"))
    };
    match lexer.peek()? {
        Kind::Bool => lexer.boolean(),
        Kind::Number => match lexer.number()? {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(unfit(other)),
        },
        kind => Err(unfit(kind.name())),
    }
}

#[inline]
fn integer<T: FromStr + Display>(lexer: &mut Lexer<'_>, datatype: DataType, least: T, most: T) -> Result<T, Fault> {
    let at = lexer.offset();
    let text = numeric(lexer, datatype)?;
    text.parse().map_err(|_| {
        let (name, got) = (c_name(datatype), brief(text));
        let rule = format!("{datatype} takes integers from {least} to {most}, got {got}");
        Fault::rule(at, format!("unable to find {name} data in json: {rule}"))
    })
}

/// A floating-point number, rounded once; a finite number that is too large for the type is refused.
#[inline]
fn float<T: Copy>(
    lexer: &mut Lexer<'_>,
    datatype: DataType,
    parse: impl Fn(&str) -> Option<T>,
    is_infinite: impl Fn(T) -> bool,
) -> Result<T, Fault> {
    let at = lexer.offset();
    let text = numeric(lexer, datatype)?;
    match parse(text) {
        Some(value) if !is_infinite(value) || text.contains('I') => Ok(value),
        _ => Err(Fault::rule(at, format!("the number {} is too large for {datatype}", brief(text)))),
    }
}

#[inline]
fn numeric<'a>(lexer: &mut Lexer<'a>, datatype: DataType) -> Result<&'a str, Fault> {
    match lexer.peek()? {
        Kind::Number => lexer.number(),
        kind => Err(lexer.breach(format!(
            "unable to find {} data in json: {datatype} takes numbers, got {}; tensor contents are one flat array",
            c_name(datatype),
            kind.name()
        ))),
    }
}

/// perf_analyzer's name of an element type in its messages.
fn c_name(datatype: DataType) -> String {
    match datatype {
        DataType::Fp32 => "float".to_owned(),
        DataType::Bool => "bool".to_owned(),
        DataType::Bytes => "string".to_owned(),
        DataType::Fp16 | DataType::Bf16 | DataType::Fp64 => datatype.name().to_lowercase(),
        _ => format!("{}_t", datatype.name().to_lowercase()),
    }
}

/// The beginning of a text, for a message.
fn brief(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Decodes base64 text and appends its bytes. Blanks in it are skipped, because some encoders break lines.
pub fn read_base64(text: &str, out: &mut RegionBuilder) -> Result<(), String> {
    let joined: String;
    let text = if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        joined = text.split_ascii_whitespace().collect();
        joined.as_str()
    } else {
        text
    };
    let mut buffer = [0; CHUNK / 4 * 3];
    let chunks = text.as_bytes().chunks(CHUNK);
    let last = chunks.len().saturating_sub(1);
    for (index, chunk) in chunks.enumerate() {
        let count = BASE64
            .decode_slice(chunk, &mut buffer)
            .map_err(|e| format!("wrong base64: {}", base64_fault(&e, index * CHUNK)))?;
        if index < last && count < buffer.len() {
            return Err(format!("wrong base64: padding before the end, near character {}", index * CHUNK));
        }
        out.write(&buffer[..count]).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The error in a piece of base64 that begins at character `start`, not counting blanks.
fn base64_fault(error: &DecodeSliceError, start: usize) -> String {
    match error {
        DecodeSliceError::DecodeError(DecodeError::InvalidByte(at, byte)) => {
            let hint = match byte {
                b'-' | b'_' => "; this is the alphabet for URLs, but the standard one is read, with + and /",
                _ => "",
            };
            format!("character {} is '{}'{hint}", start + at, byte.escape_ascii())
        }
        DecodeSliceError::DecodeError(DecodeError::InvalidLastSymbol { offset, symbol, .. }) => {
            format!("character {} is '{}', which does not end on a whole byte", start + offset, symbol.escape_ascii())
        }
        DecodeSliceError::DecodeError(DecodeError::InvalidLength(length)) => {
            format!("{} characters without padding do not make whole bytes", start + length)
        }
        _ => format!("its padding is wrong, near character {start}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, datatype: DataType) -> Result<Vec<u8>, String> {
        let mut out = RegionBuilder::new().unwrap();
        let mut lexer = Lexer::new(text.as_bytes());
        read_array(&mut lexer, datatype, &mut out).map_err(|fault| fault.message)?;
        Ok(out.since(0).to_vec())
    }

    #[test]
    fn every_type_takes_what_it_should() {
        assert_eq!(read("[true, 0, 1]", DataType::Bool).unwrap(), [1, 0, 1]);
        assert_eq!(read("[-1, 127]", DataType::Int8).unwrap(), [255, 127]);
        assert_eq!(read("[18446744073709551615]", DataType::Uint64).unwrap(), [255; 8]);
        assert_eq!(read("[-9223372036854775808]", DataType::Int64).unwrap(), i64::MIN.to_le_bytes());
        assert_eq!(
            read("[1, -2.5, NaN]", DataType::Fp32).unwrap()[..8],
            [1_f32.to_le_bytes(), (-2.5_f32).to_le_bytes()].concat()
        );
        assert_eq!(
            read("[Infinity, -Inf]", DataType::Fp64).unwrap(),
            [f64::INFINITY.to_le_bytes(), f64::NEG_INFINITY.to_le_bytes()].concat()
        );
        assert_eq!(read("[1, 0.5]", DataType::Fp16).unwrap(), [0, 0x3c, 0, 0x38]);
        assert_eq!(read("[1, 3]", DataType::Bf16).unwrap(), [0x80, 0x3f, 0x40, 0x40]);
        assert_eq!(read(r#"["a\u0000b", ""]"#, DataType::Bytes).unwrap(), b"\x03\0\0\0a\0b\0\0\0\0");
    }

    #[test]
    fn ranges_and_kinds_are_checked() {
        for (text, datatype, part) in [
            (
                "[1, 300]",
                DataType::Uint8,
                "element 1: unable to find uint8_t data in json: UINT8 takes integers from 0 to 255, got 300",
            ),
            ("[1.0]", DataType::Int32, "INT32 takes integers from -2147483648 to 2147483647, got 1.0"),
            ("[-1]", DataType::Uint64, "got -1"),
            ("[9223372036854775808]", DataType::Int64, "got 9223372036854775808"),
            ("[NaN]", DataType::Int64, "got NaN"),
            ("[1e39]", DataType::Fp32, "the number 1e39 is too large for FP32"),
            ("[1e999]", DataType::Fp64, "too large for FP64"),
            ("[70000]", DataType::Fp16, "too large for FP16"),
            ("[1e39]", DataType::Bf16, "too large for BF16"),
            ("[\"1\"]", DataType::Fp32, "unable to find float data in json: FP32 takes numbers, got a string"),
            ("[[1]]", DataType::Fp32, "got an array; tensor contents are one flat array"),
            ("[2]", DataType::Bool, "unable to find bool data in json"),
            ("[null]", DataType::Bool, "got null"),
            ("[1]", DataType::Bytes, "unable to find string data in json"),
            ("[nan]", DataType::Fp32, "'nan' is not a value"),
            ("[None]", DataType::Fp32, "'None' is not a value"),
            ("[True]", DataType::Bool, "'True' is not a value"),
            ("[1", DataType::Fp32, "the text ends"),
        ] {
            let message = read(text, datatype).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn base64_is_checked() {
        let decode = |text: &str| {
            let mut out = RegionBuilder::new().unwrap();
            read_base64(text, &mut out).map(|()| out.since(0).to_vec())
        };
        assert_eq!(decode("AQID\nBA==").unwrap(), [1, 2, 3, 4]);
        assert_eq!(decode("AQIDBA").unwrap(), [1, 2, 3, 4]);
        assert_eq!(decode("AQ!D").unwrap_err(), "wrong base64: character 2 is '!'");
        assert!(decode("AQ-D").unwrap_err().contains("character 2 is '-'; this is the alphabet for URLs"));
        assert!(decode("A").unwrap_err().ends_with("1 characters without padding do not make whole bytes"));
        assert!(decode("AR==").unwrap_err().contains("character 1 is 'R', which does not end on a whole byte"));
        assert!(decode("A=AA").is_err());
        let long = "AAAA".repeat(CHUNK);
        assert_eq!(decode(&long).unwrap().len(), CHUNK * 3);
        let mut broken = long.into_bytes();
        broken[CHUNK - 1] = b'=';
        assert!(decode(std::str::from_utf8(&broken).unwrap()).is_err());
    }
}
