//! The temporary files that results are written to, so that exits without destructors leave none behind.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;

struct Partial {
    live: Vec<PathBuf>,
    /// The process is about to end: no file may come any more.
    ending: bool,
}

static PARTIAL: Mutex<Partial> = Mutex::new(Partial { live: Vec::new(), ending: false });

/// Makes the file at `path` by calling `create`, and notes it.
///
/// # Errors
/// Those of `create`, and where the process is about to end.
pub(super) fn make(path: &Path, create: impl FnOnce(&Path) -> io::Result<File>) -> io::Result<File> {
    let mut partial = PARTIAL.lock();
    if partial.ending {
        return Err(io::Error::other("the program is about to end"));
    }
    let file = create(path)?;
    partial.live.push(path.to_owned());
    Ok(file)
}

/// The file at `path` is temporary no more: it is in its place, or gone.
pub(super) fn settled(path: &Path) {
    PARTIAL.lock().live.retain(|live| live != path);
}

/// Removes every temporary file, and lets no further one come to exist. To be called on the way out, from any thread that is not
/// inside a signal handler.
pub fn remove_partial_files() {
    // A panic inside this module may hold the lock on this very thread.
    let Some(mut partial) = PARTIAL.try_lock_for(Duration::from_secs(1)) else { return };
    partial.ending = true;
    for path in partial.live.drain(..) {
        let _ = fs::remove_file(path);
    }
}
