//! [`Connector`]: makes connections to one endpoint.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::engine::deadline::INTERRUPT_POLL;
use crate::engine::{Deadline, Endpoint, Stream};
use crate::limits;
use crate::wire::TlsClient;

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

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Connects, without Nagle's delay, and performs the TLS handshake, all until `deadline`. The stream blocks,
    /// without timeouts.
    ///
    /// # Errors
    /// The last address's error; see [`crate::engine::failure`] for its meaning.
    pub fn connect(&self, deadline: Deadline) -> io::Result<Stream> {
        let addresses = self.resolve(deadline)?;
        let first = self.answered.load(Ordering::Relaxed);
        let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
        for step in 0..addresses.len() {
            let index = (first + step) % addresses.len();
            // An address that swallows packets must leave time for the others.
            match reach(&addresses[index], deadline.share(addresses.len() - step)) {
                Ok(socket) => {
                    self.answered.store(index, Ordering::Relaxed);
                    return self.prepare(socket, deadline);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn resolve(&self, deadline: Deadline) -> io::Result<&[SocketAddr]> {
        if let Some(known) = self.addresses.get() {
            return Ok(known);
        }
        let Endpoint { host, port, .. } = &self.endpoint;
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, *port).into()],
            Err(_) => look_up(host.clone(), *port, deadline)?,
        };
        Ok(self.addresses.get_or_init(|| found))
    }

    fn prepare(&self, socket: TcpStream, deadline: Deadline) -> io::Result<Stream> {
        socket.set_nodelay(true)?;
        let session = self.tls.as_ref().map(|tls| tls.session(&self.endpoint.host)).transpose()?;
        Stream::new(socket, session, deadline)
    }
}

/// Resolves a name. The system's resolver takes no deadline, so it runs on a thread that is abandoned if the answer
/// does not come in time.
fn look_up(host: String, port: u16, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
    let (answer, answered) = mpsc::channel();
    let ask = move || {
        // The receiver may be gone.
        let _ = answer.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    };
    thread::Builder::new().name("resolver".to_owned()).spawn(ask)?;
    loop {
        deadline.check()?;
        match answered.recv_timeout(INTERRUPT_POLL) {
            Ok(found) => return found,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the name resolver failed")),
        }
    }
}

/// A connected, nonblocking socket.
fn reach(address: &SocketAddr, deadline: Deadline) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
        .map_err(|error| limits::explained(error.into()))?;
    match connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            deadline.wait(&socket, PollFlags::OUT)?;
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(socket.into())
}
