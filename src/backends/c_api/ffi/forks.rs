//! A gate before every `fork` of this process. The server starts children from its own threads (a stub for every
//! instance of a python model), and a child that is born while the program leaves at once would be left behind. Behind
//! the gate, a child lets through the signals that our threads block.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::signals;

/// Threads between the gate and the end of their `fork`.
static FORKING: AtomicUsize = AtomicUsize::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);

/// A `fork` only copies page tables.
const FORK_LIMIT: Duration = Duration::from_secs(1);

/// Installs the gate. To be called before the library is opened.
pub(super) fn watch() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // Without memory for three pointers there is no gate, but children are searched for anyway. SAFETY: the
        // handlers are functions that live as long as the process.
        let _ = unsafe { libc::pthread_atfork(Some(enter), Some(pass), Some(begin)) };
    });
}

/// Closes the gate, and waits for threads that are forking: after this, every child can be found. For the end of the
/// process: threads that reach the gate wait there for ever.
pub fn close_forks() {
    CLOSED.store(true, Ordering::SeqCst);
    let limit = Stamp::now().plus_duration(FORK_LIMIT);
    while FORKING.load(Ordering::SeqCst) > 0 && Stamp::now() < limit {
        thread::sleep(Duration::from_micros(100));
    }
}

unsafe extern "C" fn enter() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    if CLOSED.load(Ordering::SeqCst) {
        FORKING.fetch_sub(1, Ordering::SeqCst);
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }
}

unsafe extern "C" fn pass() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// In the child: a stub that blocked them could be ended by no signal but one.
unsafe extern "C" fn begin() {
    signals::release();
}
