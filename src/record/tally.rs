//! Everything recorded in one window, over all shards.

use std::collections::HashMap;

use crate::backend::InferError;
use crate::distribution::Distribution;
use crate::generation::Generated;
use crate::sample::RecorderSpec;
use crate::sequences::SequenceTimes;
use crate::sessions::Sessions;

/// Number of requests that had ended at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// With success, and with the expected outputs, if any.
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

    /// The sum of two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
        }
    }
}

/// Everything recorded in one window, over all shards.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were cancelled as the plan asked; not counted as failed.
    pub cancelled: u64,
    /// Failed requests that had wrong outputs; still counted in `requests` while shards are summed.
    pub(super) mismatched: u64,
    /// Those of them that kept the limits; still counted in `good` while shards are summed.
    pub(super) good_mismatched: u64,
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
    /// Summed time from the first sign of a response until all of it had arrived.
    pub receive_ns: u64,
    /// Summed time between the end of a request and the send of the next one in its slot, of those `send_samples` requests.
    pub turnaround_ns: u64,
    /// From the actual send to the end.
    pub service: Distribution,
    /// From the last response until the waiting thread ran again.
    pub wakeup: Option<Distribution>,
    /// Response time from the intended send, and schedule delay.
    pub open_loop: Option<(Distribution, Distribution)>,
    /// From the actual send to the end, of the first requests alone.
    pub early: Option<Distribution>,
    /// Time to the first response, and gaps between responses.
    pub decoupled: Option<(Distribution, Distribution)>,
    /// What language models generated.
    pub generated: Option<Box<Generated>>,
    /// Conversations that ended.
    pub sessions: Option<Box<Sessions>>,
    /// Times of whole sequences that ended.
    pub sequence_times: Option<Box<SequenceTimes>>,
    /// Requests that kept the limits, if there are any.
    pub good: Option<u64>,
    /// Failures by reason.
    pub errors: HashMap<InferError, u64>,
    /// The same for each entry of a mix; empty if there is one model.
    pub entries: Vec<Tally>,
    /// The same for each server; empty if there is one.
    pub servers: Vec<Tally>,
}

impl Tally {
    /// Removes requests with wrong outputs from the successful ones, once all shards are summed.
    pub(super) fn settle(mut self) -> Self {
        self.requests = self.requests.saturating_sub(self.mismatched);
        self.good = self.good.map(|good| good.saturating_sub(self.good_mismatched));
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
            good_mismatched: 0,
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
            early: (spec.open_loop && spec.early).then(Distribution::empty),
            decoupled: spec.decoupled.then(pair),
            generated: spec.generates.then(|| Box::new(Generated::empty())),
            sessions: spec.sessions.then(|| Box::new(Sessions::empty())),
            sequence_times: spec.sequences.then(|| Box::new(SequenceTimes::empty(spec.pace.is_some()))),
            good: spec.limits.is_any().then_some(0),
            errors: HashMap::new(),
            entries: Vec::new(),
            servers: Vec::new(),
        }
    }

    /// The whole of what was recorded in `parts`: the servers of the first entry, those of the second, and so on.
    pub(super) fn sum(spec: RecorderSpec, mut parts: Vec<Self>) -> Self {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        let sum_of = |is_own: &dyn Fn(usize) -> bool| {
            let mut sum = Self::empty(spec);
            parts.iter().enumerate().filter(|(part, _)| is_own(*part)).for_each(|(_, part)| sum.absorb(part));
            sum
        };
        let sums_by = |count: usize, index: &dyn Fn(usize) -> usize| match count {
            0 | 1 => Vec::new(),
            _ => (0..count).map(|number| sum_of(&|part| index(part) == number)).collect(),
        };
        let servers = sums_by(spec.servers, &|part| part % spec.servers);
        let entries = sums_by(spec.entries, &|part| part / spec.servers.max(1));
        Self { entries, servers, ..sum_of(&|_| true) }
    }

    pub(super) fn absorb(&mut self, other: &Self) {
        self.requests += other.requests;
        self.mismatched += other.mismatched;
        self.good_mismatched += other.good_mismatched;
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
        for (mine, theirs) in [(&mut self.wakeup, &other.wakeup), (&mut self.early, &other.early)] {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.merge(theirs);
            }
        }
        for (mine, theirs) in [(&mut self.open_loop, &other.open_loop), (&mut self.decoupled, &other.decoupled)] {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.0.merge(&theirs.0);
                mine.1.merge(&theirs.1);
            }
        }
        if let (Some(mine), Some(theirs)) = (&mut self.generated, &other.generated) {
            mine.merge(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.sessions, &other.sessions) {
            mine.merge(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.sequence_times, &other.sequence_times) {
            mine.merge(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.good, other.good) {
            *mine += theirs;
        }
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
    }
}
