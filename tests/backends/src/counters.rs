//! Per-model totals.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::sequence::Sequences;

/// Totals since the model was loaded. Counting costs a few nanoseconds, so all of them are always kept.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests executed; also the source of ordinals.
    pub requests: AtomicU64,
    /// Calls of Execute.
    pub executions: AtomicU64,
    /// Responses with content or an error.
    pub responses: AtomicU64,
    /// Failed requests.
    pub failures: AtomicU64,
    /// Requests answered as cancelled.
    pub cancelled: AtomicU64,
    held: AtomicU64,
    most_held: AtomicU64,
}

impl Counters {
    /// Notes an execution of `size` requests; answers the ordinal of the first and that of the execution, from 1.
    #[inline]
    pub fn begin(&self, size: u64) -> (u64, u64) {
        let held = self.held.fetch_add(size, Relaxed) + size;
        if held > self.most_held.load(Relaxed) {
            self.most_held.fetch_max(held, Relaxed);
        }
        (self.requests.fetch_add(size, Relaxed) + 1, self.executions.fetch_add(1, Relaxed) + 1)
    }

    /// Notes that `size` requests were answered for good.
    #[inline]
    pub fn end(&self, size: u64) {
        self.held.fetch_sub(size, Relaxed);
    }

    /// The totals as the counter file holds them.
    pub fn to_json(&self, sequences: &Sequences) -> Value {
        json!({
            "requests": self.requests.load(Relaxed),
            "executions": self.executions.load(Relaxed),
            "responses": self.responses.load(Relaxed),
            "failures": self.failures.load(Relaxed),
            "cancelled": self.cancelled.load(Relaxed),
            "sequences_started": sequences.started,
            "sequences_ended": sequences.ended,
            "sequences_open": sequences.open(),
            "violations": sequences.violations,
            "max_simultaneous_requests": self.most_held.load(Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_and_peaks() {
        let counters = Counters::default();
        assert_eq!(counters.begin(3), (1, 1));
        assert_eq!(counters.begin(2), (4, 2));
        counters.end(5);
        assert_eq!(counters.begin(1), (6, 3));
        let json = counters.to_json(&Sequences::default());
        assert_eq!(json["max_simultaneous_requests"], 5);
        assert_eq!((&json["requests"], &json["executions"]), (&json!(6), &json!(3)));
    }
}
