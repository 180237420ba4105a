//! Counts a backend's connections, and the lost ones: when all are lost, the server is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The connections that a backend's requests use. Changed only when one is made or lost.
#[derive(Debug, Default)]
pub struct ConnectionTally {
    lines: AtomicUsize,
    lost: AtomicUsize,
    most: AtomicUsize,
    gone: AtomicBool,
}

impl ConnectionTally {
    /// The most connections that carried requests at once since the last call.
    pub fn take_most(&self) -> usize {
        self.most.swap(self.lines.load(Ordering::Acquire), Ordering::AcqRel)
    }

    /// Whether all connections have been lost, and none has been made since.
    pub fn all_lost(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

/// A connection's entry in a tally, until it is dropped. It counts from its first request on, because a load may keep
/// its connections idle before it starts, without checking that they are still open.
#[derive(Debug)]
pub struct TalliedConnection {
    tally: Arc<ConnectionTally>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    There,
    Lost,
}

impl TalliedConnection {
    /// An entry that does not count yet.
    pub fn new(tally: &Arc<ConnectionTally>) -> Self {
        Self { tally: Arc::clone(tally), state: State::Unused }
    }

    /// A request is about to use the connection. Returns whether it is the first.
    #[inline]
    pub fn enter(&mut self) -> bool {
        if self.state != State::Unused {
            return false;
        }
        let lines = self.tally.lines.fetch_add(1, Ordering::AcqRel) + 1;
        self.tally.most.fetch_max(lines, Ordering::AcqRel);
        self.tally.gone.store(false, Ordering::Release);
        self.state = State::There;
        true
    }

    /// The server or the network has ended the connection.
    pub fn lose(&mut self) {
        if self.state != State::There {
            return;
        }
        self.state = State::Lost;
        let lost = self.tally.lost.fetch_add(1, Ordering::AcqRel) + 1;
        if lost >= self.tally.lines.load(Ordering::Acquire) {
            self.tally.gone.store(true, Ordering::Release);
        }
    }

    /// The connection has been remade.
    pub fn find(&mut self) {
        if self.state == State::Lost {
            self.state = State::There;
            self.tally.lost.fetch_sub(1, Ordering::AcqRel);
            self.tally.gone.store(false, Ordering::Release);
        }
    }
}

impl Drop for TalliedConnection {
    fn drop(&mut self) {
        if self.state != State::Unused {
            self.tally.lines.fetch_sub(1, Ordering::AcqRel);
        }
        if self.state == State::Lost {
            self.tally.lost.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tally: &Arc<ConnectionTally>) -> TalliedConnection {
        let mut line = TalliedConnection::new(tally);
        assert!(line.enter() && !line.enter());
        line
    }

    #[test]
    fn a_server_is_gone_when_its_last_connection_is_lost_and_until_one_is_made() {
        let tally = Arc::new(ConnectionTally::default());
        let (mut first, mut second) = (used(&tally), used(&tally));
        let mut waiting = TalliedConnection::new(&tally);
        first.lose();
        first.lose();
        waiting.lose();
        assert!(!tally.all_lost());
        second.lose();
        assert!(tally.all_lost(), "one that waits does not count");
        first.find();
        assert!(!tally.all_lost());
        first.lose();
        drop((first, second));
        assert!(tally.all_lost(), "a load that has ended leaves the server as it was");
        assert!(waiting.enter() && !tally.all_lost());
        drop(waiting);
        assert!(!tally.all_lost(), "a connection that we ended was not lost");
        assert_eq!((tally.take_most(), tally.take_most()), (2, 0));
    }
}
