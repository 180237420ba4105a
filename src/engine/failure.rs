//! Errors of connections, in words short enough to group failures by.

use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::backend::{ConnectionFault, ErrorCode, InferError};

/// What the TLS library calls by a name of its own.
pub(crate) const OWN_AUTHORITY: &str =
    "the server's certificate is an authority's own, as one that signs itself is, and is not trusted";

/// The error of a request whose socket failed with `error`.
pub fn failure(error: &io::Error) -> InferError {
    let (code, message) = match error.kind() {
        ErrorKind::ConnectionRefused => (ConnectionFault::Refused, "nothing listens at that address".to_owned()),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            (ConnectionFault::Reset, "the server reset the connection".to_owned())
        }
        ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof => {
            (ConnectionFault::Closed, "the server closed the connection".to_owned())
        }
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            (ConnectionFault::TimedOut, "the server did not answer in time".to_owned())
        }
        ErrorKind::AddrNotAvailable => (
            ConnectionFault::Failed,
            "no port is free for another connection: closed ones keep theirs a minute".to_owned(),
        ),
        ErrorKind::InvalidData => return InferError::new(ErrorCode::Tls, handshake(&error.to_string())),
        _ => (ConnectionFault::Failed, error.to_string()),
    };
    InferError::new(code, message)
}

/// Why a handshake failed, in words.
fn handshake(why: &str) -> String {
    if why.contains("CaUsedAsEndEntity") { OWN_AUTHORITY.to_owned() } else { why.to_owned() }
}

/// The server hung up when an answer, or the rest of one, was due.
pub fn closed(when: &str) -> InferError {
    InferError::new(ConnectionFault::Closed, format!("the server closed the connection {when}"))
}

/// The error of a request whose reply does not answer it.
pub fn malformed(message: impl Into<String>) -> InferError {
    InferError::new("Malformed reply", message)
}

/// No answer came within `limit`, the user's timeout.
pub fn late(limit: Duration) -> InferError {
    InferError::new(ErrorCode::Late, format!("no answer within {} us (--client-timeout-us)", limit.as_micros()))
}

/// Whether an error means that no answer came, rather than a bad answer.
pub fn is_unanswered(error: &InferError) -> bool {
    matches!(error.code, ErrorCode::Connection(_) | ErrorCode::Tls | ErrorCode::Late)
}
