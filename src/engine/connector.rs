//! [`Connector`]: what connections to one endpoint need.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use crate::deadline::INTERRUPT_POLL;
use crate::{Deadline, Endpoint, Stream};

use crate::wire::TlsClient;

/// What connections to one endpoint need. The name is resolved once; the address that answered last is tried first.
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

    /// Looks up the host's name, unless that was done before.
    ///
    /// # Errors
    /// If it cannot be found until `deadline`.
    pub fn resolve(&self, deadline: Deadline) -> io::Result<()> {
        if self.addresses.get().is_some() {
            return Ok(());
        }
        let Endpoint { host, port, .. } = &self.endpoint;
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, *port).into()],
            Err(_) => look_up(host.clone(), *port, deadline)?,
        };
        self.addresses.get_or_init(|| found);
        Ok(())
    }

    /// The host's addresses; none before they were looked up.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        self.addresses.get().map_or(&[], Vec::as_slice)
    }

    /// The number of the one to ask first: the one that has answered last.
    pub(super) fn first(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// The address with that number has answered.
    pub(super) fn note_answered(&self, number: usize) {
        self.answered.store(number, Ordering::Relaxed);
    }

    /// The stream on a socket that the server has accepted.
    pub(super) fn greet(&self, socket: TcpStream) -> io::Result<Stream> {
        let session = self.tls.as_ref().map(|tls| tls.session(&self.endpoint.host)).transpose()?;
        Ok(Stream::new(socket, session))
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
