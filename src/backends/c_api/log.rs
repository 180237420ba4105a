//! The server's log on its way to standard error, with repeated lines folded.
//!
//! The server writes to a file in memory, so a slow or absent reader of standard error blocks neither the server nor
//! the measurement; a thread reads it ten times a second. In a crash, the part that has not been shown yet is written
//! unprocessed (`ffi::watch_for_crashes`).

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use crate::backends::c_api::fold::Fold;
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

/// How many bytes of the log have been shown.
static SHOWN: AtomicU64 = AtomicU64::new(0);
static LOG: OnceLock<Option<Log>> = OnceLock::new();

struct Log {
    file: File,
    reader: Mutex<Reader>,
}

/// The server's log settings that make its output foldable. A user who asks for verbose messages wants every one of
/// them, in its place; a log file belongs to the user.
pub(super) fn folded(log: &ServerLog) -> ServerLog {
    if log.file.is_some() || log.verbose > 0 || log.level == LogLevel::None {
        return log.clone();
    }
    let file =
        LOG.get_or_init(open).as_ref().map(|log| PathBuf::from(format!("/proc/self/fd/{}", log.file.as_raw_fd())));
    ServerLog { file, ..log.clone() }
}

/// Shows what the server has logged up to now, and the counts of repeated lines. For the end of the program: it waits
/// only a moment.
pub fn flush() {
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
            let rest = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
            self.wait(rest);
        }
    }

    /// Writes lines while standard error accepts them, waiting up to `limit` for it to do so.
    fn show(&mut self, limit: Duration) {
        let until = Stamp::now().plus_duration(limit);
        while let Some(mut line) = self.waiting.pop_front() {
            line.push('\n');
            let mut rest = line.as_str();
            while !rest.is_empty() {
                if !is_writable(until) {
                    self.waiting.push_front(rest.trim_end_matches('\n').to_owned());
                    return;
                }
                let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE));
                stdio::say(piece);
                rest = more;
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
