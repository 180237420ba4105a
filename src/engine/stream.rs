//! [`Stream`], a connected socket with or without TLS.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustls::ClientConnection;

use crate::Deadline;
use crate::shm;

/// What the TLS layer takes from the socket at once, as long as it has room for it.
const CHUNK: usize = 4096;
/// Limit on reads of the socket without anything for the caller; a whole record takes fewer.
const MAX_CHUNKS: u32 = 16;

/// A connected TCP socket, plain or under TLS. Nothing blocks until [`Stream::block`].
///
/// Under TLS, `read` answers `WouldBlock` once what has arrived holds nothing for the caller, even if the socket
/// blocks: a server may send a record byte by byte. The TLS layer then holds nothing either; what the socket still
/// holds, polling shows. `write` may leave encrypted bytes behind: [`Write::flush`] must succeed before a message has been
/// sent.
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes that broke the TLS session came behind the last ones that were read.
    is_broken: bool,
}

impl Stream {
    /// Wraps a connected, nonblocking socket. With `tls`, [`Stream::shake_hands`] comes first.
    pub(super) fn new(socket: TcpStream, tls: Option<ClientConnection>) -> Self {
        Self { socket, tls: tls.map(Box::new), is_broken: false }
    }

    /// Goes on with the handshake as far as it can without waiting. Returns what it waits for; nothing once it is done, which it
    /// is from the start without TLS.
    ///
    /// # Errors
    /// If the handshake fails; kind `InvalidData` then carries the reason.
    pub(super) fn shake_hands(&mut self) -> io::Result<Option<PollFlags>> {
        match &mut self.tls {
            None => Ok(None),
            Some(session) => shake_hands(session, &mut self.socket),
        }
    }

    /// Sends all of `bytes` on a nonblocking socket, until `deadline` at the latest.
    ///
    /// # Errors
    /// As the socket answers, and where the deadline has passed.
    pub fn send_all(&mut self, bytes: &[u8], deadline: Deadline) -> io::Result<()> {
        let mut left = bytes;
        loop {
            deadline.check()?;
            let step = if left.is_empty() { self.flush().map(|()| 0) } else { self.write(left) };
            match step {
                Ok(0) if left.is_empty() => return Ok(()),
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => deadline.wait(&self.socket, PollFlags::OUT)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what has arrived on a nonblocking socket, or arrives until `deadline`; nothing at the connection's end.
    ///
    /// # Errors
    /// As [`Stream::send_all`].
    pub fn read_some(&mut self, buffer: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        loop {
            deadline.check()?;
            match self.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => deadline.wait(&self.socket, PollFlags::IN)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Has no read or write wait.
    ///
    /// # Errors
    /// As the socket answers.
    pub fn unblock(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    /// Has reads and writes wait, each for at most `limit`.
    ///
    /// # Errors
    /// As the socket answers; a zero duration is refused.
    pub fn block(&self, limit: Duration) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(limit))?;
        self.socket.set_write_timeout(Some(limit))
    }

    /// Whether bytes may be waiting inside the TLS layer, where polling the socket does not see them.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether nothing can follow what was read: the next read fails.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether decrypted bytes are waiting inside the TLS layer.
    pub fn holds_bytes(&mut self) -> bool {
        let state = self.tls.as_mut().and_then(|session| session.process_new_packets().ok());
        state.is_some_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Closes both directions at once; a blocked peer notices.
    pub fn shutdown(&mut self) {
        if let Some(session) = &mut self.tls {
            session.send_close_notify();
            if self.socket.set_nonblocking(true).is_ok() {
                let _ = session.write_tls(&mut self.socket);
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(session) => read_tls(session, &mut self.socket, buffer, &mut self.is_broken),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    #[inline]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(session) = &mut self.tls else {
            let written = match slices {
                [single] => self.socket.write(single),
                several => self.socket.write_vectored(several),
            };
            return written.inspect_err(shm::end_if_cut_short);
        };
        send_pending(session, &mut self.socket)?;
        let taken = session.writer().write_vectored(slices)?;
        match send_pending(session, &mut self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(session) => send_pending(session, &mut self.socket),
        }
    }
}

/// Goes on with the handshake on a nonblocking socket; returns what it waits for, if it is not done. A server that sends byte by
/// byte does not keep the caller: after [`MAX_CHUNKS`] reads it is asked again, as a socket that can be read is reported again.
fn shake_hands(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<Option<PollFlags>> {
    let mut chunks = 0;
    while session.is_handshaking() || session.wants_write() {
        let (step, awaited) = if session.wants_write() {
            (session.write_tls(socket), PollFlags::OUT)
        } else if chunks == MAX_CHUNKS {
            return Ok(Some(PollFlags::IN));
        } else {
            chunks += 1;
            (session.read_tls(socket), PollFlags::IN)
        };
        match step {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if awaited == PollFlags::IN => {
                if let Err(error) = session.process_new_packets() {
                    // The alert tells the server why, if it still reads.
                    let _ = session.write_tls(socket);
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Some(awaited)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn send_pending(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    while session.wants_write() {
        if session.write_tls(socket)? == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

fn read_tls(
    session: &mut ClientConnection,
    socket: &mut TcpStream,
    buffer: &mut [u8],
    is_broken: &mut bool,
) -> io::Result<usize> {
    let (mut chunks, mut is_drained) = (0, false);
    loop {
        match session.reader().read(buffer) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(error) if is_drained => return Err(error),
            Err(_) => {}
        }
        let count = session.read_tls(socket)?;
        chunks += 1;
        // After no bytes at all, the connection has ended.
        is_drained = (1..CHUNK).contains(&count) || chunks == MAX_CHUNKS;
        if let Err(error) = session.process_new_packets() {
            *is_broken = true;
            return match session.reader().read(buffer) {
                // What came before is whole. The session keeps its error for the next read, which must not wait for more; where the
                // socket is disconnected already, it does not.
                Ok(count) if count > 0 => {
                    let _ = socket.shutdown(Shutdown::Read);
                    Ok(count)
                }
                _ => Err(io::Error::new(ErrorKind::InvalidData, error)),
            };
        }
        match send_pending(session, socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}
