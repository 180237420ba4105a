//! Chooses the traced requests of a slot, and keeps the state for that.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::backend::{RequestTrace, TraceRate};
use crate::c_api::ffi::server::Server;
use crate::c_api::ffi::trace_buffer::{TraceBuffer, TracePointer};
use crate::clock::Stamp;
use crate::seed;

/// A trace that is issued with a request, or none.
pub(super) struct Begun {
    /// Null for none.
    pub(super) pointer: TracePointer,
    pub(super) id: u64,
}

impl Begun {
    pub(super) const NONE: Self = Self { pointer: ptr::null_mut(), id: 0 };
}

/// A slot's state for its traces. Only the thread that has the slot changes it.
pub(super) struct Tracing {
    buffer: &'static TraceBuffer,
    server: Arc<Server>,
    rate: TraceRate,
    /// When a request was last traced, and the planned gap since the previous traced request.
    since: AtomicU64,
    gap: AtomicU32,
    /// How many requests the traced one stands for.
    weight: AtomicU32,
    /// How many the next one will stand for.
    next_weight: AtomicU32,
    draws: AtomicU64,
}

impl Tracing {
    pub(super) fn new(server: &Arc<Server>, rate: TraceRate) -> Self {
        let buffer = server.trace_buffers.lock().pop().unwrap_or_else(|| TraceBuffer::new(&server.library));
        let first = if let TraceRate::Every(n) = rate { n } else { 1 };
        Self {
            buffer,
            server: Arc::clone(server),
            rate,
            since: AtomicU64::new(0),
            gap: AtomicU32::new(1),
            weight: AtomicU32::new(first),
            next_weight: AtomicU32::new(first),
            draws: AtomicU64::new(0),
        }
    }

    /// The gap from the current traced request to the next, for a load with this many slots.
    pub(super) fn next_gap(&self, load_slots: usize) -> u32 {
        let (now, before) = (Stamp::now(), Stamp(self.since.load(Ordering::Relaxed)));
        let ns = if before.0 == 0 { 0 } else { now.since(before) };
        let draw = seed::hash(ptr::from_ref(self).addr() as u64, self.draws.fetch_add(1, Ordering::Relaxed));
        let (gap, weight) = self.rate.gap(self.gap.load(Ordering::Relaxed), ns, load_slots, draw);
        self.since.store(now.0, Ordering::Relaxed);
        self.gap.store(gap, Ordering::Relaxed);
        self.weight.store(self.next_weight.swap(weight, Ordering::Relaxed), Ordering::Relaxed);
        gap
    }

    /// A trace for the current request.
    pub(super) fn begin(&self) -> Begun {
        match self.buffer.arm() {
            Ok(Some(pointer)) => Begun { pointer, id: self.buffer.armed() },
            _ => Begun::NONE,
        }
    }

    /// The server refused the request that `begun` was issued with.
    ///
    /// # Safety
    /// The call that it was passed to has failed.
    pub(super) unsafe fn withdraw(&self, begun: &Begun) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.buffer.withdraw(begun.pointer) }
    }

    /// The call that handed over the traced request has returned.
    pub(super) fn note_hand_over(&self, begun: &Begun) {
        self.buffer.hand_over(begun.id, Stamp::now());
    }

    /// Takes the trace of the finished request.
    pub(super) fn take(&self) -> Option<RequestTrace> {
        Some(RequestTrace { weight: self.weight.load(Ordering::Relaxed), ..self.buffer.take()? })
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.server.trace_buffers.lock().push(self.buffer);
    }
}
