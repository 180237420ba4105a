//! The atomics, locks and thread-locals of the code that `tests/loom` checks in every interleaving: it compiles the
//! same files with the model checker's own types in their place.

pub use std::sync::atomic::{AtomicU64, Ordering};
pub use std::thread_local;

pub use parking_lot::Mutex;
