//! The closed loop keeps a number of requests outstanding: a slot sends its next request when its last one is over.

mod asynchronous;
mod synchronous;
mod wait;

use std::sync::Arc;

use crate::backend::Threading;
use crate::context::LoadContext;
use crate::control::Control;
use crate::error::Result;
use crate::worker::{self, Worker, WorkerShare};

/// The shape of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedLoop {
    /// Requests outstanding.
    pub concurrency: usize,
    /// Limit on the threads that issue them, if one thread may have several outstanding; see [`issuing_threads`].
    pub max_threads: usize,
    /// Whether each request has its own thread, which waits for it.
    pub synchronous: bool,
}

/// How many threads should issue if each may have several requests outstanding, at most `max_threads`. A thread that
/// also drives the backend's connections is woken by every answer, so more threads than there are `processors` for the
/// client only switch between each other: 16 of them on two processors cost gRPC five times the processor time of one.
pub fn issuing_threads(max_threads: usize, threading: Threading, processors: usize) -> usize {
    match threading {
        Threading::Own => max_threads,
        Threading::Driven => max_threads.min(processors),
    }
    .max(1)
}

impl ClosedLoop {
    /// Assigns the requests to workers; the first ones get one more if they do not divide evenly.
    pub(crate) fn shares(self) -> Vec<WorkerShare> {
        let workers = if self.synchronous { self.concurrency } else { self.concurrency.min(self.max_threads.max(1)) };
        let (quotient, more) = (self.concurrency / workers.max(1), self.concurrency % workers.max(1));
        let first = |worker: usize| worker * quotient + worker.min(more);
        let share = |worker| WorkerShare {
            worker,
            workers,
            first_request_stream: first(worker),
            slots: quotient + usize::from(worker < more),
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
    shape: ClosedLoop,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    let shares = shape.shares();
    worker::check_thread_limit(shares.len())?;
    for share in shares {
        workers.push(worker::spawn(share.worker, context, control, move |context, control| {
            if shape.synchronous {
                synchronous::work(context, control, &share)
            } else {
                asynchronous::work(context, control, &share)
            }
        })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_assigned_evenly_and_every_request_stream_has_one_owner() {
        for (concurrency, max_threads, synchronous, workers) in
            [(7, 3, false, 3), (4, 16, false, 4), (5, 2, true, 5), (1, 1, false, 1)]
        {
            let shares = ClosedLoop { concurrency, max_threads, synchronous }.shares();
            assert_eq!(shares.len(), workers);
            let request_streams: Vec<usize> = shares
                .iter()
                .flat_map(|share| share.first_request_stream..share.first_request_stream + share.slots)
                .collect();
            assert_eq!(request_streams, (0..concurrency).collect::<Vec<_>>());
        }
    }
}
