//! Plays a request's lifecycle: responses and release, on time, on the scripted thread.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::hash::{DefaultHasher, Hasher};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::abi::{CANCELLED, FINAL, RELEASE_ALL, ReleaseFn, ResponseFn};
use crate::ledger::{create, lock, violation};
use crate::overlap::Overlap;
use crate::request::{Body, Request};
use crate::response::{Content, Destination, Response};
use crate::script::{Action, Behaviour, CallbackThread, ReleaseThread};
use crate::trace::{self, Activity, Trace};

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the record it is given; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Totals of a server.
#[derive(Debug, Default)]
pub struct Counters {
    /// Request objects made in all.
    pub made: AtomicU64,
    pub issued: AtomicU64,
    pub submit_errors: AtomicU64,
    released: AtomicU64,
    responses: AtomicU64,
    finals: AtomicU64,
    errors_sent: AtomicU64,
    cancelled: AtomicU64,
    in_flight: AtomicUsize,
    max_in_flight: AtomicUsize,
}

impl Counters {
    /// Notes the begin of a request's life.
    pub fn begin(&self) {
        let before = self.in_flight.fetch_add(1, SeqCst);
        self.max_in_flight.fetch_max(before + 1, SeqCst);
    }

    /// Requests that lack their final response or their release.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(SeqCst)
    }

    /// As the log shows them.
    pub fn to_json(&self) -> Value {
        json!({
            "made": self.made.load(SeqCst), "issued": self.issued.load(SeqCst), "released": self.released.load(SeqCst),
            "responses": self.responses.load(SeqCst), "finals": self.finals.load(SeqCst),
            "errors_sent": self.errors_sent.load(SeqCst), "submit_errors": self.submit_errors.load(SeqCst),
            "cancelled": self.cancelled.load(SeqCst), "max_in_flight": self.max_in_flight.load(SeqCst),
        })
    }
}

/// What is remembered per model for its statistics.
#[derive(Debug, Default, Clone, Copy)]
pub struct Served {
    pub success: u64,
    pub success_ns: u64,
    pub fail: u64,
    pub fail_ns: u64,
}

/// What jobs share with their server.
pub struct Shared {
    pub counters: Counters,
    pub served: Mutex<BTreeMap<String, Served>>,
    queues: Vec<Queue>,
}

/// One issue of a request.
pub struct Job {
    pub shared: Arc<Shared>,
    pub request: *mut Request,
    pub model: String,
    pub id: CString,
    pub behaviour: Behaviour,
    pub contents: Vec<Content>,
    pub destination: Destination,
    pub response: (ResponseFn, *mut c_void),
    pub release: (ReleaseFn, *mut c_void),
    pub trace: *mut Trace,
    pub checksum: u64,
    pub issued_ns: u64,
    /// The thread that plays it.
    pub queue: usize,
    pub state: State,
}

/// How far a job is.
#[derive(Default)]
pub struct State {
    inline: AtomicBool,
    /// The call that issued it has returned.
    returned: AtomicBool,
    cancelled: AtomicBool,
    computed: AtomicBool,
    final_sent: AtomicBool,
    release_claimed: AtomicBool,
    released: AtomicBool,
    ended: AtomicBool,
    failed: AtomicBool,
    /// The trace has been given back; held while something is told to it.
    trace_gone: Mutex<bool>,
    overlap: Arc<Overlap>,
}

// SAFETY: pointers of the client, which allows the server to use them on any thread.
unsafe impl Send for Job {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for Job {}

#[derive(Clone, Copy)]
enum Work {
    Step(Action),
    Cancel,
}

impl Job {
    /// Starts to play the request's life; for callbacks on the caller's thread, plays all of it.
    pub fn start(self: &Arc<Job>) {
        let steps = self.behaviour.steps();
        if self.behaviour.thread == CallbackThread::Other {
            for (due, action) in steps {
                let apart = action == Action::Release && self.behaviour.release_thread == ReleaseThread::Other;
                self.shared.push(
                    self.queue + usize::from(apart),
                    self.issued_ns + due * 1000,
                    self,
                    Work::Step(action),
                );
            }
            return;
        }
        self.state.inline.store(true, SeqCst);
        for (due, action) in steps {
            self.wait(self.issued_ns + due * 1000);
            if self.cancels() {
                break;
            }
            self.perform(Work::Step(action));
        }
        self.state.inline.store(false, SeqCst);
        if self.cancels() {
            self.perform(Work::Cancel);
        }
    }

    /// Keeps the call that issued the request for as long as the script says; its callbacks may come meanwhile.
    pub fn linger(&self) {
        std::thread::sleep(Duration::from_micros(self.behaviour.linger_us));
        self.state.returned.store(true, SeqCst);
    }

    fn wait(&self, due: u64) {
        while now() < due && !self.cancels() {
            std::thread::sleep(Duration::from_nanos((due - now().min(due)).min(1_000_000)));
        }
    }

    /// Whether the final response has been sent.
    pub fn is_final(&self) -> bool {
        self.state.final_sent.load(SeqCst)
    }

    /// Whether the client still has a response of it, on another thread than this.
    pub fn is_looked_at_elsewhere(&self) -> bool {
        self.state.overlap.is_elsewhere()
    }

    /// Whether the client has cancelled it.
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(SeqCst)
    }

    fn cancels(&self) -> bool {
        self.behaviour.honour_cancel && self.is_cancelled()
    }

    /// Cancels it, which has an effect only if the script says so.
    pub fn cancel(self: &Arc<Job>) {
        if !self.state.returned.load(SeqCst) {
            violation(
                "cancelled_while_issued",
                &format!("request {:?} was cancelled inside the call that issued it", self.id),
            );
        }
        let again = self.state.cancelled.swap(true, SeqCst);
        if !again && self.cancels() && !self.state.inline.load(SeqCst) {
            self.shared.push(self.queue, now(), self, Work::Cancel);
        }
    }

    fn perform(self: &Arc<Job>, work: Work) {
        match work {
            Work::Step(_) if self.cancels() => {}
            Work::Step(Action::Respond { error, last }) => self.respond(error, last),
            Work::Step(Action::Overlap) => {
                let job = Arc::clone(self);
                self.state.overlap.bring(move || job.respond(false, false));
            }
            Work::Step(Action::EndEmpty) => self.send(null_mut(), FINAL),
            Work::Step(Action::Release) => self.give_back(),
            Work::Cancel => {
                if !self.is_final() {
                    self.shared.counters.cancelled.fetch_add(1, SeqCst);
                    let response = self.new_response().fail(CANCELLED, "the request was cancelled");
                    self.state.failed.store(true, SeqCst);
                    self.send(create(response), FINAL);
                }
                self.give_back();
            }
        }
    }

    fn new_response(&self) -> Response {
        Response::new(&self.model, &self.id.to_string_lossy(), self.destination)
    }

    fn respond(&self, error: bool, last: bool) {
        if !self.state.computed.swap(true, SeqCst) {
            for activity in [Activity::ComputeStart, Activity::ComputeInputEnd, Activity::ComputeOutputStart] {
                self.report(activity);
            }
        }
        let response = match self.behaviour.error.as_ref().filter(|_| error) {
            Some(failure) => {
                self.state.failed.store(true, SeqCst);
                self.shared.counters.errors_sent.fetch_add(1, SeqCst);
                self.new_response().fail(failure.code(), &failure.message)
            }
            None => self.new_response().fill(&self.contents, &self.behaviour, self.destination),
        };
        self.shared.counters.responses.fetch_add(1, SeqCst);
        if last {
            self.report(Activity::ComputeEnd);
        }
        self.send(create(response), if last { FINAL } else { 0 });
    }

    /// Tells the trace, as long as it has not been given back with the request: nobody gives it back meanwhile.
    fn report(&self, activity: Activity) {
        let gone = lock(&self.state.trace_gone);
        if !*gone {
            trace::report(self.trace, activity);
        }
    }

    fn send(&self, response: *mut Response, flags: u32) {
        if flags & FINAL != 0 {
            self.shared.counters.finals.fetch_add(1, SeqCst);
            self.serve();
            self.settle(&self.state.final_sent, &self.state.released);
        }
        // SAFETY: the client's function with the client's pointer; the response is the client's from here on.
        unsafe { (self.response.0)(response, flags, self.response.1) };
        if flags & FINAL != 0 {
            self.state.overlap.report();
        }
    }

    /// Marks one half of the job done; the second half ends its life. Before the callback, so that whoever hears of it may stop the server.
    fn settle(&self, mine: &AtomicBool, other: &AtomicBool) {
        mine.store(true, SeqCst);
        // Both halves may see each other; only one of them ends the life.
        if other.load(SeqCst) && !self.state.ended.swap(true, SeqCst) {
            self.shared.counters.in_flight.fetch_sub(1, SeqCst);
        }
    }

    fn serve(&self) {
        let took = now() - self.issued_ns;
        let mut served = lock(&self.shared.served);
        let entry = served.entry(self.model.clone()).or_default();
        if self.state.failed.load(SeqCst) {
            entry.fail += 1;
            entry.fail_ns += took;
        } else {
            entry.success += 1;
            entry.success_ns += took;
        }
    }

    fn give_back(&self) {
        if self.state.release_claimed.swap(true, SeqCst) {
            return;
        }
        self.report(Activity::RequestEnd);
        *lock(&self.state.trace_gone) = true;
        trace::release(self.trace);
        if let Some(request) = crate::ledger::borrow(self.request, "the release of a request") {
            request.with(|body| {
                if checksum(body) != self.checksum {
                    violation(
                        "inputs_changed_in_flight",
                        &format!("input bytes of request {:?} changed in flight", self.id),
                    );
                }
                body.in_flight = false;
            });
        }
        self.shared.counters.released.fetch_add(1, SeqCst);
        self.settle(&self.state.released, &self.state.final_sent);
        // SAFETY: as in `send`; the request is the client's from here on.
        unsafe { (self.release.0)(self.request, RELEASE_ALL, self.release.1) };
        self.state.overlap.report();
    }
}

/// A checksum over all input bytes in host memory.
pub fn checksum(body: &Body) -> u64 {
    let mut hasher = DefaultHasher::new();
    for buffer in body.inputs.iter().flat_map(|input| &input.buffers) {
        if let Some(bytes) = buffer.content() {
            hasher.write(bytes);
        }
    }
    hasher.finish()
}

#[derive(Default)]
struct Queue {
    events: Mutex<Events>,
    changed: Condvar,
}

#[derive(Default)]
struct Events {
    due: BTreeMap<(u64, u64), (Arc<Job>, Work)>,
    pushed: u64,
    stop: bool,
}

impl Shared {
    fn push(&self, queue: usize, due: u64, job: &Arc<Job>, work: Work) {
        let queue = &self.queues[queue % self.queues.len()];
        let mut events = lock(&queue.events);
        events.pushed += 1;
        let key = (due, events.pushed);
        events.due.insert(key, (Arc::clone(job), work));
        drop(events);
        queue.changed.notify_one();
    }
}

/// The threads that play jobs.
pub struct Delivery {
    pub shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Delivery {
    /// Starts that many threads.
    pub fn start(count: usize) -> Delivery {
        let queues = (0..count).map(|_| Queue::default()).collect();
        let shared = Arc::new(Shared { counters: Counters::default(), served: Mutex::default(), queues });
        let spawn = |index| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || run(&shared.queues[index]))
        };
        let threads = Mutex::new((0..count).map(spawn).collect());
        Delivery { shared, threads }
    }

    /// Ends the threads; what is not due yet is dropped.
    pub fn stop(&self) {
        for queue in &self.shared.queues {
            let mut events = lock(&queue.events);
            events.stop = true;
            let dropped = std::mem::take(&mut events.due);
            drop(events);
            drop(dropped);
            queue.changed.notify_one();
        }
        for thread in lock(&self.threads).drain(..) {
            // A panic in one of them has ended the process already.
            let _ = thread.join();
        }
    }
}

fn run(queue: &Queue) {
    let mut events = lock(&queue.events);
    while !events.stop {
        let Some((key, wait)) = events.due.first_key_value().map(|(key, _)| (*key, key.0.saturating_sub(now()))) else {
            queue.changed.wait(&mut events);
            continue;
        };
        if wait > 0 {
            let pause = Duration::from_nanos(wait);
            queue.changed.wait_for(&mut events, pause);
            continue;
        }
        if let Some((job, work)) = events.due.remove(&key) {
            drop(events);
            job.perform(work);
            drop(job);
            events = lock(&queue.events);
        }
    }
}
