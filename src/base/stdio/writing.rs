//! Writing to a standard stream: waits for as long as its reader likes, but not after an interrupt. Whoever asks the program to end
//! may not come back to ask again.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Bytes per write: a writable pipe accepts this many without blocking (pipe(7), PIPE_BUF).
const PIECE: usize = 4096;
/// How often to check whether the user has interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a reader that reads nothing is waited for after an interrupt.
const LAST_WAIT: Duration = Duration::from_secs(3);

/// How the reader of a stream is waited for.
pub(super) struct Patience {
    /// Whether the user has interrupted.
    is_interrupted: &'static AtomicBool,
    /// Whether it was waited for in vain: one text after another must not wait as long again.
    is_over: AtomicBool,
}

impl Patience {
    /// As long as it takes, until the user has interrupted.
    pub(super) const fn until(is_interrupted: &'static AtomicBool) -> Self {
        Self { is_interrupted, is_over: AtomicBool::new(false) }
    }

    /// Writes all of a text.
    ///
    /// # Errors
    /// If the stream is closed or full, or takes nothing although the user has interrupted.
    pub(super) fn write(&self, stream: impl AsFd, text: &str) -> io::Result<()> {
        for mut piece in text.as_bytes().chunks(PIECE) {
            while !piece.is_empty() {
                self.await_room(&stream)?;
                match rustix::io::write(&stream, piece) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => piece = &piece[count..],
                    // Others may have set the stream to be nonblocking.
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn await_room(&self, stream: &impl AsFd) -> io::Result<()> {
        let mut left = if self.is_over.load(Ordering::Relaxed) { Duration::ZERO } else { LAST_WAIT };
        let limit = Timespec::try_from(LOOK_EVERY).ok();
        loop {
            match poll(&mut [PollFd::new(stream, PollFlags::OUT)], limit.as_ref()) {
                Ok(0) if !self.is_interrupted.load(Ordering::Relaxed) => {}
                Ok(0) if left.is_zero() => {
                    self.is_over.store(true, Ordering::Relaxed);
                    return Err(io::Error::other("its reader takes nothing, and the run was interrupted"));
                }
                Ok(0) => left = left.saturating_sub(LOOK_EVERY),
                Err(Errno::INTR) => {}
                // What is wrong with a stream, writing to it tells.
                _ => {
                    self.is_over.store(false, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read as _};
    use std::thread;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    /// A pipe that takes nothing more, and how many bytes are in it.
    fn full() -> (PipeReader, PipeWriter, usize) {
        let (reader, writer) = io::pipe().unwrap();
        let flags = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
        let mut bytes = 0;
        while let Ok(more) = rustix::io::write(&writer, &[b'x'; PIECE]) {
            bytes += more;
        }
        fcntl_setfl(&writer, flags).unwrap();
        (reader, writer, bytes)
    }

    #[test]
    fn a_reader_is_waited_for_until_an_interrupt_and_once_for_a_while_after_it() {
        static INTERRUPTED: AtomicBool = AtomicBool::new(false);
        let (mut reader, writer, bytes) = full();
        let patience = Patience::until(&INTERRUPTED);
        let write = || patience.write(&writer, "late");
        thread::scope(|scope| {
            let writing = scope.spawn(write);
            thread::sleep(Duration::from_millis(200));
            assert!(!writing.is_finished(), "a reader may still come");
            INTERRUPTED.store(true, Ordering::Relaxed);
            let refused = writing.join().unwrap().unwrap_err();
            assert!(refused.to_string().contains("takes nothing"), "{refused}");
        });
        assert!(patience.is_over.load(Ordering::Relaxed) && write().is_err(), "it is not waited for as long again");
        // One that reads gets all of it, and is waited for anew.
        let mut part = vec![0; bytes];
        reader.read_exact(&mut part).unwrap();
        write().unwrap();
        assert_eq!((reader.read(&mut part).unwrap(), &part[..4]), (4, &b"late"[..]));
        assert!(!patience.is_over.load(Ordering::Relaxed));
    }

    #[test]
    fn a_text_arrives_whole_whatever_the_stream() {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let text = "0123456789".repeat(30_000);
        let patience = Patience::until(&NEVER);
        for nonblocking in [false, true] {
            let (mut reader, writer) = io::pipe().unwrap();
            if nonblocking {
                let flags = fcntl_getfl(&writer).unwrap();
                fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
            }
            let arrived = thread::spawn(move || {
                let mut arrived = String::new();
                reader.read_to_string(&mut arrived).map(|_| arrived)
            });
            patience.write(&writer, &text).unwrap();
            drop(writer);
            assert_eq!(arrived.join().unwrap().unwrap(), text);
        }
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(patience.write(&writer, "x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(patience.write(&full, "x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
