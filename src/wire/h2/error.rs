//! Error codes of HTTP/2 (RFC 9113, section 7) and errors that end a connection.

use std::fmt;

/// An HTTP/2 error code. Unknown codes are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

/// Names by number, from RFC 9113, section 7.
const NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl ErrorCode {
    /// Nothing is wrong: the peer ends the connection in peace.
    pub const NO_ERROR: Self = Self(0);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The peer sent more than its window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame has a length that its type does not allow.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was refused before anything was done with it.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer wanted.
    pub const CANCEL: Self = Self(8);
    /// A header block could not be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer uses more than is reasonable.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    /// Security properties are too weak.
    pub const INADEQUATE_SECURITY: Self = Self(12);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

/// Why a connection cannot continue: the code sent to the peer, and the broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// Code for GOAWAY.
    pub code: ErrorCode,
    /// What the peer did.
    pub reason: String,
}

impl ConnectionError {
    /// An error with its reason.
    pub fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    /// A breach of the protocol.
    pub fn protocol(reason: impl Into<String>) -> Self {
        Self::new(ErrorCode::PROTOCOL_ERROR, reason)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/2 {}: {}", self.code, self.reason)
    }
}

impl std::error::Error for ConnectionError {}
