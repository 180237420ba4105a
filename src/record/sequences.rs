//! Sequences that ended in one window: how long a whole one took, and how long its last request did.

#[cfg(not(loom))]
use schemars::JsonSchema;
#[cfg(not(loom))]
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::record::distribution::Distribution;
use crate::record::histogram::AtomicHistogram;

/// A whole sequence, whose last request succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeSequence {
    /// When its first request was sent, in open loops the intended time.
    pub begun: Stamp,
    /// The same of its last request.
    pub last: Stamp,
    /// When its last request was over.
    pub end: Stamp,
}

/// One window's sequences in one shard. Threads add without waiting.
pub(super) struct SequenceBank {
    duration: AtomicHistogram,
    last: AtomicHistogram,
}

impl SequenceBank {
    pub(super) fn new() -> Self {
        Self { duration: AtomicHistogram::new(), last: AtomicHistogram::new() }
    }

    pub(super) fn record(&self, whole: &WholeSequence) {
        self.duration.record(whole.end.since(whole.begun));
        self.last.record(whole.end.since(whole.last));
    }

    pub(super) fn drain_into(&self, times: &mut SequenceTimes) {
        self.duration.drain_into(&mut times.duration);
        self.last.drain_into(&mut times.last);
    }
}

/// Times of the whole sequences that ended in one window, or in several. One that was ended early, because the load was over or
/// its first request failed, is not among them.
#[derive(Clone, Debug)]
#[cfg_attr(not(loom), derive(Serialize, Deserialize, JsonSchema))]
pub struct SequenceTimes {
    /// From the send of a sequence's first request, in open loops the intended one, to the end of its last.
    pub duration: Distribution,
    /// Latency of a sequence's last request, in open loops from its intended send.
    pub last: Distribution,
}

impl SequenceTimes {
    /// None yet.
    pub fn empty() -> Self {
        Self { duration: Distribution::empty(), last: Distribution::empty() }
    }

    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.duration.count()
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.duration.merge(&other.duration);
        self.last.merge(&other.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_lasts_from_its_first_request_and_its_last_answer_from_its_last() {
        let bank = SequenceBank::new();
        for last in [7_000_000, 8_000_000] {
            bank.record(&WholeSequence { begun: Stamp(1_000_000), last: Stamp(last), end: Stamp(9_000_000) });
        }
        let mut times = SequenceTimes::empty();
        bank.drain_into(&mut times);
        assert_eq!((times.count(), times.duration.sum_ns, times.last.sum_ns), (2, 16_000_000, 3_000_000));
        let mut both = times.clone();
        both.merge(&times);
        assert_eq!((both.count(), both.last.count()), (4, 4));
        bank.drain_into(&mut both);
        assert_eq!(both.count(), 4, "taken out once");
    }
}
