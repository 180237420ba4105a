//! A pull parser for JSON text, for input files of gigabytes.
//!
//! Written here rather than taken from a crate for three reasons: upstream's files may contain `NaN` and `Infinity`,
//! which strict parsers refuse; numbers go straight from text to the tensor's own type, rounded once; and every message
//! gives line and column. Depth is bounded; only strings with escapes are allocated.

use std::borrow::Cow;

use crate::text::BYTE_ORDER_MARK;

/// Deepest nesting that is skipped.
const MAX_DEPTH: usize = 128;

/// An error and its place in the text.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset in bytes.
    pub at: usize,
    /// What is wrong there.
    pub message: String,
    /// Whether the text is not JSON, rather than JSON that does not fit.
    pub syntax: bool,
}

impl Fault {
    /// JSON that does not fit.
    pub fn rule(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), syntax: false }
    }

    /// Text that is not JSON.
    pub fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), syntax: true }
    }
}

/// The kind of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Object,
    Array,
    Text,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// With its article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Bool => "a boolean",
            Self::Null => "null",
        }
    }
}

/// An unused key, probably misspelt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Where it occurs first.
    pub at: usize,
    /// The key.
    pub key: String,
    /// Keys that are known in its place.
    pub expected: &'static str,
}

/// Limit on distinct keys that are kept; a generated file may have millions.
const MAX_STRAYS: usize = 8;

/// Position in a JSON text.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Keys that were [passed over](Lexer::pass_over).
    pub strays: Vec<Stray>,
}

impl<'a> Lexer<'a> {
    /// Starts at the beginning, after a byte order mark.
    pub fn new(text: &'a [u8]) -> Self {
        Self::resume(text, if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 })
    }

    /// Starts at an offset from [`Lexer::offset`].
    pub fn resume(text: &'a [u8], at: usize) -> Self {
        Self { text, at, strays: Vec::new() }
    }

    /// JSON that does not fit, at the current position.
    pub fn breach(&self, message: impl Into<String>) -> Fault {
        Fault::rule(self.at, message)
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::syntax(self.at, message)
    }

    /// Offset of the next token.
    pub fn offset(&mut self) -> usize {
        self.blanks();
        self.at
    }

    fn blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn next_byte(&mut self) -> Option<u8> {
        self.blanks();
        self.text.get(self.at).copied()
    }

    /// The kind of the next value, without consuming it.
    pub fn peek(&mut self) -> Result<Kind, Fault> {
        match self.next_byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"') => Ok(Kind::Text),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') if self.text[self.at..].starts_with(b"null") => Ok(Kind::Null),
            Some(byte) if byte.is_ascii_alphabetic() => Err(self.no_word()),
            Some(byte) => Err(self.fault(format!("'{}' cannot start a value", byte.escape_ascii()))),
            None => Err(self.fault("the text ends where a value is expected")),
        }
    }

    /// A word that is not JSON, such as another language's constant.
    #[cold]
    fn no_word(&self) -> Fault {
        const SHOWN: usize = 20;
        let letters = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).take(SHOWN);
        let word: String = letters.map(|&byte| byte as char).collect();
        self.fault(format!("'{word}' is not a value: words are true, false, null, NaN, Infinity and -Infinity"))
    }

    /// Consumes the `{` or `[` that was peeked at.
    pub fn enter(&mut self) {
        self.blanks();
        self.at += 1;
    }

    /// Whether another item follows in an array or object that `close` ends; consumes the comma or the end.
    #[inline]
    pub fn more(&mut self, close: u8, first: &mut bool) -> Result<bool, Fault> {
        let was_first = std::mem::replace(first, false);
        match self.next_byte() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) if was_first => Ok(true),
            Some(b',') => {
                self.at += 1;
                match self.next_byte() {
                    Some(byte) if byte == close => Err(self.fault("a comma with nothing after it")),
                    _ => Ok(true),
                }
            }
            Some(byte) => {
                Err(self.fault(format!("expected ',' or '{}', got '{}'", close as char, byte.escape_ascii())))
            }
            None => Err(self.fault(format!("the text ends where ',' or '{}' is expected", close as char))),
        }
    }

    /// Consumes the key of an object's member, and its colon.
    pub fn key(&mut self) -> Result<Cow<'a, str>, Fault> {
        let key = self.string()?;
        match self.next_byte() {
            Some(b':') => {
                self.at += 1;
                Ok(key)
            }
            _ => Err(self.fault(format!("expected ':' after the key \"{key}\""))),
        }
    }

    /// Consumes a string.
    pub fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        if self.next_byte() != Some(b'"') {
            return Err(self.fault("expected a string"));
        }
        self.at += 1;
        let start = self.at;
        let end = self.plain(start)?;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Cow::Borrowed(self.utf8(start, end)?));
        }
        self.escaped(start, end).map(Cow::Owned)
    }

    /// Where the run of ordinary characters from `from` ends: at a quote or a backslash.
    fn plain(&self, from: usize) -> Result<usize, Fault> {
        let tail = &self.text[from..];
        match tail.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20) {
            Some(length) if tail[length] >= 0x20 => Ok(from + length),
            Some(length) => Err(Fault::syntax(from + length, "a control character in a string; write it as \\u00XX")),
            None => Err(Fault::syntax(self.text.len(), "the text ends inside a string")),
        }
    }

    fn utf8(&self, start: usize, end: usize) -> Result<&'a str, Fault> {
        std::str::from_utf8(&self.text[start..end])
            .map_err(|e| Fault::syntax(start + e.valid_up_to(), "the text is not UTF-8"))
    }

    fn escaped(&mut self, mut start: usize, mut end: usize) -> Result<String, Fault> {
        let mut out = String::new();
        loop {
            out.push_str(self.utf8(start, end)?);
            self.at = end + 1;
            if self.text[end] == b'"' {
                return Ok(out);
            }
            out.push(self.escape()?);
            start = self.at;
            end = self.plain(start)?;
        }
    }

    /// The character that a backslash just taken stands for.
    fn escape(&mut self) -> Result<char, Fault> {
        let code = self.text.get(self.at).copied();
        self.at += 1;
        Ok(match code {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(Fault::syntax(self.at - 1, "an unknown escape in a string")),
        })
    }

    fn unicode(&mut self) -> Result<char, Fault> {
        let at = self.at;
        let first = self.hex4()?;
        let code = match first {
            0xd800..=0xdbff if self.text[self.at..].starts_with(b"\\u") => {
                self.at += 2;
                match self.hex4()? {
                    second @ 0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => first,
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| Fault::syntax(at, "half of a surrogate pair in a string"))
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        let value = digits.iter().try_fold(0, |value, &digit| Some(value * 16 + (digit as char).to_digit(16)?));
        match value {
            Some(value) if digits.len() == 4 => {
                self.at += 4;
                Ok(value)
            }
            _ => Err(self.fault("expected four hexadecimal digits after \\u")),
        }
    }

    /// Consumes a number, or one of `NaN`, `Inf`, `Infinity` with or without a minus, as text that Rust's parsers
    /// accept.
    #[inline]
    pub fn number(&mut self) -> Result<&'a str, Fault> {
        self.blanks();
        let start = self.at;
        let mut at = start + usize::from(self.text.get(start) == Some(&b'-'));
        match self.text.get(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = self.digits(at)?,
            Some(b'N' | b'I') => at = self.not_finite(at)?,
            _ => return Err(Fault::syntax(at, "expected a number")),
        }
        if self.text.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if matches!(self.text.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(self.text.get(at), Some(b'+' | b'-')));
            at = self.digits(at)?;
        }
        if self.text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'.') {
            return Err(Fault::syntax(at, "a number that is not well formed"));
        }
        self.at = at;
        self.utf8(start, at)
    }

    /// The end of a run of at least one digit.
    #[inline]
    fn digits(&self, from: usize) -> Result<usize, Fault> {
        let mut at = from;
        while matches!(self.text.get(at), Some(b'0'..=b'9')) {
            at += 1;
        }
        if at == from { Err(Fault::syntax(at, "expected a digit")) } else { Ok(at) }
    }

    fn not_finite(&self, at: usize) -> Result<usize, Fault> {
        let tail = &self.text[at..];
        let word = ["NaN", "Infinity", "Inf"].into_iter().find(|word| tail.starts_with(word.as_bytes()));
        word.map(|word| at + word.len()).ok_or_else(|| Self::resume(self.text, at).no_word())
    }

    /// Consumes `true` or `false`.
    pub fn boolean(&mut self) -> Result<bool, Fault> {
        self.blanks();
        if self.literal("true") {
            Ok(true)
        } else if self.literal("false") {
            Ok(false)
        } else {
            Err(self.no_word())
        }
    }

    fn literal(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    /// Skips the value of `key`, which is not among the `expected` ones, and notes the key.
    pub fn pass_over(&mut self, key: &str, expected: &'static str) -> Result<(), Fault> {
        let is_new = !self.strays.iter().any(|stray| stray.key == key && stray.expected == expected);
        if is_new && self.strays.len() < MAX_STRAYS {
            self.strays.push(Stray { at: self.at, key: key.to_owned(), expected });
        }
        self.skip()
    }

    /// Skips any value.
    pub fn skip(&mut self) -> Result<(), Fault> {
        self.skip_below(MAX_DEPTH)
    }

    fn skip_below(&mut self, depth: usize) -> Result<(), Fault> {
        let kind = self.peek()?;
        if depth == 0 && matches!(kind, Kind::Object | Kind::Array) {
            return Err(self.fault(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        match kind {
            Kind::Text => self.string().map(drop),
            Kind::Number => self.number().map(drop),
            Kind::Bool => self.boolean().map(drop),
            Kind::Null if self.literal("null") => Ok(()),
            Kind::Null => Err(self.fault("expected null")),
            Kind::Object | Kind::Array => {
                let close = if kind == Kind::Object { b'}' } else { b']' };
                self.enter();
                let mut first = true;
                while self.more(close, &mut first)? {
                    if kind == Kind::Object {
                        self.key()?;
                    }
                    self.skip_below(depth - 1)?;
                }
                Ok(())
            }
        }
    }

    /// Checks that nothing but blanks is left.
    pub fn end(&mut self) -> Result<(), Fault> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(self.fault("further text after the end of the document")),
        }
    }

    /// Line and column of an offset, counted from 1; columns are bytes.
    pub fn position(text: &[u8], at: usize) -> (usize, usize) {
        let before = &text[..at.min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        (line, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &[u8]) -> bool {
        let mut lexer = Lexer::new(text);
        lexer.skip().and_then(|()| lexer.end()).is_ok()
    }

    #[test]
    fn accepts_what_a_strict_reader_accepts() {
        let texts: [&[u8]; 34] = [
            b"1",
            b"-0",
            b"01",
            b"1.",
            b".5",
            b"1e5",
            b"1e",
            b"1E+7",
            b"-",
            b"+1",
            b"0x1",
            b"[1,2]",
            b"[1,]",
            b"[,1]",
            b"[1 2]",
            b"{}",
            b"{\"a\":1}",
            b"{\"a\":1,}",
            b"{a:1}",
            b"{\"a\" 1}",
            b"\"\\u0041\"",
            b"\"\\u004\"",
            b"\"\\ud83d\\ude00\"",
            b"\"\\ud83d\"",
            b"\"\\x\"",
            b"\"\x01\"",
            b"\"\xff\"",
            b"\"abc",
            b"true",
            b"tru",
            b"nul",
            b"[",
            b"",
            b"1 2",
        ];
        for text in texts {
            let strict = serde_json::from_slice::<serde_json::Value>(text).is_ok();
            assert_eq!(accepts(text), strict, "{}", text.escape_ascii());
        }
        for literal in ["NaN", "Inf", "-Infinity", "[Infinity, NaN]"] {
            assert!(accepts(literal.as_bytes()), "{literal}");
        }
        assert!(!accepts(b"NaNs"));
    }

    #[test]
    fn strings_are_unescaped() {
        let text = r#""a\n\u00e9\u0000\ud83d\ude00\/""#;
        assert_eq!(Lexer::new(text.as_bytes()).string().unwrap(), "a\n\u{e9}\0\u{1f600}/");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(1_000_000);
        let fault = Lexer::new(deep.as_bytes()).skip().unwrap_err();
        assert_eq!(fault.message, "values are nested deeper than 128");
        assert_eq!(Lexer::position(b"ab\ncd", 4), (2, 2));
    }
}
