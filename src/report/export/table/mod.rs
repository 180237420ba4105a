//! `--requests-file`: every request as a row of a table, in a Parquet file, which analysis tools read without a reader of ours.
//!
//! Rows are written in groups as they come, so memory does not grow with the run. The file is complete or not there at all:
//! a Parquet file without its last bytes cannot be read. A program that was built without Parquet refuses the flag.

#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod writer;

use crate::error::Result;
use crate::export::{ExportSpec, RequestFile};

/// Opens a temporary file next to the table's path.
///
/// # Errors
/// If that file cannot be created.
#[cfg(feature = "parquet")]
pub fn create(spec: ExportSpec) -> Result<Box<dyn RequestFile>> {
    Ok(Box::new(writer::TableWriter::create(spec)?))
}

/// Fails: there is nothing here that could write it. The command line has refused the flag before.
///
/// # Errors
/// Always.
#[cfg(not(feature = "parquet"))]
pub fn create(_: ExportSpec) -> Result<Box<dyn RequestFile>> {
    Err(crate::error::Error::usage("--requests-file: this program was built without Parquet"))
}

#[cfg(all(test, feature = "parquet"))]
mod tests;
