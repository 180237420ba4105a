//! How far the program is, which says what an interrupt means.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::interrupt;

/// How far the program is.
#[derive(Clone, Copy)]
pub enum Phase {
    /// Nothing of ours runs yet.
    Waiting,
    /// A server starts in this process.
    Loading,
    /// Everything is ready to be measured.
    Measuring,
    /// Results and errors are written, and this is the code.
    Written(u8),
}

/// Held while interrupts are counted, so that each falls into one phase.
static PHASE: Mutex<Phase> = Mutex::new(Phase::Waiting);

/// Counts an interrupt. Tells in which phase it came, and whether it was the first.
pub fn interrupt() -> (Phase, bool) {
    let phase = PHASE.lock();
    (*phase, interrupt::raise() == 1)
}

/// Says that a server is about to be started in this process: from now on the first interrupt waits for its models.
pub fn loading() {
    *PHASE.lock() = Phase::Loading;
}

/// Says that measuring begins: from now on the first interrupt lets the run end by itself. Whether nobody has interrupted yet.
pub fn ready() -> bool {
    let mut phase = PHASE.lock();
    let undisturbed = interrupt::counter().load(Ordering::Relaxed) == 0;
    if undisturbed {
        *phase = Phase::Measuring;
    }
    undisturbed
}

/// Says that everything is written, and with which code the program ends.
pub fn written(code: u8) {
    *PHASE.lock() = Phase::Written(code);
}

/// Whether the user has interrupted before anything was measured.
pub fn was_disturbed() -> bool {
    let phase = PHASE.lock();
    interrupt::counter().load(Ordering::Relaxed) > 0 && matches!(*phase, Phase::Waiting | Phase::Loading)
}
