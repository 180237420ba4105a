//! Periodic concurrency: more requests join as those under way make progress.
//!
//! A batch of requests is sent; once each of them has had a number of responses (the *period*), the next batch follows,
//! until all are sent. Meant for decoupled models, whose requests live long: it shows how the time to the first response
//! and the gaps between responses change as the server fills. A request that ends before it has had that many responses
//! counts as having had them; waiting for it could not end.
//!
//! Each request has a slot of its own, so that a batch is a range of slots, and the [`StageBook`] holds what each batch
//! came to.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam::utils::CachePadded;

use crate::backend::{Client, ClientSpec, Completion, CompletionSink, Next, Request, Response, SlotId, Threading};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::Result;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::worker::{self, Worker};
use crate::record::{CoarseHistogram, Distribution, Finished, Sample, Source};

/// How often the worker looks whether the load is over.
const LOOK_UP: Duration = Duration::from_millis(10);

/// The shape of a periodic load.
#[derive(Clone, Debug)]
pub struct PeriodicLoop {
    /// Requests of the first batch; at least 1.
    pub start: u32,
    /// Requests in all; not below `start`.
    pub end: u32,
    /// Requests of each further batch, at least 1; the last one may be smaller.
    pub step: u32,
    /// Responses that each request of the latest batch must have had before the next batch.
    pub period: u32,
    /// Where the outcome is kept; made by [`StageBook::new`] for `end` requests.
    pub book: Arc<StageBook>,
}

impl PeriodicLoop {
    /// First and last (excluded) request of each batch.
    fn batches(&self) -> impl Iterator<Item = (u32, u32)> {
        let (start, end, step) = (self.start.clamp(1, self.end.max(1)), self.end, self.step.max(1));
        let ends =
            std::iter::successors(Some(start), move |&done| (done < end).then(|| done.saturating_add(step).min(end)));
        ends.scan(0, |from, to| Some((std::mem::replace(from, to), to)))
    }

    /// What each batch came to. Read it when the load has ended.
    pub fn stages(&self) -> Vec<PeriodicStage> {
        let stage = |(from, to): (u32, u32)| self.book.stage(from as usize, to as usize);
        self.batches().filter_map(stage).collect()
    }
}

/// What one batch of a periodic load came to.
#[derive(Clone, Debug)]
pub struct PeriodicStage {
    /// Requests under way or sent until then, these included.
    pub concurrency: usize,
    /// Requests of the batch that were sent.
    pub requests: u64,
    /// Responses that carried data.
    pub responses: u64,
    /// From the submission to the first response.
    pub first_response: Distribution,
    /// Between neighbouring responses of a request; the mean is exact, percentiles are within 0.8 %.
    pub gap: Distribution,
    /// Longest such time, in nanoseconds.
    pub gap_max_ns: u64,
}

/// What became of each request of a periodic load. Written by completions without waiting.
#[derive(Debug)]
pub struct StageBook {
    requests: Box<[CachePadded<RequestNotes>]>,
    /// Of the batch that begins with each request: times between responses. Made when the batch is launched.
    gaps: Box<[OnceLock<CoarseHistogram>]>,
}

/// Calls for one slot never overlap, so relaxed loads and stores are enough.
#[derive(Debug, Default)]
struct RequestNotes {
    /// First request of the batch.
    batch: AtomicUsize,
    submitted: AtomicU64,
    payload: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    responses: AtomicU64,
    gap_max: AtomicU64,
}

impl StageBook {
    /// An empty book for so many requests.
    pub fn new(requests: u32) -> Self {
        let gaps = (0..requests).map(|_| OnceLock::new()).collect();
        Self { requests: (0..requests).map(|_| CachePadded::default()).collect(), gaps }
    }

    /// Makes ready for the batch from request `from` on.
    fn open_batch(&self, from: u32, to: u32) {
        let _ = self.gaps[from as usize].get_or_init(CoarseHistogram::new);
        let batch = &self.requests[from as usize..to as usize];
        batch.iter().for_each(|notes| notes.batch.store(from as usize, Ordering::Relaxed));
    }

    /// Notes a response; returns how many there have been and the time since the one before.
    fn note_response(&self, slot: SlotId, at: Stamp) -> (u64, Option<u64>) {
        let notes = &self.requests[slot.index()];
        let before = notes.last.swap(at.0, Ordering::Relaxed);
        let responses = notes.responses.load(Ordering::Relaxed) + 1;
        notes.responses.store(responses, Ordering::Relaxed);
        if responses == 1 {
            notes.first.store(at.0, Ordering::Relaxed);
            return (responses, None);
        }
        let gap = at.since(Stamp(before));
        notes.gap_max.store(notes.gap_max.load(Ordering::Relaxed).max(gap), Ordering::Relaxed);
        if let Some(gaps) = self.gaps[notes.batch.load(Ordering::Relaxed)].get() {
            gaps.record(gap);
        }
        (responses, Some(gap))
    }

    fn note_submission(&self, slot: SlotId, request: Request) {
        let notes = &self.requests[slot.index()];
        notes.payload.store(u64::from(request.payload.0), Ordering::Relaxed);
        notes.submitted.store(Stamp::now().0, Ordering::Release);
    }

    fn payload(&self, slot: SlotId) -> PayloadId {
        PayloadId(self.requests[slot.index()].payload.load(Ordering::Relaxed) as u32)
    }

    fn responses(&self, slot: SlotId) -> u64 {
        self.requests[slot.index()].responses.load(Ordering::Relaxed)
    }

    fn stage(&self, from: usize, to: usize) -> Option<PeriodicStage> {
        let sent: Vec<_> =
            self.requests[from..to].iter().filter(|n| n.submitted.load(Ordering::Acquire) != 0).collect();
        let (mut first_response, mut gap) = (Distribution::empty(), Distribution::empty());
        if let Some(gaps) = self.gaps[from].get() {
            gaps.copy_into(&mut gap);
        }
        let (mut responses, mut gap_max_ns) = (0, 0);
        for notes in &sent {
            let [submitted, first] = [&notes.submitted, &notes.first].map(|at| Stamp(at.load(Ordering::Acquire)));
            let count = notes.responses.load(Ordering::Acquire);
            if count > 0 {
                first_response.histogram.saturating_record(first.since(submitted));
                first_response.sum_ns += u128::from(first.since(submitted));
            }
            responses += count;
            gap_max_ns = gap_max_ns.max(notes.gap_max.load(Ordering::Acquire));
        }
        let requests = sent.len() as u64;
        (requests > 0).then_some(PeriodicStage {
            concurrency: to,
            requests,
            responses,
            first_response,
            gap,
            gap_max_ns,
        })
    }
}

/// Starts the one worker of a periodic load.
///
/// # Errors
/// Where a thread cannot be had.
pub(super) fn spawn(
    context: &Arc<LoadContext>,
    control: &Arc<Control>,
    shape: PeriodicLoop,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    workers.push(worker::spawn(0, context, control, move |context, control| work(context, control, &shape))?);
    Ok(())
}

struct PeriodicSink {
    context: Arc<LoadContext>,
    book: Arc<StageBook>,
    period: u64,
    /// Requests that have had their period's responses.
    reached: AtomicUsize,
    completed: AtomicU64,
    failed: AtomicU64,
    worker: Thread,
}

impl CompletionSink for PeriodicSink {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        // An error is no response; the request ends with it.
        if !response.empty && response.error.is_none() {
            let (responses, gap) = self.book.note_response(slot, response.at);
            if let Some(gap) = gap {
                self.context.recorder.gap(self.source(slot), response.at, gap);
            }
            if responses == self.period {
                self.reach();
            }
        }
        if let Some(observer) = &self.context.observer {
            observer.response(slot.index(), response);
        }
    }

    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        let early = self.book.responses(slot) < self.period;
        if let Some(error) = completion.error {
            self.context.recorder.fail(self.source(slot), completion.last_response, error);
        } else {
            self.context.recorder.record(self.source(slot), &Sample::of(completion, None, false));
        }
        if let Some(observer) = &self.context.observer {
            let request = Request { payload: self.book.payload(slot), sequence: None };
            let (sent, end, error) = (completion.sent, completion.last_response, completion.error);
            let finished = Finished { request, sent, intended: None, end, error };
            observer.complete(slot.index(), &finished);
        }
        let counter = if completion.error.is_some() { &self.failed } else { &self.completed };
        counter.fetch_add(1, Ordering::AcqRel);
        if early {
            self.reach();
        } else {
            self.worker.unpark();
        }
        Next::Idle
    }
}

impl PeriodicSink {
    fn source(&self, slot: SlotId) -> Source {
        self.context.source(slot.index(), self.book.payload(slot))
    }

    fn reach(&self) {
        self.reached.fetch_add(1, Ordering::AcqRel);
        self.worker.unpark();
    }

    fn ended(&self) -> u64 {
        self.completed.load(Ordering::Acquire) + self.failed.load(Ordering::Acquire)
    }
}

/// The worker's whole life.
fn work(context: &Arc<LoadContext>, control: &Arc<Control>, shape: &PeriodicLoop) -> Result<()> {
    let sink = Arc::new(PeriodicSink {
        context: Arc::clone(context),
        book: Arc::clone(&shape.book),
        period: u64::from(shape.period.max(1)),
        reached: AtomicUsize::new(0),
        completed: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        worker: thread::current(),
    });
    context.reserve_observed(shape.end as usize);
    let spec = ClientSpec { watch_responses: true, ..context.client_spec(shape.end as usize) };
    let client = context.backend.open_client(spec, Arc::clone(&sink) as Arc<dyn CompletionSink>)?;
    let driven = context.backend.capabilities().threading == Threading::Driven;
    let mut launcher = Launcher { sink, client, driven, sent: 0 };
    if !control.wait_for_go() {
        return Ok(());
    }
    let worked = launcher.run(control, shape);
    let (completed, failed) =
        (launcher.sink.completed.load(Ordering::Acquire), launcher.sink.failed.load(Ordering::Acquire));
    control.report_end(launcher.sent, completed, failed, Stamp::now());
    worked
}

struct Launcher {
    sink: Arc<PeriodicSink>,
    client: Box<dyn Client>,
    driven: bool,
    sent: u64,
}

impl Launcher {
    fn run(&mut self, control: &Control, shape: &PeriodicLoop) -> Result<()> {
        for (from, to) in shape.batches() {
            self.sink.book.open_batch(from, to);
            for slot in (from..to).map(SlotId) {
                if !control.may_send() {
                    return self.settle(control);
                }
                self.submit(slot)?;
            }
            while self.sink.reached.load(Ordering::Acquire) < to as usize && !control.is_stopped() {
                self.await_response()?;
            }
        }
        self.settle(control)
    }

    fn submit(&mut self, slot: SlotId) -> Result<()> {
        let request = self.sink.context.feed.next(slot.index() % self.sink.context.feed.lanes());
        self.sink.book.note_submission(slot, request);
        self.sent += 1;
        self.client.submit(slot, request)
    }

    /// Waits until no request is outstanding, or the load's patience ends.
    fn settle(&mut self, control: &Control) -> Result<()> {
        while self.sink.ended() < self.sent && !control.has_given_up() {
            self.await_response()?;
        }
        Ok(())
    }

    fn await_response(&mut self) -> Result<()> {
        if self.driven {
            return self.client.drive(Stamp::now().plus_duration(LOOK_UP));
        }
        thread::park_timeout(LOOK_UP);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
