//! `--summary-file`: the result as JSON, rewritten as it grows.

use std::io::{self, Write as _};
use std::path::Path;

use crate::error::Result;
use crate::partial::unwritten;
use crate::result::RunResult;
use crate::stdio::note;
use crate::{Interrupts, SafeFile, file, inert};

/// Replaces the file, if there is to be one, with the result so far. A pipe or a device gets only the final result. If
/// writing fails, the run continues.
pub fn save(path: Option<&Path>, interrupts: Interrupts, result: &RunResult) {
    let path = path.filter(|path| !file::is_special(path));
    if let Some(Err(error)) = path.map(|path| write(path, interrupts, &result.so_far())) {
        note!("{error}");
    }
}

/// Writes the final result.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, interrupts: Interrupts, result: &RunResult) -> Result<()> {
    write_file(path, interrupts, result)
        .map_err(|error| unwritten(format_args!("--summary-file {}", path.display()), &error))
}

fn write_file(path: &Path, interrupts: Interrupts, result: &RunResult) -> io::Result<()> {
    let mut file = io::BufWriter::new(SafeFile::create(path, interrupts)?);
    inert::write(&mut file, result)?;
    file.write_all(b"\n")?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}
