//! How many of a backend's connections are there, and how many are lost: where all are, the server is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The connections that a backend's requests go over. Changed only where one is made or lost.
#[derive(Debug, Default)]
pub struct LineTally {
    lines: AtomicUsize,
    lost: AtomicUsize,
    gone: AtomicBool,
}

impl LineTally {
    /// Whether all connections have been lost, and none has been made since.
    pub fn all_lost(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

/// A place for a connection in a tally, until it is dropped.
#[derive(Debug)]
pub struct TalliedLine {
    tally: Arc<LineTally>,
    lost: bool,
}

impl TalliedLine {
    /// A place whose connection is there.
    pub fn new(tally: &Arc<LineTally>) -> Self {
        tally.lines.fetch_add(1, Ordering::AcqRel);
        tally.gone.store(false, Ordering::Release);
        Self { tally: Arc::clone(tally), lost: false }
    }

    /// The server or the network has ended the connection.
    pub fn lose(&mut self) {
        if std::mem::replace(&mut self.lost, true) {
            return;
        }
        let lost = self.tally.lost.fetch_add(1, Ordering::AcqRel) + 1;
        if lost >= self.tally.lines.load(Ordering::Acquire) {
            self.tally.gone.store(true, Ordering::Release);
        }
    }

    /// There is a connection again.
    pub fn find(&mut self) {
        if std::mem::replace(&mut self.lost, false) {
            self.tally.lost.fetch_sub(1, Ordering::AcqRel);
            self.tally.gone.store(false, Ordering::Release);
        }
    }
}

impl Drop for TalliedLine {
    fn drop(&mut self) {
        self.tally.lines.fetch_sub(1, Ordering::AcqRel);
        if self.lost {
            self.tally.lost.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_gone_when_its_last_connection_is_lost_and_until_one_is_made() {
        let tally = Arc::new(LineTally::default());
        let (mut first, mut second) = (TalliedLine::new(&tally), TalliedLine::new(&tally));
        first.lose();
        first.lose();
        assert!(!tally.all_lost());
        second.lose();
        assert!(tally.all_lost());
        first.find();
        assert!(!tally.all_lost());
        first.lose();
        drop((first, second));
        assert!(tally.all_lost(), "a load that has ended leaves the server as it was");
        let third = TalliedLine::new(&tally);
        assert!(!tally.all_lost());
        drop(third);
        assert!(!tally.all_lost(), "a connection that we ended was not lost");
    }
}
