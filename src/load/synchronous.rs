//! A synchronous worker: one thread, one request, and the wait for its answer.
//!
//! A request ends with its last response, as in every load; the time from then until the thread goes on, the wake-up, is
//! recorded apart. `--latency-to wakeup` makes it part of the latency, because that is what a caller waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::backend::{Client, Completion, CompletionSink, InferError, Next, Request, Response, SlotId, Threading};
use crate::clock::Stamp;
use crate::error::Result;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::wait::Signal;
use crate::load::worker::Share;
use crate::plan::Wait;
use crate::record::{Finished, Observer, Recorder, RecorderSpec, Sample, Source};

/// Where the completing thread leaves the answer.
struct Mailbox {
    lane: usize,
    wait: Wait,
    letter: CachePadded<Letter>,
    error: Mutex<Option<InferError>>,
    // Not the load's whole context: that holds the server, which must not be dropped by one of its own threads.
    observer: Option<Arc<dyn Observer>>,
    recorder: Arc<Recorder>,
    /// When the request's latest response came; 0 before the first.
    before: AtomicU64,
    /// The request's entry of a mix.
    entry: AtomicUsize,
}

/// The answer and the signal that it is there, in one cache line. Written before the signal is raised and read after it, so
/// relaxed loads and stores are enough.
struct Letter {
    signal: Signal,
    failed: AtomicBool,
    responses: AtomicU32,
    sent: AtomicU64,
    send_ns: AtomicU64,
    first_response: AtomicU64,
    last_response: AtomicU64,
}

impl Letter {
    fn to_this_thread() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            signal: Signal::for_this_thread(),
            failed: AtomicBool::new(false),
            responses: AtomicU32::new(0),
            sent: zero(),
            send_ns: zero(),
            first_response: zero(),
            last_response: zero(),
        }
    }
}

/// An answer, as the worker reads it.
struct Outcome {
    sent: Stamp,
    send_ns: Option<u64>,
    first_response: Stamp,
    last_response: Stamp,
    responses: u32,
    error: Option<InferError>,
}

impl CompletionSink for Mailbox {
    fn response(&self, _slot: SlotId, response: &Response<'_>) {
        let before = self.before.swap(response.at.0, Ordering::Relaxed);
        if before != 0 && !response.empty {
            let source = Source { writer: self.lane, entry: self.entry.load(Ordering::Relaxed) };
            self.recorder.gap(source, response.at, response.at.since(Stamp(before)));
        }
        if let Some(observer) = &self.observer {
            observer.response(self.lane, response);
        }
    }

    #[inline]
    fn complete(&self, _slot: SlotId, completion: &Completion<'_>) -> Next {
        let letter = &*self.letter;
        let send_ns = completion.send_end.map_or(0, |end| end.since(completion.sent).max(1));
        letter.sent.store(completion.sent.0, Ordering::Relaxed);
        letter.send_ns.store(send_ns, Ordering::Relaxed);
        letter.first_response.store(completion.first_response.0, Ordering::Relaxed);
        letter.last_response.store(completion.last_response.0, Ordering::Relaxed);
        letter.responses.store(completion.responses, Ordering::Relaxed);
        if let Some(error) = completion.error {
            *self.error.lock() = Some(error.clone());
            letter.failed.store(true, Ordering::Relaxed);
        }
        letter.signal.raise(self.wait);
        Next::Idle
    }
}

impl Mailbox {
    /// A request is about to be sent, whose responses are watched.
    fn expect(&self, entry: usize) {
        self.entry.store(entry, Ordering::Relaxed);
        self.before.store(0, Ordering::Relaxed);
    }

    /// The answer that the signal told of.
    #[inline]
    fn take(&self) -> Outcome {
        let letter = &*self.letter;
        let stamp = |value: &AtomicU64| Stamp(value.load(Ordering::Relaxed));
        Outcome {
            sent: stamp(&letter.sent),
            send_ns: Some(letter.send_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0),
            first_response: stamp(&letter.first_response),
            last_response: stamp(&letter.last_response),
            responses: letter.responses.load(Ordering::Relaxed),
            error: letter.failed.load(Ordering::Relaxed).then(|| self.take_error()).flatten(),
        }
    }

    #[cold]
    fn take_error(&self) -> Option<InferError> {
        self.letter.failed.store(false, Ordering::Relaxed);
        self.error.lock().take()
    }
}

struct Worker<'a> {
    context: &'a LoadContext,
    share: &'a Share,
    mailbox: Arc<Mailbox>,
    client: Box<dyn Client>,
    driven: bool,
    /// End of the last request.
    before: Option<Stamp>,
    sent: u64,
    completed: u64,
    failed: u64,
    /// The last answer, while it is not recorded; and when the worker had it, where it looked at the clock.
    unbooked: Option<(Request, Outcome, Option<Stamp>)>,
    times_wakeups: WakeupTimes,
}

/// Whose wake-ups are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeupTimes {
    /// Nobody asks.
    None,
    /// One of [`WAKEUP_SAMPLE`]: a spinning thread sees its answer sooner than it reads the clock.
    Some,
    /// Every one's.
    All,
}

/// The share of wake-ups that spinning threads time.
const WAKEUP_SAMPLE: u64 = 16;

const SLOT: SlotId = SlotId(0);
/// How often a worker that waits for a driven backend, or for a cancellation, looks up.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A worker's whole life.
pub(super) fn work(context: &Arc<LoadContext>, control: &Control, share: &Share) -> Result<()> {
    let lane = share.first_lane;
    context.reserve_observed(lane + 1);
    let mailbox = Arc::new(Mailbox {
        lane,
        wait: context.wait,
        letter: CachePadded::new(Letter::to_this_thread()),
        error: Mutex::new(None),
        observer: context.observer.clone(),
        recorder: Arc::clone(&context.recorder),
        before: AtomicU64::new(0),
        entry: AtomicUsize::new(0),
    });
    let client =
        context.backend.open_client(context.client_spec(1), Arc::clone(&mailbox) as Arc<dyn CompletionSink>)?;
    let driven = context.backend.capabilities().threading == Threading::Driven;
    let mut worker = Worker {
        context,
        share,
        mailbox,
        client,
        driven,
        before: None,
        sent: 0,
        completed: 0,
        failed: 0,
        unbooked: None,
        times_wakeups: match context.recorder.spec() {
            RecorderSpec { until_wakeup: true, .. } => WakeupTimes::All,
            RecorderSpec { wakeups: false, .. } => WakeupTimes::None,
            _ if context.wait == Wait::Spin => WakeupTimes::Some,
            _ => WakeupTimes::All,
        },
    };
    if !control.wait_for_go() {
        return Ok(());
    }
    let worked = worker.run(control);
    worker.catch_up();
    control.report_end(worker.sent, worker.completed, worker.failed, Stamp::now());
    worked
}

impl Worker<'_> {
    /// Sends one request after the other, and at last one that ends the sequence that is open.
    fn run(&mut self, control: &Control) -> Result<()> {
        let lane = self.share.first_lane;
        while control.may_send() {
            if !self.infer(self.context.feed.next(lane), control)? {
                // The slot still has that request, so nothing else can be sent in it, an end of its sequence neither.
                return Ok(());
            }
        }
        self.context.feed.close(lane).map_or(Ok(()), |last| self.infer(last, control).map(drop))
    }

    /// Sends a request and waits for its answer. `false`: the load was stopped and the answer did not come in time.
    #[inline]
    fn infer(&mut self, request: Request, control: &Control) -> Result<bool> {
        self.sent += 1;
        if self.context.client.watch_responses {
            self.mailbox.expect(self.context.source(self.share.worker, request.payload).entry);
        }
        let submitted = self.client.submit(SLOT, request);
        // Books are kept while the server works: it is quicker to take a request while it has not gone to sleep.
        self.catch_up();
        submitted?;
        if !self.wait(control)? {
            return Ok(false);
        }
        let awake = self.times_wakeup().then(Stamp::now);
        let outcome = self.mailbox.take();
        let decides_next = outcome.error.is_some();
        self.unbooked = Some((request, outcome, awake));
        if decides_next || self.context.observer.is_some() {
            self.catch_up();
        }
        Ok(true)
    }

    /// Records the last answer, if that has not been done.
    #[inline]
    fn catch_up(&mut self) {
        if let Some((request, outcome, awake)) = self.unbooked.take() {
            self.record(request, &outcome, awake);
        }
    }

    #[inline]
    fn times_wakeup(&self) -> bool {
        match self.times_wakeups {
            WakeupTimes::None => false,
            WakeupTimes::Some => self.sent % WAKEUP_SAMPLE == 1,
            WakeupTimes::All => true,
        }
    }

    /// Waits for the answer. `false`: the load was stopped and the answer did not come in time.
    #[inline]
    fn wait(&mut self, control: &Control) -> Result<bool> {
        if !self.driven && self.context.cancel_after.is_none() {
            if self.mailbox.letter.signal.wait(self.context.wait, || control.has_given_up()) {
                return Ok(true);
            }
            return Ok(false);
        }
        self.drive(control)
    }

    /// Waits for a backend that has to be driven, and cancels the request when its time is up.
    fn drive(&mut self, control: &Control) -> Result<bool> {
        let mut cancel_at = self.context.cancel_after.map(|after| Stamp::now().plus_duration(after));
        while !self.mailbox.letter.signal.is_raised() {
            if control.has_given_up() {
                return Ok(false);
            }
            let now = Stamp::now();
            if cancel_at.is_some_and(|at| now >= at) {
                self.client.cancel(SLOT, now);
                cancel_at = None;
            }
            let deadline = cancel_at.unwrap_or(Stamp::NEVER).min(now.plus_duration(LOOK_UP));
            if self.driven {
                self.client.drive(deadline)?;
            } else {
                self.mailbox.letter.signal.wait_until(deadline);
            }
        }
        self.mailbox.letter.signal.lower();
        Ok(true)
    }

    #[inline]
    fn record(&mut self, request: Request, outcome: &Outcome, awake: Option<Stamp>) {
        let until_wakeup = self.context.recorder.spec().until_wakeup;
        let end = awake.filter(|_| until_wakeup).unwrap_or(outcome.last_response);
        let source = self.context.source(self.share.worker, request.payload);
        let (recorder, lane) = (&self.context.recorder, self.share.first_lane);
        let before = self.before.replace(end);
        if let Some(error) = &outcome.error {
            self.failed += 1;
            recorder.fail(source, end, error);
            if request.sequence.is_some_and(|position| position.start) {
                self.context.feed.cut_short(lane);
            }
        } else {
            self.completed += 1;
            recorder.record(
                source,
                &Sample {
                    intended: None,
                    sent: outcome.sent,
                    first_response: outcome.first_response,
                    end,
                    wakeup_ns: awake.map(|awake| awake.since(outcome.last_response)),
                    send_ns: outcome.send_ns,
                    turnaround_ns: before.map_or(0, |before| outcome.sent.since(before)),
                    responses: outcome.responses,
                    sequence_end: request.sequence.is_some_and(|position| position.end),
                },
            );
        }
        if let Some(observer) = &self.context.observer {
            let error = outcome.error.as_ref();
            observer.complete(lane, &Finished { request, sent: outcome.sent, intended: None, end, error });
        }
    }
}
