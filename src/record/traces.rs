//! Traced requests, on their way from the threads that complete them to the evaluation.

mod joining;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use parking_lot::Mutex;

use crate::backend::{ModelTrace, RequestTrace, ServerTraces, Transit};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use joining::Joining;

/// A traced request, with the load's stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The server's report, and when the request was sent and answered.
    pub trace: RequestTrace,
    /// When it should have been sent, in open loops.
    pub intended: Option<Stamp>,
    /// When the thread that waited for it ran again, in synchronous closed loops.
    pub awake: Option<Stamp>,
}

/// The same, without unused memory.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptTrace {
    /// When it should have been sent, in open loops.
    pub intended: Option<Stamp>,
    /// Just before it was handed to the server.
    pub sent: Stamp,
    /// When that call returned, if it did so before the request was over.
    pub handed_over: Option<Stamp>,
    /// When its last response came.
    pub last_response: Stamp,
    /// When the thread that waited for it ran again, in synchronous closed loops.
    pub awake: Option<Stamp>,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// How many requests it stands for.
    pub weight: f64,
    /// Whether it went through more models than are listed here.
    pub more: bool,
    /// How the server received and answered it, if that is on the network.
    pub transit: Option<Transit>,
    /// The server's report, model by model, starting with the one that the request was for.
    pub models: Box<[ModelTrace]>,
}

impl From<&TracedRequest> for KeptTrace {
    fn from(request: &TracedRequest) -> Self {
        let trace = &request.trace;
        Self {
            intended: request.intended,
            sent: trace.sent,
            handed_over: trace.handed_over,
            last_response: trace.last_response,
            awake: request.awake,
            succeeded: trace.succeeded,
            weight: f64::from(trace.weight),
            more: trace.more,
            transit: None,
            models: trace.models().into(),
        }
    }
}

/// Collects traced requests. They enter through a bounded lock-free queue: the completing thread takes no lock,
/// allocates nothing and wakes no thread. A separate thread empties it.
pub struct TraceLog {
    queue: ArrayQueue<TracedRequest>,
    lost: AtomicU64,
    kept: Mutex<Kept>,
    /// Matches the server's own traces to requests, if it writes them itself.
    joining: Option<Joining>,
}

#[derive(Default)]
struct Kept {
    /// Traces of the level being measured.
    traces: Vec<KeptTrace>,
    /// One in this many of them is kept.
    one_in: u64,
    come: u64,
    /// Traces of earlier levels, for files.
    earlier: Vec<KeptTrace>,
    /// Number of traces that files should have, but that are not kept.
    left_out: u64,
}

/// Capacity of the queue; each entry takes 2.5 KiB.
const CAPACITY: usize = 2048;
/// Limit on kept traces, of a level and of all levels before; beyond it, every other trace stands for two.
const MAX_KEPT: usize = 100_000;
/// How often the queue is emptied.
const POLL: Duration = Duration::from_millis(2);

impl TraceLog {
    /// An empty log, and the thread that fills it, which ends with it.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start() -> Result<Arc<Self>> {
        Self::collecting(None)
    }

    /// The same for a server that writes its traces itself: the log receives every request, and keeps those that the
    /// server has traced.
    ///
    /// # Errors
    /// As [`TraceLog::start`].
    pub fn joining(server: Box<dyn ServerTraces>) -> Result<Arc<Self>> {
        Self::collecting(Some(Joining::with(server)))
    }

    fn collecting(joining: Option<Joining>) -> Result<Arc<Self>> {
        let kept = Mutex::new(Kept { one_in: 1, ..Kept::default() });
        let capacity = if joining.is_some() { 1 } else { CAPACITY };
        let log = Arc::new(Self { queue: ArrayQueue::new(capacity), lost: AtomicU64::new(0), kept, joining });
        let weak = Arc::downgrade(&log);
        let failed = |error| Error::machine(format!("a thread for traces cannot be started: {error}"));
        thread::Builder::new().name("traces".to_owned()).spawn(move || collect(&weak)).map_err(failed)?;
        Ok(log)
    }

    /// Keeps a request, or counts it as lost if there is no room.
    #[cold]
    pub fn keep(&self, request: TracedRequest) {
        if let Some(joining) = &self.joining {
            joining.keep(&request);
        } else if self.queue.push(request).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of requests lost since the last call.
    pub fn take_lost(&self) -> u64 {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        self.kept.lock().left_out += lost;
        lost
    }

    /// Reads the traces that the server has written so far, if it writes them itself.
    pub fn gather(&self) {
        if let Some(joining) = &self.joining {
            let (traces, lost) = joining.join();
            self.lost.fetch_add(lost, Ordering::Relaxed);
            let mut kept = self.kept.lock();
            traces.into_iter().for_each(|trace| kept.add(trace));
        }
    }

    /// Starts another level. Earlier traces are kept for files, or dropped if there are none.
    pub fn begin_level(&self, for_files: bool) {
        match &self.joining {
            Some(_) if for_files => self.gather(),
            Some(joining) => joining.forget(),
            None => {}
        }
        self.empty();
        self.take_lost();
        self.kept.lock().begin_level(for_files);
    }

    /// Takes all kept traces of all levels, and the number of those left out.
    pub fn take_all(&self) -> (Vec<KeptTrace>, u64) {
        self.begin_level(true);
        let mut kept = self.kept.lock();
        (std::mem::take(&mut kept.earlier), std::mem::take(&mut kept.left_out))
    }

    /// Calls `act` with all traces of this level so far.
    pub fn with_kept<T>(&self, act: impl FnOnce(&[KeptTrace]) -> T) -> T {
        self.empty();
        act(&self.kept.lock().traces)
    }

    fn empty(&self) {
        if let Some(joining) = &self.joining {
            joining.empty();
        }
        let mut kept = self.kept.lock();
        while let Some(request) = self.queue.pop() {
            kept.add(KeptTrace::from(&request));
        }
    }
}

impl Kept {
    fn add(&mut self, mut trace: KeptTrace) {
        self.come += 1;
        if !self.come.is_multiple_of(self.one_in) {
            self.left_out += 1;
            return;
        }
        trace.weight *= self.one_in as f64;
        self.traces.push(trace);
        if self.traces.len() >= MAX_KEPT {
            self.left_out += thin(&mut self.traces);
            self.one_in *= 2;
        }
    }

    fn begin_level(&mut self, for_files: bool) {
        let traces = std::mem::take(&mut self.traces);
        (self.one_in, self.come) = (1, 0);
        if for_files {
            self.earlier.extend(traces);
            while self.earlier.len() > MAX_KEPT {
                self.left_out += thin(&mut self.earlier);
            }
        }
    }
}

/// Drops every other trace and lets the rest count double. Returns how many were dropped.
fn thin(traces: &mut Vec<KeptTrace>) -> u64 {
    let (before, mut number) = (traces.len(), 0_usize);
    traces.retain_mut(|trace| {
        trace.weight *= 2.0;
        number += 1;
        number.is_multiple_of(2)
    });
    (before - traces.len()) as u64
}

fn collect(log: &Weak<TraceLog>) {
    while let Some(log) = log.upgrade() {
        log.empty();
        drop(log);
        thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MAX_TRACED;

    fn request(number: u64) -> TracedRequest {
        let trace = RequestTrace {
            sent: Stamp(number),
            handed_over: None,
            last_response: Stamp(number + 1),
            succeeded: true,
            weight: 3,
            more: false,
            count: 1,
            all: [ModelTrace::default(); MAX_TRACED],
        };
        TracedRequest { trace, intended: None, awake: None }
    }

    #[test]
    fn what_comes_is_there_and_no_larger_than_it_is() {
        let log = TraceLog::start().unwrap();
        (1..=5).for_each(|number| log.keep(request(number)));
        let kept = log.with_kept(<[KeptTrace]>::to_vec);
        assert_eq!(kept.iter().map(|trace| trace.sent.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!((kept[0].weight, kept[0].models.len(), log.take_lost()), (3.0, 1, 0));
    }

    #[test]
    fn many_stand_for_more() {
        let mut kept = Kept { one_in: 1, ..Kept::default() };
        let all = 3 * MAX_KEPT as u64;
        (0..all).for_each(|number| kept.add(KeptTrace::from(&request(number))));
        assert!(kept.traces.len() < MAX_KEPT, "{}", kept.traces.len());
        let weight: f64 = kept.traces.iter().map(|trace| trace.weight).sum();
        assert!((weight / (3.0 * all as f64) - 1.0).abs() < 0.01, "{weight}");
        assert_eq!(kept.left_out + kept.traces.len() as u64, all);
    }

    #[test]
    fn each_level_is_thinned_by_itself() {
        let mut kept = Kept { one_in: 1, ..Kept::default() };
        (0..2 * MAX_KEPT as u64).for_each(|number| kept.add(KeptTrace::from(&request(number))));
        kept.begin_level(true);
        (0..10).for_each(|number| kept.add(KeptTrace::from(&request(number))));
        assert!(kept.traces.len() == 10 && kept.traces.iter().all(|trace| trace.weight == 3.0), "none is left out");
        kept.begin_level(true);
        assert!(kept.earlier.len() <= MAX_KEPT);
        assert_eq!(kept.left_out + kept.earlier.len() as u64, 2 * MAX_KEPT as u64 + 10);
    }

    #[test]
    fn what_no_file_wants_is_forgotten_with_its_level() {
        let log = TraceLog::start().unwrap();
        (1..=5).for_each(|number| log.keep(request(number)));
        log.begin_level(false);
        log.keep(request(6));
        assert_eq!(log.with_kept(<[KeptTrace]>::len), 1);
        log.begin_level(true);
        assert_eq!(log.with_kept(<[KeptTrace]>::len), 0);
        log.keep(request(7));
        let (all, left_out) = log.take_all();
        assert_eq!((all.iter().map(|trace| trace.sent.0).collect::<Vec<_>>(), left_out), (vec![6, 7], 0));
    }
}
