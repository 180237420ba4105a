//! The user's interrupts: counted by whoever takes the signals, looked at by whoever waits.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::clock::Stamp;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicU64 = AtomicU64::new(Stamp::NEVER.0);

/// Whether somebody wants this process to end soon, who may kill it otherwise.
static TERMINATED: AtomicBool = AtomicBool::new(false);
/// Interrupts that all processes of a run know of.
static AGREED: AtomicUsize = AtomicUsize::new(0);

/// Somebody wants this process to end (SIGTERM).
pub fn terminate() {
    TERMINATED.store(true, Ordering::Release);
}

/// Whether somebody does.
pub fn is_terminated() -> bool {
    TERMINATED.load(Ordering::Acquire)
}

/// How many interrupts all processes of a run know of: where several measure together, none acts on its own.
pub fn agreed() -> &'static AtomicUsize {
    &AGREED
}

/// Counts another interrupt. Returns how many there have been.
pub fn raise() -> usize {
    FIRST.fetch_min(Stamp::now().0, Ordering::Release);
    COUNT.fetch_add(1, Ordering::Release) + 1
}

/// How many there have been.
pub fn counter() -> &'static AtomicUsize {
    &COUNT
}

/// When the first one came; [`Stamp::NEVER`] as long as there is none.
pub fn first() -> Stamp {
    Stamp(FIRST.load(Ordering::Acquire))
}
