//! What is said of a reply that breaks the protocol.

use std::fmt;

use crate::backend::InferError;

/// A reply that breaks the protocol; says how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl Malformed {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// The error of a request whose reply cannot be taken for what was asked.
pub(super) fn malformed(message: impl Into<String>) -> InferError {
    InferError { code: "Malformed reply".to_owned(), message: message.into() }
}
