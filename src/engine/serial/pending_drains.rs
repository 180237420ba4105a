//! [`PendingDrains`]: requests that wait until an earlier answer's last bytes are out of their connection's way.

use crate::ExchangeId;
use crate::clock::Stamp;

/// A request, its connection, and whether its time has begun already.
type Waiting = (ExchangeId, usize, bool);

/// Requests that wait until an earlier answer's last bytes are out of their connection's way.
#[derive(Debug, Default)]
pub(super) struct PendingDrains {
    waiting: Vec<Waiting>,
    /// Those that wait no more.
    settled: Vec<Waiting>,
}

impl PendingDrains {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A request waits for a connection.
    pub(super) fn wait(&mut self, id: ExchangeId, connection: usize, started: bool) {
        self.waiting.push((id, connection, started));
    }

    /// When to look again, `until` at the latest: `due` tells when a connection is given up.
    pub(super) fn until(&self, until: Stamp, due: impl Fn(usize) -> Stamp) -> Stamp {
        self.waiting.iter().map(|&(_, connection, _)| due(connection)).fold(until, Stamp::min)
    }

    /// Keeps those of which `waits` says that they still do; the others are [`PendingDrains::next`].
    pub(super) fn sort_out(&mut self, mut waits: impl FnMut(ExchangeId, usize) -> bool) {
        let Self { waiting, settled } = self;
        waiting.retain(|&entry| {
            let stays = waits(entry.0, entry.1);
            if !stays {
                settled.push(entry);
            }
            stays
        });
    }

    /// One that waits no more.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.settled.pop()
    }
}
