//! `--summary-file`: the result as JSON, written anew as it grows.

use std::io::{self, Write as _};
use std::path::Path;

use crate::error::{Error, Result};
use crate::report::{Interrupts, SafeFile, file};
use crate::result::RunResult;

/// Puts what the run has come to so far in the place of what was there. A pipe or a device gets the whole only, which is
/// written `at_the_end`.
///
/// # Errors
/// Where it cannot be written.
pub fn write((path, interrupts): (&Path, Interrupts), result: &RunResult, at_the_end: bool) -> Result<()> {
    if !at_the_end && file::is_special(path) {
        return Ok(());
    }
    write_file(path, interrupts, result).map_err(|error| {
        let rule = "cannot be written";
        Error::output(format!("--summary-file {}: {rule}: {error}; free space or name another file", path.display()))
    })
}

fn write_file(path: &Path, interrupts: Interrupts, result: &RunResult) -> io::Result<()> {
    let mut file = io::BufWriter::new(SafeFile::create(path, interrupts)?);
    serde_json::to_writer(&mut file, result)?;
    file.write_all(b"\n")?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}
