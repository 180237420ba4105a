//! [`Common`]: state shared by all connections of a client.

use std::cell::RefCell;
use std::time::Duration;

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::engine::{Poller, Route};

/// How long connecting may take while requests are under way.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Minimum for that, if answers must come sooner.
const SHORTEST_LIMIT: Duration = Duration::from_millis(10);
/// Minimum pause between two attempts to reconnect.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// State shared by all connections of a client.
pub(super) struct Common {
    pub(super) route: Route,
    /// The poller, if sockets do not block.
    pub(super) poller: Option<Poller>,
    /// After a failed attempt to reconnect: until when no other is made, and the error.
    unreachable: RefCell<Option<(Stamp, InferError)>>,
}

impl Common {
    pub(super) fn new(route: Route) -> Self {
        Self { route, poller: None, unreachable: RefCell::new(None) }
    }

    /// Why no connection can be made at the moment, if that is known. An attempt blocks every slot of the client, so
    /// slots do not each make their own.
    pub(super) fn known_unreachable(&self) -> Option<InferError> {
        let known = self.unreachable.borrow();
        known.as_ref().filter(|(until, _)| Stamp::now() < *until).map(|(_, error)| error.clone())
    }

    /// The attempt that began at `started` has failed. The next follows after a pause of at least the same length.
    pub(super) fn note_unreachable(&self, started: Stamp, error: &InferError) {
        let now = Stamp::now();
        let pause = RETRY_PAUSE.max(now - started);
        *self.unreachable.borrow_mut() = Some((now.plus_duration(pause), error.clone()));
    }

    /// How long connecting may take while requests are under way.
    pub(super) fn connect_limit(&self) -> Duration {
        self.route.limit.map_or(CONNECT_LIMIT, |limit| limit.clamp(SHORTEST_LIMIT, CONNECT_LIMIT))
    }
}
