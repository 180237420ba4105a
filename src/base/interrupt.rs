//! The user's interrupts: counted by the signal watcher, polled by whatever waits.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::clock::Stamp;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicU64 = AtomicU64::new(Stamp::NEVER.0);
static SECOND: AtomicU64 = AtomicU64::new(Stamp::NEVER.0);

thread_local! {
    /// Whether what this thread does must be done although the user has interrupted.
    static PATIENT: Cell<bool> = const { Cell::new(false) };
}

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
    let now = Stamp::now().0;
    let is_first = FIRST.fetch_min(now, Ordering::Release) == Stamp::NEVER.0;
    if !is_first {
        SECOND.fetch_min(now, Ordering::Release);
    }
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

/// Does what a server is owed, which takes its time: in `act` only a second interrupt hurries.
pub fn patiently<T>(act: impl FnOnce() -> T) -> T {
    let before = PATIENT.replace(true);
    let done = act();
    PATIENT.set(before);
    done
}

/// When this thread was told to hurry; [`Stamp::NEVER`] before that.
pub fn hurried() -> Stamp {
    if PATIENT.get() { Stamp(SECOND.load(Ordering::Acquire)) } else { first() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_waits_for_the_second_interrupt() {
        assert_eq!((hurried(), patiently(hurried)), (first(), Stamp(SECOND.load(Ordering::Acquire))));
        assert_eq!(patiently(|| (patiently(hurried), hurried())).1, Stamp(SECOND.load(Ordering::Acquire)));
        assert_eq!(hurried(), first());
    }
}
