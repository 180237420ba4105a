//! [`Common`]: state shared by all connections of a client.

use std::cell::RefCell;
use std::time::Duration;

use crate::backend::{ConnectionFault, ErrorCode, InferError};
use crate::clock::Stamp;
use crate::{Poller, Route};

/// How long a connection may take that is made while requests are under way, as long as most clients wait for one: a server
/// whose queue of connections is full drops attempts, and the kernel repeats them after 1 s, 3 s, 7 s and 15 s. Requests that
/// have less time (`--client-timeout-us`) give up before.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Minimum pause between a failed attempt to connect and the next.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// State shared by all connections of a client.
pub(super) struct Common {
    pub(super) route: Route,
    /// The poller, if sockets do not block.
    pub(super) poller: Option<Poller>,
    /// After a failed attempt to connect: until when no other is begun, and the error.
    unreachable: RefCell<Option<(Stamp, InferError)>>,
}

impl Common {
    pub(super) fn new(route: Route) -> Self {
        Self { route, poller: None, unreachable: RefCell::new(None) }
    }

    /// Why no connection can be made at the moment, if that is known: slots do not each ask a server that refuses.
    pub(super) fn known_unreachable(&self) -> Option<InferError> {
        let unreachable = self.unreachable.borrow();
        unreachable.as_ref().filter(|(until, _)| Stamp::now() < *until).map(|(_, error)| error.clone())
    }

    /// An attempt has failed; returns the error of its request. A server that has hung up is there, and may take the next.
    pub(super) fn unreachable(&self, error: InferError) -> InferError {
        use ConnectionFault::{Closed, Reset};
        if !matches!(error.code, ErrorCode::Connection(Closed | Reset)) {
            *self.unreachable.borrow_mut() = Some((Stamp::now().plus_duration(RETRY_PAUSE), error.clone()));
        }
        error
    }

    /// An attempt has succeeded.
    pub(super) fn note_reached(&self) {
        self.unreachable.borrow_mut().take();
    }

    /// When a connection must be there that is begun now.
    pub(super) fn connect_by() -> Stamp {
        Stamp::now().plus_duration(CONNECT_LIMIT)
    }
}
