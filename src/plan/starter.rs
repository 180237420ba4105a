//! What the command `init` makes.

use std::path::PathBuf;

/// A model repository from a model's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// The model.
    pub file: PathBuf,
    /// Its name.
    pub name: String,
    /// The repository, which is made if it is not there.
    pub repository: PathBuf,
    /// Where Triton is installed, whose backends are looked at.
    pub server: PathBuf,
}
