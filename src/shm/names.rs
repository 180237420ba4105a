//! Names of the POSIX shared memory that this process owns, so that none outlives it.
//!
//! A region unlinks its name when it is dropped. Exits that run no destructors (a signal, `process::exit`, an abort after
//! a panic) call [`unlink_all`]; what is mapped stays usable until the process is gone.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A name that this process has not used yet, with the slash that `shm_open` wants in front.
pub(super) fn next() -> String {
    format!("/triton-bench-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Remembers a name that must be unlinked.
pub(super) fn register(name: &str) {
    LIVE.lock().push(name.to_owned());
}

/// Forgets a name, because its owner unlinks it.
pub(super) fn forget(name: &str) {
    LIVE.lock().retain(|live| live != name);
}

/// Unlinks every shared memory name that this process still owns. To be called on the way out, from any thread that is
/// not inside a signal handler; calling it twice does no harm.
pub fn unlink_all() {
    // A panic inside this module may hold the lock on this very thread; leaving a name is then better than a deadlock.
    let Some(mut live) = LIVE.try_lock_for(std::time::Duration::from_secs(1)) else { return };
    for name in live.drain(..) {
        let _ = rustix::shm::unlink(name.as_str());
    }
}

/// As [`unlink_all`], for a signal handler: waits for nothing and frees nothing.
pub(super) fn unlink_in_signal() {
    let Some(live) = LIVE.try_lock() else { return };
    for name in live.iter() {
        let _ = rustix::shm::unlink(name.as_str());
    }
}

/// Makes every panic of this process unlink its names before anything else happens, because a panic at the border to
/// the server ends in an abort that runs no destructors. To be called once, by the program.
pub fn unlink_on_panic() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        unlink_all();
        previous(info);
    }));
}
