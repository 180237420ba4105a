//! Result files that are either complete or absent: checked before the run, written invisibly, then moved to their
//! path.
//!
//! A file has no name until it is complete (`O_TMPFILE`), so nothing is left of it however the process ends. If a file
//! system lacks that, it has a hidden name that no one could have guessed to plant a link there.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::partial::{PARTIAL, Part};
use crate::stdio::note;

/// How often the user has interrupted; see the app's signals.
pub type Interrupts = &'static AtomicUsize;

/// How often to check whether a pipe has a reader yet, or the user has given up waiting for one.
const READER_POLL: Duration = Duration::from_millis(20);
/// How long to wait, after an interrupt, for a reader that reads nothing.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// A pipe that takes anything takes this many bytes at once, as POSIX demands of it.
const PIECE: usize = 4096;
/// Maximum length of a chain of links, as in the kernel.
const MAX_LINKS: usize = 40;

/// Fails if a result could not be written to `path` at the end of the run. Leaves nothing behind.
///
/// # Errors
/// If the directory is missing or refuses new files, or `path` is a directory or may not be written. The message
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
    // Opening a pipe waits for its reader, which would then see an end when it is closed again. A standard stream is open, and
    // cannot be opened once more where it is a socket, as under systemd.
    if path.exists()
        && !is_pipe(path)
        && StandardStream::named(path).is_none()
        && let Err(error) = OpenOptions::new().append(true).open(path)
    {
        return refuse(error.to_string());
    }
    if is_special(path) {
        return Ok(());
    }
    if let Ok(target) = destination(path)
        && !folder(&target).exists()
    {
        return refuse(format!("there is no folder {}", folder(&target).display()));
    }
    match destination(path).and_then(|target| PendingFile::create(folder(&target))) {
        Ok(probe) => {
            drop(probe);
            Ok(())
        }
        Err(error) => refuse(error.to_string()),
    }
}

/// Like [`check_writable`], but also fails if the file exists.
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

/// Whether both paths name the same replaceable file; devices and pipes can take several results.
pub fn is_same_file(first: &Path, second: &Path) -> bool {
    let canonical = |path: &Path| {
        let target = destination(path).ok()?;
        Some(fs::canonicalize(folder(&target)).ok()?.join(target.file_name()?))
    };
    !is_special(first) && canonical(first).is_some_and(|there| canonical(second) == Some(there))
}

/// A standard stream by its name; others may write to the same file.
#[derive(Clone, Copy)]
enum StandardStream {
    Output,
    Error,
}

impl StandardStream {
    fn named(path: &Path) -> Option<Self> {
        match path.to_str()? {
            "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(Self::Output),
            "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Some(Self::Error),
            _ => None,
        }
    }

    fn open(self) -> io::Result<File> {
        let stream = match self {
            Self::Output => io::stdout().as_fd().try_clone_to_owned(),
            Self::Error => io::stderr().as_fd().try_clone_to_owned(),
        };
        stream.map(File::from)
    }
}

/// A device, a pipe or a standard stream, which cannot be renamed over.
pub fn is_special(path: &Path) -> bool {
    StandardStream::named(path).is_some() || fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

/// The final path of a file with this name: a link keeps pointing to its file, even to one that does not exist yet.
fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut resolved = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&resolved) {
            Ok(target) => resolved = folder(&resolved).join(target),
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(resolved);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that appears at its path when it is complete. Dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct SafeFile {
    body: Body,
    path: PathBuf,
}

#[derive(Debug)]
enum Body {
    PendingFile(PendingFile),
    /// Written directly.
    Device(Device),
    /// Written directly.
    Pipe(Pipe),
}

impl SafeFile {
    /// Opens an invisible file, on the file system of `path`. For a pipe, waits until it has a reader.
    ///
    /// # Errors
    /// If the directory is missing or refuses new files, or the user interrupts the wait for a reader.
    pub fn create(path: &Path, interrupts: Interrupts) -> io::Result<Self> {
        let at = |body| Ok(Self { body, path: path.to_owned() });
        if is_pipe(path) {
            return at(Body::Pipe(Pipe::open(path, interrupts)?));
        }
        if let Some(stream) = StandardStream::named(path) {
            return at(Body::Device(Device { file: stream.open()?, interrupts }));
        }
        if is_special(path) {
            let file = OpenOptions::new().write(true).open(path)?;
            return at(Body::Device(Device { file, interrupts }));
        }
        let path = destination(path)?;
        path.file_name().ok_or_else(|| io::Error::other("it is not the name of a file"))?;
        Ok(Self { body: Body::PendingFile(PendingFile::create(folder(&path))?), path })
    }

    /// Truncates the file to `len` bytes.
    ///
    /// # Errors
    /// For devices and pipes, which cannot be truncated, and where the file cannot be cut.
    pub fn cut(&mut self, len: u64) -> io::Result<()> {
        let Body::PendingFile(pending) = &mut self.body else { return Err(io::ErrorKind::Unsupported.into()) };
        let file = pending.file_mut();
        file.set_len(len)?;
        file.seek(SeekFrom::Start(len)).map(drop)
    }

    /// Makes the file of these parts. If that fails it stays as it is.
    ///
    /// # Errors
    /// For devices and pipes, which cannot be read again, and where there is no room for a second file.
    pub fn arrange(&mut self, parts: &[Part<'_>]) -> io::Result<()> {
        let Body::PendingFile(pending) = &mut self.body else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut arranged = PendingFile::create(folder(&self.path))?;
        for part in parts {
            match part {
                Part::Text(text) => arranged.file_mut().write_all(text)?,
                Part::Copy(range) => {
                    let from = pending.file_mut();
                    from.seek(SeekFrom::Start(range.start))?;
                    io::copy(&mut from.take(range.end - range.start), arranged.file_mut())?;
                }
            }
        }
        *pending = arranged;
        Ok(())
    }

    /// Moves the file to its path.
    ///
    /// # Errors
    /// If the file cannot be renamed; the message says where it was left instead.
    pub fn finish(self) -> io::Result<()> {
        match self.body {
            Body::PendingFile(pending) => pending.appear(&self.path),
            Body::Device(_) | Body::Pipe(_) => Ok(()),
        }
    }
}

impl Write for SafeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.body {
            Body::PendingFile(pending) => pending.file_mut().write(bytes),
            Body::Device(device) => device.write(bytes),
            Body::Pipe(pipe) => pipe.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is not visible yet.
#[derive(Debug)]
enum PendingFile {
    /// Without a name, in this folder's file system.
    Nameless(File, PathBuf),
    /// With a hidden name, if the file system has no nameless files.
    Hidden(NamedTempFile),
}

impl PendingFile {
    fn create(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match open(folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(Self::Nameless(file.into(), folder.to_owned())),
            Err(_) => Self::hidden(folder),
        }
    }

    fn hidden(folder: &Path) -> io::Result<Self> {
        PARTIAL.make(|| names().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)).map(Self::Hidden)
    }

    fn file_mut(&mut self) -> &mut File {
        match self {
            Self::Nameless(file, _) => file,
            Self::Hidden(file) => file.as_file_mut(),
        }
    }

    /// Gives it the name `path`, replacing whatever has it.
    fn appear(self, path: &Path) -> io::Result<()> {
        let (mut file, folder) = match self {
            Self::Hidden(file) => return replace(file, path),
            Self::Nameless(file, folder) => (file, folder),
        };
        let fd_path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |name: &Path| Ok(linkat(CWD, fd_path.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW)?);
        let replaced =
            PARTIAL.briefly(|| names().make_in(&folder, link).ok().map(|named| replace(named, path)).transpose());
        match replaced? {
            Some(()) => Ok(()),
            // Without /proc, or if links are forbidden.
            None => {
                let mut copy = Self::hidden(&folder)?;
                file.seek(SeekFrom::Start(0))?;
                io::copy(&mut file, copy.file_mut())?;
                copy.appear(path)
            }
        }
    }
}

/// Hidden names that cannot be confused with those of results.
fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".triton-bench-").suffix(".partial");
    names
}

/// Renames a file that has a hidden name. If that fails it stays there: it was complete.
fn replace<F>(file: NamedTempFile<F>, path: &Path) -> io::Result<()> {
    let Err(failed) = file.persist(path) else { return Ok(()) };
    let (error, hidden) = (failed.error, failed.file.path().to_owned());
    match failed.file.keep() {
        Ok(_) => Err(io::Error::new(error.kind(), format!("{error}; it is complete in {}", hidden.display()))),
        Err(_) => Err(error),
    }
}

/// A device, or a standard stream, which may be a pipe, too. Other processes may have it as well, so it stays one that blocks.
#[derive(Debug)]
struct Device {
    file: File,
    interrupts: Interrupts,
}

impl Device {
    /// Writes as much as is taken at once, when it is taken: a call that blocks would not see an interrupt.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        wait(&self.file, self.interrupts)?;
        self.file.write(&bytes[..bytes.len().min(PIECE)])
    }
}

/// Waits until data are accepted; after an interrupt no longer than [`LAST_WAIT`].
fn wait(file: &File, interrupts: Interrupts) -> io::Result<()> {
    let mut left = LAST_WAIT;
    loop {
        let limit = Timespec::try_from(READER_POLL).ok();
        match poll(&mut [PollFd::new(file, PollFlags::OUT)], limit.as_ref()) {
            Ok(0) if left.is_zero() => {
                return Err(io::Error::other("the reader of this pipe takes nothing, and the run was interrupted"));
            }
            Ok(0) if interrupts.load(Ordering::Relaxed) > 0 => left = left.saturating_sub(READER_POLL),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A named pipe, or one that a shell has given a name.
#[derive(Debug)]
struct Pipe {
    file: File,
    interrupts: Interrupts,
}

impl Pipe {
    /// Waits for a reader until the user interrupts.
    fn open(path: &Path, interrupts: Interrupts) -> io::Result<Self> {
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut is_noted = false;
        loop {
            match OpenOptions::new().write(true).custom_flags(nonblocking).open(path) {
                Ok(file) => return Ok(Self { file, interrupts }),
                Err(error) if error.raw_os_error() != Some(Errno::NXIO.raw_os_error()) => return Err(error),
                Err(_) if interrupts.load(Ordering::Relaxed) > 0 => {
                    return Err(io::Error::other("nobody reads this pipe, and the wait for that was interrupted"));
                }
                Err(_) => {
                    if !is_noted {
                        note!("{}: waiting for someone to read this pipe; an interrupt gives it up", path.display());
                    }
                    is_noted = true;
                    thread::sleep(READER_POLL);
                }
            }
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&self.file, self.interrupts)?,
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A fresh directory for a test, removed when dropped.
#[cfg(any(test, feature = "testing"))]
pub mod scratch {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicUsize;

    /// A counter of interrupts that stays 0.
    pub static NEVER: AtomicUsize = AtomicUsize::new(0);

    /// A fresh directory.
    pub struct Scratch(PathBuf);

    impl Scratch {
        /// One with `name` in its name.
        pub fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("triton-bench-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Where it is.
        pub fn path(&self) -> &Path {
            &self.0
        }

        /// What is in it, in order.
        pub fn names(&self) -> Vec<String> {
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
    use super::scratch::{NEVER, Scratch};
    use super::*;

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let scratch = Scratch::new("safe");
        let path = scratch.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        let mut file = SafeFile::create(&path, &NEVER).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        drop(SafeFile::create(&path, &NEVER).unwrap());
        assert_eq!(scratch.names(), ["a.csv"]);
    }

    #[test]
    fn a_file_that_is_being_written_has_no_name_that_could_be_left_or_planted() {
        let scratch = Scratch::new("nameless");
        let (path, victim) = (scratch.path().join("a.csv"), scratch.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        let guess = format!(".a.csv.{}.partial", std::process::id());
        std::os::unix::fs::symlink(&victim, scratch.path().join(&guess)).unwrap();
        let mut file = SafeFile::create(&path, &NEVER).unwrap();
        file.write_all(b"rows").unwrap();
        assert_eq!(scratch.names(), [guess.as_str(), "victim"], "not even its process' death leaves anything");
        file.finish().unwrap();
        assert_eq!(
            (fs::read_to_string(&victim).unwrap(), fs::read_to_string(&path).unwrap()),
            ("precious".into(), "rows".into())
        );
        assert_eq!(scratch.names(), [guess.as_str(), "a.csv", "victim"]);
    }

    #[test]
    fn a_file_system_without_nameless_files_does_too() {
        let scratch = Scratch::new("hidden");
        let path = scratch.path().join("a.csv");
        let mut file = PendingFile::hidden(scratch.path()).unwrap();
        file.file_mut().write_all(b"rows").unwrap();
        assert!(scratch.names()[0].starts_with(".triton-bench-"), "{:?}", scratch.names());
        file.appear(&path).unwrap();
        drop(PendingFile::hidden(scratch.path()).unwrap());
        assert_eq!((scratch.names(), fs::read_to_string(&path).unwrap()), (vec!["a.csv".to_owned()], "rows".into()));
    }

    #[test]
    fn a_complete_file_that_cannot_be_renamed_is_kept_beside_its_place() {
        let scratch = Scratch::new("kept");
        let path = scratch.path().join("a.csv");
        let mut file = SafeFile::create(&path, &NEVER).unwrap();
        file.write_all(b"rows").unwrap();
        fs::create_dir_all(path.join("taken")).unwrap();
        let message = file.finish().unwrap_err().to_string();
        let kept = message.split("it is complete in ").nth(1).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(fs::read_to_string(kept).unwrap(), "rows");
    }

    #[test]
    fn a_link_leads_to_the_file_even_if_that_is_not_there_yet() {
        let scratch = Scratch::new("link");
        fs::create_dir(scratch.path().join("results")).unwrap();
        let (link, target) = (scratch.path().join("latest.csv"), scratch.path().join("results/1.csv"));
        std::os::unix::fs::symlink("results/1.csv", &link).unwrap();
        check_writable("-f", &link).unwrap();
        assert!(is_same_file(&link, &target));
        for rows in ["one", "two"] {
            let mut file = SafeFile::create(&link, &NEVER).unwrap();
            file.write_all(rows.as_bytes()).unwrap();
            file.finish().unwrap();
            assert_eq!(
                (fs::read_link(&link).unwrap(), fs::read_to_string(&target).unwrap()),
                ("results/1.csv".into(), rows.into())
            );
        }
        let round = scratch.path().join("round");
        std::os::unix::fs::symlink("round", &round).unwrap();
        assert!(check_writable("-f", &round).unwrap_err().to_string().contains("Too many levels"));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for_after_an_interrupt() {
        static ONCE: AtomicUsize = AtomicUsize::new(0);
        let scratch = Scratch::new("silent-pipe");
        let path = scratch.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let (opened, ended) = std::sync::mpsc::channel();
        let pipe = path.clone();
        std::thread::spawn(move || opened.send(SafeFile::create(&pipe, &ONCE).map(drop)));
        assert!(ended.recv_timeout(Duration::from_millis(200)).is_err(), "a reader may still come");
        ONCE.store(1, Ordering::Relaxed);
        let refused = ended.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
        assert!(refused.to_string().contains("nobody reads this pipe"), "{refused}");
        // A reader that takes nothing holds a run up no longer either.
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        let mut file = SafeFile::create(&path, &ONCE).unwrap();
        let stuck = file.write_all(&vec![0; 1 << 22]).unwrap_err();
        assert!(stuck.to_string().contains("takes nothing"), "{stuck}");
        drop(reader);
    }

    #[test]
    fn a_standard_stream_that_nobody_reads_holds_an_interrupted_run_up_no_longer() {
        static ONCE: AtomicUsize = AtomicUsize::new(0);
        let full = |(reader, writer): (std::os::fd::OwnedFd, std::os::fd::OwnedFd)| {
            let (told, ended) = std::sync::mpsc::channel();
            ONCE.store(0, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut file = SafeFile {
                    body: Body::Device(Device { file: writer.into(), interrupts: &ONCE }),
                    path: PathBuf::from("/dev/stdout"),
                };
                told.send(file.write_all(&vec![0; 1 << 22]))
            });
            assert!(ended.recv_timeout(Duration::from_millis(200)).is_err(), "a reader may still come");
            ONCE.store(1, Ordering::Relaxed);
            let stuck = ended.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
            drop(reader);
            stuck.to_string()
        };
        let (reader, writer) = io::pipe().unwrap();
        assert!(full((reader.into(), writer.into())).contains("takes nothing"));
        // Some programs give those that they start sockets.
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(full((reader.into(), writer.into())).contains("takes nothing"));
    }

    #[test]
    fn unwritable_paths_are_told_before_the_run() {
        let scratch = Scratch::new("check");
        let missing = scratch.path().join("none/a.csv");
        let message = check_writable("-f", &missing).unwrap_err().to_string();
        assert!(
            message.starts_with("-f ") && message.contains("none/a.csv: cannot be written: there is no folder"),
            "{message}"
        );
        let message = check_writable("-f", scratch.path()).unwrap_err().to_string();
        assert!(message.contains("it is a directory"), "{message}");
        assert!(check_writable("-f", Path::new("/")).is_err());
        assert!(check_writable("-f", Path::new("")).is_err());
        let long = check_writable("-f", &scratch.path().join("x".repeat(300))).unwrap_err().to_string();
        assert!(long.contains("File name too long"), "{long}");
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
        let mut file = SafeFile::create(&path, &NEVER).unwrap();
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
