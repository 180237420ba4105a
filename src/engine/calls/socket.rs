//! A socket with its HTTP/2 connection. Never blocks, except where it is asked to wait.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::backend::{ConnectionFault, InferError};
use crate::clock::Stamp;
use crate::engine::calls::status;
use crate::engine::{Connector, Deadline, Stream, closed, failure};
use crate::wire::h2::{Connection, ConnectionError, Events, HeaderList, MAX_CONTROL, Token};

/// How long connecting may take.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Bytes per read; more than the largest frame that must be complete to be parsed.
const READ_BUFFER: usize = 4 * MAX_CONTROL;
/// Slices of one vectored write.
const SLICES: usize = 64;

/// A socket with its HTTP/2 connection.
pub struct Http2Socket {
    stream: Stream,
    /// The connection's state: requests go in here.
    pub h2: Connection,
    buffer: Box<[u8]>,
    filled: usize,
    /// The TLS layer holds bytes that the socket has not taken yet.
    unflushed: bool,
}

impl Http2Socket {
    /// Connects and waits for the server's settings, all until `deadline`.
    ///
    /// # Errors
    /// Addresses where nothing answers, or not in HTTP/2.
    pub fn connect(connector: &Connector, deadline: Deadline) -> Result<Self, InferError> {
        let to = |error: InferError| InferError {
            message: format!("cannot connect to {}: {}", connector.endpoint(), error.message),
            ..error
        };
        let stream = connector.connect(deadline).map_err(|error| to(failure(&error)))?;
        stream.set_nonblocking(true).map_err(|error| to(failure(&error)))?;
        let buffer = vec![0; READ_BUFFER].into();
        let mut line = Self { stream, h2: Connection::new(), buffer, filled: 0, unflushed: false };
        line.settle(deadline).map_err(to)?;
        Ok(line)
    }

    fn settle(&mut self, deadline: Deadline) -> Result<(), InferError> {
        let mut unread = false;
        while !self.h2.is_settled() {
            self.flush(|_| ())?;
            self.await_bytes(unread, deadline).map_err(|error| unsettled(&error))?;
            let filled = self.fill().map_err(before_settings)?;
            if filled {
                self.process(&mut NoEvents)?;
            }
            unread = filled && self.may_hold_more();
        }
        self.flush(|_| ())
    }

    /// Waits until there is something to read or room for pending writes; if bytes may be `unread`, only checks the
    /// deadline.
    ///
    /// # Errors
    /// As [`Deadline::wait`].
    pub fn await_bytes(&self, unread: bool, deadline: Deadline) -> io::Result<()> {
        if unread { deadline.check() } else { deadline.wait(&self.stream, self.interest()) }
    }

    fn interest(&self) -> PollFlags {
        let writes = self.unflushed || !self.h2.out().is_empty();
        if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Writes as much as the socket takes. `sent` is called for messages that have left.
    ///
    /// # Errors
    /// If the socket is broken.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(Token)) -> Result<(), InferError> {
        while !self.h2.out().is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let filled = self.h2.out().slices(&mut slices);
            match self.stream.write_vectored(&slices[..filled]) {
                Ok(count) => self.h2.wrote(count, &mut sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(failure(&error)),
            }
        }
        if self.stream.is_tls() {
            self.unflushed = match self.stream.flush() {
                Ok(()) => false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => true,
                Err(error) => return Err(failure(&error)),
            };
        }
        Ok(())
    }

    /// Waits until there is something to read, room for pending writes, or the deadline has passed.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&self, deadline: Stamp) -> Result<(), InferError> {
        let left = deadline.from_now();
        let timeout = Timespec { tv_sec: left.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.stream, self.interest())], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(failure(&error.into())),
        }
    }

    /// Reads what has arrived, at most one buffer. Returns `false` if there was nothing.
    ///
    /// # Errors
    /// If the socket is broken, or the server closed it.
    #[inline]
    pub fn fill(&mut self) -> Result<bool, InferError> {
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => Err(self.lost(closed("while answers were due"))),
            Ok(count) => {
                self.filled += count;
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(error) => Err(self.lost(failure(&error))),
        }
    }

    /// Why the connection is lost: the server's own reason if it gave one, else `noticed`.
    fn lost(&self, noticed: InferError) -> InferError {
        self.h2.goaway().map_or(noticed, status::of_goaway)
    }

    /// Processes what was read.
    ///
    /// # Errors
    /// The server broke the protocol; it has been told so, if it still reads.
    #[inline]
    pub fn process<E: Events>(&mut self, events: &mut E) -> Result<(), InferError> {
        match self.h2.receive(&self.buffer[..self.filled], events) {
            Ok(used) => {
                self.buffer.copy_within(used..self.filled, 0);
                self.filled -= used;
                Ok(())
            }
            Err(error) => {
                self.h2.close(&error);
                // The connection is lost either way; whether the server learns the reason does not matter.
                let _ = self.flush(|_| ());
                Err(broken(&error))
            }
        }
    }

    /// Whether a read may bring more although the socket seems empty.
    pub fn may_hold_more(&self) -> bool {
        self.stream.is_tls()
    }

    /// Closes both directions.
    pub fn shutdown(&mut self) {
        self.stream.shutdown();
    }
}

/// A server that hangs up on the preface most likely speaks another protocol.
fn before_settings(error: InferError) -> InferError {
    InferError { message: format!("{}; is this the server's gRPC port?", error.message), ..error }
}

/// Why there are no settings.
fn unsettled(error: &io::Error) -> InferError {
    if error.kind() != ErrorKind::TimedOut {
        return failure(error);
    }
    let silent = "the server did not send its settings in time; does it speak HTTP/2 on this port?";
    InferError::new(ConnectionFault::TimedOut, silent)
}

fn broken(error: &ConnectionError) -> InferError {
    status::error(status::BROKEN, error.to_string())
}

/// Receives events before any stream is open.
struct NoEvents;

impl Events for NoEvents {
    fn headers(&mut self, _: Token, _: &HeaderList, _: bool) {}
    fn data(&mut self, _: Token, _: &[u8], _: bool) {}
    fn reset(&mut self, _: Token, _: crate::wire::h2::Reset<'_>) {}
}
