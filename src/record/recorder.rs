//! The recorder: shards with two banks each, one for the window that is open and one for what completes after its end.

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::record::bank::{Bank, Completed, Tally};
use crate::record::sample::{RecorderSpec, Sample};
use crate::sync::{AtomicU64, Ordering};

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Any number that spreads the threads.
    pub writer: usize,
    /// Entry of the mix, from 0.
    pub entry: usize,
}

/// Records requests by the window in which they complete.
///
/// The end of the open window is known in advance where windows are made of time. A request that completes at or after it
/// goes to the other bank, which becomes the open one at [`Recorder::advance`]. Its lowest bit says which bank is open, so
/// that one atomic load tells both. Each entry of a mix has banks of its own, and the whole is their sum, so that a mix
/// costs a request no more than one model does.
pub struct Recorder {
    spec: RecorderSpec,
    boundary: AtomicU64,
    shards: usize,
    /// Per entry and shard two banks.
    banks: Box<[[Bank; 2]]>,
}

/// More threads than this share shards.
const MAX_SHARDS: usize = 16;

impl Recorder {
    /// A recorder for `writers` threads. The open window ends at [`Stamp::NEVER`].
    pub fn new(spec: RecorderSpec, writers: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spec = RecorderSpec { entries: spec.entries.max(1), ..spec };
        // Threads that record different entries do not meet, so many entries need few shards.
        let most = (MAX_SHARDS.min(cores * 2) / spec.entries).max(1);
        let shards = writers.clamp(1, most);
        let banks = (0..shards * spec.entries).map(|_| [Bank::new(spec), Bank::new(spec)]).collect();
        Self { spec, boundary: AtomicU64::new(encode(Stamp::NEVER, 0)), shards, banks }
    }

    /// Records a successful request.
    #[inline]
    pub fn record(&self, source: Source, sample: &Sample) {
        self.bank(source, sample.end).record(sample);
    }

    /// Records a failed request that ended at `end`; a cancelled one apart, where requests are cancelled at all.
    pub fn fail(&self, source: Source, end: Stamp, error: &InferError) {
        self.bank(source, end).fail(error);
    }

    /// Records that a request which succeeded and ended at `end` brought wrong outputs: it counts as failed.
    pub fn mismatch(&self, source: Source, end: Stamp, error: &InferError) {
        self.bank(source, end).mismatch(error);
    }

    /// Records a send, `late_ns` after its intended time.
    #[inline]
    pub fn sent(&self, source: Source, at: Stamp, late_ns: u64) {
        self.bank(source, at).sent(late_ns);
    }

    /// Records the time between two responses of one request, the later of which came at `at`.
    pub fn gap(&self, source: Source, at: Stamp, ns: u64) {
        self.bank(source, at).gap(ns);
    }

    /// Requests that were over so far in the open window.
    pub fn completed(&self) -> Completed {
        let (_, open) = decode(self.boundary.load(Ordering::Acquire));
        let each = self.banks.iter().map(|banks| banks[open].completed());
        let (sum, mismatched) = each.fold((Completed::default(), 0), |sum, one| (sum.0.plus(one.0), sum.1 + one.1));
        Completed { succeeded: sum.succeeded.saturating_sub(mismatched), ..sum }
    }

    /// Says when the open window ends.
    pub fn set_boundary(&self, end: Stamp) {
        let (_, open) = decode(self.boundary.load(Ordering::Acquire));
        self.boundary.store(encode(end, open), Ordering::Release);
    }

    /// Closes the window whose end has passed, opens the next, which ends at `next_end`, and returns what the closed one
    /// holds. A thread that was stopped in the middle of recording adds to a later window; nothing is lost.
    pub fn advance(&self, next_end: Stamp) -> Tally {
        let (_, open) = decode(self.boundary.load(Ordering::Acquire));
        self.boundary.store(encode(next_end, open ^ 1), Ordering::Release);
        let entries = self.banks.chunks(self.shards).map(|shards| {
            let mut tally = Tally::empty(self.spec);
            shards.iter().for_each(|banks| banks[open].drain_into(&mut tally));
            tally.settle()
        });
        Tally::sum(self.spec, entries.collect())
    }

    #[inline]
    fn bank(&self, source: Source, at: Stamp) -> &Bank {
        let (boundary, open) = decode(self.boundary.load(Ordering::Acquire));
        let bank = if at < boundary { open } else { open ^ 1 };
        &self.banks[source.entry * self.shards + source.writer % self.shards][bank]
    }
}

#[inline]
fn encode(boundary: Stamp, open: usize) -> u64 {
    (boundary.0 & !1) | open as u64
}

#[inline]
fn decode(word: u64) -> (Stamp, usize) {
    (Stamp(word & !1), (word & 1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FURTHER_REASONS;

    const FIRST: Source = Source { writer: 0, entry: 0 };

    fn sample(sent: u64, end: u64) -> Sample {
        Sample {
            intended: None,
            sent: Stamp(sent),
            first_response: Stamp(end),
            end: Stamp(end),
            send_ns: None,
            receive_ns: 0,
            turnaround_ns: 0,
            responses: 1,
            sequence_end: false,
        }
    }

    #[test]
    fn a_request_belongs_to_the_window_in_which_it_completes() {
        let recorder = Recorder::new(RecorderSpec::default(), 4);
        recorder.set_boundary(Stamp(1_000));
        for (writer, (sent, end)) in [(0, 999), (10, 998), (900, 1_000), (999, 5_000), (5, 6)].into_iter().enumerate() {
            recorder.record(Source { writer, entry: 0 }, &sample(sent, end));
        }
        assert_eq!(recorder.completed(), Completed { succeeded: 3, ..Completed::default() });
        let first = recorder.advance(Stamp(2_000));
        assert_eq!(first.requests, 3);
        recorder.record(FIRST, &sample(0, 1_500));
        let second = recorder.advance(Stamp::NEVER);
        assert_eq!(second.requests, 3, "both that were late for the first window, and the new one");
        assert_eq!(recorder.advance(Stamp::NEVER).requests, 0);
    }

    #[test]
    fn failures_are_counted_by_reason() {
        let recorder = Recorder::new(RecorderSpec::default(), 1);
        let error = InferError { code: "Internal".into(), message: "no".into() };
        recorder.fail(FIRST, Stamp(1), &error);
        recorder.fail(FIRST, Stamp(2), &error);
        let tally = recorder.advance(Stamp::NEVER);
        assert_eq!((tally.requests, tally.failed), (0, 2));
        assert_eq!(tally.errors[&error], 2);
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_counted_together_where_there_are_many() {
        let recorder = Recorder::new(RecorderSpec::default(), 1);
        let error = |message: String| InferError { code: "Internal".into(), message };
        (0..1000).for_each(|number| recorder.fail(FIRST, Stamp(1), &error(format!("request {number} of 9999 failed"))));
        let tally = recorder.advance(Stamp::NEVER);
        assert_eq!((tally.failed, tally.errors.len()), (1000, 65));
        assert_eq!(tally.errors[&error("request 63 of 9999 failed".into())], 1);
        assert_eq!(tally.errors[&error("request # of # failed".into())], 936);
        let letters = |number: u32| number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        (0..1000).for_each(|number| recorder.fail(FIRST, Stamp(2), &error(letters(number))));
        let tally = recorder.advance(Stamp::NEVER);
        assert_eq!((tally.failed, tally.errors.len()), (1000, 129));
        assert_eq!(tally.errors[&error(FURTHER_REASONS.into())], 872);
    }

    #[test]
    fn cancelled_requests_are_counted_apart_where_they_were_asked_for() {
        let error = InferError { code: InferError::CANCELLED.into(), message: "given up".into() };
        for cancels in [true, false] {
            let recorder = Recorder::new(RecorderSpec { cancels, ..RecorderSpec::default() }, 1);
            recorder.fail(FIRST, Stamp(1), &error);
            assert_eq!(recorder.completed().all(), 1);
            let tally = recorder.advance(Stamp::NEVER);
            assert_eq!(
                (tally.failed, tally.cancelled, tally.errors.len()),
                if cancels { (0, 1, 0) } else { (1, 0, 1) }
            );
        }
    }

    #[test]
    fn a_mismatch_turns_a_success_into_a_failure_of_the_same_window() {
        let recorder = Recorder::new(RecorderSpec::default(), 4);
        let error = InferError { code: "Validation".into(), message: "wrong".into() };
        recorder.set_boundary(Stamp(1_000));
        for writer in 0..4 {
            recorder.record(Source { writer, entry: 0 }, &sample(0, 500 + 200 * writer as u64));
        }
        recorder.mismatch(FIRST, Stamp(900), &error);
        recorder.mismatch(FIRST, Stamp(1_100), &error);
        assert_eq!(recorder.completed(), Completed { succeeded: 2, failed: 1, cancelled: 0 });
        let windows = [Stamp(2_000), Stamp::NEVER].map(|next| recorder.advance(next));
        assert_eq!(windows.map(|tally| (tally.requests, tally.failed)), [(2, 1), (0, 1)]);
    }

    #[test]
    fn nothing_is_lost_between_windows_under_load() {
        let recorder = Recorder::new(RecorderSpec { open_loop: true, decoupled: true, ..RecorderSpec::default() }, 2);
        let mut total = 0;
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let recorder = &recorder;
                scope.spawn(move || {
                    (0..200_000_u64).for_each(|n| recorder.record(Source { writer, entry: 0 }, &sample(0, n)))
                });
            }
            for end in 1..50_u64 {
                total += recorder.advance(Stamp(end * 4_000)).requests;
            }
        });
        total += recorder.advance(Stamp::NEVER).requests + recorder.advance(Stamp::NEVER).requests;
        assert_eq!(total, 400_000);
    }

    #[test]
    fn entries_of_a_mix_are_kept_apart_and_add_up() {
        let spec = RecorderSpec { open_loop: true, entries: 3, ..RecorderSpec::default() };
        let recorder = Recorder::new(spec, 8);
        let error = InferError { code: "Internal".into(), message: "no".into() };
        for (entry, requests) in [(0, 5), (2, 7)] {
            for writer in 0..requests {
                recorder.record(Source { writer, entry }, &sample(0, 10 + entry as u64));
            }
        }
        recorder.fail(Source { writer: 3, entry: 1 }, Stamp(1), &error);
        recorder.sent(Source { writer: 4, entry: 2 }, Stamp(1), 2_000_000);
        assert_eq!(recorder.completed(), Completed { succeeded: 12, failed: 1, cancelled: 0 });
        let tally = recorder.advance(Stamp::NEVER);
        assert_eq!((tally.requests, tally.failed, tally.delayed, tally.service.sum_ns), (12, 1, 1, 5 * 10 + 7 * 12));
        assert_eq!(tally.errors[&error], 1);
        let each: Vec<_> = tally.entries.iter().map(|entry| (entry.requests, entry.failed, entry.sent)).collect();
        assert_eq!(each, [(5, 0, 0), (0, 1, 0), (7, 0, 1)]);
        assert!(Recorder::new(RecorderSpec::default(), 1).advance(Stamp::NEVER).entries.is_empty());
    }
}
