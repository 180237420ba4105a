//! A thread that sends decoupled responses when they are due, for any number of streams.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock;
use crate::stream::Stream;

#[derive(Default)]
struct Queue {
    /// Due time and order of arrival, earliest on top; the streams lie beside it.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    streams: std::collections::HashMap<u64, Stream>,
    arrivals: u64,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// A running sender.
pub struct Responder {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Responder {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's reason.
    pub fn start() -> Result<Responder, String> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("bench-responder".into()).spawn(move || run(&theirs));
        let thread = thread.map_err(|error| format!("cannot start a thread for responses: {error}"))?;
        Ok(Responder { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Takes over a stream whose first response is due now.
    pub fn take(&self, stream: Stream) {
        self.shared.lock().push(clock::now(), stream);
        self.shared.changed.notify_one();
    }

    /// Sends what is left at once and ends the thread.
    pub fn stop(&self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has aborted the process already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, due: u64, stream: Stream) {
        self.arrivals += 1;
        self.due.push(Reverse((due, self.arrivals)));
        self.streams.insert(self.arrivals, stream);
    }

    /// The next stream if it is due, else for how long there is nothing to do.
    fn pop(&mut self, now: u64) -> Result<Stream, Option<Duration>> {
        let Some(Reverse((due, arrival))) = self.due.peek().copied() else { return Err(None) };
        if due > now && !self.stop {
            return Err(Some(Duration::from_nanos(due - now)));
        }
        self.due.pop();
        self.streams.remove(&arrival).ok_or(None)
    }
}

fn run(shared: &Shared) {
    clock::sharpen();
    let mut queue = shared.lock();
    loop {
        match queue.pop(clock::now()) {
            Ok(mut stream) => {
                drop(queue);
                let next = stream.step();
                queue = shared.lock();
                if let Some(due) = next {
                    queue.push(due, stream);
                }
            }
            Err(None) if queue.stop => return,
            Err(None) => queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Err(Some(pause)) => {
                queue = shared.changed.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
