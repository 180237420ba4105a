//! The atomics, locks and thread-locals of the code that `tests/loom` tries in every order of its threads: it compiles the
//! same files with the model checker's own in their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::Mutex;
