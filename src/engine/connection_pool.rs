//! [`ConnectionPool`]: which slot has which connection, also where there are fewer connections than slots.

use std::collections::VecDeque;

use crate::{ExchangeId, Exchanges};

/// Which slot has which connection.
#[derive(Debug)]
pub enum ConnectionPool {
    /// Each slot has the connection of its number.
    PerSlot,
    /// Slots take turns with fewer connections.
    Shared(SharedPool),
}

/// Connections that slots take turns with. A request that finds none free waits, and the one that has waited longest gets the
/// next.
#[derive(Debug, Default)]
pub struct SharedPool {
    /// Each slot's connection.
    lines: Vec<Option<usize>>,
    /// Each connection's slot.
    slots: Vec<Option<usize>>,
    /// Free connections, the one that was used last at the end: it is the next.
    free: Vec<usize>,
    waiting: VecDeque<ExchangeId>,
}

impl ConnectionPool {
    /// At most `most` connections; if `None`, as many as slots.
    pub fn new(most: Option<usize>) -> Self {
        most.map_or(Self::PerSlot, |_| Self::Shared(SharedPool::default()))
    }

    /// Whether slots take turns with connections.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Sets the numbers of slots and connections.
    pub fn grow(&mut self, slots: usize, lines: usize) {
        if let Self::Shared(pool) = self {
            pool.grow(slots, lines);
        }
    }

    /// Takes a connection for the slot; without a free one, the slot waits.
    pub fn take(&mut self, slot: usize, exchanges: &Exchanges) -> Option<usize> {
        match self {
            Self::PerSlot => Some(slot),
            Self::Shared(pool) => pool.take(slot, exchanges),
        }
    }

    /// The slot that has waited longest, and its connection, where one is free.
    pub fn next(&mut self, exchanges: &Exchanges) -> Option<(usize, usize)> {
        match self {
            Self::PerSlot => None,
            Self::Shared(pool) => pool.next(exchanges),
        }
    }

    /// The slot's connection.
    pub fn line(&self, slot: usize) -> Option<usize> {
        match self {
            Self::PerSlot => Some(slot),
            Self::Shared(pool) => pool.lines[slot],
        }
    }

    /// The connection's slot.
    pub fn slot(&self, line: usize) -> Option<usize> {
        match self {
            Self::PerSlot => Some(line),
            Self::Shared(pool) => pool.slots[line],
        }
    }

    /// The slot's request is over; returns the connection that it had.
    pub fn leave(&mut self, slot: usize) -> Option<usize> {
        match self {
            Self::PerSlot => Some(slot),
            Self::Shared(pool) => pool.leave(slot),
        }
    }
}

impl SharedPool {
    fn grow(&mut self, slots: usize, lines: usize) {
        self.lines.resize(slots.max(self.lines.len()), None);
        self.free.extend(self.slots.len()..lines);
        self.slots.resize(lines.max(self.slots.len()), None);
        self.waiting.reserve(slots.saturating_sub(self.waiting.len()));
    }

    fn take(&mut self, slot: usize, exchanges: &Exchanges) -> Option<usize> {
        let line = if self.waiting.is_empty() { self.free.pop() } else { None };
        match line {
            Some(line) => self.give(slot, line),
            None => self.waiting.push_back(exchanges.id(slot)),
        }
        line
    }

    fn next(&mut self, exchanges: &Exchanges) -> Option<(usize, usize)> {
        // Requests that were given up meanwhile no longer wait.
        while self.waiting.front().is_some_and(|id| !exchanges.is_current(*id)) {
            self.waiting.pop_front();
        }
        let line = *self.free.last().filter(|_| !self.waiting.is_empty())?;
        self.free.pop();
        let slot = self.waiting.pop_front()?.slot();
        self.give(slot, line);
        Some((slot, line))
    }

    fn give(&mut self, slot: usize, line: usize) {
        (self.lines[slot], self.slots[line]) = (Some(line), Some(slot));
    }

    fn leave(&mut self, slot: usize) -> Option<usize> {
        let line = self.lines[slot].take()?;
        self.slots[line] = None;
        self.free.push(line);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backend::{Completion, CompletionSink, InferError, Next, Request, Response, SlotId};
    use crate::data::PayloadId;

    struct Nobody;

    impl CompletionSink for Nobody {
        fn response(&self, _: SlotId, _: &Response<'_>) {}

        fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
            Next::Idle
        }
    }

    #[test]
    fn who_has_waited_longest_gets_the_next_and_nobody_passes() {
        let mut exchanges = Exchanges::new(Arc::new(Nobody), false);
        exchanges.grow(5);
        let mut pool = ConnectionPool::new(Some(2));
        pool.grow(5, 2);
        for slot in 0..5 {
            exchanges.begin(slot, Request { payload: PayloadId(0), sequence: None });
        }
        let taken: Vec<Option<usize>> = (0..4).map(|slot| pool.take(slot, &exchanges)).collect();
        assert_eq!(taken, [Some(1), Some(0), None, None]);
        assert_eq!((pool.line(1), pool.slot(1), pool.next(&exchanges)), (Some(0), Some(0), None));
        assert_eq!((pool.leave(1), pool.leave(1)), (Some(0), None));
        assert_eq!(pool.take(4, &exchanges), None, "two were there before");
        exchanges.fail(2, InferError::new("No", "given up"));
        assert_eq!(pool.next(&exchanges), Some((3, 0)));
        assert_eq!(pool.next(&exchanges), None);
        pool.leave(0);
        assert_eq!((pool.next(&exchanges), pool.line(4)), (Some((4, 1)), Some(1)));
        assert_eq!((pool.leave(4), pool.leave(3)), (Some(1), Some(0)));
        assert_eq!(pool.take(2, &exchanges), Some(0), "the one that was used last");
    }
}
