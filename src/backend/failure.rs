//! Why an inference failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::borrow::Cow;
use std::fmt;

/// Why an inference failed: what kind of failure it is, and the server's own text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct InferError {
    /// The kind, to group and to decide by.
    pub code: ErrorCode,
    /// The server's own text.
    pub message: String,
}

/// What kind of failure it is; shown as a short stable word, the same over every transport.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", from = "String")]
#[schemars(with = "String")]
pub enum ErrorCode {
    /// The request was given up.
    Cancelled,
    /// The response is not of the model that was asked ([`ReplyForm`](crate::ReplyForm)).
    Misfit,
    /// The answer did not come in time.
    Late,
    /// There is no connection, or it broke.
    Connection(ConnectionFault),
    /// Client and server do not agree on encryption.
    Tls,
    /// An HTTP status in place of an answer.
    Http(u16),
    /// The server's own word, or the transport's, such as `Internal`.
    Word(Cow<'static, str>),
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionFault {
    /// Nothing listens.
    Refused,
    /// It was broken off.
    Reset,
    /// The server closed it.
    Closed,
    /// Nothing came in time.
    TimedOut,
    /// Anything else.
    Failed,
}

impl InferError {
    /// The code of requests that were given up.
    pub const CANCELLED: ErrorCode = ErrorCode::Cancelled;

    /// The code of responses that are not of the model that was asked.
    pub const MISFIT: ErrorCode = ErrorCode::Misfit;

    /// A failure of that kind.
    pub fn new(code: impl Into<ErrorCode>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    /// Whether the request was given up.
    pub fn is_cancelled(&self) -> bool {
        self.code == ErrorCode::Cancelled
    }
}

impl fmt::Display for InferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for InferError {}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "Cancelled",
            Self::Misfit => "Unexpected response",
            Self::Late => "Deadline exceeded",
            Self::Connection(ConnectionFault::Refused) => "Connection refused",
            Self::Connection(ConnectionFault::Reset) => "Connection reset",
            Self::Connection(ConnectionFault::Closed) => "Connection closed",
            Self::Connection(ConnectionFault::TimedOut) => "Connection timed out",
            Self::Connection(ConnectionFault::Failed) => "Connection failed",
            Self::Tls => "TLS error",
            Self::Http(status) => return write!(f, "HTTP {status}"),
            Self::Word(word) => word,
        })
    }
}

impl From<&'static str> for ErrorCode {
    fn from(word: &'static str) -> Self {
        Self::Word(word.into())
    }
}

impl From<ErrorCode> for String {
    fn from(code: ErrorCode) -> Self {
        code.to_string()
    }
}

impl From<String> for ErrorCode {
    fn from(word: String) -> Self {
        Self::Word(word.into())
    }
}

impl From<ConnectionFault> for ErrorCode {
    fn from(fault: ConnectionFault) -> Self {
        Self::Connection(fault)
    }
}
