//! The threads of a load.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::affinity;
use crate::context::LoadContext;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::limits;

/// Bytes of a worker's stack: enough for a TLS handshake, little enough for thousands of workers.
const WORKER_STACK: usize = 512 << 10;

/// A worker's handle, by which it is woken and joined.
pub(super) type Worker = JoinHandle<Result<()>>;

/// A worker's part of a closed loop.
pub(super) struct WorkerShare {
    /// Number of the worker.
    pub(super) worker: usize,
    /// Number of workers.
    pub(super) workers: usize,
    /// Its first request stream of the input source.
    pub(super) first_request_stream: usize,
    /// Requests that it keeps outstanding; one request stream each.
    pub(super) slots: usize,
}

/// Fails if the system has no room for this many more workers.
///
/// # Errors
/// If there is no room, with how many would fit.
pub(super) fn check_thread_limit(workers: usize) -> Result<()> {
    limits::check_threads(workers, WORKER_STACK)
}

/// Starts a worker thread, pinned as the load asks. If `work` fails, reports to the load that a client broke.
///
/// # Errors
/// If the system cannot start a thread.
pub(super) fn spawn<W>(number: usize, context: &Arc<LoadContext>, control: &Arc<Control>, work: W) -> Result<Worker>
where
    W: FnOnce(&Arc<LoadContext>, &Arc<Control>) -> Result<()> + Send + 'static,
{
    let (context, control) = (Arc::clone(context), Arc::clone(control));
    let body = move || {
        affinity::pin_this_thread(context.worker_cpus.as_deref())?;
        work(&context, &control).inspect_err(|_| control.report_broken())
    };
    let builder = thread::Builder::new().name(format!("worker-{number}")).stack_size(WORKER_STACK);
    builder.spawn(body).map_err(|error| {
        Error::machine(format!(
            "the system gives no thread after {number}: {error}; ask for fewer at once, or use --async"
        ))
    })
}
