//! One of several runs of a file.

use std::ffi::OsString;

/// One of several runs of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOfFile {
    /// Its name.
    pub name: String,
    /// The words after the program's name that do it.
    pub words: Vec<OsString>,
    /// It works together with other processes, over MPI.
    pub mpi: bool,
}
