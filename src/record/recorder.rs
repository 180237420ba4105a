//! The recorder: shards with two banks each, one for the open window and one for requests that complete after its end.

use std::mem;

use crate::backend::{Generation, InferError};
use crate::bank::Bank;
use crate::clock::Stamp;
use crate::sample::{RecorderSpec, Sample};
use crate::sequences::WholeSequence;
use crate::sessions::Played;
use crate::streak::Streak;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::tally::{Completed, Tally};

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Any number that spreads the threads over shards.
    pub writer: usize,
    /// What is recorded separately ([`RecorderSpec::part`]).
    pub part: usize,
}

/// Records requests by the window in which they complete.
///
/// If windows are made of time, the end of the open window is known in advance. A request that completes at or after it
/// goes to the other bank, which becomes the open one at [`Recorder::next_window`]. The lowest bit of the boundary says
/// which bank is open, so one atomic load tells both. Each entry of a mix has its own banks, and the whole is their
/// sum, so a mix costs a request no more than one model does.
pub struct Recorder {
    spec: RecorderSpec,
    boundary: AtomicU64,
    shards: usize,
    /// Two banks per part (an entry's requests to one server) and shard.
    banks: Box<[[Bank; 2]]>,
    /// Parts of the open window: its finished blocks, and what was recorded beyond an end that was then put off. Per
    /// entry, or empty.
    early: Mutex<Vec<Tally>>,
    /// What closed windows had, by parts, where that is kept.
    kept: Mutex<Vec<Tally>>,
    streak: Option<Streak>,
}

/// The end of a window is published this long ahead: longer than a clock reading and a store take.
const LEAD_NS: u64 = 20_000;

/// Beyond this number, threads share shards.
const MAX_SHARDS: usize = 16;

impl Recorder {
    /// A recorder for `writers` threads. The open window ends at [`Stamp::NEVER`].
    pub fn new(spec: RecorderSpec, writers: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spec = RecorderSpec { entries: spec.entries.max(1), servers: spec.servers.max(1), ..spec };
        // Threads that record different entries use different banks, so many entries need few shards.
        let most = (MAX_SHARDS.min(cores * 2) / spec.parts()).max(1);
        let shards = writers.clamp(1, most);
        let banks = (0..shards * spec.parts()).map(|_| [Bank::new(spec), Bank::new(spec)]).collect();
        let streak = spec.streaks.then(Streak::new);
        let boundary = AtomicU64::new(encode(Stamp::NEVER, 0));
        Self { spec, boundary, shards, banks, early: Mutex::default(), kept: Mutex::default(), streak }
    }

    /// What this recorder records.
    #[inline]
    pub fn spec(&self) -> &RecorderSpec {
        &self.spec
    }

    /// Records a successful request.
    #[inline]
    pub fn record(&self, source: Source, sample: &Sample) {
        self.bank(source, sample.end).record(sample);
    }

    /// Records a failed request that ended at `end`; cancelled ones separately, if requests are cancelled at all. Cold,
    /// because inlining the call would take registers from the successful requests.
    #[cold]
    pub fn fail(&self, source: Source, end: Stamp, error: &InferError) {
        self.bank(source, end).fail(error);
        if let Some(streak) = self.streak.as_ref().filter(|_| !(self.spec.cancels && error.is_cancelled())) {
            streak.fail(|| self.banks.iter().flatten().map(|bank| bank.completed().0.succeeded).sum());
        }
    }

    /// Records that a request which succeeded had wrong outputs: it counts as failed. `start`, from which its latency
    /// counts, and `end` are as recorded.
    pub fn mismatch(&self, source: Source, start: Stamp, end: Stamp, error: &InferError) {
        self.bank(source, end).mismatch(end.since(start), error);
    }

    /// Records a send, `late_ns` after its intended time.
    #[inline]
    pub fn sent(&self, source: Source, at: Stamp, late_ns: u64) {
        self.bank(source, at).sent(late_ns);
    }

    /// Keeps the service times of requests sent before `until` separately, too, where the specification asks for that.
    pub fn keep_early(&self, until: Stamp) {
        self.banks.iter().flatten().for_each(|bank| bank.keep_early(until));
    }

    /// Records that a thread ran again `ns` after the last response of its request, which arrived at `end`.
    #[inline]
    pub fn wakeup(&self, source: Source, end: Stamp, ns: u64) {
        self.bank(source, end).wakeup(ns);
    }

    /// Records what a successful request that began at `start` generated.
    #[inline]
    pub fn generation(&self, source: Source, start: Stamp, generation: &Generation) {
        self.bank(source, generation.end).generation(start, generation);
    }

    /// Records a conversation that is over. It is of no entry of a mix: its turns may be of several.
    pub fn session(&self, writer: usize, played: &Played) {
        self.bank(Source { writer, part: 0 }, played.end).session(played);
    }

    /// Records a sequence whose last request, from that source, has succeeded at `end`, with its times if it was played whole.
    pub fn sequence(&self, source: Source, end: Stamp, whole: Option<&WholeSequence>) {
        self.bank(source, end).sequence(whole);
    }

    /// Records the time between two responses of one request, the later of which arrived at `at`.
    #[inline]
    pub fn gap(&self, source: Source, at: Stamp, ns: u64) {
        self.bank(source, at).gap(ns);
    }

    /// Number of requests that have ended in the open window so far.
    pub fn completed(&self) -> Completed {
        let (_, open) = self.boundary();
        let early = self.early.lock();
        let counts = self.banks.iter().map(|banks| banks[open].completed()).chain(early.iter().map(Tally::completed));
        let (sum, mismatched) =
            counts.fold((Completed::default(), 0), |sum, count| (sum.0.plus(count.0), sum.1 + count.1));
        Completed { succeeded: sum.succeeded.saturating_sub(mismatched), ..sum }
    }

    /// Longest run of consecutive failures so far, whatever thread sent them; 0 if that is not counted. Wrong outputs
    /// are found later and do not count.
    pub fn failed_in_a_row(&self) -> u64 {
        self.streak.as_ref().map_or(0, Streak::longest)
    }

    /// Ends the open window at `end`, or a moment from now if that has passed: only an end that every thread knows in
    /// advance divides the requests exactly. Returns the actual end.
    pub fn end_window(&self, end: Stamp) -> Stamp {
        self.publish(end)
    }

    /// Closes the window whose end has passed, and opens the next, whose end follows the rule of
    /// [`Recorder::end_window`]: a caller that comes late gets a longer window, never one with requests from beyond its
    /// end. Returns the content of the closed window, and the end of the next. A thread that was preempted in the
    /// middle of recording adds to a later window; nothing is lost.
    pub fn next_window(&self, end: Stamp) -> (Tally, Stamp) {
        let closed = self.close();
        (closed, self.publish(end))
    }

    /// Closes the open block of the window, whose end has passed, and opens the next, whose end follows the rule of
    /// [`Recorder::end_window`]. Returns the content of the block, which stays in the window, and the end of the next.
    pub fn next_block(&self, end: Stamp) -> (Tally, Stamp) {
        let kept = self.kept.lock();
        let (_, open) = self.boundary();
        self.set_boundary(Stamp::NEVER, open ^ 1);
        let mut block: Vec<Tally> = (0..self.spec.parts()).map(|_| Tally::empty(self.spec)).collect();
        self.drain(open, &mut block);
        let mut early = self.early.lock();
        early.resize_with(self.spec.parts(), || Tally::empty(self.spec));
        early.iter_mut().zip(&block).for_each(|(window, block)| window.absorb(block));
        drop((early, kept));
        let block = block.into_iter().map(Tally::settle).collect();
        (Tally::sum(self.spec, block), self.publish(end))
    }

    /// Puts into the open window what was recorded beyond its end, or by a thread that was preempted while a block before it ended:
    /// once a load has ended, no window follows that would get it.
    pub fn take_back(&self) {
        let (_, open) = self.boundary();
        self.set_boundary(Stamp::NEVER, open);
        let mut early = self.early.lock();
        early.resize_with(self.spec.parts(), || Tally::empty(self.spec));
        self.drain(open ^ 1, &mut early);
    }

    /// Closes the open window, and returns its content; the next one has no end.
    pub fn close(&self) -> Tally {
        let mut kept = self.kept.lock();
        let (_, open) = self.boundary();
        self.set_boundary(Stamp::NEVER, open ^ 1);
        let mut entries = mem::take(&mut *self.early.lock());
        entries.resize_with(self.spec.parts(), || Tally::empty(self.spec));
        self.drain(open, &mut entries);
        if self.spec.keeps {
            kept.resize_with(entries.len(), || Tally::empty(self.spec));
            kept.iter_mut().zip(&entries).for_each(|(kept, part)| kept.absorb(part));
        }
        drop(kept);
        Tally::sum(self.spec, entries.into_iter().map(Tally::settle).collect())
    }

    /// Counts and times of all requests so far, of each server by itself, if closed windows are kept. Only whoever closes a window
    /// at this moment waits for this.
    pub fn so_far(&self) -> Vec<Tally> {
        let kept = self.kept.lock();
        let early = self.early.lock();
        let mut servers: Vec<Tally> = (0..self.spec.servers).map(|_| Tally::empty(self.spec)).collect();
        for part in 0..self.spec.parts() {
            let server = &mut servers[part % self.spec.servers];
            kept.get(part).into_iter().chain(early.get(part)).for_each(|tally| server.absorb(tally));
            let shards = &self.banks[part * self.shards..][..self.shards];
            shards.iter().flatten().for_each(|bank| bank.copy_into(server));
        }
        servers.into_iter().map(Tally::settle).collect()
    }

    /// Publishes the end of the open window. This thread may be preempted meanwhile, and requests be recorded beyond an
    /// end that has already passed: they are taken back into the window, and its end is put off.
    fn publish(&self, wanted: Stamp) -> Stamp {
        let (published, open) = self.boundary();
        let mut passed = published <= Stamp::now();
        let mut lead = LEAD_NS;
        loop {
            if passed {
                self.take_back();
            }
            let end = wanted.max(Stamp::now().plus(lead));
            self.set_boundary(end, open);
            if Stamp::now() < end {
                return end;
            }
            (passed, lead) = (true, lead * 2);
        }
    }

    #[inline]
    fn boundary(&self) -> (Stamp, usize) {
        decode(self.boundary.load(Ordering::Acquire))
    }

    fn set_boundary(&self, end: Stamp, open: usize) {
        self.boundary.store(encode(end, open), Ordering::Release);
    }

    /// Drains one bank of each shard, entry by entry.
    fn drain(&self, bank: usize, entries: &mut [Tally]) {
        let succeeded = |entries: &[Tally]| entries.iter().map(|tally| tally.requests).sum::<u64>();
        let mut take = || {
            let before = succeeded(entries);
            for (shards, tally) in self.banks.chunks(self.shards).zip(&mut *entries) {
                shards.iter().for_each(|banks| banks[bank].drain_into(tally, &banks[bank ^ 1]));
            }
            succeeded(entries) - before
        };
        match &self.streak {
            Some(streak) => streak.drain(take),
            None => drop(take()),
        }
    }

    #[inline]
    fn bank(&self, source: Source, at: Stamp) -> &Bank {
        let (boundary, open) = self.boundary();
        let bank = if at < boundary { open } else { open ^ 1 };
        &self.banks[source.part * self.shards + source.writer % self.shards][bank]
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
    use crate::{FURTHER_REASONS, Limits};

    /// Closes the open window; the next one ends at `end`, in the past as these stamps are.
    fn advance(recorder: &Recorder, end: Stamp) -> Tally {
        let tally = recorder.close();
        recorder.set_boundary(end, recorder.boundary().1);
        tally
    }

    const FIRST: Source = Source { writer: 0, part: 0 };

    fn sample(sent: u64, end: u64) -> Sample {
        Sample {
            intended: None,
            sent: Stamp(sent),
            first_response: Stamp(end),
            end: Stamp(end),
            send_ns: None,
            turnaround_ns: 0,
            responses: 1,
        }
    }

    #[test]
    fn a_request_belongs_to_the_window_in_which_it_completes() {
        let recorder = Recorder::new(RecorderSpec::default(), 4);
        recorder.set_boundary(Stamp(1_000), 0);
        for (writer, (sent, end)) in [(0, 999), (10, 998), (900, 1_000), (999, 5_000), (5, 6)].into_iter().enumerate() {
            recorder.record(Source { writer, part: 0 }, &sample(sent, end));
        }
        assert_eq!(recorder.completed(), Completed { succeeded: 3, ..Completed::default() });
        let first = advance(&recorder, Stamp(2_000));
        assert_eq!(first.requests, 3);
        recorder.record(FIRST, &sample(0, 1_500));
        let second = recorder.close();
        assert_eq!(second.requests, 3, "both that were late for the first window, and the new one");
        assert_eq!(recorder.close().requests, 0);
    }

    #[test]
    fn what_a_preempted_thread_records_after_its_block_is_the_last_windows() {
        let recorder = Recorder::new(RecorderSpec::default(), 1);
        let later = Stamp::now().plus_duration(std::time::Duration::from_secs(3_600));
        recorder.end_window(later);
        // It has looked up where to, and is preempted.
        let bank = recorder.bank(FIRST, Stamp(5));
        assert_eq!(recorder.next_block(later).0.requests, 0);
        bank.record(&sample(0, 5));
        recorder.take_back();
        assert_eq!(recorder.close().requests, 1);
    }

    #[test]
    fn the_first_requests_are_kept_separately_too() {
        let spec = RecorderSpec { open_loop: true, early: true, ..RecorderSpec::default() };
        let recorder = Recorder::new(spec, 2);
        recorder.keep_early(Stamp(1_000));
        for sent in [0, 999, 1_000, 5_000] {
            recorder.record(FIRST, &Sample { intended: Some(Stamp(sent)), ..sample(sent, 9_000) });
        }
        recorder.next_block(Stamp::NEVER);
        recorder.record(FIRST, &Sample { intended: Some(Stamp(7)), ..sample(7, 20_000) });
        let tally = recorder.close();
        let early = tally.early.unwrap();
        assert_eq!((tally.requests, early.count(), early.sum_ns), (5, 3, 9_000 + 8_001 + 19_993));
        assert!(Recorder::new(RecorderSpec { open_loop: true, ..RecorderSpec::default() }, 1).close().early.is_none());
    }

    #[test]
    fn failures_are_counted_by_reason() {
        let recorder = Recorder::new(RecorderSpec::default(), 1);
        let error = InferError { code: "Internal".into(), message: "no".into() };
        recorder.fail(FIRST, Stamp(1), &error);
        recorder.fail(FIRST, Stamp(2), &error);
        let tally = recorder.close();
        assert_eq!((tally.requests, tally.failed), (0, 2));
        assert_eq!(tally.errors[&error], 2);
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_counted_together_where_there_are_many() {
        let recorder = Recorder::new(RecorderSpec::default(), 1);
        let error = |message: String| InferError { code: "Internal".into(), message };
        (0..1000).for_each(|number| recorder.fail(FIRST, Stamp(1), &error(format!("request {number} of 9999 failed"))));
        let tally = recorder.close();
        assert_eq!((tally.failed, tally.errors.len()), (1000, 65));
        assert_eq!(tally.errors[&error("request 63 of 9999 failed".into())], 1);
        assert_eq!(tally.errors[&error("request # of # failed".into())], 936);
        let letters = |number: u32| number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        (0..1000).for_each(|number| recorder.fail(FIRST, Stamp(2), &error(letters(number))));
        let tally = recorder.close();
        assert_eq!((tally.failed, tally.errors.len()), (1000, 129));
        assert_eq!(tally.errors[&error(FURTHER_REASONS.into())], 872);
    }

    #[test]
    fn what_tells_one_request_from_another_is_no_reason() {
        for (text, kept) in [
            ("request 12 of 3.5 s failed", "request # of #.# s failed"),
            ("req-3fa91c (trace 0af7651916cd43dd) failed", "req-# (trace #) failed"),
            ("id 123e4567-e89b-12d3-abcd-426614174000", "id #-#-#-#-#"),
            ("<Foo object at 0x7f3c2a1b9d30> request #1000", "<Foo object at #> request #"),
            ("expected BF16 on A100", "expected BF# on A#"),
            ("chatcmpl-Abc9ZxQ1r8tuvwXYpq2: busy", "chatcmpl-#: busy"),
            ("input 'INPUT0' is FP32, dead code", "input 'INPUT#' is FP#, dead code"),
        ] {
            assert_eq!(crate::without_numbers(text), kept);
        }
    }

    #[test]
    fn cancelled_requests_are_counted_apart_where_they_were_asked_for() {
        let error = InferError { code: InferError::CANCELLED, message: "given up".into() };
        for cancels in [true, false] {
            let recorder = Recorder::new(RecorderSpec { cancels, ..RecorderSpec::default() }, 1);
            recorder.fail(FIRST, Stamp(1), &error);
            assert_eq!(recorder.completed().all(), 1);
            let tally = recorder.close();
            assert_eq!(
                (tally.failed, tally.cancelled, tally.errors.len()),
                if cancels { (0, 1, 0) } else { (1, 0, 1) }
            );
        }
    }

    #[test]
    fn failures_in_a_row_are_counted_over_threads_and_windows() {
        let recorder = Recorder::new(RecorderSpec { streaks: true, cancels: true, ..RecorderSpec::default() }, 4);
        let error = InferError::new("Unavailable", "no");
        let fail =
            |writer, times| (0..times).for_each(|at| recorder.fail(Source { writer, part: 0 }, Stamp(at), &error));
        fail(0, 3);
        recorder.record(Source { writer: 1, part: 0 }, &sample(0, 5));
        fail(2, 2);
        assert_eq!(recorder.failed_in_a_row(), 3);
        advance(&recorder, Stamp(2_000));
        fail(3, 2);
        assert_eq!(recorder.failed_in_a_row(), 4, "a window that ends is no success");
        recorder.fail(FIRST, Stamp(9), &InferError::new(InferError::CANCELLED, "as planned"));
        fail(1, 1);
        assert_eq!(recorder.failed_in_a_row(), 5, "what was cancelled as planned is neither");
        recorder.record(FIRST, &sample(0, 10));
        recorder.record(FIRST, &sample(0, 11));
        advance(&recorder, Stamp(4_000));
        fail(0, 5);
        assert_eq!(recorder.failed_in_a_row(), 5);
        fail(0, 1);
        assert_eq!(recorder.failed_in_a_row(), 6);
        assert_eq!(Recorder::new(RecorderSpec::default(), 1).failed_in_a_row(), 0);
    }

    #[test]
    fn a_mismatch_turns_a_success_into_a_failure_of_the_same_window() {
        let recorder = Recorder::new(RecorderSpec::default(), 4);
        let error = InferError { code: "Validation".into(), message: "wrong".into() };
        recorder.set_boundary(Stamp(1_000), 0);
        for writer in 0..4 {
            recorder.record(Source { writer, part: 0 }, &sample(0, 500 + 200 * writer as u64));
        }
        recorder.mismatch(FIRST, Stamp(0), Stamp(900), &error);
        recorder.mismatch(FIRST, Stamp(0), Stamp(1_100), &error);
        assert_eq!(recorder.completed(), Completed { succeeded: 2, failed: 1, cancelled: 0 });
        let windows = [Stamp(2_000), Stamp::NEVER].map(|next| advance(&recorder, next));
        assert_eq!(windows.map(|tally| (tally.requests, tally.failed)), [(2, 1), (0, 1)]);
    }

    #[test]
    fn a_request_with_wrong_outputs_is_not_good() {
        let limits = Limits { latency: Some(600), ..Limits::default() };
        let recorder = Recorder::new(RecorderSpec { limits, ..RecorderSpec::default() }, 2);
        let error = InferError { code: "Validation".into(), message: "wrong".into() };
        [500, 550, 900].into_iter().for_each(|end| recorder.record(FIRST, &sample(0, end)));
        recorder.mismatch(FIRST, Stamp(0), Stamp(500), &error);
        recorder.mismatch(FIRST, Stamp(0), Stamp(900), &error);
        let tally = recorder.close();
        assert_eq!((tally.requests, tally.failed, tally.good), (1, 2, Some(1)));
    }

    #[test]
    fn a_request_is_good_in_the_window_that_counts_it() {
        let limits = Limits { latency: Some(600), ..Limits::default() };
        let recorder = Recorder::new(RecorderSpec { limits, generates: true, ..RecorderSpec::default() }, 2);
        recorder.set_boundary(Stamp(1_000), 0);
        // The thread that waits for the second answer runs again after the window's end.
        for end in [400, 500] {
            let generation = Generation { end: Stamp(end), ..Generation::default() };
            recorder.generation(FIRST, Stamp(0), &generation);
        }
        recorder.record(FIRST, &sample(0, 400));
        let first = advance(&recorder, Stamp(2_000));
        recorder.record(FIRST, &sample(0, 500));
        let second = advance(&recorder, Stamp::NEVER);
        assert_eq!([first, second].map(|tally| (tally.requests, tally.good)), [(1, Some(1)), (1, Some(1))]);
    }

    #[test]
    fn a_request_whose_tokens_are_counted_in_the_next_block_is_good() {
        let limits = Limits { latency: Some(600), ..Limits::default() };
        let recorder = Recorder::new(RecorderSpec { limits, generates: true, ..RecorderSpec::default() }, 1);
        recorder.record(FIRST, &sample(0, 400));
        let block = recorder.next_block(Stamp::NEVER).0;
        assert_eq!((block.requests, block.good), (1, Some(0)));
        recorder.generation(FIRST, Stamp(0), &Generation { end: Stamp(400), ..Generation::default() });
        assert_eq!(recorder.next_block(Stamp::NEVER).0.good, Some(0), "none of its requests");
        recorder.take_back();
        let tally = recorder.close();
        assert_eq!((tally.requests, tally.good), (1, Some(1)));
    }

    #[test]
    fn nothing_is_lost_between_windows_under_load() {
        let recorder = Recorder::new(RecorderSpec { open_loop: true, decoupled: true, ..RecorderSpec::default() }, 2);
        let mut total = 0;
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let recorder = &recorder;
                scope.spawn(move || {
                    (0..200_000_u64).for_each(|n| recorder.record(Source { writer, part: 0 }, &sample(0, n)))
                });
            }
            for end in 1..50_u64 {
                let tally = advance(&recorder, Stamp(end * 4_000));
                assert_eq!(tally.requests, tally.service.count(), "whoever has a request has its latency");
                total += tally.requests;
            }
        });
        total += recorder.close().requests + recorder.close().requests;
        assert_eq!(total, 400_000);
    }

    #[test]
    fn entries_of_a_mix_are_kept_apart_and_add_up() {
        let spec = RecorderSpec { open_loop: true, entries: 3, ..RecorderSpec::default() };
        let recorder = Recorder::new(spec, 8);
        let error = InferError { code: "Internal".into(), message: "no".into() };
        for (entry, requests) in [(0, 5), (2, 7)] {
            for writer in 0..requests {
                recorder.record(Source { writer, part: entry }, &sample(0, 10 + entry as u64));
            }
        }
        recorder.fail(Source { writer: 3, part: 1 }, Stamp(1), &error);
        recorder.sent(Source { writer: 4, part: 2 }, Stamp(1), 2_000_000);
        assert_eq!(recorder.completed(), Completed { succeeded: 12, failed: 1, cancelled: 0 });
        let tally = recorder.close();
        assert_eq!((tally.requests, tally.failed, tally.delayed, tally.service.sum_ns), (12, 1, 1, 5 * 10 + 7 * 12));
        assert_eq!(tally.errors[&error], 1);
        let entries: Vec<_> = tally.entries.iter().map(|entry| (entry.requests, entry.failed, entry.sent)).collect();
        assert_eq!(entries, [(5, 0, 0), (0, 1, 0), (7, 0, 1)]);
        assert!(Recorder::new(RecorderSpec::default(), 1).close().entries.is_empty());
    }

    #[test]
    fn what_was_recorded_so_far_is_that_of_open_and_closed_windows_by_server() {
        let spec = RecorderSpec { entries: 2, servers: 2, keeps: true, ..RecorderSpec::default() };
        let recorder = Recorder::new(spec, 2);
        let error = InferError { code: "Internal".into(), message: "no".into() };
        let so_far = || recorder.so_far().iter().map(|tally| (tally.requests, tally.failed)).collect::<Vec<_>>();
        assert_eq!(so_far(), [(0, 0), (0, 0)]);
        let record = |entry: usize, server: usize| {
            recorder.record(Source { writer: 1, part: spec.part(entry, server) }, &sample(0, 10))
        };
        record(0, 1);
        record(1, 1);
        assert_eq!(so_far(), [(0, 0), (2, 0)]);
        recorder.next_block(Stamp::NEVER);
        record(1, 0);
        recorder.fail(Source { writer: 0, part: 0 }, Stamp(10), &error);
        assert_eq!(so_far(), [(1, 1), (2, 0)]);
        let (window, _) = recorder.next_window(Stamp::NEVER);
        assert_eq!(window.servers.iter().map(|server| server.requests).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(window.entries.iter().map(|entry| entry.requests).collect::<Vec<_>>(), [1, 2]);
        recorder.mismatch(Source { writer: 0, part: spec.part(1, 1) }, Stamp(0), Stamp(10), &error);
        assert_eq!(so_far(), [(1, 1), (1, 1)]);
        assert_eq!(recorder.so_far()[1].service.sum_ns, 20);
    }

    #[test]
    fn blocks_are_parts_of_their_window() {
        let recorder = Recorder::new(RecorderSpec { entries: 2, ..RecorderSpec::default() }, 2);
        let error = InferError { code: "Validation".into(), message: "wrong".into() };
        let requests_of = |requests: usize, entry: usize| {
            (0..requests).for_each(|writer| recorder.record(Source { writer, part: entry }, &sample(0, 10)));
        };
        requests_of(3, 0);
        requests_of(2, 1);
        assert_eq!(recorder.next_block(Stamp::NEVER).0.requests, 5);
        requests_of(4, 1);
        recorder.mismatch(Source { writer: 0, part: 0 }, Stamp(0), Stamp(10), &error);
        assert_eq!(recorder.completed(), Completed { succeeded: 8, failed: 1, cancelled: 0 });
        assert_eq!(recorder.next_block(Stamp::NEVER).0.requests, 4);
        requests_of(1, 0);
        let (window, _) = recorder.next_window(Stamp::NEVER);
        assert_eq!((window.requests, window.failed, window.service.count()), (9, 1, 10));
        assert_eq!(window.entries.iter().map(|entry| entry.requests).collect::<Vec<_>>(), [3, 6]);
        assert_eq!((recorder.completed().all(), recorder.close().requests), (0, 0));
    }

    #[test]
    fn an_end_that_has_passed_is_put_off_with_what_came_meanwhile() {
        let recorder = Recorder::new(RecorderSpec::default(), 2);
        recorder.set_boundary(Stamp(1_000), 0);
        recorder.record(FIRST, &sample(0, 999));
        recorder.record(Source { writer: 1, part: 0 }, &sample(0, 1_000));
        let wanted = Stamp(2_000);
        let end = recorder.end_window(wanted);
        assert!(end > wanted && Stamp::now() - end < std::time::Duration::from_secs(5));
        recorder.record(FIRST, &sample(0, end.0 - 2));
        recorder.record(FIRST, &sample(0, end.0));
        assert_eq!(recorder.close().requests, 3, "up to the end that was published in time");
        assert_eq!(recorder.close().requests, 1);
    }
}
