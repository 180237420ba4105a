//! A socket with its HTTP/2 connection. Never blocks, except where it is asked to wait.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::PollFlags;

use crate::backend::{Awaited, ConnectionFault, ErrorCode, InferError};
use crate::calls::status;
use crate::clock::Stamp;
use crate::wire::h2::{Connection, ConnectionError, Events, HeaderList, MAX_CONTROL, Token};
use crate::{Connecting, Connector, Deadline, Progress, Stream, closed, failure, wait_for};

/// How long connecting may take before a load, and for single calls.
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
        let to = |error: &io::Error| named(connector, failure(error));
        connector.resolve(deadline).map_err(|error| to(&error))?;
        let mut opening = Opening::start(connector, deadline.planned_end())?;
        loop {
            match opening.proceed(connector)? {
                Progress::Made(line) => return Ok(line),
                Progress::Pending(further) => opening = further,
            }
            deadline.nap(&opening, opening.awaited()).map_err(|error| to(&error))?;
        }
    }

    fn new(stream: Stream) -> Self {
        let buffer = vec![0; READ_BUFFER].into();
        Self { stream, h2: Connection::new(), buffer, filled: 0, unflushed: false }
    }

    /// Sends and reads what it can before the server's settings have arrived; returns whether they have.
    fn settle(&mut self, until: Stamp) -> Result<bool, InferError> {
        loop {
            self.flush(|_| ())?;
            if self.h2.is_settled() {
                return Ok(true);
            }
            let is_tls = self.stream.is_tls();
            if !self.fill().map_err(|error| before_settings(error, is_tls))? {
                return Ok(false);
            }
            self.process(&mut NoEvents)?;
            if Stamp::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Waits until there is something to read or room for pending writes; if bytes may be `unread`, only checks the
    /// deadline.
    ///
    /// # Errors
    /// As [`Deadline::wait`].
    pub fn await_bytes(&self, unread: bool, deadline: Deadline) -> io::Result<()> {
        if unread { deadline.check() } else { deadline.wait(&self.stream, self.interest()) }
    }

    /// What its socket must be ready for before it can go on.
    pub fn interest(&self) -> PollFlags {
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
    pub fn wait(&self, deadline: Stamp) -> io::Result<()> {
        wait_for(Some(self.stream.as_fd()), self.interest(), deadline).map(drop)
    }

    /// What [`Http2Socket::wait`] waits for, until `until`.
    pub fn awaited(&self, until: Stamp) -> Awaited<'_> {
        Awaited { socket: Some(self.stream.as_fd()), writes: self.interest().contains(PollFlags::OUT), until }
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

    /// Whether decrypted bytes are waiting inside the TLS layer, where polling the socket does not see them.
    pub fn holds_bytes(&mut self) -> bool {
        self.stream.holds_bytes()
    }

    /// Closes both directions.
    pub fn shutdown(&mut self) {
        self.stream.shutdown();
    }
}

impl AsFd for Http2Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A connection that is being made, until the server's settings have arrived. No step of it waits.
pub struct Opening {
    end: Stamp,
    step: Step,
}

enum Step {
    Connecting(Connecting),
    /// The server's settings have not arrived.
    Settling(Box<Http2Socket>),
}

impl Opening {
    /// Begins to connect to an address that was looked up before. All must be there at `end`.
    ///
    /// # Errors
    /// As [`Opening::proceed`].
    pub fn start(connector: &Connector, end: Stamp) -> Result<Self, InferError> {
        let connecting = Connecting::start(connector, end).map_err(|error| named(connector, failure(&error)))?;
        Ok(Self { end, step: Step::Connecting(connecting) })
    }

    /// Goes as far as it can without waiting.
    ///
    /// # Errors
    /// Addresses where nothing answers, or not in HTTP/2.
    pub fn proceed(self, connector: &Connector) -> Result<Progress<Self, Http2Socket>, InferError> {
        let Self { end, step } = self;
        let mut line = match step {
            Step::Settling(line) => line,
            Step::Connecting(connecting) => match connecting.proceed(connector) {
                Ok(Progress::Made(stream)) => Box::new(Http2Socket::new(stream)),
                Ok(Progress::Pending(further)) => {
                    return Ok(Progress::Pending(Self { end, step: Step::Connecting(further) }));
                }
                Err(error) => return Err(named(connector, before_session(connector, failure(&error)))),
            },
        };
        match line.settle(end) {
            Ok(true) => Ok(Progress::Made(*line)),
            Ok(false) if Stamp::now() < end => Ok(Progress::Pending(Self { end, step: Step::Settling(line) })),
            Ok(false) => {
                let silent = "the server did not send its settings in time; does it speak HTTP/2 on this port?";
                Err(named(connector, InferError::new(ConnectionFault::TimedOut, silent)))
            }
            Err(error) => Err(named(connector, error)),
        }
    }

    /// What its socket must be ready for before it can go on.
    pub fn awaited(&self) -> PollFlags {
        match &self.step {
            Step::Connecting(connecting) => connecting.awaited(),
            Step::Settling(line) => line.interest(),
        }
    }

    /// When it goes on, or fails, even if the socket is silent.
    pub fn due(&self) -> Stamp {
        match &self.step {
            Step::Connecting(connecting) => connecting.due(),
            Step::Settling(_) => self.end,
        }
    }
}

impl AsFd for Opening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.step {
            Step::Connecting(connecting) => connecting.as_fd(),
            Step::Settling(line) => line.as_fd(),
        }
    }
}

/// Why there is no connection, with the address.
fn named(connector: &Connector, error: InferError) -> InferError {
    InferError { message: format!("cannot connect to {}: {}", connector.endpoint(), error.message), ..error }
}

/// A server that hangs up on the preface most likely speaks another protocol, or speaks it under TLS.
fn before_settings(error: InferError, is_tls: bool) -> InferError {
    // An alert says what is missing.
    if error.code == ErrorCode::Tls {
        return error;
    }
    let advice = if is_tls { "" } else { " if it speaks TLS, use grpcs:// in -u" };
    InferError { message: format!("{}; is this the server's gRPC port?{advice}", error.message), ..error }
}

/// So does one that hangs up on a handshake.
fn before_session(connector: &Connector, error: InferError) -> InferError {
    use ConnectionFault::{Closed, Reset};
    match error.code {
        ErrorCode::Connection(Closed | Reset) if connector.endpoint().secure => {
            InferError { message: format!("{}; does that port speak TLS?", error.message), ..error }
        }
        _ => error,
    }
}

fn broken(error: &ConnectionError) -> InferError {
    status::error(status::BROKEN, error.to_string())
}

/// Receives events of streams that are nobody's.
pub struct NoEvents;

impl Events for NoEvents {
    fn headers(&mut self, _: Token, _: &HeaderList, _: bool) {}
    fn data(&mut self, _: Token, _: &[u8], _: bool) {}
    fn reset(&mut self, _: Token, _: crate::wire::h2::Reset<'_>) {}
}
