//! One slot: a place for one outstanding request, and the state that its callbacks record.
//!
//! After a successful issue the server owns the request. The slot is free when the *release* callback and every
//! response, the *final* one included, have come; the server decides the order, and the final response may be null
//! (`slot_state` keeps count). The thread of the last one completes the request: it calls the sink, and issues the next
//! request at once if the sink returns one. Callbacks read the clock first, take no lock unless an inference failed,
//! a first response is odd or responses are watched, and never allocate in the steady state. A panic in one aborts the process, as Rust does at
//! every `extern "C"` border.

mod reply;
mod tracing;

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::backend::{Completion, InferError, Next, ReplyChecks, Request, SlotId};
use crate::c_api::ffi::hand_over::HandOver;
use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::output_buffer::{OutputBuffer, OutputPlace};
use crate::c_api::ffi::prepared::{self, Requests};
use crate::c_api::ffi::request::{Callbacks, InferenceRequest};
use crate::c_api::ffi::response::InferenceResponse;
use crate::c_api::ffi::shared::{Reuse, Shared};
use crate::c_api::ffi::slot_state::{self, ReferenceCount, Stages};
use crate::c_api::ffi::status::Status;
use crate::c_api::ffi::sys;
use crate::c_api::ffi::tracing::{Begun, Tracing};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::{Error, Result};
use crate::shm::Placement;

/// Every n-th hand-over is timed.
const SEND_SAMPLE: u32 = 16;

/// A request object, as C knows it.
type RequestPointer = *mut sys::TRITONSERVER_InferenceRequest;

/// A place for one outstanding request. Its address is the user pointer that C gets.
pub(super) struct Slot {
    id: SlotId,
    /// State that issuing and completing threads both touch.
    progress: CachePadded<Progress>,
    error: Mutex<Option<Box<InferError>>>,
    /// Held while the sink looks at a response: two may arrive at once, and it gets one after the other.
    watched: Mutex<()>,
    /// Whether another thread may cancel its request; used only if requests are cancelled at all.
    hand_over: HandOver,
    /// Which responses must still be checked against the model.
    checks: ReplyChecks,
    requests: UnsafeCell<Requests>,
    /// Where its outputs go.
    placement: Placement,
    outputs: Vec<Vec<OutputBuffer>>,
    /// Which of its requests are traced, and their traces; absent if there are none.
    tracing: Option<Box<Tracing>>,
    /// Last, because it holds the allocator and the server, which the requests refer to until they are dropped.
    shared: Arc<Shared>,
}

/// Progress of the outstanding request: one cache line, so that a request costs one transfer of it between processors
/// each way.
#[derive(Default)]
struct Progress {
    references: ReferenceCount,
    failed: AtomicBool,
    /// The outstanding request is traced.
    traced: AtomicBool,
    sent: AtomicU64,
    first_response: AtomicU64,
    last_response: AtomicU64,
    send_ns: AtomicU64,
}

// SAFETY: `requests` is changed only by the thread that the slot is free for (`Stages::hand_over` guarantees it), and
// read only by threads whose hold keeps the slot from being free. Everything else is atomic or locked.
unsafe impl Sync for Slot {}
// SAFETY: as above; nothing in a slot is bound to a thread.
unsafe impl Send for Slot {}

impl Slot {
    /// A slot at a stable address, because C gets to know it. [`Slot::free`] frees it.
    pub(super) fn new(id: SlotId, shared: &Arc<Shared>, reuse: Reuse) -> Result<NonNull<Self>> {
        let (plan, payloads) = (&shared.spec.outputs, &shared.spec.payloads);
        let placement = plan.placements.take();
        let batch =
            |index: usize| payloads.iter().find(|payload| payload.model == index).map_or(1, |payload| payload.batch);
        let models = shared.spec.models.iter().enumerate();
        let outputs =
            models.map(|(index, model)| OutputBuffer::all(model, placement, plan.variable_bytes, batch(index)));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let slot = NonNull::from(Box::leak(Box::new(Self {
            id,
            shared: Arc::clone(shared),
            progress: CachePadded::default(),
            error: Mutex::new(None),
            watched: Mutex::new(()),
            hand_over: HandOver::default(),
            checks: ReplyChecks::new(&shared.spec),
            requests: UnsafeCell::new(Requests::new(payloads.len(), reuse, shared.spec.traces.is_some())),
            placement,
            outputs,
            tracing: shared.spec.traces.map(|rate| Box::new(Tracing::new(&shared.server, rate))),
        })));
        let ahead = if reuse == Reuse::PerPayload { payloads.len() } else { 0 };
        let mut order = prepared::order_of_use(ahead, shared.spec.load_slots);
        // SAFETY: the slot is not shared yet.
        let made = order.try_for_each(|payload| unsafe { Self::prepare(slot, payload) }.map(drop));
        made.map(|()| slot).map_err(|status| {
            // SAFETY: none of its requests was issued.
            unsafe { Self::free(slot) };
            Error::from(status).context("request")
        })
    }

    /// Frees a slot.
    ///
    /// # Safety
    /// It is live, idle and no longer used.
    pub(super) unsafe fn free(slot: NonNull<Self>) {
        // SAFETY: it was leaked from a box by `new`; the rest is guaranteed by the caller.
        drop(unsafe { Box::from_raw(slot.as_ptr()) });
    }

    /// Whether the server owns nothing of this slot and no thread is inside it.
    pub(super) fn is_idle(&self) -> bool {
        self.progress.references.is_idle()
    }

    /// Whether a request is outstanding.
    pub(super) fn is_outstanding(&self) -> bool {
        self.progress.references.is_outstanding()
    }

    pub(super) fn library(&self) -> &Arc<Library> {
        &self.shared.server.library
    }

    pub(super) fn output_placement(&self) -> Placement {
        self.placement
    }

    /// The place for `bytes` bytes of output `tensor`.
    ///
    /// # Safety
    /// A request is outstanding.
    pub(super) unsafe fn output_place(&self, tensor: &CStr, bytes: usize) -> Result<OutputPlace, String> {
        // SAFETY: guaranteed by the caller.
        let model = if self.outputs.len() == 1 { 0 } else { unsafe { self.outstanding_model() } };
        let buffer = self.outputs[model].iter().find(|buffer| buffer.name.as_c_str() == tensor);
        match buffer.and_then(|buffer| Some((buffer, buffer.take(bytes)?))) {
            Some((buffer, address)) => Ok(OutputPlace::in_buffer(buffer, address?, self.output_placement())),
            None => OutputPlace::alone(bytes),
        }
    }

    #[cold]
    unsafe fn outstanding_model(&self) -> usize {
        // SAFETY: a request is outstanding, as the caller guarantees, so `requests` is not changed by anyone.
        let payload = unsafe { &*self.requests.get() }.payload();
        payload.map_or(0, |payload| self.shared.spec.payloads[payload.0 as usize].model)
    }

    /// Sends `request`, and whatever the sink asks for next while requests complete on this stack.
    ///
    /// # Safety
    /// The slot is live until this returns and has no request outstanding; only its owner calls this.
    pub(super) unsafe fn issue(slot: NonNull<Self>, request: Request) {
        // SAFETY: guaranteed by the caller.
        unsafe { slot_state::issue(slot, request) }
    }

    /// Sends one request; on failure returns the time of the attempt, and why.
    ///
    /// # Safety
    /// As [`Stages::hand_over`].
    #[inline]
    unsafe fn send(slot: NonNull<Self>, request: Request) -> Result<(), (Stamp, Status)> {
        // SAFETY: the caller has the slot.
        let ready = unsafe { Self::ready(slot, request) };
        let (object, number, is_traced) = ready.map_err(|status| (Stamp::now(), status))?;
        // SAFETY: live, as the caller guarantees.
        let slot = unsafe { slot.as_ref() };
        slot.progress.last_response.store(0, Ordering::Relaxed);
        let cancels = slot.shared.spec.cancels;
        if cancels {
            slot.hand_over.begin(number);
        }
        // SAFETY: the caller has the slot.
        let trace = if is_traced { unsafe { slot.begin_trace() } } else { Begun::NONE };
        let sent = Stamp::now();
        slot.progress.sent.store(sent.0, Ordering::Relaxed);
        // SAFETY: the object belongs to the slot, its last request is over, and no other thread replaces it.
        let issued = unsafe { InferenceRequest::issue(&slot.shared.server, object, trace.pointer) };
        issued.map_err(|status| {
            // SAFETY: the call that the trace went into has failed.
            unsafe { slot.withdraw_trace(&trace) };
            (sent, status)
        })?;
        if cancels {
            slot.hand_over.end(number);
        }
        if is_traced {
            slot.note_hand_over(&trace);
        }
        if number % SEND_SAMPLE == 1 {
            // May be reported with the slot's next request; only the average is used.
            slot.progress.send_ns.store(Stamp::now().since(sent).max(1), Ordering::Relaxed);
        }
        Ok(())
    }

    /// The request object for `request`, ready to be issued, the number of this issue in the slot, and whether it
    /// should be traced.
    ///
    /// # Safety
    /// As [`Stages::hand_over`].
    #[inline]
    unsafe fn ready(slot: NonNull<Self>, request: Request) -> Result<(RequestPointer, u32, bool), Status> {
        // SAFETY: the caller has the slot, so this thread alone uses `requests`.
        let object = unsafe { Self::prepare(slot, request.payload) }?;
        // SAFETY: live, as the caller guarantees; the object stays where it is until it is issued.
        let (slot, object) = unsafe { (slot.as_ref(), &mut *object) };
        if let Some(position) = request.sequence {
            object.set_sequence(position)?;
        }
        let pointer = object.pointer;
        // SAFETY: as above; `object` is not used any more.
        let (number, is_traced) = unsafe { &mut *slot.requests.get() }.count_issue();
        Ok((pointer, number, is_traced))
    }

    /// An object that carries `payload`.
    ///
    /// # Safety
    /// As [`Stages::hand_over`].
    #[inline]
    unsafe fn prepare(slot: NonNull<Self>, payload: PayloadId) -> Result<*mut InferenceRequest, Status> {
        let userp = slot.as_ptr().cast();
        // SAFETY: live, as the caller guarantees.
        let slot = unsafe { slot.as_ref() };
        let callbacks = Callbacks {
            release: slot.shared.on_release,
            response: slot.shared.on_response,
            allocator: slot.shared.allocator.pointer,
            userp,
        };
        // SAFETY: the caller has the slot, so this thread alone uses `requests`, and its objects are not in the server's hands.
        // The callbacks take the slot as what it is, and the slot frees its objects before itself.
        unsafe { (*slot.requests.get()).prepare(&slot.shared, payload, &callbacks) }.map(ptr::from_mut)
    }

    /// Records a request that never reached the server.
    #[cold]
    fn refuse(&self, sent: Stamp, status: Status) {
        let now = Stamp::now();
        self.progress.sent.store(sent.0, Ordering::Relaxed);
        self.progress.last_response.store(now.0, Ordering::Relaxed);
        self.progress.first_response.store(now.0, Ordering::Relaxed);
        self.fail(status.into());
    }

    #[cold]
    fn fail(&self, reason: InferError) {
        let mut error = self.error.lock();
        error.get_or_insert_with(|| Box::new(reason));
        self.progress.failed.store(true, Ordering::Release);
    }

    /// The last hand-over's time, if it was taken and not reported yet; else 0.
    #[inline]
    fn take_send_time(&self) -> u64 {
        let ns = self.progress.send_ns.load(Ordering::Relaxed);
        if ns != 0 {
            self.progress.send_ns.store(0, Ordering::Relaxed);
        }
        ns
    }

    #[cold]
    fn take_error(&self) -> Option<Box<InferError>> {
        self.progress.failed.store(false, Ordering::Relaxed);
        self.error.lock().take()
    }

    /// A response has arrived; null only ends the request.
    ///
    /// # Safety
    /// `slot` is live, because its request is not over, and may be gone when this returns. This call owns the response.
    #[inline]
    pub(super) unsafe fn on_response(
        slot: NonNull<Self>,
        at: Stamp,
        response: *mut sys::TRITONSERVER_InferenceResponse,
        is_final: bool,
    ) {
        // SAFETY: live, as the caller guarantees, until the request is over, which is after the response is processed.
        let response = unsafe { InferenceResponse::from_raw(slot.as_ref().library(), response) };
        // SAFETY: guaranteed by the caller.
        unsafe {
            match response {
                Some(response) if is_final && slot.as_ref().only_ends(&response) => {
                    slot_state::respond_last(slot, false, |slot, before| slot.end_without_data(at, before));
                }
                Some(response) if is_final => {
                    slot_state::respond_last(slot, true, |slot, before| slot.take_in(at, response, before));
                }
                Some(response) => Self::on_further_response(slot, at, response),
                None if is_final => {
                    slot_state::respond_last(slot, false, |slot, before| slot.end_without_data(at, before))
                }
                None => {} // it says nothing
            }
        }
    }

    /// Like [`Slot::on_response`], for a response that carries data and is not the final one. Separate, to keep the
    /// path of the final one short.
    #[inline(never)]
    unsafe fn on_further_response(slot: NonNull<Self>, at: Stamp, response: InferenceResponse<'_>) {
        // SAFETY: guaranteed by the caller.
        unsafe { slot_state::respond(slot, true, |slot, before| slot.take_in(at, response, before)) }
    }

    /// The server has released the request.
    ///
    /// # Safety
    /// As [`Slot::on_response`].
    #[inline]
    pub(super) unsafe fn on_release(slot: NonNull<Self>) {
        // SAFETY: guaranteed by the caller.
        unsafe { slot_state::release(slot) }
    }

    /// Asks the server to cancel the outstanding request, if it was sent before `sent_before`. Returns `false` if it
    /// was not, or is still being handed over.
    pub(super) fn cancel(&self, sent_before: Stamp) -> bool {
        self.hand_over.if_done(|| {
            if self.progress.sent.load(Ordering::Relaxed) >= sent_before.0 {
                return false;
            }
            // SAFETY: the server has a request, which cannot complete before this returns, so nothing changes
            // `requests`.
            if let Some(request) = unsafe { &*self.requests.get() }.current() {
                // SAFETY: its call has returned, and any reuse waits in `complete` until this is over.
                unsafe { request.cancel() };
            }
            true
        })
    }
}

impl Stages for Slot {
    #[inline]
    fn references(&self) -> &ReferenceCount {
        &self.progress.references
    }

    #[inline]
    unsafe fn hand_over(slot: NonNull<Self>, request: Request) -> bool {
        // SAFETY: guaranteed by the caller.
        let sent = unsafe { Self::send(slot, request) };
        // SAFETY: live, as the caller guarantees.
        sent.map_err(|(at, status)| unsafe { slot.as_ref() }.refuse(at, status)).is_ok()
    }

    /// Tells the sink. The slot is free from here on.
    #[inline]
    fn complete(&self, responses: u32) -> Next {
        if self.shared.spec.cancels {
            self.hand_over.over();
        }
        if self.progress.traced.load(Ordering::Relaxed) {
            self.report_trace();
        }
        let sent = Stamp(self.progress.sent.load(Ordering::Relaxed));
        let send_ns = self.take_send_time();
        let failed = self.progress.failed.load(Ordering::Acquire).then(|| self.take_error()).flatten();
        let completion = Completion {
            sent,
            send_end: (send_ns > 0).then(|| sent.plus(send_ns)),
            first_response: Stamp(self.progress.first_response.load(Ordering::Relaxed)),
            last_response: Stamp(self.progress.last_response.load(Ordering::Relaxed)),
            responses,
            error: failed.as_deref(),
        };
        self.shared.sink.complete(self.id, &completion)
    }
}
