//! The phase of the program, which decides what an interrupt does.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::interrupt;

/// The phase of the program.
#[derive(Clone, Copy)]
pub enum Phase {
    /// Nothing of ours is running yet.
    Waiting,
    /// Files are being made.
    Making,
    /// A server is starting in this process.
    Loading,
    /// Everything is ready to be measured.
    Measuring,
    /// Results and errors are written; the exit code is this.
    Written(u8),
}

/// Locked while interrupts are counted, so that each belongs to one phase.
static PHASE: Mutex<Phase> = Mutex::new(Phase::Waiting);

/// Counts an interrupt. Returns the phase in which it came, and whether it was the first.
pub fn interrupt() -> (Phase, bool) {
    let phase = PHASE.lock();
    (*phase, interrupt::raise() == 1)
}

/// Files are about to be made, of which an interrupt leaves nothing.
pub fn making() {
    *PHASE.lock() = Phase::Making;
}

/// A server is about to start in this process: from now on the first interrupt waits for its models.
pub fn loading() {
    *PHASE.lock() = Phase::Loading;
}

/// Measuring begins: from now on the first interrupt lets the run end by itself. Returns whether no interrupt has
/// arrived yet.
pub fn ready() -> bool {
    let mut phase = PHASE.lock();
    let undisturbed = interrupt::counter().load(Ordering::Relaxed) == 0;
    if undisturbed {
        *phase = Phase::Measuring;
    }
    undisturbed
}

/// The phase now.
pub fn now() -> Phase {
    *PHASE.lock()
}

/// Everything is written; the program ends with this code.
pub fn written(code: u8) {
    *PHASE.lock() = Phase::Written(code);
}

/// Whether the user interrupted before anything was measured.
pub fn was_disturbed() -> bool {
    let phase = PHASE.lock();
    interrupt::counter().load(Ordering::Relaxed) > 0 && matches!(*phase, Phase::Waiting | Phase::Loading)
}
