//! Reads a server's metrics: over HTTP, whatever protocol the requests use.

use std::sync::Arc;

use crate::backend::{ErrorCode, InferError};
use crate::engine::http1::{Headers, KEPT_OF_REFUSAL, Patience, Questions, keep, refusal};
use crate::engine::{Connector, Endpoint, malformed};
use crate::error::Result;
use crate::held::Held;
use crate::plan::ConnectionPlan;
use crate::wire::TlsClient;
use crate::wire::http1::Head;

/// Port of Triton's metrics.
const PORT: u16 = 8002;
/// Their path.
const PATH: &str = "/metrics";
/// Size limit of a page of metrics.
const MAX_PAGE: u64 = 256 * 1024 * 1024;
/// Longest line of it.
const MAX_LINE: usize = 64 * 1024;

/// The source of a server's metrics.
pub struct MetricsSource {
    questions: Questions,
    path: String,
    /// Scheme and host, as the server may write them in front of a path.
    origin: String,
}

/// What a server has answered in place of its metrics.
#[derive(Default)]
struct Refused {
    head: Head,
    body: Held,
}

impl Refused {
    fn error(&self) -> InferError {
        let Head { status, location, .. } = &self.head;
        if location.is_empty() || !(300..400).contains(status) {
            return refusal(*status, location, &self.body);
        }
        let next = format!("redirected to '{location}', which is not followed; name that page with --metrics-url");
        InferError::new(ErrorCode::Http(*status), next)
    }
}

impl MetricsSource {
    /// The metrics that the plan names; by default at Triton's metrics port on the host of `server`. Nothing is read yet.
    ///
    /// # Errors
    /// If the address or a certificate is wrong.
    pub fn new(connection: &ConnectionPlan, server: &Endpoint) -> Result<Self> {
        Self::at(page(connection, server)?, connection, Headers::default())
    }

    /// The metrics that the plan names; by default at the port that `server` itself listens at, for which `headers` are: they may
    /// hold its credentials. Nothing is read yet.
    ///
    /// # Errors
    /// If the address or a certificate is wrong.
    pub fn beside(server: &Endpoint, headers: &Headers, connection: &ConnectionPlan) -> Result<Self> {
        let headers = if connection.metrics_url.is_some() { Headers::default() } else { headers.clone() };
        Self::at(page_beside(connection, server)?, connection, headers)
    }

    fn at(endpoint: Endpoint, connection: &ConnectionPlan, headers: Headers) -> Result<Self> {
        let (path, secure) = (endpoint.prefix.clone(), endpoint.secure);
        let origin = format!("{}://{}", if secure { "https" } else { "http" }, endpoint.host_field());
        let tls = secure.then(|| TlsClient::new(&connection.tls, &["http/1.1"])).transpose()?;
        let connector = Arc::new(Connector::new(endpoint, tls));
        Ok(Self { questions: Questions::new(connector, headers), path, origin })
    }

    /// Calls `line` with every line of the metrics, as they arrive.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses, with its reason.
    pub fn read(&self, line: &mut dyn FnMut(&str)) -> Result<()> {
        let unread = |error| self.questions.error("metrics", &error);
        let Some(mut refused) = self.page(&self.path, line).map_err(unread)? else { return Ok(()) };
        // Where an application of its own is mounted at the path, the page is below it.
        let below = format!("{}/", self.path);
        let location = &refused.head.location;
        if location.strip_prefix(&self.origin).unwrap_or(location) == below {
            match self.page(&below, line).map_err(unread)? {
                Some(again) => refused = again,
                None => return Ok(()),
            }
        }
        Err(unread(refused.error()))
    }

    /// Calls `line` with every line of a page; returns what came in its place, if anything did.
    fn page(&self, path: &str, line: &mut dyn FnMut(&str)) -> Result<Option<Refused>, InferError> {
        let (mut lines, mut refused) = (Lines::default(), Refused::default());
        let mut take = |head: &Head, piece: &[u8]| {
            if head.status == 200 {
                return lines.take(piece, line);
            }
            keep(&mut refused.body, piece, KEPT_OF_REFUSAL)
        };
        refused.head = self.questions.stream(path, Patience::Sample, &mut take)?;
        if refused.head.status != 200 {
            return Ok(Some(refused));
        }
        lines.end(line).map(|()| None)
    }
}

/// Where the metrics of a Triton are.
///
/// # Errors
/// If the address is wrong.
pub fn page(connection: &ConnectionPlan, server: &Endpoint) -> Result<Endpoint> {
    let usual = Endpoint { secure: false, port: PORT, prefix: PATH.to_owned(), ..server.clone() };
    named(connection, PORT).unwrap_or(Ok(usual))
}

/// Where those of a server are that offers them beside everything else.
///
/// # Errors
/// If the address is wrong.
pub fn page_beside(connection: &ConnectionPlan, server: &Endpoint) -> Result<Endpoint> {
    let usual = Endpoint { prefix: PATH.to_owned(), ..server.clone() };
    named(connection, server.port).unwrap_or(Ok(usual))
}

/// Where the plan says that they are, at `port` if it names none.
fn named(connection: &ConnectionPlan, port: u16) -> Option<Result<Endpoint>> {
    let url = connection.metrics_url.as_deref()?;
    let parsed = Endpoint::parse_flag("--metrics-url", url, port);
    Some(parsed.map(|page| if page.prefix.is_empty() { Endpoint { prefix: PATH.to_owned(), ..page } } else { page }))
}

/// Whether two servers' metrics would come from one page. Other names of one host are not known here.
pub fn is_same_page(left: &Endpoint, right: &Endpoint) -> bool {
    let host = |page: &Endpoint| match page.host.to_ascii_lowercase().as_str() {
        "localhost" | "127.0.0.1" | "::1" => "localhost".to_owned(),
        other => other.to_owned(),
    };
    (left.port, &left.prefix) == (right.port, &right.prefix) && host(left) == host(right)
}

/// Splits a text that arrives in pieces into lines.
#[derive(Default)]
struct Lines {
    taken: u64,
    /// The unfinished line.
    begun: Vec<u8>,
}

impl Lines {
    fn take(&mut self, piece: &[u8], line: &mut dyn FnMut(&str)) -> Result<(), InferError> {
        self.taken += piece.len() as u64;
        if self.taken > MAX_PAGE {
            return Err(malformed(format!("they are longer than {MAX_PAGE} bytes")));
        }
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.begun.len() + part.len() > MAX_LINE {
                return Err(malformed(format!("one of their lines is longer than {MAX_LINE} bytes")));
            }
            if !part.ends_with(b"\n") {
                self.begun.extend_from_slice(part);
            } else if self.begun.is_empty() {
                give(part, line)?;
            } else {
                self.begun.extend_from_slice(part);
                self.end(line)?;
            }
        }
        Ok(())
    }

    /// Returns the unfinished line, if there is one.
    fn end(&mut self, line: &mut dyn FnMut(&str)) -> Result<(), InferError> {
        let result = if self.begun.is_empty() { Ok(()) } else { give(&self.begun, line) };
        self.begun.clear();
        result
    }
}

fn give(bytes: &[u8], line: &mut dyn FnMut(&str)) -> Result<(), InferError> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("they are not UTF-8"))?;
    line(text.trim_end_matches(['\r', '\n']));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::plan::{Compression, Protocol, Tls};

    fn lines(pieces: &[&[u8]]) -> Result<Vec<String>, InferError> {
        let (mut cut, mut collected) = (Lines::default(), Vec::new());
        let mut keep = |line: &str| collected.push(line.to_owned());
        pieces.iter().try_for_each(|piece| cut.take(piece, &mut keep))?;
        cut.end(&mut keep)?;
        Ok(collected)
    }

    #[test]
    fn pages_are_told_apart_by_host_port_and_path() {
        let server = |url: &str| Endpoint::parse(url, 8000).unwrap();
        let at = |url: &str, given: Option<&str>| page(&connection(url, given), &server(url)).unwrap();
        assert_eq!(at("h:1", None).http_url(), "http://h:8002/metrics");
        assert_eq!(at("https://h:1/prefix", None).http_url(), "http://h:8002/metrics");
        assert_eq!(at("h:1", Some("https://other")).http_url(), "https://other:443/metrics");
        let beside = |url: &str| page_beside(&connection(url, None), &server(url)).unwrap();
        assert_eq!(beside("h:1/v1").http_url(), "http://h:1/metrics");
        for (left, right, same) in [
            (at("h:1", None), at("H:2", None), true),
            (at("localhost:1", None), at("127.0.0.1:2", None), true),
            (at("h:1", None), at("g:1", None), false),
            (at("h:1", Some("h:9/a")), at("h:1", Some("h:9/b")), false),
            (at("h:1", Some("h:8002")), at("h:2", None), true),
            (beside("h:1"), beside("h:2"), false),
            (beside("h:1/a"), beside("h:1/b"), true),
        ] {
            assert_eq!(is_same_page(&left, &right), same, "{left} {right}");
        }
    }

    fn connection(url: &str, metrics_url: Option<&str>) -> ConnectionPlan {
        ConnectionPlan {
            protocol: Protocol::Grpc { streaming: false, compression: Compression::None },
            url: url.to_owned(),
            metrics_url: metrics_url.map(str::to_owned),
            headers: Vec::new(),
            tls: Tls::default(),
            server_wait: Duration::ZERO,
            reconnect: false,
            renew: false,
            client_timeout: None,
        }
    }

    /// What is read of a server that sends whoever asks for its page to `location`, and has one below it.
    fn redirected(location: impl Fn(&str) -> String + Send + 'static) -> Result<Vec<String>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let host = address.clone();
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut asked = String::new();
                BufReader::new(&stream).read_line(&mut asked).unwrap();
                let (status, body) = if asked.starts_with("GET /metrics/ ") { (200, "a 1\n") } else { (307, "") };
                let location = location(&host);
                let head = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nConnection: close\r\n");
                write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        });
        let server = Endpoint::parse(&address, 80).unwrap();
        let source = MetricsSource::beside(&server, &Headers::default(), &connection(&address, None)).unwrap();
        let mut lines = Vec::new();
        let read = source.read(&mut |line| lines.push(line.to_owned()));
        read.map(|()| lines).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_below_its_path_is_found_and_no_other_is_gone_to() {
        assert_eq!(redirected(|host| format!("http://{host}/metrics/")).unwrap(), ["a 1"]);
        assert_eq!(redirected(|_| "/metrics/".to_owned()).unwrap(), ["a 1"]);
        for elsewhere in ["/other", "http://elsewhere/metrics/", "https://127.0.0.1/metrics/"] {
            let error = redirected(|_| elsewhere.to_owned()).unwrap_err();
            let expected = format!("HTTP 307: redirected to '{elsewhere}', which is not followed; name that page with");
            assert!(error.contains(&expected) && error.ends_with("--metrics-url"), "{error}");
        }
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let text = "a 1\r\n\nb \u{e9}\nc".as_bytes();
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(lines(&pieces).unwrap(), ["a 1", "", "b \u{e9}", "c"], "{size}");
        }
    }

    #[test]
    fn lines_without_end_and_other_encodings_are_refused() {
        let part = [b'a'; MAX_LINE / 2];
        assert!(lines(&[&part, &part, b"\n"]).unwrap_err().message.contains("lines is longer"));
        assert!(lines(&[b"a\xff\n"]).unwrap_err().message.contains("UTF-8"));
    }
}
