//! What the command `compare` is to do.

use std::path::PathBuf;

/// Two results to hold against each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The reference.
    pub reference: PathBuf,
    /// What is held against it.
    pub other: PathBuf,
    /// Changes up to this share count as none.
    pub margin: f64,
    /// Results of different things are compared all the same.
    pub force: bool,
}
