//! [`Stream`], a connected socket with or without TLS, and [`Connector`], which makes them.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ClientConnection;

use crate::backends::net::{Endpoint, TlsClient};
use crate::shm;

/// A connected TCP socket, plain or under TLS. Blocking until [`Stream::set_nonblocking`].
///
/// Without blocking, `read` answers `WouldBlock` only when neither the socket nor the TLS layer holds more, so a caller
/// reads until then. `write` may leave encrypted bytes behind: [`Write::flush`] must succeed before a message is out.
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    /// Wraps a connected socket; with `tls` the handshake is made here, under the socket's own timeouts.
    ///
    /// # Errors
    /// Where the handshake fails; kind `InvalidData` then carries the reason.
    pub fn new(socket: TcpStream, tls: Option<ClientConnection>) -> io::Result<Self> {
        let mut stream = Self { socket, tls: tls.map(Box::new) };
        if let Some(session) = &mut stream.tls {
            while session.is_handshaking() {
                let (read, written) = session.complete_io(&mut stream.socket)?;
                if read == 0 && written == 0 && session.is_handshaking() {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        }
        Ok(stream)
    }

    /// Chooses whether reads and writes wait.
    ///
    /// # Errors
    /// As the socket answers.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// Bounds how long one blocking read and one blocking write may wait.
    ///
    /// # Errors
    /// As the socket answers; a zero duration is refused.
    pub fn set_timeouts(&self, limit: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(limit))?;
        self.socket.set_write_timeout(Some(limit))
    }

    /// Whether bytes may be waiting inside the TLS layer, where polling the socket does not see them.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether decrypted bytes are waiting inside the TLS layer.
    pub fn holds_bytes(&mut self) -> bool {
        let state = self.tls.as_mut().and_then(|session| session.process_new_packets().ok());
        state.is_some_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Closes both directions at once; a blocked peer learns of it.
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
            Some(session) => read_tls(session, &mut self.socket, buffer),
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

fn send_pending(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    while session.wants_write() {
        if session.write_tls(socket)? == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

fn read_tls(session: &mut ClientConnection, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match session.reader().read(buffer) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
        session.read_tls(socket)?;
        session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match send_pending(session, socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}

/// Makes connections to one endpoint. The name is resolved once; the address that answered last is tried first.
pub struct Connector {
    endpoint: Endpoint,
    tls: Option<TlsClient>,
    addresses: OnceLock<Vec<SocketAddr>>,
    answered: AtomicUsize,
}

impl Connector {
    /// For `endpoint`, encrypted if `tls` is given.
    pub fn new(endpoint: Endpoint, tls: Option<TlsClient>) -> Self {
        Self { endpoint, tls, addresses: OnceLock::new(), answered: AtomicUsize::new(0) }
    }

    /// Where it connects to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Connects, without Nagle's delay, and makes the TLS handshake. `limit` bounds each step, and remains the
    /// timeout of the stream's reads and writes.
    ///
    /// # Errors
    /// The last address's error; see [`crate::backends::net::failure`] for what it means.
    pub fn connect(&self, limit: Duration) -> io::Result<Stream> {
        let addresses = self.resolve()?;
        let first = self.answered.load(Ordering::Relaxed);
        let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
        for step in 0..addresses.len() {
            let index = (first + step) % addresses.len();
            match TcpStream::connect_timeout(&addresses[index], limit) {
                Ok(socket) => {
                    self.answered.store(index, Ordering::Relaxed);
                    return self.prepare(socket, limit);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn resolve(&self) -> io::Result<&[SocketAddr]> {
        if let Some(known) = self.addresses.get() {
            return Ok(known);
        }
        let found = (self.endpoint.host.as_str(), self.endpoint.port).to_socket_addrs()?.collect();
        Ok(self.addresses.get_or_init(|| found))
    }

    fn prepare(&self, socket: TcpStream, limit: Duration) -> io::Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))?;
        let session = self.tls.as_ref().map(|tls| tls.session(&self.endpoint.host)).transpose()?;
        Stream::new(socket, session)
    }
}
