//! A running load: its workers, how to stop it, and the final counts of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::backend::{Backend, Oddities};
use crate::clock::Stamp;
use crate::closed::{self, ClosedLoop};
use crate::context::LoadContext;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::open::{self, OpenLoop};
use crate::periodic::{self, PeriodicLoop};
use crate::record::LoadReport;
use crate::record::TextLog;
use crate::sessions::{self, SessionLoop};
use crate::turns::{self, TurnLoop};
use crate::worker::Worker;

/// The sends of an open loop's schedule, without the requests that end sequences after it.
#[derive(Clone, Copy, Debug)]
pub struct Sends {
    /// The first send.
    pub first: Stamp,
    /// The last one.
    pub last: Stamp,
    /// Their number.
    pub count: u64,
}

/// The shape of a level's load.
#[derive(Clone, Debug)]
pub enum LoadShape {
    /// A number of requests is kept outstanding.
    Closed(ClosedLoop),
    /// Requests follow a schedule.
    Open(OpenLoop),
    /// Requests join as those under way make progress.
    Periodic(PeriodicLoop),
    /// Conversations, a number of them at a time.
    Sessions(SessionLoop),
    /// Conversations that take turns.
    Turns(TurnLoop),
}

impl LoadShape {
    /// Number of slots that all clients are opened with together, for that many request streams. (Open loops add slots as they
    /// need them.)
    fn first_slots(&self, request_streams: usize) -> usize {
        match self {
            Self::Closed(shape) => shape.concurrency,
            Self::Open(shape) => shape.first_slots(request_streams),
            Self::Periodic(shape) => shape.part.share(shape.end as usize),
            Self::Sessions(shape) => shape.slots(),
            Self::Turns(shape) => shape.first_slots(),
        }
    }
}

impl From<ClosedLoop> for LoadShape {
    fn from(shape: ClosedLoop) -> Self {
        Self::Closed(shape)
    }
}

impl From<PeriodicLoop> for LoadShape {
    fn from(shape: PeriodicLoop) -> Self {
        Self::Periodic(shape)
    }
}

impl From<OpenLoop> for LoadShape {
    fn from(shape: OpenLoop) -> Self {
        Self::Open(shape)
    }
}

/// A running load. Dropping it without [`RunningLoad::stop`] stops it, too.
pub struct RunningLoad {
    control: Arc<Control>,
    backend: Arc<dyn Backend>,
    workers: Vec<Worker>,
    started: Stamp,
    drain_limit: Duration,
    /// The total limit while outstanding requests keep returning.
    drain_most: Duration,
    /// Counts tokens of answers, where that is asked for.
    texts: Option<Arc<TextLog>>,
    oddities: Arc<Oddities>,
}

/// How long after the start signal an open loop starts, so that its workers are awake for the first request.
const LEAD_NS: u64 = 2_000_000;

/// How long to wait for outstanding requests if the server no longer answers.
const ABANDON_LIMIT: Duration = Duration::from_millis(100);
/// How long the workers of a load that cannot continue may take to end.
const STRANDED_LIMIT: Duration = Duration::from_millis(500);

/// A load whose clients are open and whose workers wait for the start signal. Dropping it ends them.
pub struct PreparedLoad {
    load: RunningLoad,
    lead_ns: u64,
}

/// Opens every worker's client, then starts them all at once.
///
/// # Errors
/// If a client cannot be opened.
pub fn start(context: LoadContext, shape: impl Into<LoadShape>) -> Result<RunningLoad> {
    prepare(context, shape).map(PreparedLoad::go)
}

/// Opens every worker's client, so that the load can start at once when it is needed.
///
/// # Errors
/// If a client cannot be opened, or a thread cannot be started.
pub fn prepare(mut context: LoadContext, shape: impl Into<LoadShape>) -> Result<PreparedLoad> {
    let shape = shape.into();
    context.client.load_slots = shape.first_slots(context.input_source.request_streams());
    let control = Arc::new(Control::new(context.quota));
    let context = Arc::new(context);
    let drain_limit = context.drain_limit;
    let mut load = RunningLoad {
        control: Arc::clone(&control),
        backend: Arc::clone(&context.backend),
        workers: Vec::new(),
        started: Stamp::NEVER,
        drain_limit,
        drain_most: drain_limit,
        texts: context.texts.clone(),
        oddities: Arc::clone(&context.client.oddities),
    };
    // If a further worker cannot be started, those already started end with the load.
    let (spawned, lead_ns) = match shape {
        LoadShape::Closed(shape) => (closed::spawn(&context, &control, shape, &mut load.workers), 0),
        LoadShape::Open(shape) => (open::spawn(&context, &control, &shape, &mut load.workers), LEAD_NS),
        LoadShape::Sessions(shape) => (sessions::spawn(&context, &control, &shape, &mut load.workers), 0),
        LoadShape::Turns(shape) => (turns::spawn(&context, &control, &shape, &mut load.workers), LEAD_NS),
        LoadShape::Periodic(shape) => (periodic::spawn(&context, &control, shape, &mut load.workers), 0),
    };
    spawned?;
    while load.control.ready.load(Ordering::Acquire) < load.workers.len() {
        if load.workers.iter().any(JoinHandle::is_finished) {
            return Err(load.first_error());
        }
        thread::sleep(Duration::from_micros(50));
    }
    Ok(PreparedLoad { load, lead_ns })
}

impl PreparedLoad {
    /// Starts all workers at once.
    pub fn go(self) -> RunningLoad {
        let start = Stamp::now().plus(self.lead_ns);
        self.release(start)
    }

    /// Starts all workers so that the level begins at `start`, and waits for that.
    pub fn go_at(self, start: Stamp) -> RunningLoad {
        thread::sleep(Stamp(start.0.saturating_sub(self.lead_ns)).from_now());
        self.release(start)
    }

    fn release(self, start: Stamp) -> RunningLoad {
        let Self { mut load, .. } = self;
        load.started = start;
        load.control.started.store(load.started.0, Ordering::Release);
        load.control.go.store(true, Ordering::Release);
        load.workers.iter().for_each(|worker| worker.thread().unpark());
        load
    }
}

impl RunningLoad {
    /// When the level starts: the workers were started, and the schedule of an open loop begins.
    pub fn started(&self) -> Stamp {
        self.started
    }

    /// Number of outstanding requests at this moment in an open loop, for Little's law.
    pub fn under_way(&self) -> u64 {
        u64::try_from(self.control.under_way.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Whether the load has ended by itself: every worker has, because the quota is used up, and the tokens of all answers are
    /// counted; or it cannot continue.
    pub fn is_finished(&self) -> bool {
        let is_counted = || self.texts.as_ref().is_none_or(|texts| texts.is_settled());
        self.is_stranded() || self.workers.iter().all(JoinHandle::is_finished) && is_counted()
    }

    /// Whether the load cannot continue: a client broke, or the server is gone.
    pub fn is_stranded(&self) -> bool {
        self.control.broken.load(Ordering::Acquire) || self.backend.is_gone()
    }

    /// Ends a load that cannot continue, so that the failures of its last requests are recorded: stops it, and waits a
    /// moment until its workers have ended. Does nothing to other loads.
    pub fn settle_if_stranded(&self) {
        if !self.is_stranded() {
            return;
        }
        self.end();
        self.wait_for_workers();
    }

    /// Gives the workers of a load that does not go on a moment to end.
    fn wait_for_workers(&self) {
        let patience = Stamp::now().plus_duration(STRANDED_LIMIT);
        while !self.workers.iter().all(JoinHandle::is_finished) && Stamp::now() < patience {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// The sends of an open loop's schedule, once all have left.
    pub fn sends(&self) -> Option<Sends> {
        let read = |number: &AtomicU64| number.load(Ordering::Acquire);
        let Control { first_sent, last_sent, scheduled, played, .. } = &*self.control;
        let has_played = played.load(Ordering::Acquire) == self.workers.len();
        let sends = Sends { first: Stamp(read(first_sent)), last: Stamp(read(last_sent)), count: read(scheduled) };
        has_played.then_some(sends).filter(|sends| sends.first <= sends.last)
    }

    /// When the last request was sent, with the last of a number of requests, or when the load was stopped.
    pub fn closed(&self) -> Option<Stamp> {
        Some(Stamp(self.control.closed.load(Ordering::Acquire))).filter(|closed| closed.0 > 0)
    }

    /// When the last request was over, once every worker has ended.
    pub fn ended(&self) -> Option<Stamp> {
        self.workers.iter().all(JoinHandle::is_finished).then(|| Stamp(self.control.ended.load(Ordering::Acquire)))
    }

    /// Limits the wait for outstanding requests to `limit` when the load is stopped.
    pub fn limit_drain(&mut self, limit: Duration) {
        self.drain_limit = self.drain_limit.min(limit);
        self.drain_most = self.drain_most.min(limit);
    }

    /// Extends the wait for outstanding requests of an open loop up to `most` when the load is stopped, as long as they
    /// keep returning.
    pub fn allow_drain(&mut self, most: Duration) {
        self.drain_most = self.drain_most.max(most);
    }

    /// Waits until everything has been sent that was due before the end of a schedule that has one, for `most` at most: a thread
    /// that a busy machine wakes late would find the load stopped, and leave it out.
    pub fn catch_up(&self, most: Duration) {
        let last = Stamp::now().plus_duration(most);
        let is_behind = || self.control.behind.load(Ordering::Acquire) > 0 && !self.is_finished();
        while is_behind() && Stamp::now() < last {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops sending and returns at once; outstanding requests still complete.
    pub fn halt(&self) {
        self.end();
    }

    /// Stops sending and returns at once; outstanding requests are waited for as long as they take, or until the load is
    /// stopped or given up.
    pub fn drain(&self) {
        self.end();
        self.control.give_up_at.store(Stamp::NEVER.0, Ordering::Release);
    }

    /// Waits no longer for the requests that are still outstanding; these count as never completed.
    pub fn give_up(&self) {
        self.end();
        self.control.give_up_at.store(0, Ordering::Release);
        self.wait_for_workers();
    }

    /// Stops sending, waits for outstanding requests and ends the workers.
    ///
    /// # Errors
    /// The first error of a worker whose client broke.
    pub fn stop(mut self) -> Result<LoadReport> {
        self.end();
        self.be_patient();
        let mut first = Ok(());
        for worker in self.workers.drain(..) {
            let ended = worker
                .join()
                .unwrap_or_else(|_| Err(Error::server("a worker thread panicked; please report this bug")));
            first = first.and(ended);
        }
        first.map(|()| self.report())
    }

    /// Like [`RunningLoad::stop`], for a server that no longer answers: outstanding requests get only a moment.
    ///
    /// # Errors
    /// As [`RunningLoad::stop`].
    pub fn abandon(mut self) -> Result<LoadReport> {
        self.limit_drain(ABANDON_LIMIT);
        self.stop()
    }

    /// What its clients note of odd responses.
    pub fn oddities(&self) -> Arc<Oddities> {
        Arc::clone(&self.oddities)
    }

    /// The counts of the requests so far.
    pub fn report(&self) -> LoadReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        LoadReport {
            sent: read(&self.control.sent),
            completed: read(&self.control.completed),
            failed: read(&self.control.failed),
            outstanding: read(&self.control.outstanding),
            held_back: read(&self.control.held_back),
        }
    }

    /// How long to wait for outstanding requests. A server that takes this process with it answers none.
    fn drain_limit(&self) -> Duration {
        if self.backend.is_dying() { self.drain_limit.min(ABANDON_LIMIT) } else { self.drain_limit }
    }

    fn end(&self) {
        self.control.note_close();
        self.control.give_up_at.store(Stamp::now().plus_duration(self.drain_limit()).0, Ordering::Release);
        self.control.stop.store(true, Ordering::Release);
        self.control.go.store(true, Ordering::Release);
        self.workers.iter().for_each(|worker| worker.thread().unpark());
    }

    /// Postpones giving up while requests keep returning.
    fn be_patient(&self) {
        let last = Stamp::now().plus_duration(self.drain_most);
        let (mut left, mut give_up_at) = (self.under_way(), Stamp::now().plus_duration(self.drain_limit()));
        while give_up_at < last && Stamp::now() < give_up_at && !self.workers.iter().all(JoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(1));
            let now = self.under_way();
            if now < left {
                (left, give_up_at) = (now, last.min(Stamp::now().plus_duration(self.drain_limit)));
                self.control.give_up_at.store(give_up_at.0, Ordering::Release);
            }
        }
    }

    fn first_error(&mut self) -> Error {
        self.end();
        let results: Vec<_> = self.workers.drain(..).map(JoinHandle::join).collect();
        let mut errors = results.into_iter().filter_map(|result| result.ok().and_then(Result::err));
        errors
            .next()
            .unwrap_or_else(|| Error::server("a worker thread ended before the load began; please report this bug"))
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.end();
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}
