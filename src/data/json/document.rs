//! JSON documents that requests carry as a whole: copied in the compact format in which perf_analyzer sends them.

use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use crate::json::lexer::{Fault, Kind, Lexer};

/// Deepest nesting of a document.
const MAX_DEPTH: usize = 128;

/// Reads any value and appends it without blanks: members in their order, integers as they are written, other numbers
/// and strings in their shortest form.
pub fn compact(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    value(lexer, out, MAX_DEPTH)
}

fn value(lexer: &mut Lexer<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Fault> {
    let kind = lexer.peek()?;
    match kind {
        Kind::Text => text(&lexer.string()?, out),
        Kind::Number => number(lexer, out)?,
        Kind::Bool => out.extend_from_slice(lexer.boolean()?.to_string().as_bytes()),
        Kind::Null => {
            lexer.skip()?;
            out.extend_from_slice(b"null");
        }
        Kind::Object | Kind::Array if depth == 0 => {
            return Err(lexer.breach(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        Kind::Object | Kind::Array => {
            let (open, close) = if kind == Kind::Object { (b'{', b'}') } else { (b'[', b']') };
            lexer.enter();
            out.push(open);
            let (mut first, mut separated) = (true, true);
            while lexer.more(close, &mut first)? {
                if !std::mem::take(&mut separated) {
                    out.push(b',');
                }
                if kind == Kind::Object {
                    text(&lexer.key()?, out);
                    out.push(b':');
                }
                value(lexer, out, depth - 1)?;
            }
            out.push(close);
        }
    }
    Ok(())
}

fn number(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let at = lexer.offset();
    let written = lexer.number()?;
    if written == "-0" {
        out.push(b'0');
        return Ok(());
    }
    if written.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
        out.extend_from_slice(written.as_bytes());
        return Ok(());
    }
    let parsed = written.parse().ok().filter(|value: &f64| value.is_finite());
    let parsed = parsed.and_then(serde_json::Number::from_f64);
    let parsed =
        parsed.ok_or_else(|| Fault::rule(at, format!("{written} cannot be represented in the JSON of a request")))?;
    out.extend_from_slice(parsed.to_string().as_bytes());
    Ok(())
}

/// Escapes in perf_analyzer's style: with upper-case digits.
struct Escapes;

impl Formatter for Escapes {
    fn write_char_escape<W: io::Write + ?Sized>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04X}"),
            other => CompactFormatter.write_char_escape(writer, other),
        }
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    let mut writer = serde_json::Serializer::with_formatter(out, Escapes);
    text.serialize(&mut writer).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compacted(text: &str) -> Result<String, String> {
        let (mut lexer, mut out) = (Lexer::new(text.as_bytes()), Vec::new());
        compact(&mut lexer, &mut out).map_err(|fault| fault.message)?;
        lexer.end().map_err(|fault| fault.message)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn documents_lose_their_blanks_and_nothing_else() {
        for (written, sent) in [
            ("{ }", "{}"),
            ("[ 1 , -2,\n18446744073709551616 ]", "[1,-2,18446744073709551616]"),
            (
                r#"{"b": true, "a": null, "b": "\u00e9\/\n\"", "c": 0.70, "d": 1e3}"#,
                r#"{"b":true,"a":null,"b":"é/\n\"","c":0.7,"d":1000.0}"#,
            ),
            ("[-0]", "[0]"),
            (r#"["\u001f\u007F\u2028\ud83d\ude00"]"#, "[\"\\u001F\u{7f}\u{2028}😀\"]"),
            (r#" [ [ ], { "x" : [ false ] } ] "#, r#"[[],{"x":[false]}]"#),
        ] {
            assert_eq!(compacted(written).as_deref(), Ok(sent));
            assert_eq!(compacted(sent).as_deref(), Ok(sent), "it stays as it is");
        }
    }

    #[test]
    fn what_is_no_json_of_a_request_is_refused() {
        for (text, part) in [
            ("[NaN]", "NaN cannot be represented"),
            ("{\"a\": -Infinity}", "-Infinity cannot be represented"),
            ("[1e999]", "1e999 cannot be represented"),
            ("{\"a\" 1}", "expected ':'"),
        ] {
            assert!(compacted(text).unwrap_err().contains(part), "{text}");
        }
        assert!(compacted(&"[".repeat(1_000_000)).unwrap_err().contains("deeper than 128"));
    }
}
