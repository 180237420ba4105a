//! The user's interrupts: counted by the signal watcher, polled by whatever waits.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::clock::Stamp;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicU64 = AtomicU64::new(Stamp::NEVER.0);

/// Whether SIGTERM was received: its sender may kill this process soon.
static TERMINATED: AtomicBool = AtomicBool::new(false);
/// Number of interrupts that all processes of a run know of.
static AGREED: AtomicUsize = AtomicUsize::new(0);

/// Notes that somebody wants this process to end (SIGTERM).
pub fn terminate() {
    TERMINATED.store(true, Ordering::Release);
}

/// Whether somebody wants this process to end.
pub fn is_terminated() -> bool {
    TERMINATED.load(Ordering::Acquire)
}

/// Number of interrupts that all processes of a run know of: where several measure together, none acts on its own.
pub fn agreed() -> &'static AtomicUsize {
    &AGREED
}

/// Counts another interrupt and returns the total.
pub fn raise() -> usize {
    FIRST.fetch_min(Stamp::now().0, Ordering::Release);
    COUNT.fetch_add(1, Ordering::Release) + 1
}

/// The total so far.
pub fn counter() -> &'static AtomicUsize {
    &COUNT
}

/// When the first one came; [`Stamp::NEVER`] before that.
pub fn first() -> Stamp {
    Stamp(FIRST.load(Ordering::Acquire))
}
