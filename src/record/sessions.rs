//! Conversations that ended in one window: how long they took, how long they waited for answers, and how many turns they had.

#[cfg(not(loom))]
use schemars::JsonSchema;
#[cfg(not(loom))]
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::distribution::Distribution;
use crate::histogram::AtomicHistogram;
use crate::sample::Sample;
use crate::sync::{AtomicU64, Ordering};

/// A conversation, as far as it has been played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// When its first turn was sent; none before.
    begun: Option<Stamp>,
    /// When its last turn so far was over.
    pub(super) end: Stamp,
    waiting_ns: u64,
    turns: u64,
    failed: u64,
}

impl Played {
    /// A turn is over, which may have `failed`.
    pub fn add(&mut self, turn: &Sample, failed: bool) {
        self.begun.get_or_insert(turn.sent);
        self.end = turn.end;
        self.waiting_ns += turn.end.since(turn.sent);
        self.turns += 1;
        self.failed += u64::from(failed);
    }

    /// Further turns of it were played.
    pub fn join(&mut self, others: &Self) {
        self.begun = [self.begun, others.begun].into_iter().flatten().min();
        self.end = self.end.max(others.end);
        self.waiting_ns += others.waiting_ns;
        self.turns += others.turns;
        self.failed += others.failed;
    }
}

/// One window's counters in one shard. Threads add without waiting.
pub(super) struct SessionBank {
    duration: AtomicHistogram,
    waiting: AtomicHistogram,
    turns: AtomicU64,
    broken: AtomicU64,
}

impl SessionBank {
    pub(super) fn new() -> Self {
        let (zero, histogram) = (|| AtomicU64::new(0), AtomicHistogram::new);
        Self { duration: histogram(), waiting: histogram(), turns: zero(), broken: zero() }
    }

    /// Adds a conversation that is over.
    pub(super) fn record(&self, played: &Played) {
        let Played { begun, end, waiting_ns, turns, failed } = *played;
        self.duration.record(end.since(begun.unwrap_or(end)));
        self.waiting.record(waiting_ns);
        self.turns.fetch_add(turns, Ordering::Relaxed);
        self.broken.fetch_add(u64::from(failed > 0), Ordering::Relaxed);
    }

    pub(super) fn drain_into(&self, sessions: &mut Sessions) {
        self.duration.drain_into(&mut sessions.duration);
        self.waiting.drain_into(&mut sessions.waiting);
        sessions.turns += self.turns.swap(0, Ordering::Relaxed);
        sessions.broken += self.broken.swap(0, Ordering::Relaxed);
    }
}

/// Conversations that ended in one window, or in several.
#[derive(Clone, Debug)]
#[cfg_attr(not(loom), derive(Serialize, Deserialize, JsonSchema))]
pub struct Sessions {
    /// From the send of a conversation's first turn to the end of its last, including the delays between turns.
    pub duration: Distribution,
    /// The latencies of a conversation's turns, added up: how long its user waited for answers.
    pub waiting: Distribution,
    /// Turns of all of them, including failed ones.
    pub turns: u64,
    /// Conversations with a turn that failed.
    pub broken: u64,
}

impl Sessions {
    /// None yet.
    pub fn empty() -> Self {
        Self { duration: Distribution::empty(), waiting: Distribution::empty(), turns: 0, broken: 0 }
    }

    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.duration.count()
    }

    /// Turns of one, on average.
    pub fn turns_each(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.turns as f64 / self.count() as f64 }
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.duration.merge(&other.duration);
        self.waiting.merge(&other.waiting);
        self.turns += other.turns;
        self.broken += other.broken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(sent: u64, end: u64) -> Sample {
        let (sent, end) = (Stamp(sent), Stamp(end));
        Sample { intended: None, sent, first_response: end, end, send_ns: None, turnaround_ns: 0, responses: 1 }
    }

    #[test]
    fn delays_are_part_of_the_duration_and_not_of_the_waiting() {
        let bank = SessionBank::new();
        let mut played = Played::default();
        played.add(&turn(1_000_000, 3_000_000), false);
        played.add(&turn(10_000_000, 11_000_000), true);
        bank.record(&played);
        let mut quick = Played::default();
        quick.add(&turn(5_000_000, 6_000_000), false);
        bank.record(&quick);
        let mut sessions = Sessions::empty();
        bank.drain_into(&mut sessions);
        assert_eq!((sessions.count(), sessions.turns, sessions.broken), (2, 3, 1));
        assert!((sessions.turns_each() - 1.5).abs() < 1e-9);
        assert_eq!((sessions.duration.sum_ns, sessions.waiting.sum_ns), (11_000_000, 4_000_000));
        let mut merged = sessions.clone();
        merged.merge(&sessions);
        assert_eq!((merged.count(), merged.turns, merged.broken), (4, 6, 2));
        bank.drain_into(&mut merged);
        assert_eq!(merged.count(), 4, "taken out once");
    }
}
