//! `-H`: the user's own header fields, and which of ours they replace.

use crate::Endpoint;
use crate::error::{Error, Result};
use crate::plan::Compression;
use crate::wire::http1::Encoding;

/// Fields that frame the request; only this program knows their values.
const RESERVED: [&str; 7] = [
    "content-length",
    "inference-header-content-length",
    "transfer-encoding",
    "content-encoding",
    "expect",
    "te",
    "upgrade",
];

/// What this program calls itself.
pub(crate) const USER_AGENT: &str = concat!("triton-bench/", env!("CARGO_PKG_VERSION"));

/// The user's header fields, checked.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    fields: Vec<(String, String)>,
}

impl Headers {
    /// Checks names and values.
    ///
    /// # Errors
    /// A usage error for a name that is not a token, a value with line breaks, and fields that frame the request.
    pub fn new(pairs: &[(String, String)]) -> Result<Self> {
        let mut fields = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let value = value.trim();
            // Not shown: a value may be a credential, and a mangled one may stand where the name should.
            check(name, value).map_err(|why| Error::usage(format!("-H: {why}")))?;
            fields.push((name.clone(), value.to_owned()));
        }
        Ok(Self { fields })
    }

    /// The beginning of a request's head: its first line, the server that it is for, and who asks.
    pub fn begin(&self, method: &str, path: &str, server: &Endpoint) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        self.write_own(&mut head, "Host", &server.host_field());
        // Firewalls turn away clients that do not name themselves.
        self.write_own(&mut head, "User-Agent", USER_AGENT);
        head
    }

    /// Appends our own field, unless the user gave one with this name.
    pub fn write_own(&self, out: &mut Vec<u8>, name: &str, value: &str) {
        if !self.fields.iter().any(|field| field.0.eq_ignore_ascii_case(name)) {
            write_field(out, name, value);
        }
    }

    /// Whether a reply may be compressed with `encoding`: the user's fields decide, or, if they do not say,
    /// `compression`.
    pub fn accept(&self, encoding: Encoding, compression: Compression) -> bool {
        let asked = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"));
        let mut asked = asked.map(|(_, codings)| codings.to_ascii_lowercase()).peekable();
        match encoding {
            Encoding::Identity => true,
            Encoding::Unknown => false,
            Encoding::Gzip if asked.peek().is_none() => compression == Compression::Gzip,
            Encoding::Deflate if asked.peek().is_none() => compression == Compression::Deflate,
            Encoding::Gzip => asked.any(|codings| codings.contains("gzip") || codings.contains('*')),
            Encoding::Deflate => asked.any(|codings| codings.contains("deflate") || codings.contains('*')),
        }
    }

    /// Appends the user's fields, in their order.
    pub fn write_given(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.fields {
            write_field(out, name, value);
        }
    }
}

fn check(name: &str, value: &str) -> Result<(), String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("the name of a header field is made of letters, digits and !#$%&'*+-.^_`|~".to_owned());
    }
    if value.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
        return Err("a header's value holds no control characters and no line breaks".to_owned());
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return Err("this field says how the request is framed and is set by the program itself".to_owned());
    }
    Ok(())
}

/// Appends a header field.
pub fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends the head's last field and its end.
pub fn write_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str, value: &str) -> Result<Headers> {
        Headers::new(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn fields_that_break_the_framing_are_refused() {
        for (name, value) in [
            ("Content-Length", "5"),
            ("a b", "x"),
            ("", "x"),
            ("X", "a\r\nB: c"),
            ("x:y", "1"),
            ("Expect", "100-continue"),
        ] {
            let message = headers(name, value).unwrap_err().to_string();
            assert!(message.starts_with("-H: "), "{message}");
        }
    }

    #[test]
    fn credentials_are_not_repeated() {
        for (name, value) in [("Authorization Bearer s3cret", "x"), ("Authorization", "Bearer s3cret\u{1}")] {
            let message = headers(name, value).unwrap_err().to_string();
            assert!(!message.contains("s3cret") && message.starts_with("-H: "), "{message}");
        }
    }

    #[test]
    fn replies_are_compressed_only_as_was_asked() {
        let plain = Headers::default();
        assert!(
            plain.accept(Encoding::Identity, Compression::None) && !plain.accept(Encoding::Gzip, Compression::None)
        );
        assert!(plain.accept(Encoding::Gzip, Compression::Gzip) && !plain.accept(Encoding::Deflate, Compression::Gzip));
        let custom = headers("accept-encoding", "br, Deflate;q=0.5").unwrap();
        assert!(
            custom.accept(Encoding::Deflate, Compression::Gzip) && !custom.accept(Encoding::Gzip, Compression::Gzip)
        );
        assert!(!headers("Accept-Encoding", "*").unwrap().accept(Encoding::Unknown, Compression::None));
    }

    #[test]
    fn a_request_begins_with_the_names_of_its_server_and_of_this_program() {
        let begun = |headers: &Headers, url: &str| {
            let head = headers.begin("GET", "/x", &Endpoint::parse(url, 8000).unwrap());
            String::from_utf8(head).unwrap()
        };
        let head = |host: &str| format!("GET /x HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\n");
        assert_eq!(begun(&Headers::default(), "https://api.example.org/v1"), head("api.example.org"));
        assert_eq!(begun(&Headers::default(), "localhost"), head("localhost:8000"));
        let other = headers("user-agent", "Mozilla/5.0").unwrap();
        assert_eq!(
            begun(&other, "h"),
            "GET /x HTTP/1.1\r\nHost: h:8000\r\n",
            "the user's own stands with the other fields"
        );
    }

    #[test]
    fn a_given_field_replaces_ours() {
        let headers = headers("host", " example.org ").unwrap();
        let mut out = Vec::new();
        headers.write_own(&mut out, "Host", "localhost:8000");
        headers.write_own(&mut out, "Accept-Encoding", "gzip");
        headers.write_given(&mut out);
        assert_eq!(out, b"Accept-Encoding: gzip\r\nhost: example.org\r\n");
    }
}
