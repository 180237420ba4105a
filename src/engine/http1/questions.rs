//! [`Questions`]: queries to the server beside the load (metadata, statistics, shared memory), over a connection that
//! is kept open.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::PollFlags;
use serde::de::DeserializeOwned;

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::http1::body::keep;
use crate::http1::headers::{Headers, write_field, write_length};
use crate::http1::refusal::{KEPT_OF_REFUSAL, refusal};
use crate::plan::Compression;
use crate::wire::http1::{Head, NOT_ASKED_FOR, ReplyReader, decompress};
use crate::{Connector, Deadline, Stream, closed, connect, failure, malformed, wait_for};

/// Largest answer that is accepted, compressed or decompressed: metadata of half a million tensors.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;
/// Bytes per read.
const BUFFER: usize = 64 * 1024;

/// How long an answer may take in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// While a run is set up.
    Setup,
    /// While waiting for a server, which may take this long.
    Within(Duration),
    /// Between windows, and when a run ends: a dead server must not hold up the report.
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

/// Queries the server over a connection that is kept until the server closes it. Concurrent queries have a connection
/// each.
pub struct Questions {
    connector: Arc<Connector>,
    headers: Headers,
    idle: Mutex<Option<Stream>>,
}

/// Receives the bytes of an answer's body.
pub type Taker<'a> = dyn FnMut(&Head, &[u8]) -> Result<(), InferError> + 'a;

/// Why there is no answer.
struct Unanswered {
    error: InferError,
    /// Whether not one byte of it arrived.
    is_empty: bool,
}

/// A server's answer with any status.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Its body, decompressed.
    pub body: Vec<u8>,
    location: String,
}

impl Answer {
    /// The server's reason for refusing, if it did.
    pub fn refusal(&self) -> Option<InferError> {
        (self.status != 200).then(|| refusal(self.status, &self.location, &self.body))
    }
}

impl Questions {
    /// Queries use `headers` and connections made by `connector`.
    pub fn new(connector: Arc<Connector>, headers: Headers) -> Self {
        Self { connector, headers, idle: Mutex::new(None) }
    }

    /// Path prefix of the server's URL.
    pub fn prefix(&self) -> &str {
        &self.connector.endpoint().prefix
    }

    /// The server's URL, for messages.
    pub fn url(&self) -> String {
        self.connector.endpoint().http_url()
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// Why there is none.
    pub fn get(&self, path: &str, patience: Patience) -> Result<Answer, InferError> {
        self.ask("GET", path, None, patience)
    }

    /// The answer to a POST of JSON.
    ///
    /// # Errors
    /// Why there is none.
    pub fn post(&self, path: &str, body: &str, patience: Patience) -> Result<Answer, InferError> {
        self.ask("POST", path, Some(body), patience)
    }

    /// The JSON of a successful GET.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or does not answer with such JSON; the message names `subject`.
    pub fn get_json<T: DeserializeOwned>(&self, path: &str, subject: &str, patience: Patience) -> Result<T> {
        let answer = self.get(path, patience).map_err(|error| self.error(subject, &error))?;
        self.read_json(&answer, subject)
    }

    /// The JSON of a successful answer about `subject`.
    ///
    /// # Errors
    /// As [`Questions::get_json`], but for a server that cannot be reached.
    pub fn read_json<T: DeserializeOwned>(&self, answer: &Answer, subject: &str) -> Result<T> {
        if let Some(refusal) = answer.refusal() {
            return Err(self.error(subject, &refusal));
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            self.error(
                subject,
                &malformed(format!("not the JSON that it should be: {error}; is this the server's HTTP port?")),
            )
        })
    }

    /// Passes the body of the answer to a GET to `take`, piece by piece. Returns its head.
    ///
    /// # Errors
    /// Why there is no answer, or the error of `take`.
    pub fn stream(&self, path: &str, patience: Patience, take: &mut Taker<'_>) -> Result<Head, InferError> {
        self.exchange(&self.render("GET", path, None), Deadline::within(patience.limit()), take)
    }

    /// The error of a query about `subject`.
    pub fn error(&self, subject: &str, error: &InferError) -> Error {
        Error::server(format!("HTTP server {}: {subject}: {error}", self.connector.endpoint().http_url()))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&str>, patience: Patience) -> Result<Answer, InferError> {
        let mut body_of_answer = Held::default();
        let mut take = |head: &Head, piece: &[u8]| {
            let most = if head.status == 200 { MAX_ANSWER } else { KEPT_OF_REFUSAL };
            let long = head.length.unwrap_or(0).max((body_of_answer.len() + piece.len()) as u64) > most;
            if long && head.status == 200 {
                return Err(malformed(format!("longer than {most} bytes")));
            }
            keep(&mut body_of_answer, piece, most)
        };
        let request = self.render(method, path, body);
        let head = self.exchange(&request, Deadline::within(patience.limit()), &mut take)?;
        let body = match decompress(head.encoding, &body_of_answer, MAX_ANSWER) {
            Ok(unpacked) => unpacked.unwrap_or_else(|| body_of_answer.to_vec()),
            Err(_) if head.status != 200 => Vec::new(),
            Err(why) => return Err(malformed(why)),
        };
        Ok(Answer { status: head.status, body, location: head.location })
    }

    /// Sends a request and reads its whole answer until `deadline`. If the kept connection has been closed meanwhile, a
    /// new one is made.
    fn exchange(&self, request: &[u8], deadline: Deadline, take: &mut Taker<'_>) -> Result<Head, InferError> {
        if let Some(stream) = self.kept() {
            match self.converse(stream, request, deadline, take) {
                Err(Unanswered { is_empty: true, .. }) if deadline.check().is_ok() => {}
                done => return done.map_err(|lost| lost.error),
            }
        }
        let stream = connect(&self.connector, deadline).map_err(|error| failure(&error))?;
        self.converse(stream, request, deadline, take).map_err(|lost| lost.error)
    }

    /// The connection of the last query, if it is still open. A server sends nothing unasked, so a readable connection
    /// was closed.
    fn kept(&self) -> Option<Stream> {
        let stream = self.idle.lock().take()?;
        let readable = wait_for(Some(stream.as_fd()), PollFlags::IN, Stamp(0)).unwrap_or(true);
        (!readable).then_some(stream)
    }

    fn converse(
        &self,
        mut stream: Stream,
        request: &[u8],
        deadline: Deadline,
        take: &mut Taker<'_>,
    ) -> Result<Head, Unanswered> {
        let mut reader = ReplyReader::default();
        let mut has_bytes = false;
        let mut exchange = || {
            stream.send_all(request, deadline).map_err(|error| failure(&error))?;
            let mut buffer = vec![0; BUFFER];
            loop {
                let count = stream.read_some(&mut buffer, deadline).map_err(|error| failure(&error))?;
                has_bytes |= count > 0;
                if let Some(surplus) = self.feed(&mut reader, &buffer[..count], take)? {
                    return Ok(surplus);
                }
            }
        };
        let surplus = exchange().map_err(|error| Unanswered { error, is_empty: !has_bytes })?;
        let head = reader.head().cloned().unwrap_or_default();
        if head.keeps_open && surplus == 0 {
            *self.idle.lock() = Some(stream);
        }
        Ok(head)
    }

    /// Processes bytes of the answer, none at its end. Once it is complete, returns how many of them do not belong to
    /// it.
    fn feed(
        &self,
        reader: &mut ReplyReader,
        mut bytes: &[u8],
        take: &mut Taker<'_>,
    ) -> Result<Option<usize>, InferError> {
        if bytes.is_empty() {
            return reader.end().map(|()| Some(0)).map_err(|error| closed(&error.to_string()));
        }
        while !bytes.is_empty() {
            let progress = reader.feed(bytes).map_err(|error| malformed(error.to_string()))?;
            bytes = &bytes[progress.taken..];
            if let Some(head) = reader.head() {
                if head.status == 200 && !self.headers.accept(head.encoding, Compression::None) {
                    return Err(malformed(NOT_ASKED_FOR));
                }
                take(head, progress.body)?;
            }
            if progress.complete {
                return Ok(Some(bytes.len()));
            }
        }
        Ok(None)
    }

    fn render(&self, method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
        let mut out = self.headers.begin(method, path, self.connector.endpoint());
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
