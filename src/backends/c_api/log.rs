//! The server's log on its way to standard error: from 25.06 on, Triton's own place for it is standard output.
//!
//! The server writes to a file in memory, so a slow or absent reader of standard error blocks neither the server nor
//! the measurement; a thread reads it ten times a second, and folds repeated lines. In a crash, the part that has not
//! been shown yet is written unprocessed (`ffi::watch_for_crashes`). A verbose log goes through a pipe instead: every
//! line is shown, in its place, and the server waits for a slow reader.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::ioctl_fionread;

use crate::c_api::fold::Fold;
use crate::clock::Stamp;
use crate::plan::{LogLevel, ServerLog};
use crate::stdio::{self, note};

/// How often the log is read.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes per write: a writable pipe accepts this many without blocking (pipe(7), PIPE_BUF).
const PIECE: usize = 4096;
/// Limit on lines that wait for the reader of standard error; further ones are only counted.
const MAX_WAITING: usize = 4096;
/// How long the end of the program waits for that reader.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);
/// Pause between two looks whether it has come that far.
const FLUSH_POLL: Duration = Duration::from_millis(1);

/// How many bytes of the log have been shown.
static SHOWN: AtomicU64 = AtomicU64::new(0);
static LOG: OnceLock<Option<Log>> = OnceLock::new();
static VERBOSE: OnceLock<Option<Verbose>> = OnceLock::new();

struct Log {
    file: File,
    reader: Mutex<Reader>,
}

/// The log settings under which the log reaches standard error. A user who asks for verbose messages wants every one of
/// them, in its place; a log file belongs to the user.
pub(super) fn shown(log: &ServerLog) -> ServerLog {
    if log.file.is_some() || log.level == LogLevel::None {
        return log.clone();
    }
    let file = if log.verbose > 0 {
        VERBOSE.get_or_init(Verbose::open).as_ref().map(|verbose| verbose.writer.as_raw_fd())
    } else {
        LOG.get_or_init(open).as_ref().map(|log| log.file.as_raw_fd())
    };
    ServerLog { file: file.map(|file| PathBuf::from(format!("/proc/self/fd/{file}"))), ..log.clone() }
}

/// Shows what the server has logged up to now, and the counts of repeated lines. For the end of the program: it waits
/// only a moment.
pub fn flush() {
    if let Some(Some(verbose)) = VERBOSE.get() {
        verbose.await_shown();
    }
    let Some(Some(log)) = LOG.get() else { return };
    let Some(mut reader) = log.reader.try_lock_for(FLUSH_LIMIT) else { return };
    reader.read(&log.file);
    reader.end();
    reader.show(FLUSH_LIMIT);
}

/// `None` if the system has no such files or threads: then the log is shown unprocessed.
fn open() -> Option<Log> {
    let file = File::from(memfd_create("server-log", MemfdFlags::CLOEXEC).ok()?);
    let show = || {
        loop {
            thread::sleep(PERIOD);
            if let Some(Some(log)) = LOG.get() {
                let mut reader = log.reader.lock();
                reader.read(&log.file);
                reader.show(Duration::ZERO);
                reader.give_back(&log.file);
            }
        }
    };
    thread::Builder::new().name("server-log".to_owned()).spawn(show).ok()?;
    Some(Log { file, reader: Mutex::default() })
}

/// The log, and the offset up to which it has been shown, if it is folded.
pub(super) fn unshown() -> Option<(BorrowedFd<'static>, &'static AtomicU64)> {
    LOG.get()?.as_ref().map(|log| (log.file.as_fd(), &SHOWN))
}

/// A verbose log: what the server writes into the pipe, a thread writes to standard error at once.
struct Verbose {
    writer: PipeWriter,
    /// Whether the thread holds what it has read and not shown yet.
    is_busy: AtomicBool,
}

impl Verbose {
    /// `None` if the system has no such pipes or threads: then the server shows its log where it wants.
    fn open() -> Option<Self> {
        let (reader, writer) = io::pipe().ok()?;
        thread::Builder::new().name("server-log".to_owned()).spawn(move || Self::pass(reader)).ok()?;
        Some(Self { writer, is_busy: AtomicBool::new(false) })
    }

    fn pass(mut reader: PipeReader) {
        let mut part = vec![0; 1 << 16];
        let mut lines = Vec::new();
        loop {
            // A signal may interrupt this wait, but not the reading of what is there.
            if poll(&mut [PollFd::new(&reader, PollFlags::IN)], None).is_err() {
                continue;
            }
            let Some(Some(verbose)) = VERBOSE.get() else { continue };
            // Before the bytes leave the pipe, so that they are always seen in one place.
            verbose.is_busy.store(true, Ordering::SeqCst);
            let Ok(len @ 1..) = reader.read(&mut part) else { return };
            lines.extend_from_slice(&part[..len]);
            // Text of ours may come between two lines, but not into one.
            if let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') {
                stdio::say(String::from_utf8_lossy(&lines[..=end]));
                lines.drain(..=end);
            }
            verbose.is_busy.store(false, Ordering::SeqCst);
        }
    }

    /// Waits a moment until everything that was written is shown.
    fn await_shown(&self) {
        let until = Stamp::now().plus_duration(FLUSH_LIMIT);
        let is_waiting =
            || ioctl_fionread(&self.writer).is_ok_and(|bytes| bytes > 0) || self.is_busy.load(Ordering::SeqCst);
        while is_waiting() && Stamp::now() < until {
            thread::sleep(FLUSH_POLL);
        }
    }
}

/// What has been read, and what of it must still be shown.
#[derive(Default)]
struct Reader {
    offset: u64,
    /// The beginning of a line whose end has not been written yet.
    rest: Vec<u8>,
    fold: Fold,
    waiting: VecDeque<String>,
    /// Number of lines dropped because earlier ones had not been read.
    left_out: u64,
}

impl Reader {
    /// Reads to the end of the log.
    fn read(&mut self, log: &File) {
        let mut part = [0; 1 << 16];
        while let Ok(len @ 1..) = log.read_at(&mut part, self.offset) {
            self.offset += len as u64;
            self.take(&part[..len]);
        }
        for line in self.fold.due(Stamp::now()) {
            self.wait(line);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.rest[..self.rest.len() - 1]).into_owned();
                self.rest.clear();
                for line in self.fold.line(line, Stamp::now()) {
                    self.wait(line);
                }
            }
        }
    }

    fn wait(&mut self, line: String) {
        if self.waiting.len() >= MAX_WAITING {
            self.left_out += 1;
        } else {
            self.waiting.push_back(line);
        }
    }

    /// Ends the log: it is complete.
    fn end(&mut self) {
        for line in self.fold.end() {
            self.wait(line);
        }
        if !self.rest.is_empty() {
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
            self.wait(line);
        }
    }

    /// Writes lines while standard error accepts them, waiting up to `limit` for it to do so.
    fn show(&mut self, limit: Duration) {
        let until = Stamp::now().plus_duration(limit);
        while let Some(mut line) = self.waiting.pop_front() {
            line.push('\n');
            let mut remaining = line.as_str();
            while !remaining.is_empty() {
                if !is_writable(until) {
                    self.waiting.push_front(remaining.trim_end_matches('\n').to_owned());
                    return;
                }
                let (piece, more) = remaining.split_at(remaining.floor_char_boundary(PIECE));
                stdio::say(piece);
                remaining = more;
            }
        }
        if self.left_out > 0 && is_writable(until) {
            let count = std::mem::take(&mut self.left_out);
            note!("{count} lines of the server's log were dropped: standard error was not read fast enough");
        }
    }

    /// Releases the memory of the shown part. To keep it bounded, unread output counts as shown, too.
    fn give_back(&self, log: &File) {
        let (before, shown) = (SHOWN.load(Ordering::Relaxed), self.offset - self.rest.len() as u64);
        if shown > before && (self.waiting.is_empty() || self.left_out > 0) {
            SHOWN.store(shown, Ordering::Relaxed);
            let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(log, holes, before, shown - before);
        }
    }
}

/// Whether standard error accepts a piece without blocking, by `until`. A closed one accepts everything.
fn is_writable(until: Stamp) -> bool {
    let stderr = std::io::stderr();
    let limit = Timespec::try_from(until.from_now()).ok();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}
