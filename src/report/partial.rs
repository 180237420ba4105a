//! Tracks the temporary files of results on file systems without nameless files, so that exits without destructors
//! leave none behind.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::NamedTempFile;

struct Partial {
    live: Vec<PathBuf>,
    /// The process is about to end: no more files may be created.
    ending: bool,
}

static PARTIAL: Mutex<Partial> = Mutex::new(Partial { live: Vec::new(), ending: false });

/// Creates a file by calling `create`, and notes its name. A file that has been moved to its path by the time of the
/// cleanup stays there.
///
/// # Errors
/// Those of `create`, and where the process is about to end.
pub(super) fn make(create: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
    let mut partial = PARTIAL.lock();
    if partial.ending {
        return Err(io::Error::other("the program is about to end"));
    }
    let file = create()?;
    partial.live.push(file.path().to_owned());
    Ok(file)
}

/// Removes every temporary file, and lets no further one be created. To be called on the way out, from any thread that
/// is not inside a signal handler.
pub fn remove_partial_files() {
    // A panic inside this module may hold the lock on this very thread.
    let Some(mut partial) = PARTIAL.try_lock_for(Duration::from_secs(1)) else { return };
    partial.ending = true;
    for path in partial.live.drain(..) {
        let _ = fs::remove_file(path);
    }
}
