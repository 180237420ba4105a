//! The atomics, locks and thread-locals of the code that `tests/loom` checks in every interleaving: it compiles the
//! same files with the model checker's own types in their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::Mutex;
