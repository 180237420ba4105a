//! Two overlapping responses of one request: the client still handles one, on its own thread, when the final one
//! arrives.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// The response that is kept with the client.
#[derive(Default)]
pub struct Overlap {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// The thread that brings it, until the client deletes it.
    thread: Option<ThreadId>,
    /// The client has begun to look at it.
    is_inside: bool,
    /// How many of the final response and the release the client has been told.
    reported: u32,
}

thread_local! {
    /// What this thread brings.
    static HERE: RefCell<Option<Arc<Overlap>>> = const { RefCell::new(None) };
}

impl Overlap {
    /// Has the response brought by a thread of its own; returns when the client looks at it.
    pub fn bring(self: &Arc<Self>, response: impl FnOnce() + Send + 'static) {
        let overlap = Arc::clone(self);
        thread::spawn(move || {
            overlap.progress.lock().thread = Some(thread::current().id());
            HERE.set(Some(Arc::clone(&overlap)));
            response();
            // Should the client not have looked at it, or not deleted it.
            deleted();
        });
        self.wait_until(|progress| progress.is_inside);
    }

    /// The client has been told of the final response, or of the release.
    pub fn report(&self) {
        self.change(|progress| progress.reported += 1);
    }

    /// Whether the client has the response on another thread than this.
    pub fn is_elsewhere(&self) -> bool {
        self.progress.lock().thread.is_some_and(|thread| thread != thread::current().id())
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.changed.notify_all();
    }

    fn wait_until(&self, is_so: impl Fn(&Progress) -> bool) {
        self.changed.wait_while_for(&mut self.progress.lock(), |progress| !is_so(progress), PATIENCE);
    }
}

/// Keeps a client that looks at such a response until it has been told that the request is over.
pub fn linger() {
    if let Some(overlap) = HERE.with_borrow(Clone::clone) {
        overlap.change(|progress| progress.is_inside = true);
        overlap.wait_until(|progress| progress.reported == 2);
    }
}

/// The client is done with the response that this thread brings.
pub fn deleted() {
    if let Some(overlap) = HERE.take() {
        overlap.change(|progress| (progress.thread, progress.is_inside) = (None, true));
    }
}
