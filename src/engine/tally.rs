//! Counts a backend's connections, to know when its server is gone: none is open, and none can be made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many connections in a row may be made and end without an answer before a server that holds no other is gone: something in
/// front of it takes connections that it cannot pass on.
const FRUITLESS: usize = 3;

/// The connections that a backend's requests use. Changed only when one is made or ends.
#[derive(Debug, Default)]
pub struct ConnectionTally {
    lines: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
    fruitless: AtomicUsize,
    losses: AtomicUsize,
    gone: AtomicBool,
    reached: AtomicBool,
}

impl ConnectionTally {
    /// The most connections that carried requests at once since the last call.
    pub fn take_most(&self) -> usize {
        self.most.swap(self.lines.load(Ordering::Acquire), Ordering::AcqRel)
    }

    /// Whether no connection is open, and none could be made when one was needed.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether any connection has ever been made.
    pub fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    /// How often the server or the network has ended a connection, announced its end, or refused one.
    pub fn losses(&self) -> usize {
        self.losses.load(Ordering::Acquire)
    }

    fn note_loss(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }

    fn note_gone_unless_open(&self) {
        if self.open.load(Ordering::Acquire) == 0 {
            self.gone.store(true, Ordering::Release);
        }
    }
}

/// A connection's entry in a tally, until it is dropped. It counts from its first request on, because a load may keep
/// its connections idle before it starts, without checking that they are still open.
#[derive(Debug)]
pub struct TalliedConnection {
    tally: Arc<ConnectionTally>,
    state: State,
    has_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    Open,
    Closed,
}

impl TalliedConnection {
    /// An entry that does not count yet.
    pub fn new(tally: &Arc<ConnectionTally>) -> Self {
        Self { tally: Arc::clone(tally), state: State::Unused, has_answered: false }
    }

    /// An entry for the connection that follows this one, and is still to be made, while this one still counts.
    pub fn next(&self) -> Self {
        let lines = self.tally.lines.fetch_add(1, Ordering::AcqRel) + 1;
        self.tally.most.fetch_max(lines, Ordering::AcqRel);
        Self { tally: Arc::clone(&self.tally), state: State::Closed, has_answered: false }
    }

    /// The server leaves it. What the next one leads to may be another process, which knows nothing that this one was told.
    pub fn leave(&self) {
        self.tally.note_loss();
    }

    /// A request is about to use the connection. Returns whether it is the first.
    #[inline]
    pub fn enter(&mut self) -> bool {
        if self.state != State::Unused {
            return false;
        }
        let lines = self.tally.lines.fetch_add(1, Ordering::AcqRel) + 1;
        self.tally.most.fetch_max(lines, Ordering::AcqRel);
        self.tally.open.fetch_add(1, Ordering::AcqRel);
        self.tally.gone.store(false, Ordering::Release);
        self.state = State::Open;
        true
    }

    /// A request has been answered on it.
    #[inline]
    pub fn answers(&mut self) {
        if !self.has_answered {
            self.has_answered = true;
            self.tally.fruitless.store(0, Ordering::Release);
            self.tally.gone.store(false, Ordering::Release);
        }
    }

    /// Whether requests have been answered on it since it was made.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// The server or the network has ended it under a request. The next one makes another.
    pub fn end(&mut self) {
        let has_answered = self.has_answered;
        if self.end_idle() && !has_answered && self.tally.fruitless.fetch_add(1, Ordering::AcqRel) + 1 >= FRUITLESS {
            self.tally.note_gone_unless_open();
        }
    }

    /// The same with so many requests under way.
    pub fn end_after(&mut self, requests: usize) {
        match requests {
            0 => drop(self.end_idle()),
            _ => self.end(),
        }
    }

    /// The same without a request, which says nothing of the server. Returns whether it was open.
    pub fn end_idle(&mut self) -> bool {
        self.has_answered = false;
        let was_open = self.close();
        if was_open {
            self.tally.note_loss();
        }
        was_open
    }

    /// It could not be made.
    pub fn refuse(&mut self) {
        self.close();
        self.tally.note_loss();
        self.tally.note_gone_unless_open();
    }

    /// It has been made, for the first time or again.
    pub fn open(&mut self) {
        self.tally.reached.store(true, Ordering::Release);
        if self.state == State::Closed {
            self.state = State::Open;
            self.tally.open.fetch_add(1, Ordering::AcqRel);
            if self.tally.fruitless.load(Ordering::Acquire) == 0 {
                self.tally.gone.store(false, Ordering::Release);
            }
        }
    }

    /// Returns whether it was open.
    fn close(&mut self) -> bool {
        let was_open = self.state == State::Open;
        if was_open {
            self.state = State::Closed;
            self.tally.open.fetch_sub(1, Ordering::AcqRel);
        }
        was_open
    }
}

impl Drop for TalliedConnection {
    fn drop(&mut self) {
        self.close();
        if self.state != State::Unused {
            self.tally.lines.fetch_sub(1, Ordering::AcqRel);
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
    fn a_server_is_gone_when_none_is_open_and_none_can_be_made() {
        let tally = Arc::new(ConnectionTally::default());
        let (mut first, mut second) = (used(&tally), used(&tally));
        let mut waiting = TalliedConnection::new(&tally);
        first.answers();
        first.end();
        first.refuse();
        assert!(!tally.is_gone(), "another is open");
        second.answers();
        second.end();
        assert!(!tally.is_gone(), "another may be made");
        second.refuse();
        assert!(tally.is_gone(), "one that waits does not count");
        first.open();
        assert!(!tally.is_gone());
        first.answers();
        first.end();
        first.refuse();
        drop((first, second));
        assert!(tally.is_gone(), "a load that has ended leaves the server as it was");
        assert!(waiting.enter() && !tally.is_gone());
        drop(waiting);
        assert!(!tally.is_gone(), "a connection that we ended was not refused");
        assert_eq!((tally.take_most(), tally.take_most()), (2, 0));
    }

    #[test]
    fn a_server_that_still_answers_on_the_connection_before_is_not_gone() {
        let tally = Arc::new(ConnectionTally::default());
        let line = used(&tally);
        let mut next = line.next();
        next.refuse();
        assert!(!tally.is_gone());
        assert_eq!(tally.take_most(), 2);
        drop(line);
        next.refuse();
        assert!(tally.is_gone());
        next.open();
        assert!(!tally.is_gone());
        assert_eq!((tally.take_most(), tally.take_most()), (2, 1));
    }

    #[test]
    fn connections_that_end_before_their_first_request_say_nothing() {
        let tally = Arc::new(ConnectionTally::default());
        for _ in 0..=FRUITLESS {
            let mut line = used(&tally);
            assert!(line.end_idle() && !line.end_idle());
            line.open();
            line.end_idle();
        }
        assert!(!tally.is_gone());
    }

    #[test]
    fn a_server_that_hangs_up_without_an_answer_is_gone_after_some_connections() {
        let tally = Arc::new(ConnectionTally::default());
        let mut line = used(&tally);
        for fruitless in 1..=FRUITLESS {
            line.end();
            assert_eq!(tally.is_gone(), fruitless == FRUITLESS);
            line.open();
        }
        assert!(tally.is_gone(), "to connect is not enough");
        line.answers();
        assert!(!tally.is_gone());
        (0..10).for_each(|_| {
            line.end();
            line.open();
            line.answers();
        });
        assert!(!tally.is_gone(), "it answers on each");
    }
}
