//! A synchronous worker: one thread that sends one request and waits for its answer.
//!
//! A request ends with its last response, as in every load; the time from then until the thread runs again, the
//! wake-up, is recorded separately. `--latency-to wakeup` makes it part of the latency, because that is what a caller
//! waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::backend::{
    Client, Completion, CompletionSink, Generation, InferError, Next, Request, RequestTrace, Response, SlotId,
    Threading, Uncounted,
};
use crate::clock::Stamp;
use crate::closed::wait::Signal;
use crate::context::{Carried, LoadContext};
use crate::control::Control;
use crate::engine::Over;
use crate::error::Result;
use crate::plan::Wait;
use crate::record::{Observer, Origin, Recorder, RecorderSpec, Sample, Source, TextLog};
use crate::worker::WorkerShare;

/// Where the completing thread leaves the answer.
struct SyncSink {
    request_stream: usize,
    wait: Wait,
    answer: CachePadded<Answer>,
    error: Mutex<Option<InferError>>,
    trace: Mutex<Option<RequestTrace>>,
    // Not the load's whole context, which holds the server: one of the server's own threads must not drop it.
    observer: Option<Arc<dyn Observer>>,
    recorder: Arc<Recorder>,
    texts: Option<Arc<TextLog>>,
    /// When the request's latest response came; 0 before the first.
    before: AtomicU64,
    /// The request's entry of a mix, and its server where there are several.
    entry: AtomicUsize,
    server: AtomicUsize,
}

/// The answer and the signal that announces it, in one cache line. The answer is written before the signal is raised
/// and read after it, so relaxed loads and stores are enough.
struct Answer {
    signal: Signal,
    failed: AtomicBool,
    traced: AtomicBool,
    responses: AtomicU32,
    sent: AtomicU64,
    send_ns: AtomicU64,
    first_response: AtomicU64,
    last_response: AtomicU64,
}

impl Answer {
    /// To one of so many threads.
    fn to_this_thread(workers: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            signal: Signal::for_this_thread(workers),
            failed: AtomicBool::new(false),
            traced: AtomicBool::new(false),
            responses: AtomicU32::new(0),
            sent: zero(),
            send_ns: zero(),
            first_response: zero(),
            last_response: zero(),
        }
    }
}

/// An answer, as the worker reads it.
struct Reply {
    sent: Stamp,
    send_ns: Option<u64>,
    first_response: Stamp,
    last_response: Stamp,
    responses: u32,
    /// The server of its request, where there are several.
    server: usize,
    error: Option<InferError>,
}

impl CompletionSink for SyncSink {
    fn response(&self, _slot: SlotId, response: &Response<'_>) {
        let carries = !response.empty && response.error.is_none();
        let before = if carries { self.before.swap(response.at.0, Ordering::Relaxed) } else { 0 };
        if before != 0 {
            let source = self.source();
            self.recorder.gap(source, response.at, response.at.since(Stamp(before)));
        }
        if let Some(observer) = &self.observer {
            observer.response(self.request_stream, response);
        }
    }

    #[cold]
    fn traced(&self, _slot: SlotId, trace: &RequestTrace) {
        *self.trace.lock() = Some(*trace);
        self.answer.traced.store(true, Ordering::Relaxed);
    }

    fn generated(&self, _slot: SlotId, generation: &Generation, uncounted: Uncounted<'_>) {
        let origin = Origin { source: self.source(), start: generation.sent };
        TextLog::record(self.texts.as_ref(), &self.recorder, origin, generation, uncounted);
    }

    fn placed(&self, _slot: SlotId, server: usize) {
        self.server.store(server, Ordering::Relaxed);
    }

    #[inline]
    fn complete(&self, _slot: SlotId, completion: &Completion<'_>) -> Next {
        let answer = &*self.answer;
        let send_ns = completion.send_end.map_or(0, |end| end.since(completion.sent).max(1));
        answer.sent.store(completion.sent.0, Ordering::Relaxed);
        answer.send_ns.store(send_ns, Ordering::Relaxed);
        answer.first_response.store(completion.first_response.0, Ordering::Relaxed);
        answer.last_response.store(completion.last_response.0, Ordering::Relaxed);
        answer.responses.store(completion.responses, Ordering::Relaxed);
        if let Some(error) = completion.error {
            *self.error.lock() = Some(error.clone());
            answer.failed.store(true, Ordering::Relaxed);
        }
        answer.signal.raise(self.wait);
        Next::Idle
    }
}

impl SyncSink {
    /// The source of records about the request with watched responses.
    fn source(&self) -> Source {
        let part = self.recorder.spec().part(self.entry.load(Ordering::Relaxed), self.server());
        Source { writer: self.request_stream, part }
    }

    /// The server of the request, where there are several.
    fn server(&self) -> usize {
        self.server.load(Ordering::Relaxed)
    }

    /// A request with watched responses is about to be sent.
    fn expect(&self, entry: usize) {
        self.entry.store(entry, Ordering::Relaxed);
        self.before.store(0, Ordering::Relaxed);
    }

    /// Takes the trace of the finished request, if it was traced.
    #[cold]
    fn take_trace(&self) -> Option<RequestTrace> {
        self.answer.traced.store(false, Ordering::Relaxed);
        self.trace.lock().take()
    }

    /// Takes the answer that the signal announced.
    #[inline]
    fn take(&self) -> Reply {
        let answer = &*self.answer;
        let stamp = |value: &AtomicU64| Stamp(value.load(Ordering::Relaxed));
        Reply {
            sent: stamp(&answer.sent),
            send_ns: Some(answer.send_ns.load(Ordering::Relaxed)).filter(|&ns| ns > 0),
            first_response: stamp(&answer.first_response),
            last_response: stamp(&answer.last_response),
            responses: answer.responses.load(Ordering::Relaxed),
            server: self.server(),
            error: answer.failed.load(Ordering::Relaxed).then(|| self.take_error()).flatten(),
        }
    }

    #[cold]
    fn take_error(&self) -> Option<InferError> {
        self.answer.failed.store(false, Ordering::Relaxed);
        self.error.lock().take()
    }
}

struct Worker<'a> {
    context: &'a LoadContext,
    share: &'a WorkerShare,
    sink: Arc<SyncSink>,
    client: Box<dyn Client>,
    driven: bool,
    /// When the last request ended, and when the worker ran again.
    ended: Option<Stamp>,
    before: Option<Stamp>,
    sent: u64,
    completed: u64,
    failed: u64,
    /// The last answer, until it is recorded; and when the worker received it, if it read the clock.
    unbooked: Option<(Request, Reply, Option<Stamp>)>,
    times_wakeups: WakeupTimes,
}

/// Which wake-ups are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeupTimes {
    /// None.
    None,
    /// One in [`WAKEUP_SAMPLE`]: a spinning thread sees its answer sooner than it could read the clock.
    Some,
    /// All.
    All,
}

/// Spinning threads time one wake-up in this many.
const WAKEUP_SAMPLE: u64 = 16;

const SLOT: SlotId = SlotId(0);

/// The body of a worker's thread.
pub(super) fn work(context: &Arc<LoadContext>, control: &Control, share: &WorkerShare) -> Result<()> {
    let request_stream = share.first_request_stream;
    context.reserve_observed(request_stream + 1);
    let sink = Arc::new(SyncSink {
        request_stream,
        wait: context.wait,
        answer: CachePadded::new(Answer::to_this_thread(share.workers)),
        error: Mutex::new(None),
        trace: Mutex::new(None),
        observer: context.observer.clone(),
        recorder: Arc::clone(&context.recorder),
        texts: context.texts.clone(),
        before: AtomicU64::new(0),
        entry: AtomicUsize::new(0),
        server: AtomicUsize::new(0),
    });
    let spec = context.client_spec(1, share.worker, share.workers);
    let client = context.backend.open_client(spec, Arc::clone(&sink) as Arc<dyn CompletionSink>)?;
    let driven = context.backend.capabilities().threading == Threading::Driven;
    let mut worker = Worker {
        context,
        share,
        sink,
        client,
        driven,
        ended: None,
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
    let all_over = worker.sent == worker.completed + worker.failed;
    let ended = worker.ended.filter(|_| all_over).map_or_else(Stamp::now, |end| end.plus(1));
    control.report_end(worker.sent, worker.completed, worker.failed, ended);
    worked
}

impl Worker<'_> {
    /// Sends one request after the other, and finally one that ends the open sequence.
    fn run(&mut self, control: &Control) -> Result<()> {
        let request_stream = self.share.first_request_stream;
        while control.may_send() {
            if !self.infer(self.context.input_source.next(request_stream), control)? {
                // The slot still holds that request, so nothing else can be sent in it, not even the end of its
                // sequence.
                return Ok(());
            }
        }
        self.context.input_source.close(request_stream).map_or(Ok(()), |last| self.infer(last, control).map(drop))
    }

    /// Sends a request and waits for its answer. Returns `false` if the load was stopped and the answer did not come in
    /// time.
    #[inline]
    fn infer(&mut self, request: Request, control: &Control) -> Result<bool> {
        self.sent += 1;
        if self.context.client.watch_responses {
            self.sink.expect(self.context.client.payloads[request.payload.0 as usize].model);
        }
        let submitted = self.client.submit(SLOT, request);
        // Record while the server works: a signal is received faster by a thread that has not gone to sleep yet.
        self.catch_up();
        submitted?;
        if !self.wait(control)? {
            return Ok(false);
        }
        let awake = self.times_wakeup().then(Stamp::now);
        let reply = self.sink.take();
        if self.sink.answer.traced.load(Ordering::Relaxed) {
            self.keep_trace(awake);
        }
        self.context.begin_sequence(self.share.first_request_stream, request, reply.sent);
        let decides_next = reply.error.is_some();
        self.unbooked = Some((request, reply, awake));
        if decides_next || self.context.observer.is_some() {
            self.catch_up();
        }
        Ok(true)
    }

    #[cold]
    fn keep_trace(&self, awake: Option<Stamp>) {
        let awake = awake.unwrap_or_else(Stamp::now);
        if let Some(trace) = self.sink.take_trace() {
            self.context.keep_trace(&trace, None, Some(awake));
        }
    }

    /// Records the last answer, if that is still to be done.
    #[inline]
    fn catch_up(&mut self) {
        if let Some((request, reply, awake)) = self.unbooked.take() {
            self.record(request, &reply, awake);
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

    /// Waits for the answer. Returns `false` if the load was stopped and the answer did not come in time.
    #[inline]
    fn wait(&mut self, control: &Control) -> Result<bool> {
        if !self.driven && self.context.cancel_after.is_none() {
            return Ok(self.sink.answer.signal.wait(self.context.wait, || control.has_given_up()));
        }
        self.drive(control)
    }

    /// Waits for a backend that must be driven, and cancels the request when its time is up.
    fn drive(&mut self, control: &Control) -> Result<bool> {
        let mut cancel_at = self.context.cancel_after.map(|after| Stamp::now().plus_duration(after));
        while !self.sink.answer.signal.is_raised() {
            if control.has_given_up() {
                return Ok(false);
            }
            let now = Stamp::now();
            if cancel_at.is_some_and(|at| now >= at) {
                self.client.cancel(SLOT, now);
                cancel_at = None;
            }
            let deadline =
                cancel_at.unwrap_or(Stamp::NEVER).min(now.plus_duration(self.sink.answer.signal.check_interval()));
            if self.driven {
                self.client.drive(deadline)?;
            } else {
                self.sink.answer.signal.wait_until(self.context.wait, deadline);
            }
        }
        self.sink.answer.signal.lower();
        Ok(true)
    }

    #[inline]
    fn record(&mut self, request: Request, reply: &Reply, awake: Option<Stamp>) {
        let until_wakeup = self.context.recorder.spec().until_wakeup;
        let end = awake.filter(|_| until_wakeup).unwrap_or(reply.last_response);
        // If every wake-up is timed, that is more exact than the turn-around, which is only sampled.
        let before = self.before.replace(awake.filter(|_| self.times_wakeups == WakeupTimes::All).unwrap_or(end));
        self.ended = Some(end);
        *(if reply.error.is_some() { &mut self.failed } else { &mut self.completed }) += 1;
        let sample = Sample {
            intended: None,
            sent: reply.sent,
            first_response: reply.first_response,
            end,
            send_ns: reply.send_ns,
            turnaround_ns: before.map_or(0, |before| reply.sent.since(before)),
            responses: reply.responses,
        };
        let number = self.share.first_request_stream;
        let source = self.context.source(number, || Carried { payload: request.payload, server: reply.server });
        if let Some(awake) = awake.filter(|_| reply.error.is_none()) {
            self.context.recorder.wakeup(source, end, awake.since(reply.last_response));
        }
        let over = Over { source, sample, error: reply.error.as_ref() };
        self.context.book(&over, || request);
        if request.sequence.is_some_and(|position| position.end) {
            self.context.end_sequence(&over, self.context.input_source.begun(number));
        }
        if over.error.is_some() {
            self.context.cut_short(request, number);
        }
    }
}
