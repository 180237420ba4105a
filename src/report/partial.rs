//! Tracks the temporary names of files and folders until they are in place, so that exits without destructors leave none behind.

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::{NamedTempFile, TempDir};

use crate::error::Error;

/// A part of a file that is made of another one.
#[derive(Clone, Debug)]
pub enum Part<'a> {
    /// This text.
    Text(&'a [u8]),
    /// These bytes of the other.
    Copy(Range<u64>),
}

/// Those of this process.
pub(super) static PARTIAL: Partial = Partial::new();

/// How often a folder is tried to be removed that another thread may still be filling.
const ATTEMPTS: usize = 20;

/// Why no file is made any more.
#[derive(Debug)]
struct AboutToEnd;

impl fmt::Display for AboutToEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the program is about to end")
    }
}

impl std::error::Error for AboutToEnd {}

/// That a file cannot be written, which may be `named` by a flag. Advice would not help where the program is about to end.
pub(super) fn unwritten(named: fmt::Arguments<'_>, error: &io::Error) -> Error {
    let is_about_to_end = error.get_ref().is_some_and(|inner| inner.is::<AboutToEnd>());
    let advice = if is_about_to_end { "" } else { "; free space or name another file" };
    Error::output(format!("{named}: cannot be written: {error}{advice}"))
}

/// Files and folders that have a temporary name.
pub(super) struct Partial(Mutex<State>);

struct State {
    live: Vec<PathBuf>,
    /// The process is about to end: no more files may be created.
    ending: bool,
}

impl Partial {
    const fn new() -> Self {
        Self(Mutex::new(State { live: Vec::new(), ending: false }))
    }

    /// Makes a file by calling `create`, and notes its name. One that is in its place by the time it is looked for stays there.
    ///
    /// # Errors
    /// Those of `create`, and where the process is about to end.
    pub(super) fn make(&self, create: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
        self.note(create, NamedTempFile::path)
    }

    fn note<T>(&self, create: impl FnOnce() -> io::Result<T>, path: fn(&T) -> &Path) -> io::Result<T> {
        let mut state = self.0.lock();
        state.check()?;
        let made = create()?;
        state.live.push(path(&made).to_owned());
        Ok(made)
    }

    /// Does what gives a file a temporary name and takes it away again; the process does not end in between.
    ///
    /// # Errors
    /// Those of `act`, and where the process is about to end.
    pub(super) fn briefly<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let state = self.0.lock();
        state.check()?;
        act()
    }

    fn remove(&self) {
        // A panic inside this module may hold the lock on this very thread.
        let Some(mut state) = self.0.try_lock_for(Duration::from_secs(1)) else { return };
        state.ending = true;
        for path in state.live.drain(..) {
            let is_gone = || fs::remove_file(&path).is_ok() || fs::remove_dir_all(&path).is_ok() || !path.exists();
            let _ = (0..ATTEMPTS).find(|_| is_gone());
        }
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        if self.ending { Err(io::Error::other(AboutToEnd)) } else { Ok(()) }
    }
}

/// Makes a folder in `parent` with a temporary name that begins with `prefix`, for [`put_in_place`].
///
/// # Errors
/// If it cannot be made, or the process is about to end.
pub fn new_folder(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    PARTIAL.note(|| tempfile::Builder::new().prefix(prefix).tempdir_in(parent), TempDir::path)
}

/// Gives a folder its own name.
///
/// # Errors
/// If that is not possible, or the process is about to end; then nothing is left of it.
pub fn put_in_place(folder: TempDir, path: &Path) -> io::Result<()> {
    PARTIAL.briefly(|| fs::rename(folder.path(), path))?;
    let _ = folder.keep();
    Ok(())
}

/// Removes every temporary file and folder, and lets no further one be created. To be called on the way out, from any thread that
/// is not inside a signal handler.
pub fn remove_partial_files() {
    PARTIAL.remove();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn an_end_waits_for_a_name_that_is_about_to_go_and_lets_no_other_come() {
        let (partial, has_gone) = (Partial::new(), AtomicBool::new(false));
        let (here, came) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                partial.briefly(|| {
                    here.send(()).unwrap();
                    thread::sleep(Duration::from_millis(100));
                    has_gone.store(true, Ordering::SeqCst);
                    Ok(())
                })
            });
            came.recv().unwrap();
            partial.remove();
            assert!(has_gone.load(Ordering::SeqCst), "the process would have ended between link and rename");
        });
        assert!(partial.briefly(|| Ok(())).is_err() && partial.make(NamedTempFile::new).is_err());
    }

    #[test]
    fn who_ends_the_program_needs_no_advice_on_files() {
        let partial = Partial::new();
        partial.remove();
        let ended = partial.make(NamedTempFile::new).unwrap_err();
        let message = |error| unwritten(format_args!("-f x"), &error).to_string();
        assert_eq!(message(ended), "-f x: cannot be written: the program is about to end");
        assert!(message(io::ErrorKind::StorageFull.into()).ends_with("; free space or name another file"));
    }

    #[test]
    fn a_folder_is_removed_with_all_that_is_in_it() {
        let (partial, parent) = (Partial::new(), tempfile::tempdir().unwrap());
        let folder = partial.note(|| TempDir::new_in(parent.path()), TempDir::path).unwrap();
        fs::create_dir(folder.path().join("1")).unwrap();
        fs::write(folder.path().join("1/model.onnx"), "x").unwrap();
        partial.remove();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_noted_is_removed_unless_it_is_in_its_place() {
        let (partial, folder) = (Partial::new(), tempfile::tempdir().unwrap());
        let make = || partial.make(|| NamedTempFile::new_in(folder.path())).unwrap();
        let (left, placed) = (make(), make());
        let path = folder.path().join("result.json");
        placed.persist(&path).unwrap();
        partial.remove();
        assert!(!left.path().exists() && path.exists());
    }
}
