//! The stages of a traced request's life.

use std::sync::atomic::Ordering;

use crate::backend::RequestTrace;
use crate::c_api::ffi::slot::Slot;
use crate::c_api::ffi::tracing::Begun;
use crate::clock::Stamp;

impl Slot {
    /// A trace for the request that is about to be issued.
    ///
    /// # Safety
    /// The caller has the slot.
    #[cold]
    pub(super) unsafe fn begin_trace(&self) -> Begun {
        let Some(tracing) = self.tracing.as_deref() else { return Begun::NONE };
        let gap = tracing.next_gap(self.shared.spec.load_slots);
        // SAFETY: the caller has the slot, so this thread alone uses `requests`.
        unsafe { &mut *self.requests.get() }.trace_after(gap);
        let begun = tracing.begin();
        self.progress.traced.store(!begun.pointer.is_null(), Ordering::Relaxed);
        begun
    }

    /// The server has refused the request that `begun` was issued with.
    ///
    /// # Safety
    /// The trace is of this slot's last request, whose issue has failed.
    #[cold]
    pub(super) unsafe fn withdraw_trace(&self, begun: &Begun) {
        if let Some(tracing) = self.tracing.as_deref().filter(|_| !begun.pointer.is_null()) {
            self.progress.traced.store(false, Ordering::Relaxed);
            // SAFETY: guaranteed by the caller.
            unsafe { tracing.withdraw(begun) };
        }
    }

    /// The call that handed over a traced request has returned.
    #[cold]
    pub(super) fn note_hand_over(&self, begun: &Begun) {
        if let Some(tracing) = self.tracing.as_deref().filter(|_| !begun.pointer.is_null()) {
            tracing.note_hand_over(begun);
        }
    }

    /// Passes the trace to the sink.
    #[cold]
    #[inline(never)]
    pub(super) fn report_trace(&self) {
        self.progress.traced.store(false, Ordering::Relaxed);
        let trace = self.tracing.as_deref().and_then(|tracing| {
            Some(RequestTrace {
                sent: Stamp(self.progress.sent.load(Ordering::Relaxed)),
                last_response: Stamp(self.progress.last_response.load(Ordering::Relaxed)),
                succeeded: !self.progress.failed.load(Ordering::Relaxed),
                ..tracing.take()?
            })
        });
        if let Some(trace) = trace {
            self.shared.sink.traced(self.id, &trace);
        }
    }
}
