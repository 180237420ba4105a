//! The buffer of a slot's trace: the memory that the server's callbacks write into while it traces the slot's request.
//!
//! A trace may outlive its request, its slot and its client: its release callback comes when the server's last
//! reference to it is gone, and a model that calls others may answer before they have. So a buffer is never freed, and a
//! callback compares the trace's number to see whether the buffer still belongs to it. Before a buffer is armed for another
//! request, no callback may be inside; a late one finds another number, and writes nothing.
//!
//! No lock, no allocation of ours: moments are atomic words at fixed places.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::backend::{MAX_TRACED, ModelName, ModelTrace, Moment, RequestTrace};
use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::status::Status;
use crate::c_api::ffi::sys;
use crate::clock::Stamp;

/// A trace, as C knows it.
pub(super) type TracePointer = *mut sys::TRITONSERVER_InferenceTrace;

/// The moments of one request to one model.
struct Place {
    id: AtomicU64,
    moments: [AtomicU64; Moment::ALL.len()],
    /// Parent, name and version; written once, before `is_named`, by the thread that took the place.
    origin: UnsafeCell<(u64, ModelName, i64)>,
    is_named: AtomicBool,
}

impl Place {
    fn empty() -> Self {
        Self {
            id: AtomicU64::new(0),
            moments: [const { AtomicU64::new(0) }; Moment::ALL.len()],
            origin: UnsafeCell::new((0, ModelName::default(), 0)),
            is_named: AtomicBool::new(false),
        }
    }
}

/// A buffer for one trace at a time, and for those of models that the traced model calls.
pub(super) struct TraceBuffer {
    library: Arc<Library>,
    /// The number of its current trace; 0 for none.
    id: AtomicU64,
    /// Number of callbacks inside.
    inside: AtomicUsize,
    /// Whether the server has released that trace.
    released: AtomicBool,
    /// When the call that handed the request over returned; 0 before.
    handed_over: AtomicU64,
    /// Number of places requested, including those that there was no buffer for.
    taken: AtomicUsize,
    places: [Place; MAX_TRACED],
}

// SAFETY: everything is atomic but a place's origin, which the thread that took the place writes before publishing it,
// and which no thread reads before that.
unsafe impl Sync for TraceBuffer {}

impl TraceBuffer {
    /// A buffer that is never freed.
    pub(super) fn new(library: &Arc<Library>) -> &'static Self {
        Box::leak(Box::new(Self {
            library: Arc::clone(library),
            id: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            released: AtomicBool::new(false),
            handed_over: AtomicU64::new(0),
            taken: AtomicUsize::new(0),
            places: std::array::from_fn(|_| Place::empty()),
        }))
    }

    /// Whether the library supports traces: tries to make one.
    pub(super) fn is_possible(library: &Library) -> bool {
        let api = &library.api;
        let has_all = api.TRITONSERVER_InferenceTraceNew.is_ok()
            && api.TRITONSERVER_InferenceTraceDelete.is_ok()
            && api.TRITONSERVER_InferenceTraceId.is_ok()
            && api.TRITONSERVER_InferenceTraceParentId.is_ok()
            && api.TRITONSERVER_InferenceTraceModelName.is_ok()
            && api.TRITONSERVER_InferenceTraceModelVersion.is_ok();
        let mut trace = ptr::null_mut();
        // SAFETY: `trace` receives an object; it is issued with nothing, so that nothing is called back.
        let mut made = || unsafe {
            api.TRITONSERVER_InferenceTraceNew(
                &raw mut trace,
                sys::TRACE_LEVEL_TIMESTAMPS,
                0,
                Some(on_activity),
                Some(on_trace_release),
                ptr::null_mut(),
            )
        };
        let is_possible = has_all && library.check(made()).is_ok();
        if is_possible {
            // SAFETY: this call owns the trace.
            drop(library.check(unsafe { api.TRITONSERVER_InferenceTraceDelete(trace) }));
        }
        is_possible
    }

    /// A new trace whose moments are recorded here, to be issued with a request. `None` if a callback of an earlier one
    /// is still inside.
    ///
    /// # Errors
    /// If the library does not support traces.
    #[cold]
    pub(super) fn arm(&'static self) -> Result<Option<TracePointer>, Status> {
        if self.inside.load(Ordering::SeqCst) > 0 {
            return Ok(None);
        }
        for place in &self.places[..self.taken.swap(0, Ordering::Relaxed).min(MAX_TRACED)] {
            place.id.store(0, Ordering::Relaxed);
            place.is_named.store(false, Ordering::Relaxed);
            place.moments.iter().for_each(|moment| moment.store(0, Ordering::Relaxed));
        }
        self.handed_over.store(0, Ordering::Relaxed);
        self.released.store(false, Ordering::Relaxed);
        let (mut trace, mut id) = (ptr::null_mut(), 0);
        let api = &self.library.api;
        // SAFETY: `trace` receives an object; the callbacks take this buffer, which stays for ever, as what it is.
        self.library.check(unsafe {
            api.TRITONSERVER_InferenceTraceNew(
                &raw mut trace,
                sys::TRACE_LEVEL_TIMESTAMPS,
                0,
                Some(on_activity),
                Some(on_trace_release),
                ptr::from_ref(self).cast_mut().cast(),
            )
        })?;
        // SAFETY: the trace is live, and not shared yet.
        self.library.check(unsafe { api.TRITONSERVER_InferenceTraceId(trace, &raw mut id) })?;
        self.id.store(id, Ordering::SeqCst);
        Ok(Some(trace))
    }

    /// The number of its current trace.
    pub(super) fn armed(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// The call that handed over the request of trace `id` has returned. The request may have ended long before.
    pub(super) fn hand_over(&self, id: u64, at: Stamp) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        if self.id.load(Ordering::SeqCst) == id {
            self.handed_over.store(at.0, Ordering::Relaxed);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// The server did not accept the request of this trace. A server that has not begun it does not own the trace
    /// either.
    ///
    /// # Safety
    /// The buffer was armed with `trace`, and the call that it was passed to has failed.
    #[cold]
    pub(super) unsafe fn withdraw(&self, trace: TracePointer) {
        self.id.store(0, Ordering::SeqCst);
        if self.released.load(Ordering::SeqCst) {
            return; // within the call
        }
        let mut name = ptr::null();
        // SAFETY: the trace is live, because the server has not let go of it.
        let named =
            self.library.check(unsafe { self.library.api.TRITONSERVER_InferenceTraceModelName(trace, &raw mut name) });
        // SAFETY: a name that is there is a C string of the trace.
        let is_taken = named.is_ok() && !name.is_null() && !unsafe { CStr::from_ptr(name) }.is_empty();
        if !is_taken {
            // SAFETY: the server gives a trace its model's name as it takes it; it has not.
            drop(self.library.check(unsafe { self.library.api.TRITONSERVER_InferenceTraceDelete(trace) }));
        }
    }

    /// Takes the recorded moments of the finished request; the buffer is then free.
    #[cold]
    pub(super) fn take(&self) -> Option<RequestTrace> {
        let root = self.id.swap(0, Ordering::SeqCst);
        if root == 0 {
            return None;
        }
        let taken = self.taken.load(Ordering::Acquire);
        let handed_over = self.handed_over.load(Ordering::Relaxed);
        let mut trace = RequestTrace {
            sent: Stamp(0),
            handed_over: (handed_over > 0).then_some(Stamp(handed_over)),
            last_response: Stamp(0),
            succeeded: true,
            weight: 1,
            more: taken > MAX_TRACED,
            count: 0,
            all: [ModelTrace::default(); MAX_TRACED],
        };
        for place in self.places[..taken.min(MAX_TRACED)].iter() {
            if !place.is_named.load(Ordering::Acquire) {
                continue;
            }
            // SAFETY: it was written before `is_named`, and is not written again before the buffer is armed.
            let (parent, name, version) = unsafe { *place.origin.get() };
            let moments = std::array::from_fn(|moment| place.moments[moment].load(Ordering::Relaxed));
            let id = place.id.load(Ordering::Relaxed);
            trace.all[trace.count] = ModelTrace { id, parent, name, version, moments };
            trace.count += 1;
        }
        let first = trace.models().iter().position(|model| model.id == root)?;
        trace.all.swap(0, first);
        Some(trace)
    }

    /// A moment of a trace has been reached.
    ///
    /// # Safety
    /// The trace is live.
    unsafe fn note(&self, trace: TracePointer, activity: u32, ns: u64) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        // SAFETY: guaranteed by the caller.
        if let Some(place) = unsafe { self.place_of(trace) }
            && let Some(moment) = place.moments.get(activity as usize)
        {
            // If a moment is reported twice, the first counts.
            let _ = moment.compare_exchange(0, ns, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Where to record moments of a trace: the buffer's own, or one of a model that it calls.
    ///
    /// # Safety
    /// The trace is live.
    unsafe fn place_of(&self, trace: TracePointer) -> Option<&Place> {
        let (mut id, mut parent, mut version, mut name) = (0, 0, 0, ptr::null());
        let (library, api) = (&self.library, &self.library.api);
        // SAFETY: guaranteed by the caller.
        library.check(unsafe { api.TRITONSERVER_InferenceTraceId(trace, &raw mut id) }).ok()?;
        let root = self.id.load(Ordering::SeqCst);
        let taken = self.taken.load(Ordering::Acquire).min(MAX_TRACED);
        let places = &self.places[..taken];
        let lookup = |id: u64| places.iter().find(|place| place.id.load(Ordering::Acquire) == id);
        if root == 0 || id == 0 {
            return None;
        }
        if let Some(place) = lookup(id) {
            return Some(place);
        }
        // SAFETY: guaranteed by the caller.
        library.check(unsafe { api.TRITONSERVER_InferenceTraceParentId(trace, &raw mut parent) }).ok()?;
        if id != root && lookup(parent).is_none() {
            return None;
        }
        // The first moment of a trace comes before any other of it.
        let place = self.places.get(self.taken.fetch_add(1, Ordering::AcqRel))?;
        place.id.store(id, Ordering::Release);
        // SAFETY: guaranteed by the caller.
        drop(library.check(unsafe { api.TRITONSERVER_InferenceTraceModelVersion(trace, &raw mut version) }));
        // SAFETY: guaranteed by the caller.
        drop(library.check(unsafe { api.TRITONSERVER_InferenceTraceModelName(trace, &raw mut name) }));
        // SAFETY: a name that is there is a C string of the trace, which is live.
        let name = if name.is_null() { &[][..] } else { unsafe { CStr::from_ptr(name) }.to_bytes() };
        // SAFETY: only this thread has taken the place, and no one reads it before it is named.
        unsafe { *place.origin.get() = (parent, ModelName::new(name), version) };
        place.is_named.store(true, Ordering::Release);
        Some(place)
    }
}

unsafe extern "C" fn on_activity(
    trace: TracePointer,
    activity: sys::TRITONSERVER_InferenceTraceActivity,
    ns: u64,
    userp: *mut c_void,
) {
    // SAFETY: `userp` is the buffer that the trace was made for, which stays for ever; the server's trace is live in its callback.
    unsafe { (*userp.cast::<TraceBuffer>()).note(trace, activity, ns) }
}

unsafe extern "C" fn on_trace_release(trace: TracePointer, userp: *mut c_void) {
    // SAFETY: as above.
    let buffer = unsafe { &*userp.cast::<TraceBuffer>() };
    let mut id = 0;
    // SAFETY: the trace is live until it is deleted below.
    drop(buffer.library.check(unsafe { buffer.library.api.TRITONSERVER_InferenceTraceId(trace, &raw mut id) }));
    if buffer.id.load(Ordering::SeqCst) == id {
        buffer.released.store(true, Ordering::SeqCst);
    }
    // SAFETY: the server has let go of the trace, which this call therefore owns.
    drop(buffer.library.check(unsafe { buffer.library.api.TRITONSERVER_InferenceTraceDelete(trace) }));
}
