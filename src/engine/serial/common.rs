//! [`Common`]: what all connections of a client have in common.

use std::cell::RefCell;
use std::time::Duration;

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::engine::{Poller, Route};

/// How long a connection may take to be made while requests are under way.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Least time for that, where answers must come sooner.
const SHORTEST_LIMIT: Duration = Duration::from_millis(10);
/// Least pause between two attempts to connect again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What all connections of a client have in common.
pub(super) struct Common {
    pub(super) route: Route,
    /// Where sockets do not block.
    pub(super) poller: Option<Poller>,
    /// The last attempt to connect again failed: until when no other is made, and why.
    unreachable: RefCell<Option<(Stamp, InferError)>>,
}

impl Common {
    pub(super) fn new(route: Route) -> Self {
        Self { route, poller: None, unreachable: RefCell::new(None) }
    }

    /// Why no connection can be had at the moment, if that is known. An attempt blocks every slot of the client, so slots
    /// do not make theirs one after the other.
    pub(super) fn known_unreachable(&self) -> Option<InferError> {
        let known = self.unreachable.borrow();
        known.as_ref().filter(|(until, _)| Stamp::now() < *until).map(|(_, error)| error.clone())
    }

    /// An attempt that was begun at `started` has failed. The next is made after a pause of at least its length.
    pub(super) fn note_unreachable(&self, started: Stamp, error: &InferError) {
        let now = Stamp::now();
        let pause = RETRY_PAUSE.max(now - started);
        *self.unreachable.borrow_mut() = Some((now.plus_duration(pause), error.clone()));
    }

    /// How long a connection may take to be made while requests are under way.
    pub(super) fn connect_limit(&self) -> Duration {
        self.route.limit.map_or(CONNECT_LIMIT, |limit| limit.clamp(SHORTEST_LIMIT, CONNECT_LIMIT))
    }
}
