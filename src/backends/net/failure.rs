//! Words for what breaks on a connection, short enough to group failures by.

use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::backend::InferError;

/// Word for answers that did not come in time; gRPC's own.
const LATE: &str = "Deadline exceeded";

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
        ErrorKind::InvalidData => ("TLS error", error.to_string()),
        _ => ("Connection failed", error.to_string()),
    };
    InferError { code: code.to_owned(), message }
}

/// The server hung up where an answer, or the rest of one, was due.
pub fn closed(when: &str) -> InferError {
    InferError { code: "Connection closed".to_owned(), message: format!("the server closed the connection {when}") }
}

/// No answer came within `limit`, the user's patience with one request.
pub fn late(limit: Duration) -> InferError {
    InferError {
        code: LATE.to_owned(),
        message: format!("no answer within {} us (--client-timeout-us)", limit.as_micros()),
    }
}

/// Whether an error says that no answer came, and not what the answer was.
pub fn is_unanswered(error: &InferError) -> bool {
    error.code.starts_with("Connection ") || ["TLS error", LATE].contains(&error.code.as_str())
}
