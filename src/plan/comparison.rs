//! What the command `compare` does.

use std::path::PathBuf;

/// Two results to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The reference.
    pub reference: PathBuf,
    /// The result compared with it.
    pub other: PathBuf,
    /// Changes up to this share count as no change.
    pub margin: f64,
    /// Whether results of different things are compared anyway.
    pub force: bool,
}
