//! The program's `sync` items, taken from the model checker.

use std::sync::LockResult;

pub use loom::sync::MutexGuard;
use loom::sync::atomic;
pub use loom::sync::atomic::Ordering;

/// Loom tries another thread where two accesses depend on each other, but of those to one value it remembers the last one
/// only: a thread that loads before it stores hides what another has loaded, and orders go untried. So every access here is
/// preceded by one that depends on all others; being relaxed, it orders nothing.
#[derive(Default, Debug)]
pub struct AtomicU64 {
    value: atomic::AtomicU64,
    turn: atomic::AtomicU64,
}

macro_rules! accesses {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(pub fn $name(&self $(, $argument: $kind)*) -> $result {
            self.turn.fetch_add(1, Ordering::Relaxed);
            self.value.$name($($argument),*)
        })*
    };
}

#[allow(dead_code)]
impl AtomicU64 {
    pub fn new(value: u64) -> Self {
        Self { value: atomic::AtomicU64::new(value), turn: atomic::AtomicU64::new(0) }
    }

    accesses! {
        load(order: Ordering) -> u64;
        store(value: u64, order: Ordering) -> ();
        swap(value: u64, order: Ordering) -> u64;
        fetch_add(value: u64, order: Ordering) -> u64;
        fetch_sub(value: u64, order: Ordering) -> u64;
        fetch_and(value: u64, order: Ordering) -> u64;
        compare_exchange(old: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
        compare_exchange_weak(old: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
    }
}

/// A lock that a panic does not poison.
#[derive(Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        LockResult::unwrap(self.0.lock())
    }
}

/// Knows the form with `const`, which the model checker's own does not.
macro_rules! locals {
    ($($(#[$attribute:meta])* static $name:ident: $kind:ty = const $value:block;)*) => {
        loom::thread_local! { $($(#[$attribute])* static $name: $kind = $value;)* }
    };
}
pub(crate) use locals as thread_local;
