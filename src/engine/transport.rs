//! [`Transport`]: how exchanges share connections; and [`Route`], the settings shared by all connections of a backend.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Awaited, InferError, Network};
use crate::clock::Stamp;
use crate::error::Result;
use crate::plan::ConnectionPlan;
use crate::wire::TlsClient;
use crate::{ConnectionTally, Connector, Endpoint, Exchanges, Progress, Reminder};

/// How the connections of a backend's clients are made.
#[derive(Clone)]
pub struct Route {
    /// Makes them.
    pub connector: Arc<Connector>,
    /// Whether to go on when no connection can be made, until one can.
    pub reconnect: bool,
    /// Whether each exchange makes a connection of its own.
    pub renew: bool,
    /// How long an answer may take.
    pub limit: Option<Duration>,
    /// All connections of the backend's clients.
    pub tally: Arc<ConnectionTally>,
    /// What the server is told again after connections were lost.
    pub reminder: Option<Arc<Reminder>>,
}

impl Route {
    /// A route to the server that `connection` names, at `port` if it names none. If the connection is encrypted, ALPN
    /// offers `protocols`.
    ///
    /// # Errors
    /// If the address or a certificate is wrong.
    pub fn to(connection: &ConnectionPlan, port: u16, protocols: &[&str]) -> Result<Self> {
        let mut endpoint = Endpoint::parse(&connection.url, port)?;
        endpoint.secure |= connection.tls.enabled;
        let tls = endpoint.secure.then(|| TlsClient::new(&connection.tls, protocols)).transpose()?;
        Ok(Self {
            connector: Arc::new(Connector::new(endpoint, tls)),
            // Each has its own, so one that cannot be made says nothing of the next.
            reconnect: connection.reconnect || connection.renew,
            renew: connection.renew,
            limit: connection.client_timeout,
            tally: Arc::default(),
            reminder: None,
        })
    }

    /// With `reminder` for a server that comes back, if that is waited for.
    pub fn reminding(self, reminder: Reminder) -> Self {
        Self { reminder: self.reconnect.then(|| Arc::new(reminder)), ..self }
    }

    /// Reminds the server if it came back while there was no client. One that does not answer is reminded by the first
    /// connection that is made once it does.
    pub fn remind_early(&self) {
        let _ = self.remind();
    }

    /// Passes on how far a connection is. Once it is there after others were lost, the server is reminded, and waited for,
    /// before a request leaves on it.
    ///
    /// # Errors
    /// Why it does not answer: such a connection is of no use.
    pub fn reminded<C, S>(&self, progress: Progress<C, S>) -> Result<Progress<C, S>, InferError> {
        match progress {
            Progress::Made(made) => self.remind().map(|()| Progress::Made(made)),
            pending => Ok(pending),
        }
    }

    fn remind(&self) -> Result<(), InferError> {
        self.reminder.as_ref().map_or(Ok(()), |reminder| reminder.catch_up(&self.tally))
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &Endpoint {
        self.connector.endpoint()
    }
}

impl Network for Route {
    fn is_gone(&self) -> bool {
        !self.reconnect && self.tally.is_gone()
    }

    fn connections(&self) -> usize {
        self.tally.take_most()
    }

    fn awaits_server(&self) -> bool {
        self.reconnect
    }
}

/// How exchanges share connections: one at a time on each ([`serial`](crate::serial)), or many on one, unless each makes its own
/// ([`calls`](crate::calls)). Everything that happens to an exchange is reported to the [`Exchanges`].
pub trait Transport: Send {
    /// Makes sure that there are at least `slots` slots. Connections of new ones are made when requests need them.
    ///
    /// # Errors
    /// If the service cannot serve another slot.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// Makes all connections before the load, and waits for them.
    ///
    /// # Errors
    /// If one cannot be made.
    fn connect(&mut self) -> Result<()>;

    /// A request is about to begin in a slot. If its connection has waited long for a first request, this checks that
    /// it is still open before the request depends on it.
    fn enter(&mut self, slot: usize, exchanges: &mut Exchanges);

    /// Starts the request that has begun in a slot, without waiting for anything, a connection included. One that cannot be
    /// sent fails.
    ///
    /// # Errors
    /// If the client is broken.
    fn start(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()>;

    /// Sends what was started.
    fn flush(&mut self, exchanges: &mut Exchanges);

    /// Waits until something arrives or can be sent, at most until `until`, and processes it.
    ///
    /// # Errors
    /// If the client is broken.
    fn turn(&mut self, until: Stamp, exchanges: &mut Exchanges) -> Result<()>;

    /// What [`Transport::turn`] waits for where there are several slots: a single one may block.
    fn awaited(&self) -> Awaited<'_>;

    /// Gives up the pending request in a slot, and tells the server as far as the protocol allows. The request then
    /// fails with `error`. With `politely`, does nothing and returns `false` if that would end other requests, too.
    fn give_up(&mut self, slot: usize, error: InferError, politely: bool, exchanges: &mut Exchanges) -> bool;

    /// The request in a slot is over, and about to be reported to the sink.
    fn release(&mut self, slot: usize);

    /// Closes all connections.
    fn close(&mut self);
}
