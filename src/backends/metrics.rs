//! Reads a server's metrics: over HTTP, whatever protocol the requests use.

use std::sync::Arc;

use crate::backend::InferError;
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
}

impl MetricsSource {
    /// The metrics at `url`; by default at Triton's metrics port on the host of `server`. Nothing is read yet.
    ///
    /// # Errors
    /// If the address or a certificate is wrong.
    pub fn new(connection: &ConnectionPlan, server: &Endpoint, url: Option<&str>) -> Result<Self> {
        let endpoint = match url {
            Some(url) => Endpoint::parse_flag("--metrics-url", url, PORT)?,
            None => Endpoint { secure: false, port: PORT, prefix: PATH.to_owned(), ..server.clone() },
        };
        Self::at(endpoint, connection, Headers::default())
    }

    /// The metrics at `url`; by default at the port that `server` itself listens at, for which `headers` are: they may hold its
    /// credentials. Nothing is read yet.
    ///
    /// # Errors
    /// If the address or a certificate is wrong.
    pub fn beside(
        server: &Endpoint,
        headers: &Headers,
        connection: &ConnectionPlan,
        url: Option<&str>,
    ) -> Result<Self> {
        match url {
            Some(url) => {
                Self::at(Endpoint::parse_flag("--metrics-url", url, server.port)?, connection, Headers::default())
            }
            None => Self::at(Endpoint { prefix: PATH.to_owned(), ..server.clone() }, connection, headers.clone()),
        }
    }

    fn at(endpoint: Endpoint, connection: &ConnectionPlan, headers: Headers) -> Result<Self> {
        let path = if endpoint.prefix.is_empty() { PATH.to_owned() } else { endpoint.prefix.clone() };
        let secure = endpoint.secure;
        let tls = secure.then(|| TlsClient::new(&connection.tls, &["http/1.1"])).transpose()?;
        let connector = Arc::new(Connector::new(endpoint, tls));
        Ok(Self { questions: Questions::new(connector, headers), path })
    }

    /// Calls `line` with every line of the metrics, as they arrive.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses, with its reason.
    pub fn read(&self, line: &mut dyn FnMut(&str)) -> Result<()> {
        let unread = |error| self.questions.error("metrics", &error);
        let (mut lines, mut refused) = (Lines::default(), Held::default());
        let mut take = |head: &Head, piece: &[u8]| {
            if head.status == 200 {
                return lines.take(piece, line);
            }
            keep(&mut refused, piece, KEPT_OF_REFUSAL)
        };
        let head = self.questions.stream(&self.path, Patience::Sample, &mut take).map_err(unread)?;
        if head.status != 200 {
            return Err(unread(refusal(head.status, &head.location, &refused)));
        }
        lines.end(line).map_err(unread)
    }
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
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Result<Vec<String>, InferError> {
        let (mut cut, mut collected) = (Lines::default(), Vec::new());
        let mut keep = |line: &str| collected.push(line.to_owned());
        pieces.iter().try_for_each(|piece| cut.take(piece, &mut keep))?;
        cut.end(&mut keep)?;
        Ok(collected)
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
