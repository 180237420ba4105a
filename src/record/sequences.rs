//! Sequences that ended in one window: how long a whole one took, and how long its last request did.

#[cfg(not(loom))]
use schemars::JsonSchema;
#[cfg(not(loom))]
use serde::{Deserialize, Serialize};

use std::time::Duration;

use crate::clock::Stamp;
use crate::distribution::Distribution;
use crate::histogram::AtomicHistogram;
use crate::sync::{AtomicU64, Ordering};

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
    in_time: Option<InTime>,
}

/// Sequences that have kept their pace.
struct InTime {
    pace_ns: u64,
    count: AtomicU64,
}

impl SequenceBank {
    pub(super) fn new(pace: Option<Duration>) -> Self {
        let in_time = pace.map(|pace| InTime {
            pace_ns: u64::try_from(pace.as_nanos()).unwrap_or(u64::MAX),
            count: AtomicU64::new(0),
        });
        Self { duration: AtomicHistogram::new(), last: AtomicHistogram::new(), in_time }
    }

    pub(super) fn record(&self, whole: &WholeSequence) {
        self.duration.record(whole.end.since(whole.begun));
        let last_ns = whole.end.since(whole.last);
        self.last.record(last_ns);
        if let Some(in_time) = self.in_time.as_ref().filter(|in_time| last_ns <= in_time.pace_ns) {
            in_time.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn drain_into(&self, times: &mut SequenceTimes) {
        self.duration.drain_into(&mut times.duration);
        self.last.drain_into(&mut times.last);
        if let (Some(in_time), Some(all)) = (&self.in_time, &mut times.in_time) {
            *all += in_time.count.swap(0, Ordering::Relaxed);
        }
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
    /// Sequences whose last answer came before a further request would have been due, where they are paced.
    #[cfg_attr(not(loom), serde(default, skip_serializing_if = "Option::is_none"))]
    pub in_time: Option<u64>,
}

impl SequenceTimes {
    /// None yet; of sequences that are paced or not.
    pub fn empty(is_paced: bool) -> Self {
        Self { duration: Distribution::empty(), last: Distribution::empty(), in_time: is_paced.then_some(0) }
    }

    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.duration.count()
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.duration.merge(&other.duration);
        self.last.merge(&other.last);
        if let (Some(mine), Some(theirs)) = (&mut self.in_time, other.in_time) {
            *mine += theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_lasts_from_its_first_request_and_its_last_answer_from_its_last() {
        let bank = SequenceBank::new(Some(Duration::from_micros(1_500)));
        for last in [7_000_000, 8_000_000] {
            bank.record(&WholeSequence { begun: Stamp(1_000_000), last: Stamp(last), end: Stamp(9_000_000) });
        }
        let mut times = SequenceTimes::empty(true);
        bank.drain_into(&mut times);
        assert_eq!((times.count(), times.duration.sum_ns, times.last.sum_ns), (2, 16_000_000, 3_000_000));
        let mut merged = times.clone();
        merged.merge(&times);
        assert_eq!((merged.count(), merged.last.count(), merged.in_time), (4, 4, Some(2)), "each second is in time");
        bank.drain_into(&mut merged);
        assert_eq!(merged.count(), 4, "taken out once");
    }
}
