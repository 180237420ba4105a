//! The open loop: requests leave when the schedule says, whatever happens to those before them.
//!
//! Each worker has its own client and plays its share of the schedule: it waits for the intended time, takes a free
//! slot (a new one if none is free), submits and goes on. It never waits for an answer, not even in synchronous mode;
//! perf_analyzer's workers do and so cannot exceed one request per thread and latency. A request that is late leaves at
//! once and keeps its intended time; none is left out, and the schedule is never shifted.
//!
//! Two things can hold a request back, and both are counted and reported ([`crate::record::LoadReport::held_back`]): the limit
//! on outstanding requests, and, with serial sequences, that every sequence has an outstanding request.

mod player;

use std::iter::Take;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backend::Threading;
use crate::context::LoadContext;
use crate::control::Control;
use crate::engine::{self, Numbers, Setup};
use crate::error::Result;
use crate::open::player::{Player, Scheduled};
use crate::pace::Pacer;
use crate::ranks::Part;
use crate::schedule::{Arrivals, Schedule};
use crate::worker::{self, Worker};

/// Initial slots of a worker; more are added as outstanding requests pile up.
const FIRST_SLOTS: usize = 64;
/// The same where each slot may be its own connection.
const FIRST_DRIVEN_SLOTS: usize = 8;

/// Default limit on outstanding requests.
pub const DEFAULT_MAX_OUTSTANDING: usize = 65_536;
/// Memory of a slot beside its outputs: its own state and the server's request.
const SLOT_BYTES: u64 = 8192;

/// Sends per second that one thread can handle if the backend completes on its own threads; a submission to the server
/// in the same process takes a few microseconds.
const RATE_PER_THREAD: f64 = 100_000.0;
/// The same if the thread also drives the backend's connections.
const RATE_PER_DRIVING_THREAD: f64 = 20_000.0;

/// The shape of an open loop.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    /// When requests are meant to leave.
    pub arrivals: Arrivals,
    /// Seed of the run.
    pub seed: u64,
    /// Threads that issue requests; see [`issuing_threads`].
    pub threads: usize,
    /// Limit on outstanding requests, over all threads. Serial sequences bound them by their number instead.
    pub max_outstanding: usize,
    /// At most one request of a sequence outstanding; each request stream of the input source is a sequence.
    pub serial: bool,
    /// Requests due at this offset from the start, or later, are not sent.
    pub until: Option<Duration>,
    /// Which part of the schedule is sent here: every `size`-th request; the workers of all processes take turns.
    pub part: Part,
    /// How long before its time a thread stops sleeping and spins; see [`super::pace`].
    pub spin: Duration,
}

/// Default limit on outstanding requests, if each has its own `output_bytes` of outputs: what half of the `free` bytes
/// can hold, because a server that falls behind would otherwise take all memory.
pub fn default_outstanding(output_bytes: u64, free: Option<u64>) -> usize {
    let fit = free.map_or(u64::MAX, |free| free / 2 / output_bytes.saturating_add(SLOT_BYTES));
    DEFAULT_MAX_OUTSTANDING.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1)
}

/// How many threads should issue a rate (requests a second), at most `max_threads`: as few as possible, because each of
/// them spins before a send and takes its processor from the server.
pub fn issuing_threads(rate: f64, max_threads: usize, threading: Threading) -> usize {
    let rate_per_thread = match threading {
        Threading::Own => RATE_PER_THREAD,
        Threading::Driven => RATE_PER_DRIVING_THREAD,
    };
    ((rate / rate_per_thread).ceil() as usize).clamp(1, max_threads.max(1))
}

/// A worker's part of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenShare {
    worker: usize,
    workers: usize,
    /// Request streams of the input source: `worker`, `worker + workers`, ….
    request_streams: usize,
    /// Limit on outstanding requests.
    slots: usize,
    /// Its number among the workers of all processes, and their number.
    turn: (usize, usize),
}

impl OpenShare {
    /// A request stream of the input source, by its number among the worker's.
    fn request_stream(self, number: usize) -> usize {
        self.worker + number * self.workers
    }

    /// How many of the first `count` requests of the schedule are this worker's.
    fn part_of(self, count: u64) -> u64 {
        let (rank, size) = self.turn;
        Part { rank, size }.of_many(count)
    }
}

impl OpenLoop {
    /// When the requests of this process are due where all processes send `count`: offsets from the start, in nanoseconds.
    pub fn times(&self, count: u64) -> Take<Schedule> {
        let Part { rank, size } = self.part;
        let share = usize::try_from(self.part.of_many(count)).unwrap_or(usize::MAX);
        Schedule::share(&self.arrivals, self.seed, rank, size).take(share)
    }

    /// Limit on outstanding requests, over all threads.
    fn bound(&self, request_streams: usize) -> usize {
        if self.serial { request_streams } else { self.max_outstanding }
    }

    /// Maximum number of slots that its clients are opened with.
    pub(super) fn first_slots(&self, request_streams: usize) -> usize {
        let first = if self.serial { request_streams } else { self.threads.saturating_mul(FIRST_SLOTS) };
        first.min(self.bound(request_streams))
    }

    /// Each worker's turn at the schedule, out of how many, and its number of requests out of `count`.
    #[cfg(test)]
    pub(super) fn turns(&self, request_streams: usize, count: u64) -> Vec<(usize, usize, u64)> {
        let turn = |share: &OpenShare| (share.turn.0, share.turn.1, share.part_of(count));
        self.shares(request_streams).iter().map(turn).collect()
    }

    /// Assigns request streams and outstanding requests to workers. Each gets at least one of both.
    fn shares(&self, request_streams: usize) -> Vec<OpenShare> {
        let bound = self.bound(request_streams);
        let workers = self.threads.min(request_streams).min(bound).max(1);
        let turn = |worker| (self.part.number(worker), workers * self.part.size);
        let part = |all: usize, worker: usize| all / workers + usize::from(worker < all % workers);
        let share = |worker| OpenShare {
            worker,
            workers,
            request_streams: part(request_streams, worker),
            slots: part(bound, worker).max(1),
            turn: turn(worker),
        };
        (0..workers).map(share).collect()
    }
}

/// Starts the workers; they open their clients and wait for the start signal.
///
/// # Errors
/// If a thread cannot be started; the ones before it are in `workers`.
pub(super) fn spawn(
    context: &Arc<LoadContext>,
    control: &Arc<Control>,
    shape: &OpenLoop,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    let shares = shape.shares(context.input_source.request_streams());
    worker::check_thread_limit(shares.len())?;
    control.behind.store(shape.until.map_or(0, |_| shares.len()), Ordering::Release);
    for share in shares {
        let shape = shape.clone();
        workers.push(worker::spawn(share.worker, context, control, move |context, control| {
            work(context, control, &shape, share)
        })?);
    }
    Ok(())
}

/// The body of a worker's thread.
fn work(context: &Arc<LoadContext>, control: &Arc<Control>, shape: &OpenLoop, share: OpenShare) -> Result<()> {
    let serial = shape.serial;
    let first = match context.backend.capabilities().threading {
        Threading::Driven => FIRST_DRIVEN_SLOTS,
        Threading::Own => FIRST_SLOTS,
    };
    let slots = if serial { share.slots } else { share.slots.min(first) };
    let numbers = Numbers { first: share.worker, stride: share.workers };
    let (worker, workers) = (share.worker, share.workers);
    let setup =
        Setup { policy: Scheduled, numbers, worker, workers, slots, alone: serial, reissues: false, watches: false };
    let pacer = Pacer::for_this_thread(shape.spin);
    engine::work(context, control, setup, |issuer| {
        // Each worker sends its own part of a counted load, as it has its own part of the data, so no step is left out
        // because another worker was ahead.
        let count = context.quota.map_or(u64::MAX, |quota| share.part_of(quota));
        let (turn, turns) = share.turn;
        let schedule = Schedule::share(&shape.arrivals, shape.seed, turn, turns);
        let mut schedule = schedule.take(usize::try_from(count).unwrap_or(usize::MAX));
        let until = shape.until.map_or(u64::MAX, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        let mut player = Player { issuer, pacer, share, serial, sent: 0, sends: None, until };
        let played = player.play(&mut schedule, control.started());
        control.report_sends(player.sends, player.sent);
        played.and_then(|()| player.finish())
    })
}

#[cfg(test)]
mod tests;
