//! Periodic concurrency: more requests join as those under way make progress.
//!
//! A batch of requests is sent; once each of them has had a number of responses (the *period*), the next batch follows,
//! until all are sent. Meant for decoupled models, whose requests last long: it shows how the time to the first
//! response and the gaps between responses change as the server fills up. A request that ends earlier counts as having
//! had that many responses; otherwise the wait could never end.
//!
//! Each request has a slot of its own, so a batch is a range of slots, and the [`BatchBook`] holds the results of each
//! batch.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam::utils::CachePadded;

use crate::backend::{Next, SlotId};
use crate::clock::Stamp;
use crate::context::LoadContext;
use crate::control::Control;
use crate::engine::{self, InFlight, Issuer, Numbers, Policy, Setup};
use crate::error::Result;
use crate::ranks::Part;
use crate::record::PeriodicBatch;
use crate::record::{CoarseHistogram, Distribution};
use crate::worker::{self, Worker};

/// How often the progress of other processes is checked.
const POLL: Duration = Duration::from_millis(1);

/// The shape of a periodic load.
#[derive(Clone, Debug)]
pub struct PeriodicLoop {
    /// Size of the first batch; at least 1.
    pub start: u32,
    /// Total number of requests; not below `start`.
    pub end: u32,
    /// Size of each further batch, at least 1; the last one may be smaller.
    pub step: u32,
    /// Responses that each request of the latest batch must have had before the next batch.
    pub period: u32,
    /// Where results are kept; made by [`BatchBook::new`] for this process' part of `end` requests.
    pub book: Arc<BatchBook>,
    /// Which of the requests are sent here.
    pub part: Part,
    /// Progress of the batches.
    pub progress: Arc<BatchProgress>,
}

/// Requests that have had their period's responses: here, and in all processes that share the load, as far as they have
/// reported.
#[derive(Debug, Default)]
pub struct BatchProgress {
    here: AtomicUsize,
    all: AtomicUsize,
}

impl BatchProgress {
    /// Their number in this process.
    pub fn here(&self) -> usize {
        self.here.load(Ordering::SeqCst)
    }

    /// Sets their number in all processes.
    pub fn set_total(&self, all: usize) {
        self.all.store(all, Ordering::SeqCst);
    }

    /// The number that counts: of all processes if they share the load, else of this one.
    fn reached(&self, part: Part) -> usize {
        if part.is_shared() { self.all.load(Ordering::SeqCst) } else { self.here() }
    }
}

impl PeriodicLoop {
    /// The requests of each batch, over all processes.
    fn batches(&self) -> impl Iterator<Item = Range<u32>> {
        let (start, end, step) = (self.start.clamp(1, self.end.max(1)), self.end, self.step.max(1));
        let ends =
            std::iter::successors(Some(start), move |&done| (done < end).then(|| done.saturating_add(step).min(end)));
        ends.scan(0, |from, to| Some(std::mem::replace(from, to)..to))
    }

    /// The slots of this process for these requests of all.
    fn local_slots(&self, requests: &Range<u32>) -> Range<u32> {
        let share = |count: u32| u32::try_from(self.part.share(count as usize)).unwrap_or(u32::MAX);
        share(requests.start)..share(requests.end)
    }

    /// The results of each batch in this process; preliminary while the load runs.
    pub fn results(&self) -> Vec<PeriodicBatch> {
        let batch = |requests: Range<u32>| {
            let slots = self.local_slots(&requests);
            self.book.batch(slots.start as usize, slots.end as usize, requests.end as usize)
        };
        self.batches().filter_map(batch).collect()
    }
}

/// The results of each request of a periodic load. Written by completions without waiting.
#[derive(Debug)]
pub struct BatchBook {
    requests: Box<[CachePadded<RequestNotes>]>,
    /// For the batch that begins with each request: times between responses. Allocated when the batch is launched.
    gaps: Box<[OnceLock<CoarseHistogram>]>,
}

/// Calls for one slot never overlap, so relaxed loads and stores are enough.
#[derive(Debug, Default)]
struct RequestNotes {
    /// First request of the batch.
    batch: AtomicUsize,
    submitted: AtomicU64,
    first: AtomicU64,
    responses: AtomicU64,
    gap_max: AtomicU64,
}

impl BatchBook {
    /// An empty book for `requests` requests.
    pub fn new(requests: u32) -> Self {
        let gaps = (0..requests).map(|_| OnceLock::new()).collect();
        Self { requests: (0..requests).map(|_| CachePadded::default()).collect(), gaps }
    }

    /// Prepares for the batch that starts with request `from`.
    fn open_batch(&self, from: u32, to: u32) {
        let _ = self.gaps[from as usize].get_or_init(CoarseHistogram::new);
        let batch = &self.requests[from as usize..to as usize];
        batch.iter().for_each(|notes| notes.batch.store(from as usize, Ordering::Relaxed));
    }

    /// Records a response, and the time since the one before; returns how many there have been.
    fn note_response(&self, slot: SlotId, at: Stamp, gap_ns: Option<u64>) -> u64 {
        let notes = &self.requests[slot.index()];
        let responses = notes.responses.load(Ordering::Relaxed) + 1;
        notes.responses.store(responses, Ordering::Relaxed);
        let Some(gap_ns) = gap_ns else {
            notes.first.store(at.0, Ordering::Relaxed);
            return responses;
        };
        notes.gap_max.store(notes.gap_max.load(Ordering::Relaxed).max(gap_ns), Ordering::Relaxed);
        if let Some(gaps) = self.gaps[notes.batch.load(Ordering::Relaxed)].get() {
            gaps.record(gap_ns);
        }
        responses
    }

    fn note_submission(&self, slot: SlotId, now: Stamp) {
        self.requests[slot.index()].submitted.store(now.0, Ordering::Release);
    }

    fn responses(&self, slot: SlotId) -> u64 {
        self.requests[slot.index()].responses.load(Ordering::Relaxed)
    }

    fn batch(&self, from: usize, to: usize, concurrency: usize) -> Option<PeriodicBatch> {
        let sent: Vec<_> =
            self.requests[from..to].iter().filter(|n| n.submitted.load(Ordering::Acquire) != 0).collect();
        if sent.is_empty() {
            return None;
        }
        let (mut first_response, mut gap) = (Distribution::empty(), Distribution::empty());
        if let Some(gaps) = self.gaps.get(from).and_then(OnceLock::get) {
            gaps.copy_into(&mut gap);
        }
        let (mut responses, mut gap_max_ns) = (0, 0);
        for notes in &sent {
            let [submitted, first] = [&notes.submitted, &notes.first].map(|at| Stamp(at.load(Ordering::Acquire)));
            let count = notes.responses.load(Ordering::Acquire);
            // While the load runs, a response is counted before it is stored.
            if first.0 != 0 {
                first_response.histogram.saturating_record(first.since(submitted));
                first_response.sum_ns += u128::from(first.since(submitted));
            }
            responses += count;
            gap_max_ns = gap_max_ns.max(notes.gap_max.load(Ordering::Acquire));
        }
        let requests = sent.len() as u64;
        Some(PeriodicBatch { concurrency, requests, responses, first_response, gap, gap_max_ns })
    }
}

/// Starts the one worker of a periodic load.
///
/// # Errors
/// If a thread cannot be had.
pub(super) fn spawn(
    context: &Arc<LoadContext>,
    control: &Arc<Control>,
    shape: PeriodicLoop,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    workers.push(worker::spawn(0, context, control, move |context, control| work(context, control, &shape))?);
    Ok(())
}

/// Requests join as those under way make progress; each slot has one.
struct Progress {
    book: Arc<BatchBook>,
    period: u64,
    reached: Arc<BatchProgress>,
}

impl Policy for Progress {
    fn next(&self, flight: &InFlight<Self>, slot: SlotId) -> Next {
        if self.book.responses(slot) < self.period {
            self.reach(flight);
        }
        Next::Idle
    }

    fn responded(&self, flight: &InFlight<Self>, slot: SlotId, at: Stamp, gap_ns: Option<u64>) {
        if self.book.note_response(slot, at, gap_ns) == self.period {
            self.reach(flight);
        }
    }
}

impl Progress {
    fn reach(&self, flight: &InFlight<Self>) {
        self.reached.here.fetch_add(1, Ordering::SeqCst);
        flight.wake();
    }
}

/// The body of the worker's thread.
fn work(context: &Arc<LoadContext>, control: &Arc<Control>, shape: &PeriodicLoop) -> Result<()> {
    let period = u64::from(shape.period.max(1));
    let policy = Progress { book: Arc::clone(&shape.book), period, reached: Arc::clone(&shape.progress) };
    let (numbers, slots) = (Numbers { first: 0, stride: 1 }, shape.local_slots(&(0..shape.end)).end as usize);
    let setup = Setup { policy, numbers, worker: 0, workers: 1, slots, alone: false, reissues: false, watches: true };
    engine::work(context, control, setup, |issuer| {
        launch(issuer, shape)?;
        issuer.settle()
    })
}

/// Sends batch after batch.
fn launch(issuer: &mut Issuer<Progress>, shape: &PeriodicLoop) -> Result<()> {
    let flight = Arc::clone(&issuer.flight);
    for requests in shape.batches() {
        let slots = shape.local_slots(&requests);
        if !slots.is_empty() {
            flight.policy.book.open_batch(slots.start, slots.end);
        }
        for slot in slots.map(SlotId) {
            if !flight.control.may_send() {
                return Ok(());
            }
            submit(issuer, slot)?;
        }
        let reached = || shape.progress.reached(shape.part) >= requests.end as usize;
        while !reached() && !flight.control.is_stopped() {
            // Progress of other processes wakes nobody here.
            let due = if shape.part.is_shared() { Stamp::now().plus_duration(POLL) } else { Stamp::NEVER };
            issuer.rest_until(due, reached)?;
        }
    }
    Ok(())
}

fn submit(issuer: &mut Issuer<Progress>, slot: SlotId) -> Result<()> {
    // Unused slots are in front, in their order; returned ones go to the end.
    let unused = issuer.free.pop_front();
    debug_assert_eq!(unused, Some(slot));
    let input_source = &issuer.flight.context.input_source;
    let request_stream = slot.index() % input_source.request_streams();
    let (request, now) = (input_source.next(request_stream), Stamp::now());
    issuer.flight.policy.book.note_submission(slot, now);
    issuer.submit(slot, request, request_stream, now)
}

#[cfg(test)]
mod tests;
