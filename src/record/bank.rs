//! Counters and histograms of one window in one shard.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::backend::{Generation, InferError};
use crate::clock::Stamp;
use crate::generation::{GenerationBank, Limits};
use crate::histogram::{AtomicHistogram, CoarseHistogram};
use crate::sample::{RecorderSpec, Sample};
use crate::sequences::{SequenceBank, WholeSequence};
use crate::sessions::{Played, SessionBank};
use crate::sync::{AtomicU64, Ordering};
use crate::tally::{Completed, Tally};

/// Sends later than this after their intended time count as delayed.
pub const DELAYED_AFTER_NS: u64 = 1_000_000;
/// Different failure texts that are kept. Further ones are counted with those that differ only in numbers.
const MAX_REASONS: usize = 64;
/// Limit on all texts; a failure beyond it is counted only under its code.
const MAX_TEXTS: usize = 2 * MAX_REASONS;

/// Stands for the reasons that are not kept.
pub const FURTHER_REASONS: &str = "(further reasons)";

/// One window's counters in one shard. Threads add without waiting.
pub(super) struct Bank {
    requests: AtomicU64,
    failed: AtomicU64,
    /// Counted separately from failed requests, if requests are cancelled at all.
    cancelled: Option<AtomicU64>,
    /// Requests that succeeded but have wrong outputs.
    mismatched: AtomicU64,
    sent: AtomicU64,
    delayed: AtomicU64,
    sequences: AtomicU64,
    responses: AtomicU64,
    send_ns: AtomicU64,
    send_samples: AtomicU64,
    receive_ns: AtomicU64,
    turnaround_ns: AtomicU64,
    service: AtomicHistogram,
    wakeup: Option<AtomicHistogram>,
    open_loop: Option<OpenLoopBank>,
    decoupled: Option<DecoupledBank>,
    generation: Option<Box<GenerationBank>>,
    sessions: Option<Box<SessionBank>>,
    whole_sequences: Option<Box<SequenceBank>>,
    good: Option<GoodBank>,
    /// Whether a request consists of nothing but its time.
    is_plain: bool,
    errors: Mutex<HashMap<InferError, u64>>,
}

struct OpenLoopBank {
    response_time: AtomicHistogram,
    delay: AtomicHistogram,
    early: Option<Early>,
}

/// Service times of the requests sent before a moment.
struct Early {
    until: AtomicU64,
    service: CoarseHistogram,
}

/// Counts requests that keep the limits.
struct GoodBank {
    limits: Limits,
    /// Whether the latency alone decides.
    by_latency: bool,
    requests: AtomicU64,
    /// How many of them had wrong outputs.
    mismatched: AtomicU64,
}

struct DecoupledBank {
    first: AtomicHistogram,
    gap: AtomicHistogram,
}

impl Bank {
    pub(super) fn new(spec: RecorderSpec) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            requests: zero(),
            failed: zero(),
            cancelled: spec.cancels.then(zero),
            mismatched: zero(),
            sent: zero(),
            delayed: zero(),
            sequences: zero(),
            responses: zero(),
            send_ns: zero(),
            send_samples: zero(),
            receive_ns: zero(),
            turnaround_ns: zero(),
            service: AtomicHistogram::new(),
            wakeup: spec.wakeups.then(AtomicHistogram::new),
            open_loop: spec.open_loop.then(|| OpenLoopBank {
                response_time: AtomicHistogram::new(),
                delay: AtomicHistogram::new(),
                early: spec.early.then(|| Early { until: zero(), service: CoarseHistogram::new() }),
            }),
            decoupled: spec
                .decoupled
                .then(|| DecoupledBank { first: AtomicHistogram::new(), gap: AtomicHistogram::new() }),
            generation: spec.generates.then(|| Box::new(GenerationBank::new())),
            sessions: spec.sessions.then(|| Box::new(SessionBank::new())),
            whole_sequences: spec.sequences.then(|| Box::new(SequenceBank::new(spec.pace))),
            good: spec.limits.is_any().then(|| GoodBank {
                limits: spec.limits,
                by_latency: !spec.generates,
                requests: zero(),
                mismatched: zero(),
            }),
            is_plain: !(spec.open_loop || spec.decoupled || spec.limits.is_any()),
            errors: Mutex::new(HashMap::new()),
        }
    }

    #[inline]
    pub(super) fn record(&self, sample: &Sample) {
        add(&self.requests, 1);
        self.service.record(sample.end.since(sample.sent));
        if let Some(ns) = sample.send_ns {
            add(&self.send_ns, ns);
            add(&self.turnaround_ns, sample.turnaround_ns);
            add(&self.send_samples, 1);
        }
        if sample.end != sample.first_response {
            add(&self.receive_ns, sample.end.since(sample.first_response));
        }
        if !self.is_plain {
            self.details(sample);
        }
    }

    /// Records what only some loads have. Separate, so that the others pay for a single check.
    #[inline(never)]
    fn details(&self, sample: &Sample) {
        if let (Some(bank), Some(intended)) = (&self.open_loop, sample.intended) {
            bank.response_time.record(sample.end.since(intended));
            bank.delay.record(sample.sent.since(intended));
            if let Some(early) = &bank.early
                && sample.sent.0 < early.until.load(Ordering::Relaxed)
            {
                early.service.record(sample.end.since(sample.sent));
            }
        }
        if let Some(bank) = &self.decoupled {
            add(&self.responses, u64::from(sample.responses));
            bank.first.record(sample.first_response.since(sample.sent));
        }
        if let Some(good) = self.good.as_ref().filter(|good| good.by_latency)
            && good.limits.keeps_latency(sample.end.since(sample.intended.unwrap_or(sample.sent)))
        {
            add(&good.requests, 1);
        }
    }

    /// Keeps the times of requests sent before `until` separately, too.
    pub(super) fn keep_early(&self, until: Stamp) {
        if let Some(early) = self.open_loop.as_ref().and_then(|bank| bank.early.as_ref()) {
            early.until.store(until.0, Ordering::Relaxed);
        }
    }

    /// Adds what a request that began at `start` generated.
    pub(super) fn generation(&self, start: Stamp, generation: &Generation) {
        let Some(bank) = &self.generation else { return };
        let limits = self.good.as_ref().map(|good| good.limits).unwrap_or_default();
        let is_good = bank.record(start, generation, &limits);
        if let Some(good) = self.good.as_ref().filter(|good| is_good && !good.by_latency) {
            add(&good.requests, 1);
        }
    }

    /// Adds a conversation that is over.
    pub(super) fn session(&self, played: &Played) {
        if let Some(bank) = &self.sessions {
            bank.record(played);
        }
    }

    /// Counts a sequence that is over, with its times if it was played whole.
    pub(super) fn sequence(&self, whole: Option<&WholeSequence>) {
        add(&self.sequences, 1);
        if let (Some(bank), Some(whole)) = (&self.whole_sequences, whole) {
            bank.record(whole);
        }
    }

    #[inline]
    pub(super) fn wakeup(&self, ns: u64) {
        if let Some(wakeup) = &self.wakeup {
            wakeup.record(ns);
        }
    }

    #[inline]
    pub(super) fn sent(&self, late_ns: u64) {
        add(&self.sent, 1);
        if late_ns > DELAYED_AFTER_NS {
            add(&self.delayed, 1);
        }
    }

    pub(super) fn gap(&self, ns: u64) {
        if let Some(bank) = &self.decoupled {
            bank.gap.record(ns);
        }
        if let Some(bank) = &self.generation {
            bank.gap(ns);
        }
    }

    /// What is judged by more than its latency, because it generates tokens, has no expected outputs.
    #[cold]
    pub(super) fn mismatch(&self, latency_ns: u64, error: &InferError) {
        add(&self.mismatched, 1);
        if let Some(good) = self.good.as_ref().filter(|good| good.by_latency && good.limits.keeps_latency(latency_ns)) {
            add(&good.mismatched, 1);
        }
        self.fail(error);
    }

    #[cold]
    pub(super) fn fail(&self, error: &InferError) {
        if let Some(cancelled) = self.cancelled.as_ref().filter(|_| error.is_cancelled()) {
            return add(cancelled, 1);
        }
        add(&self.failed, 1);
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(error) {
            *count += 1;
            return;
        }
        let key = |message| InferError { code: error.code.clone(), message };
        let mut reason = key(error.message.clone());
        if errors.len() >= MAX_REASONS {
            reason = key(without_numbers(&error.message));
        }
        if errors.len() >= MAX_TEXTS && !errors.contains_key(&reason) {
            reason = key(FURTHER_REASONS.to_owned());
        }
        *errors.entry(reason).or_default() += 1;
    }

    /// Number of completed requests so far, and how many of the successful ones had wrong outputs: these are also
    /// counted as failed, perhaps in another shard.
    pub(super) fn completed(&self) -> (Completed, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mismatched = read(&self.mismatched);
        let cancelled = self.cancelled.as_ref().map_or(0, read);
        (Completed { succeeded: read(&self.requests), failed: read(&self.failed), cancelled }, mismatched)
    }

    /// Adds counts and times to `tally`, and leaves them here.
    pub(super) fn copy_into(&self, tally: &mut Tally) {
        let ((completed, mismatched), before) = (self.completed(), tally.service.count());
        self.service.copy_into(&mut tally.service);
        tally.requests += tally.service.count() - before;
        tally.mismatched += mismatched;
        tally.failed += completed.failed;
        tally.cancelled += completed.cancelled;
        if let (Some(bank), Some((response_time, _))) = (&self.open_loop, &mut tally.open_loop) {
            bank.response_time.copy_into(response_time);
        }
    }

    /// Moves everything into `tally`, but for what belongs to requests that are not here yet: the `next` bank keeps that.
    pub(super) fn drain_into(&self, tally: &mut Tally, next: &Self) {
        tally.mismatched += take(&self.mismatched);
        tally.failed += take(&self.failed);
        tally.cancelled += self.cancelled.as_ref().map_or(0, take);
        tally.sent += take(&self.sent);
        tally.delayed += take(&self.delayed);
        tally.sequences += take(&self.sequences);
        tally.responses += take(&self.responses);
        tally.send_ns += take(&self.send_ns);
        tally.send_samples += take(&self.send_samples);
        tally.receive_ns += take(&self.receive_ns);
        tally.turnaround_ns += take(&self.turnaround_ns);
        // A request that is being recorded right now may be in the counter and not in the histogram yet: whoever has a
        // request has its latency.
        take(&self.requests);
        let before = tally.service.count();
        self.service.drain_into(&mut tally.service);
        tally.requests += tally.service.count() - before;
        if let (Some(bank), Some(wakeup)) = (&self.wakeup, &mut tally.wakeup) {
            bank.drain_into(wakeup);
        }
        if let (Some(bank), Some((response_time, delay))) = (&self.open_loop, &mut tally.open_loop) {
            bank.response_time.drain_into(response_time);
            bank.delay.drain_into(delay);
            if let (Some(early), Some(service)) = (&bank.early, &mut tally.early) {
                early.service.drain_into(service);
            }
        }
        if let (Some(bank), Some((first, gap))) = (&self.decoupled, &mut tally.decoupled) {
            bank.first.drain_into(first);
            bank.gap.drain_into(gap);
        }
        if let (Some(bank), Some(generated)) = (&self.generation, &mut tally.generated) {
            bank.drain_into(generated);
        }
        if let (Some(bank), Some(sessions)) = (&self.sessions, &mut tally.sessions) {
            bank.drain_into(sessions);
        }
        if let (Some(bank), Some(times)) = (&self.whole_sequences, &mut tally.sequence_times) {
            bank.drain_into(times);
        }
        if let (Some(good), Some(requests)) = (&self.good, &mut tally.good) {
            let found = take(&good.requests);
            // What a request generated is judged before the request itself is recorded, which may be later than a window's end;
            // or, where its tokens are still to be counted, after that.
            let early = (*requests + found).saturating_sub(tally.requests);
            if let Some(next) = &next.good {
                add(&next.requests, early);
            }
            *requests += found - early;
            tally.good_mismatched += take(&good.mismatched);
        }
        for (error, count) in self.errors.lock().drain() {
            *tally.errors.entry(error).or_default() += count;
        }
    }
}

/// The text with `#` for every number, and for what tells one request from another: a word in hexadecimal digits, or a long one of
/// letters and digits.
pub fn without_numbers(text: &str) -> String {
    // Shorter ones may be the name of a type or of a device.
    const HEX: usize = 6;
    const GROUP: usize = 4;
    const LONG: usize = 16;
    let mut kept = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let letters = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let digits = letters.bytes().filter(u8::is_ascii_digit).count();
        let figures = letters.strip_prefix("0x").unwrap_or(letters);
        // What has hyphens goes on in groups.
        let least = if kept.ends_with('-') { GROUP } else { HEX };
        let is_hex = figures.len() >= least
            && (digits > 0 || kept.ends_with("#-"))
            && figures.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex || (letters.len() >= LONG && digits > 1) {
            if !kept.ends_with('#') {
                kept.push('#');
            }
            kept.push_str(&word[letters.len()..]);
            continue;
        }
        for character in word.chars() {
            if !character.is_ascii_digit() {
                kept.push(character);
            } else if !kept.ends_with('#') {
                kept.push('#');
            }
        }
    }
    kept
}

#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn take(counter: &AtomicU64) -> u64 {
    counter.swap(0, Ordering::Relaxed)
}
