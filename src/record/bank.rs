//! Counters and histograms of one window in one shard, and what they come to.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::backend::InferError;
use crate::record::distribution::Distribution;
use crate::record::histogram::AtomicHistogram;
use crate::record::sample::{RecorderSpec, Sample};
use crate::sync::{AtomicU64, Ordering};

/// Sends later than this after their intended time count as delayed.
pub const DELAYED_AFTER_NS: u64 = 1_000_000;
/// Different failure texts that are kept apart. Further ones are counted with those that differ from them in numbers only.
const MAX_REASONS: usize = 64;
/// Most texts in all; what has no place then is counted under its code alone.
const MAX_TEXTS: usize = 2 * MAX_REASONS;

/// What stands for the reasons that are not kept.
pub const FURTHER_REASONS: &str = "(further reasons)";

/// One window's counters in one shard. Threads add without waiting.
pub(super) struct Bank {
    requests: AtomicU64,
    failed: AtomicU64,
    /// Apart from the failed ones, where requests are cancelled at all.
    cancelled: Option<AtomicU64>,
    /// Of the requests that succeeded, those whose outputs are wrong.
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
    errors: Mutex<HashMap<InferError, u64>>,
}

struct OpenLoopBank {
    response_time: AtomicHistogram,
    delay: AtomicHistogram,
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
            open_loop: spec
                .open_loop
                .then(|| OpenLoopBank { response_time: AtomicHistogram::new(), delay: AtomicHistogram::new() }),
            decoupled: spec
                .decoupled
                .then(|| DecoupledBank { first: AtomicHistogram::new(), gap: AtomicHistogram::new() }),
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
        if sample.sequence_end {
            add(&self.sequences, 1);
        }
        if let (Some(bank), Some(intended)) = (&self.open_loop, sample.intended) {
            bank.response_time.record(sample.end.since(intended));
            bank.delay.record(sample.sent.since(intended));
        }
        if let Some(bank) = &self.decoupled {
            add(&self.responses, u64::from(sample.responses));
            bank.first.record(sample.first_response.since(sample.sent));
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
    }

    #[cold]
    pub(super) fn mismatch(&self, error: &InferError) {
        add(&self.mismatched, 1);
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

    /// Completed requests so far, and how many of those that succeeded brought wrong outputs: they are among the failed
    /// ones, too, perhaps of another shard.
    pub(super) fn completed(&self) -> (Completed, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mismatched = read(&self.mismatched);
        let cancelled = self.cancelled.as_ref().map_or(0, read);
        (Completed { succeeded: read(&self.requests), failed: read(&self.failed), cancelled }, mismatched)
    }

    /// Moves everything into `tally`.
    pub(super) fn drain_into(&self, tally: &mut Tally) {
        tally.requests += take(&self.requests);
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
        self.service.drain_into(&mut tally.service);
        if let (Some(bank), Some(wakeup)) = (&self.wakeup, &mut tally.wakeup) {
            bank.drain_into(wakeup);
        }
        if let (Some(bank), Some((response_time, delay))) = (&self.open_loop, &mut tally.open_loop) {
            bank.response_time.drain_into(response_time);
            bank.delay.drain_into(delay);
        }
        if let (Some(bank), Some((first, gap))) = (&self.decoupled, &mut tally.decoupled) {
            bank.first.drain_into(first);
            bank.gap.drain_into(gap);
        }
        for (error, count) in self.errors.lock().drain() {
            *tally.errors.entry(error).or_default() += count;
        }
    }
}

/// The text with `#` for every number.
fn without_numbers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_ascii_digit() {
            kept.push(character);
        } else if !kept.ends_with('#') {
            kept.push('#');
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

/// Requests that were over at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// With success, and with the outputs that were expected where any were.
    pub succeeded: u64,
    /// With an error, or with other outputs than expected.
    pub failed: u64,
    /// Cancelled as the plan asked.
    pub cancelled: u64,
}

impl Completed {
    /// All of them.
    pub fn all(self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
        }
    }
}

/// Everything that was recorded in one window, all shards together.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were cancelled as the plan asked; not among the failed ones.
    pub cancelled: u64,
    /// Of those that failed, requests that were answered with wrong outputs; still among `requests` while shards are gathered.
    mismatched: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests sent more than 1 ms late.
    pub delayed: u64,
    /// Sequences that ended.
    pub sequences: u64,
    /// Responses that carried data, of decoupled models.
    pub responses: u64,
    /// Summed hand-over time of `send_samples` requests.
    pub send_ns: u64,
    /// Requests whose hand-over was timed.
    pub send_samples: u64,
    /// Summed time from the first sign of a response until all of it was there.
    pub receive_ns: u64,
    /// Summed time between the end of a request and the send of the next one in its slot, of those `send_samples` requests.
    pub turnaround_ns: u64,
    /// From the actual send to the end.
    pub service: Distribution,
    /// From the last response until the waiting thread went on.
    pub wakeup: Option<Distribution>,
    /// Response time from the intended send, and schedule delay.
    pub open_loop: Option<(Distribution, Distribution)>,
    /// Time to the first response, and gaps between responses.
    pub decoupled: Option<(Distribution, Distribution)>,
    /// Failures by reason.
    pub errors: HashMap<InferError, u64>,
    /// The same of each entry of a mix; empty where there is one model.
    pub entries: Vec<Tally>,
}

impl Tally {
    /// Takes requests with wrong outputs out of those that succeeded, once all shards are gathered.
    pub(super) fn settle(mut self) -> Self {
        self.requests = self.requests.saturating_sub(self.mismatched);
        self
    }

    /// As [`Bank::completed`].
    pub(super) fn completed(&self) -> (Completed, u64) {
        (Completed { succeeded: self.requests, failed: self.failed, cancelled: self.cancelled }, self.mismatched)
    }

    /// Nothing recorded yet.
    pub(super) fn empty(spec: RecorderSpec) -> Self {
        let pair = || (Distribution::empty(), Distribution::empty());
        Self {
            requests: 0,
            failed: 0,
            cancelled: 0,
            mismatched: 0,
            sent: 0,
            delayed: 0,
            sequences: 0,
            responses: 0,
            send_ns: 0,
            send_samples: 0,
            receive_ns: 0,
            turnaround_ns: 0,
            service: Distribution::empty(),
            wakeup: spec.wakeups.then(Distribution::empty),
            open_loop: spec.open_loop.then(pair),
            decoupled: spec.decoupled.then(pair),
            errors: HashMap::new(),
            entries: Vec::new(),
        }
    }

    /// The whole of a mix, or the only model.
    pub(super) fn sum(spec: RecorderSpec, mut entries: Vec<Self>) -> Self {
        match entries.pop() {
            Some(only) if entries.is_empty() => only,
            last => {
                entries.extend(last);
                let mut whole = Self::empty(spec);
                entries.iter().for_each(|entry| whole.absorb(entry));
                Self { entries, ..whole }
            }
        }
    }

    pub(super) fn absorb(&mut self, other: &Self) {
        self.requests += other.requests;
        self.mismatched += other.mismatched;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.sent += other.sent;
        self.delayed += other.delayed;
        self.sequences += other.sequences;
        self.responses += other.responses;
        self.send_ns += other.send_ns;
        self.send_samples += other.send_samples;
        self.receive_ns += other.receive_ns;
        self.turnaround_ns += other.turnaround_ns;
        self.service.merge(&other.service);
        if let (Some(mine), Some(theirs)) = (&mut self.wakeup, &other.wakeup) {
            mine.merge(theirs);
        }
        for (mine, theirs) in [(&mut self.open_loop, &other.open_loop), (&mut self.decoupled, &other.decoupled)] {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.0.merge(&theirs.0);
                mine.1.merge(&theirs.1);
            }
        }
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
    }
}
