//! Explores every thread interleaving on the hot path's shared memory. Compiles the program's own files with the model
//! checker's atomics, locks and thread-locals in place of the standard ones; see `scripts/soundness/loom`.

#[cfg(loom)]
mod backend;
#[cfg(loom)]
mod checks;
#[cfg(loom)]
mod clock;
#[cfg(loom)]
#[path = "../../../src/backends/c_api/ffi/hand_over.rs"]
mod hand_over;
#[cfg(loom)]
mod record;
#[cfg(loom)]
mod seat;
#[cfg(loom)]
#[path = "../../../src/backends/c_api/ffi/slot_state.rs"]
#[allow(dead_code)]
mod slot_state;
#[cfg(loom)]
mod sync;

// The files of the recorder find each other below the root of their crate.
#[cfg(loom)]
use record::{bank, distribution, generation, histogram, sample, sequences, sessions, streak, tally};

#[cfg(loom)]
fn main() {
    checks::run(std::env::args().nth(1).as_deref());
}

/// Every other build has to compile this member, too.
#[cfg(not(loom))]
fn main() {
    panic!("run scripts/soundness/loom");
}
