//! The user's interrupts: counted by whoever takes the signals, looked at by whoever waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::clock::Stamp;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicU64 = AtomicU64::new(Stamp::NEVER.0);

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
