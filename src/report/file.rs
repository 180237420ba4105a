//! Result files that are either whole or not there: checked before the run, written beside their place, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::report::partial;

/// Fails if a result could not be written to `path` at the end of the run. Leaves nothing behind.
///
/// # Errors
/// Where the directory is missing or refuses new files, or `path` is a directory or may not be written. The message
/// names `flag`, the path, and the reason.
pub fn check_writable(flag: &str, path: &Path) -> Result<()> {
    let refuse = |reason: String| {
        let path = path.display();
        Err(Error::output(format!("{flag} {path}: cannot be written: {reason}; name a file in a writable directory")))
    };
    if path.file_name().is_none() {
        return refuse("it is not the name of a file".to_owned());
    }
    if path.is_dir() {
        return refuse("it is a directory".to_owned());
    }
    // Opening a pipe waits for its reader, who would see an end when it is closed again.
    if path.exists()
        && !fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
        && let Err(error) = OpenOptions::new().append(true).open(path)
    {
        return refuse(error.to_string());
    }
    if is_special(path) {
        return Ok(());
    }
    match SafeFile::create(path) {
        Ok(probe) => {
            drop(probe);
            Ok(())
        }
        Err(error) => refuse(error.to_string()),
    }
}

/// [`check_writable`], and fails too if there is such a file already.
///
/// # Errors
/// As there, and where the file exists.
pub fn check_new(flag: &str, path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() && !is_special(path) {
        let path = path.display();
        return Err(Error::usage(format!("{flag} {path}: the file exists; remove it or name a new one")));
    }
    check_writable(flag, path)
}

/// Whether both name one file that a result would replace; devices and pipes take several.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let inside = || Some(fs::canonicalize(folder).ok()?.join(path.file_name()?));
        fs::canonicalize(path).ok().or_else(inside)
    };
    !is_special(one) && place(one).is_some_and(|there| place(other) == Some(there))
}

/// A device or a pipe, which cannot be renamed over.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// A file that appears under its name when it is complete. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct SafeFile {
    out: BufWriter<File>,
    path: PathBuf,
    /// Where it is written; absent once it is in its place, and for devices and pipes, which are written directly.
    temporary: Option<PathBuf>,
}

impl SafeFile {
    /// Opens a temporary file in the directory of `path`.
    ///
    /// # Errors
    /// Where the directory is missing or refuses new files.
    pub fn create(path: &Path) -> io::Result<Self> {
        if is_special(path) {
            let out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
            return Ok(Self { out, path: path.to_owned(), temporary: None });
        }
        // A link keeps pointing to its file.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().ok_or_else(|| io::Error::other("it is not the name of a file"))?;
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}.partial", std::process::id()));
        let temporary = path.with_file_name(temporary_name);
        let out = BufWriter::with_capacity(1 << 16, partial::make(&temporary, |path| File::create(path))?);
        Ok(Self { out, path, temporary: Some(temporary) })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// Where the last bytes cannot be written or the file cannot be renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
            partial::settled(temporary);
            self.temporary = None;
        }
        Ok(())
    }
}

impl Write for SafeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for SafeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing is left to be told where even this fails.
            let _ = fs::remove_file(temporary);
            partial::settled(temporary);
        }
    }
}

/// A fresh directory for a test, removed when dropped.
#[cfg(test)]
pub(crate) mod scratch {
    use std::path::{Path, PathBuf};

    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("triton-bench-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }

        pub(crate) fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scratch::Scratch;
    use super::*;

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let scratch = Scratch::new("safe");
        let path = scratch.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        let mut file = SafeFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        drop(SafeFile::create(&path).unwrap());
        assert_eq!(scratch.names(), ["a.csv"]);
    }

    #[test]
    fn unwritable_paths_are_told_before_the_run() {
        let scratch = Scratch::new("check");
        let missing = scratch.path().join("none/a.csv");
        let message = check_writable("-f", &missing).unwrap_err().to_string();
        assert!(
            message.starts_with("-f ") && message.contains("none/a.csv: cannot be written: No such file"),
            "{message}"
        );
        let message = check_writable("-f", scratch.path()).unwrap_err().to_string();
        assert!(message.contains("it is a directory"), "{message}");
        assert!(check_writable("-f", Path::new("/")).is_err());
        assert!(check_writable("-f", Path::new("")).is_err());
        check_writable("-f", &scratch.path().join("a.csv")).unwrap();
        check_writable("-f", Path::new("/dev/null")).unwrap();
        assert!(scratch.names().is_empty(), "the check leaves nothing behind");
    }

    #[test]
    fn a_new_file_must_not_exist() {
        let scratch = Scratch::new("new");
        let path = scratch.path().join("a.json");
        check_new("--profile-export-file", &path).unwrap();
        fs::write(&path, "").unwrap();
        let message = check_new("--profile-export-file", &path).unwrap_err().to_string();
        assert!(message.contains("the file exists; remove it"), "{message}");
    }

    #[test]
    fn the_reader_of_a_pipe_gets_what_is_written_and_not_the_check() {
        let scratch = Scratch::new("pipe");
        let path = scratch.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (checked, done) = std::sync::mpsc::channel();
        let pipe = path.clone();
        std::thread::spawn(move || checked.send(check_writable("-f", &pipe).is_ok()));
        assert_eq!(done.recv_timeout(std::time::Duration::from_secs(20)), Ok(true), "nobody reads yet");
        let pipe = path.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
        let mut file = SafeFile::create(&path).unwrap();
        file.write_all(b"rows").unwrap();
        file.finish().unwrap();
        assert_eq!(reader.join().unwrap(), "rows");
    }

    #[test]
    fn one_file_is_known_by_several_names() {
        let scratch = Scratch::new("same");
        let (file, other) = (scratch.path().join("a"), scratch.path().join("b"));
        assert!(is_same_file(&file, &scratch.path().join("./a")) && !is_same_file(&file, &other));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &other).unwrap();
        assert!(is_same_file(&file, &other));
        assert!(is_same_file(Path::new("a"), Path::new("./a")) && !is_same_file(Path::new("a"), &file));
        assert!(!is_same_file(Path::new("/dev/null"), Path::new("/dev/null")), "it takes both");
    }
}
