//! [`Control`]: questions to the server beside the load (metadata, statistics, shared memory), one connection each.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::backend::InferError;
use crate::backends::http::headers::{Headers, write_field};
use crate::backends::http::reader::{Head, ReplyReader};
use crate::backends::http::reply::{decompress, error_text};
use crate::backends::http::template::write_length;
use crate::backends::net::{Connector, closed, failure};
use crate::clock::Stamp;
use crate::error::{Error, Result};

/// Longest answer that is taken.
const MAX_ANSWER: u64 = 256 * 1024 * 1024;

/// How long an answer may take in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// While a run is set up.
    Setup,
    /// While a server is waited for, which may take this long.
    Within(Duration),
    /// Between windows, and when a run ends: a server that has died must not hold up the report.
    Sample,
}

impl Patience {
    fn limit(self) -> Duration {
        match self {
            Self::Setup => Duration::from_secs(10),
            Self::Within(limit) => limit,
            Self::Sample => Duration::from_millis(1500),
        }
    }
}

/// Asks the server. Connections are not kept: questions are rare, and a connection of their own leaves the load alone.
pub(super) struct Control {
    connector: Arc<Connector>,
    headers: Headers,
}

/// A server's answer of whatever status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    location: String,
}

impl Answer {
    /// Why the server refused, if it did.
    pub(super) fn refusal(&self) -> Option<InferError> {
        (self.status != 200).then(|| error_text(self.status, &self.location, &self.body))
    }
}

impl Control {
    pub(super) fn new(connector: Arc<Connector>, headers: Headers) -> Self {
        Self { connector, headers }
    }

    /// Path prefix of the server's URL.
    pub(super) fn prefix(&self) -> &str {
        &self.connector.endpoint().prefix
    }

    /// The server's URL, for messages.
    pub(super) fn url(&self) -> String {
        self.connector.endpoint().http_url()
    }

    /// The answer to a GET, or why there was none.
    pub(super) fn get(&self, path: &str, patience: Patience) -> Result<Answer, InferError> {
        self.ask("GET", path, None, patience)
    }

    /// The answer to a POST of JSON, or why there was none.
    pub(super) fn post(&self, path: &str, body: &str, patience: Patience) -> Result<Answer, InferError> {
        self.ask("POST", path, Some(body), patience)
    }

    /// The JSON of a successful GET.
    ///
    /// # Errors
    /// Where the server cannot be reached, refuses, or does not answer with JSON; `what` is named.
    pub(super) fn get_json(&self, path: &str, what: &str, patience: Patience) -> Result<Value> {
        let answer = self.get(path, patience).map_err(|error| self.error(what, &error))?;
        if let Some(refusal) = answer.refusal() {
            return Err(self.error(what, &refusal));
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            self.error(
                what,
                &InferError {
                    code: "Malformed reply".to_owned(),
                    message: format!("not JSON: {error}; is this the server's HTTP port?"),
                },
            )
        })
    }

    /// The error of a question about `what`.
    pub(super) fn error(&self, what: &str, error: &InferError) -> Error {
        Error::server(format!("HTTP server {}: {what}: {error}", self.connector.endpoint().http_url()))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&str>, patience: Patience) -> Result<Answer, InferError> {
        let deadline = Stamp::now().plus_duration(patience.limit());
        let mut stream = self.connector.connect(patience.limit()).map_err(|error| failure(&error))?;
        let request = self.render(method, path, body);
        stream.write_all(&request).and_then(|()| stream.flush()).map_err(|error| failure(&error))?;
        let mut reader = ReplyReader::default();
        let mut answer = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let left = deadline.from_now();
            if left.is_zero() {
                return Err(failure(&ErrorKind::TimedOut.into()));
            }
            stream.set_timeouts(left).map_err(|error| failure(&error))?;
            let count = match stream.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failure(&error)),
            };
            if take(&mut reader, &buffer[..count], &mut answer)? {
                let head = reader.head().cloned().unwrap_or_default();
                return finish(head, answer);
            }
        }
    }

    fn render(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        let mut out = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        self.headers.write_own(&mut out, "Host", &self.connector.endpoint().authority());
        self.headers.write_given(&mut out);
        match body {
            Some(body) => {
                self.headers.write_own(&mut out, "Content-Type", "application/json");
                write_length(&mut out, body.len());
                out.extend_from_slice(body.as_bytes());
            }
            None => {
                write_field(&mut out, "Accept", "*/*");
                out.extend_from_slice(b"\r\n");
            }
        }
        out
    }
}

/// Takes bytes of the answer, none at its end; tells whether it is complete.
fn take(reader: &mut ReplyReader, mut bytes: &[u8], answer: &mut Vec<u8>) -> Result<bool, InferError> {
    if bytes.is_empty() {
        return reader.end().map(|()| true).map_err(|what| closed(&what.to_string()));
    }
    let malformed = |message: String| InferError { code: "Malformed reply".to_owned(), message };
    while !bytes.is_empty() {
        let progress = reader.feed(bytes).map_err(|what| malformed(what.to_string()))?;
        answer.extend_from_slice(progress.body);
        if reader.body_bytes() > MAX_ANSWER {
            return Err(malformed(format!("longer than {MAX_ANSWER} bytes")));
        }
        if progress.complete {
            return Ok(true);
        }
        bytes = &bytes[progress.taken..];
    }
    Ok(false)
}

fn finish(head: Head, body: Vec<u8>) -> Result<Answer, InferError> {
    let body = decompress(head.encoding, &body)
        .map_err(|message| InferError { code: "Malformed reply".to_owned(), message })?
        .unwrap_or(body);
    Ok(Answer { status: head.status, body, location: head.location })
}
