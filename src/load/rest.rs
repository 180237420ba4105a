//! What loads of conversations share: a slot is idle when its turn is over, because its worker knows when it goes on.

use std::mem;

use parking_lot::Mutex;

use crate::backend::{Next, SlotId};
use crate::engine::{InFlight, Policy};
use crate::record::{Played, Sample};

/// A turn's slot rests until its worker sends the next one; with `SCHEDULED`, turns have times at which they are due.
pub(super) struct Rest<const SCHEDULED: bool> {
    /// What each slot has played since it was last asked. The lock is never waited for: conversations are for services whose
    /// answers are read on the worker's own thread.
    played: Mutex<Vec<Played>>,
}

impl<const SCHEDULED: bool> Rest<SCHEDULED> {
    pub(super) fn new(slots: usize) -> Self {
        Self { played: Mutex::new(vec![Played::default(); slots]) }
    }

    /// Makes room for that many slots.
    pub(super) fn grow(&self, slots: usize) {
        self.played.lock().resize(slots, Played::default());
    }

    /// What a slot has played since this was last asked.
    pub(super) fn take(&self, slot: SlotId) -> Played {
        mem::take(&mut self.played.lock()[slot.index()])
    }
}

impl<const SCHEDULED: bool> Policy for Rest<SCHEDULED> {
    const SCHEDULED: bool = SCHEDULED;

    fn recorded(&self, _: &InFlight<Self>, slot: SlotId, turn: &Sample, failed: bool) {
        self.played.lock()[slot.index()].add(turn, failed);
    }

    fn next(&self, flight: &InFlight<Self>, _: SlotId) -> Next {
        flight.wake();
        Next::Idle
    }
}
