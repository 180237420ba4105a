//! Files of text: without the mark that some editors begin them with, and told from what is none.

use std::path::Path;

/// What some editors begin a file of UTF-8 with.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The largest number that is written as a floating-point one: beyond it, not every whole number is one.
const MOST_AS_FLOAT: f64 = 9_007_199_254_740_992.0;

/// A whole number, perhaps written as a floating-point one, as table tools do.
pub fn whole_number(text: &str) -> Option<u64> {
    let written = |number: &f64| (0.0..=MOST_AS_FLOAT).contains(number) && number.fract() == 0.0;
    text.parse().ok().or_else(|| text.parse().ok().filter(written).map(|number| number as u64))
}

/// A text without a byte order mark, unless its beginning is that of another format.
///
/// # Errors
/// What it is instead, and what to do with it.
pub fn plain_text(bytes: &[u8]) -> Result<&[u8], String> {
    match other_format(bytes) {
        Some((problem, remedy)) => Err(format!("{problem}: {remedy}")),
        None => Ok(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)),
    }
}

/// The same as a text.
///
/// # Errors
/// As [`plain_text`], and where it is not UTF-8.
pub fn text_of(mut bytes: Vec<u8>) -> Result<String, String> {
    let mark = bytes.len() - plain_text(&bytes)?.len();
    bytes.drain(..mark);
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {}", error.utf8_error()))
}

/// The text of a file.
///
/// # Errors
/// As [`text_of`], and where it cannot be read.
pub fn read_text(path: &Path) -> Result<String, String> {
    text_of(std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?)
}

/// What is wrong with a line of JSON, whose number in the file stands elsewhere in the message.
pub fn fault_in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((rule, _)) => format!("{rule} (column {})", error.column()),
        None => text,
    }
}

/// The format of what is not meant to be a text, and what to do with it.
pub(crate) fn other_format(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const FORMATS: [(&[u8], &str, &str); 5] = [
        (b"\x1f\x8b", "it is compressed with gzip", "unpack it"),
        (b"\x28\xb5\x2f\xfd", "it is compressed with zstd", "unpack it"),
        (b"PK\x03\x04", "it is a zip archive", "unpack it"),
        (b"\xff\xfe", "it is UTF-16", "save it as UTF-8"),
        (b"\xfe\xff", "it is UTF-16", "save it as UTF-8"),
    ];
    FORMATS.into_iter().find(|(magic, ..)| bytes.starts_with(magic)).map(|(_, problem, remedy)| (problem, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_left_out_and_other_formats_are_named() {
        assert_eq!(text_of(b"\xef\xbb\xbfa\xef\xbb\xbf".to_vec()).as_deref(), Ok("a\u{feff}"));
        assert_eq!(text_of(Vec::new()).as_deref(), Ok(""));
        for (bytes, rule) in [
            (&b"\xff\xfea\0"[..], "it is UTF-16: save it as UTF-8"),
            (b"\xfe\xff\0a", "it is UTF-16: save it as UTF-8"),
            (b"\x1f\x8b\x08", "it is compressed with gzip: unpack it"),
            (b"a\xff", "it is not UTF-8: invalid utf-8 sequence of 1 bytes from index 1"),
        ] {
            assert_eq!(text_of(bytes.to_vec()), Err(rule.to_owned()));
        }
        assert!(read_text(Path::new("/none")).unwrap_err().starts_with("cannot be read: "));
    }

    #[test]
    fn a_fault_has_the_column_alone() {
        let error = serde_json::from_str::<serde_json::Value>("{\"a\": x}").unwrap_err();
        assert_eq!(fault_in_line(&error), "expected value (column 7)");
    }
}
