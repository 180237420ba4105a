//! [`Endpoint`]: the address in `-u`.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::error::{Error, Result};

/// A server's address: `host:port`, or a URL whose path is prefixed to every request's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL's scheme asks for TLS (`https`, `grpcs`).
    pub secure: bool,
    /// Name or address; IPv6 addresses without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path prefix: empty, or begins with a slash and does not end with one.
    pub prefix: String,
}

impl Endpoint {
    /// Parses `host`, `host:port`, `[v6]:port`, or `scheme://host[:port][/prefix]` with scheme `http`, `https`, `grpc`
    /// or `grpcs`. Without a port, a URL with scheme `http` or `https` means 80 or 443; all else means `default_port`.
    ///
    /// # Errors
    /// A usage error that says which part is wrong.
    pub fn parse(text: &str, default_port: u16) -> Result<Self> {
        Self::parse_flag("-u", text, default_port)
    }

    /// As [`Endpoint::parse`], for the value of another flag.
    ///
    /// # Errors
    /// A usage error that names the flag and says which part is wrong.
    pub fn parse_flag(flag: &str, text: &str, default_port: u16) -> Result<Self> {
        let refuse = |why: &str| {
            let shown = without_secrets(text);
            Error::usage(format!("{flag} '{shown}': {why}; expected host:port or a URL such as http://localhost:8000"))
        };
        let (scheme, tail) = text.split_once("://").unwrap_or(("", text));
        let (secure, port) = match scheme.to_ascii_lowercase().as_str() {
            "" | "grpc" => (false, default_port),
            "grpcs" => (true, default_port),
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return Err(refuse("its scheme is none of http, https, grpc and grpcs")),
        };
        if tail.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(refuse("it holds white space or control characters"));
        }
        if tail.contains(['?', '#']) {
            return Err(refuse("a query or fragment has no meaning here"));
        }
        let (authority, path) = tail.split_at(tail.find('/').unwrap_or(tail.len()));
        if authority.contains('@') {
            return Err(refuse("credentials do not belong in the address, pass them with -H 'Authorization:…'"));
        }
        let (host, given_port) =
            split_authority(authority).ok_or_else(|| refuse("host and port cannot be told apart"))?;
        if host.is_empty() {
            return Err(refuse("it names no host"));
        }
        let port = match given_port {
            None => port,
            Some(digits) => parse_port(digits).ok_or_else(|| refuse("the port is not a number from 1 to 65535"))?,
        };
        Ok(Self { secure, host: host.to_owned(), port, prefix: path.trim_end_matches('/').to_owned() })
    }

    /// A URL to show to people, with the scheme of HTTP.
    pub fn http_url(&self) -> String {
        format!("{}://{self}", if self.secure { "https" } else { "http" })
    }

    /// `host:port` as in an `:authority`.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.bracketed(), self.port)
    }

    /// The value of a `Host` field: without the scheme's own port, as clients send it (RFC 3986, section 6.2.3), which proxies
    /// compare with names and signatures are made of.
    pub fn host_field(&self) -> String {
        let usual_port = if self.secure { 443 } else { 80 };
        if self.port == usual_port { self.bracketed().into_owned() } else { self.authority() }
    }

    /// The host as in a URL: IPv6 addresses in brackets.
    fn bracketed(&self) -> Cow<'_, str> {
        if self.host.contains(':') { format!("[{}]", self.host).into() } else { self.host.as_str().into() }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.authority(), self.prefix)
    }
}

/// The address as it may be shown: without credentials and without a query, which may hold some.
fn without_secrets(text: &str) -> String {
    let (address, query) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let (scheme, tail) = address.split_once("://").map_or(("", address), |(scheme, tail)| (scheme, tail));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let (hidden, tail) = tail.rsplit_once('@').map_or(("", tail), |(_, tail)| ("...@", tail));
    let query = if query.is_empty() { "" } else { "?..." };
    format!("{scheme}{separator}{hidden}{tail}{query}")
}

/// Host and, if there is one, the text of the port. Brackets enclose an IPv6 address; without them more than one colon
/// means an IPv6 address without a port.
fn split_authority(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(tail) = authority.strip_prefix('[') {
        let (host, after) = tail.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None if after.is_empty() => Some((host, None)),
            None => None,
        };
    }
    match authority.split_once(':') {
        Some((_, tail)) if tail.contains(':') => Some((authority, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

fn parse_port(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&port| plain && port > 0)
}

/// Percent-encodes what may not stand in a path segment (RFC 3986, 3.3): Triton compares names as they arrive.
pub fn escape_path(segment: &str) -> String {
    segment.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> (bool, String, u16, String) {
        let parsed = Endpoint::parse(text, 8000).unwrap();
        (parsed.secure, parsed.host, parsed.port, parsed.prefix)
    }

    #[test]
    fn names_are_escaped_only_where_they_must_be() {
        assert_eq!(escape_path("a+b@c,d;e'f&g=h-i._~"), "a+b@c,d;e'f&g=h-i._~");
        assert_eq!(escape_path("a/b c?d:e%ü"), "a%2Fb%20c%3Fd%3Ae%25%C3%BC");
    }

    #[test]
    fn hosts_ports_schemes_and_prefixes_are_read() {
        assert_eq!(endpoint("localhost"), (false, "localhost".into(), 8000, String::new()));
        assert_eq!(endpoint("10.0.0.1:81"), (false, "10.0.0.1".into(), 81, String::new()));
        assert_eq!(endpoint("[::1]:9"), (false, "::1".into(), 9, String::new()));
        assert_eq!(endpoint("::1"), (false, "::1".into(), 8000, String::new()));
        assert_eq!(endpoint("https://h/a/b/"), (true, "h".into(), 443, "/a/b".into()));
        assert_eq!(endpoint("HTTP://h:8000"), (false, "h".into(), 8000, String::new()));
        assert_eq!(endpoint("grpcs://h"), (true, "h".into(), 8000, String::new()));
        assert_eq!(Endpoint::parse("[::1]:9/x", 1).unwrap().to_string(), "[::1]:9/x");
    }

    #[test]
    fn hosts_are_named_without_the_port_of_their_scheme() {
        for (text, field, authority) in [
            ("http://h", "h", "h:80"),
            ("h:80", "h", "h:80"),
            ("http://h:443", "h:443", "h:443"),
            ("https://h", "h", "h:443"),
            ("https://h:80/a", "h:80", "h:80"),
            ("https://[::1]", "[::1]", "[::1]:443"),
            ("[::1]", "[::1]:8000", "[::1]:8000"),
        ] {
            let endpoint = Endpoint::parse(text, 8000).unwrap();
            assert_eq!(
                (endpoint.host_field(), endpoint.authority()),
                (field.to_owned(), authority.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn credentials_are_not_repeated() {
        for text in
            ["http://me:s3cret@h:80/x", "me:s3cret@h", "ftp://s3cret@h", "h?key=s3cret", "http://a:s3cret@b@h#s3cret"]
        {
            let message = Endpoint::parse(text, 8000).unwrap_err().to_string();
            assert!(!message.contains("s3cret") && message.contains("h"), "{message}");
        }
        assert_eq!(without_secrets("http://u:p@h:8/x?k=v"), "http://...@h:8/x?...");
    }

    #[test]
    fn bad_addresses_are_refused_with_the_rule() {
        for (text, rule) in [
            ("", "no host"),
            (":8000", "no host"),
            ("h:0", "65535"),
            ("h:70000", "65535"),
            ("h:+1", "65535"),
            ("h:", "65535"),
            ("ftp://h", "scheme"),
            ("a b", "white space"),
            ("h\r\nX: y", "white space"),
            ("http://u:p@h", "credentials"),
            ("h?x=1", "query"),
            ("[::1", "told apart"),
            ("[::1]x", "told apart"),
        ] {
            let message = Endpoint::parse(text, 8000).unwrap_err().to_string();
            assert!(message.contains(rule), "{text:?}: {message}");
        }
    }
}
