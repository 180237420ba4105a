//! What the program's own `sync` has, from the model checker.

use std::sync::LockResult;

pub use loom::sync::MutexGuard;
pub use loom::sync::atomic::{AtomicU64, Ordering};

/// A lock that a panic does not poison.
#[derive(Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
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
