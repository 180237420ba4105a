//! One of several runs in a file.

use std::ffi::OsString;

/// One of several runs in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOfFile {
    /// Its name.
    pub name: String,
    /// The arguments that execute it.
    pub arguments: Vec<OsString>,
    /// Whether it works together with other processes, over MPI.
    pub mpi: bool,
}
