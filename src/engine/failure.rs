//! Words for what breaks on a connection, short enough to group failures by.

use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::backend::InferError;

/// Word for answers that did not come in time; gRPC's own.
const LATE: &str = "Deadline exceeded";

/// Word for failures of encryption.
const TLS: &str = "TLS error";

/// What an error of a socket means for the request that was on it.
pub fn failure(error: &io::Error) -> InferError {
    let (code, message) = match error.kind() {
        ErrorKind::ConnectionRefused => ("Connection refused", "nothing listens at that address".to_owned()),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            ("Connection reset", "the server broke the connection off".to_owned())
        }
        ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof => {
            ("Connection closed", "the server closed the connection".to_owned())
        }
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            ("Connection timed out", "the server did not answer in time".to_owned())
        }
        ErrorKind::InvalidData => (TLS, error.to_string()),
        _ => ("Connection failed", error.to_string()),
    };
    InferError { code: code.to_owned(), message }
}

/// The server hung up where an answer, or the rest of one, was due.
pub fn closed(when: &str) -> InferError {
    InferError { code: "Connection closed".to_owned(), message: format!("the server closed the connection {when}") }
}

/// The error of a request whose reply cannot be taken for what was asked.
pub fn malformed(message: impl Into<String>) -> InferError {
    InferError { code: "Malformed reply".to_owned(), message: message.into() }
}

/// No answer came within `limit`, the user's patience with one request.
pub fn late(limit: Duration) -> InferError {
    InferError {
        code: LATE.to_owned(),
        message: format!("no answer within {} us (--client-timeout-us)", limit.as_micros()),
    }
}

/// What to change where `error` says that client and server do not agree on TLS, `authorities` and `checks` being the
/// flags that say whose certificates are good and how they are looked at; `None` for other errors. No patience helps there.
pub fn tls_advice(error: &InferError, authorities: &str, checks: &str) -> Option<String> {
    let why = &error.message;
    if error.code != TLS {
        None
    } else if why.contains("UnknownIssuer") || why.contains("CaUsedAsEndEntity") {
        Some(format!("name the authority that signed the server's certificate with {authorities} FILE{checks}"))
    } else if why.contains("not valid for name") {
        Some(format!("name the server with -u as its certificate does{checks}"))
    } else if why.contains("invalid peer certificate") {
        Some(format!("the server needs another certificate{checks}"))
    } else {
        Some("see whether the server speaks TLS at that port, and which certificates it wants of clients".to_owned())
    }
}

/// Whether an error says that no answer came, and not what the answer was.
pub fn is_unanswered(error: &InferError) -> bool {
    error.code.starts_with("Connection ") || [TLS, LATE].contains(&error.code.as_str())
}
