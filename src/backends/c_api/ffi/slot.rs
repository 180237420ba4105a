//! One slot: the life of a request from issue to free, whatever order the server's callbacks come in.
//!
//! After a successful issue the server owns the request. The slot is free when the *release* callback and the *final*
//! response have both come; either may be first, and the final response may be null. Whichever comes second completes the
//! request on its thread: it tells the sink, and issues the next request at once where the sink says so. Callbacks read
//! the clock first, take no lock unless an inference failed, and never allocate in the steady state. A panic in one
//! aborts the process, as Rust does at every `extern "C"` border.

use std::cell::{Cell, UnsafeCell};
use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::backend::{Completion, InferError, Next, OutputView, Outputs, Request, Response, SlotId};
use crate::backends::c_api::ffi::hand_over::HandOver;
use crate::backends::c_api::ffi::library::Library;
use crate::backends::c_api::ffi::output_buffer::{OutputBuffer, OutputPlace};
use crate::backends::c_api::ffi::prepared::{self, Requests};
use crate::backends::c_api::ffi::request::{Callbacks, InferenceRequest};
use crate::backends::c_api::ffi::response::InferenceResponse;
use crate::backends::c_api::ffi::shared::{Reuse, Shared};
use crate::backends::c_api::ffi::status::Status;
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::Result;
use crate::shm::Placement;

/// The final response is still to come.
pub(super) const FINAL: u8 = 1;
/// The release callback is still to come.
pub(super) const RELEASE: u8 = 2;
/// The time of every n-th hand-over is taken.
const SEND_SAMPLE: u32 = 16;

/// A place for one outstanding request. Its address is what C gets as user pointer.
pub(super) struct Slot {
    id: SlotId,
    /// What issuing and completing threads both touch.
    progress: CachePadded<Progress>,
    /// Threads inside a completion of this slot; the slot stays until there are none. Apart from the rest, because a
    /// completing thread comes back to it when the issuing one is on its way again.
    visitors: CachePadded<AtomicU32>,
    error: Mutex<Option<Box<InferError>>>,
    /// Whether its request may be cancelled from another thread; used only where requests are cancelled at all.
    hand_over: HandOver,
    requests: UnsafeCell<Requests>,
    /// Where its outputs go.
    placement: Placement,
    outputs: Vec<Vec<OutputBuffer>>,
    /// Last, because it holds the allocator and the server, which the requests refer to until they are dropped.
    shared: Arc<Shared>,
}

/// How far the outstanding request is: one cache line, so that a request costs one transfer of it between processors
/// each way.
#[derive(Default)]
struct Progress {
    /// Which callbacks are still to come; 0 when no request is outstanding.
    pending: AtomicU8,
    failed: AtomicBool,
    responses: AtomicU32,
    sent: AtomicU64,
    first_response: AtomicU64,
    last_response: AtomicU64,
    send_ns: AtomicU64,
}

// SAFETY: `requests` is touched only by whoever the slot is free for: the client's owner while no request is outstanding,
// or the thread that completes. Everything else is atomic or locked.
unsafe impl Sync for Slot {}
// SAFETY: as above; nothing in a slot is bound to a thread.
unsafe impl Send for Slot {}

thread_local! {
    /// The slot that this thread is handing to the server right now.
    static ISSUING: Cell<*const Slot> = const { Cell::new(ptr::null()) };
    /// Whether that slot's request is over already: its callbacks came on this stack.
    static OVER: Cell<bool> = const { Cell::new(false) };
}

impl Slot {
    pub(super) fn new(id: SlotId, shared: &Arc<Shared>, reuse: Reuse) -> Result<Box<Self>> {
        let (plan, payloads) = (&shared.spec.outputs, &shared.spec.payloads);
        let placement = plan.placements.take();
        let batch =
            |index: usize| payloads.iter().find(|payload| payload.model == index).map_or(1, |payload| payload.batch);
        let models = shared.spec.models.iter().enumerate();
        let outputs =
            models.map(|(index, model)| OutputBuffer::all(model, placement, plan.variable_bytes, batch(index)));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let slot = Box::new(Self {
            id,
            shared: Arc::clone(shared),
            progress: CachePadded::default(),
            visitors: CachePadded::default(),
            error: Mutex::new(None),
            hand_over: HandOver::default(),
            requests: UnsafeCell::new(Requests::new(payloads.len(), reuse)),
            placement,
            outputs,
        });
        if reuse == Reuse::PerPayload {
            for payload in prepared::order_of_use(payloads.len(), shared.spec.load_slots) {
                slot.prepare(payload).map_err(|status| crate::error::Error::from(status).context("request"))?;
            }
        }
        Ok(slot)
    }

    /// Whether nothing of this slot is in the server's hands and no thread is inside it.
    pub(super) fn is_idle(&self) -> bool {
        self.progress.pending.load(Ordering::Acquire) == 0 && self.visitors.load(Ordering::Acquire) == 0
    }

    /// Whether a request is outstanding.
    pub(super) fn is_outstanding(&self) -> bool {
        self.progress.pending.load(Ordering::Acquire) != 0
    }

    pub(super) fn library(&self) -> &Arc<Library> {
        &self.shared.server.library
    }

    pub(super) fn output_placement(&self) -> Placement {
        self.placement
    }

    /// Where `bytes` bytes of output `tensor` go.
    pub(super) fn output_place(&self, tensor: &CStr, bytes: usize) -> Result<OutputPlace, String> {
        let model = if self.outputs.len() == 1 { 0 } else { self.outstanding_model() };
        let buffer = self.outputs[model].iter().find(|buffer| buffer.name.as_c_str() == tensor);
        match buffer.and_then(|buffer| Some((buffer, buffer.take(bytes)?))) {
            Some((buffer, address)) => Ok(OutputPlace::in_buffer(buffer, address?, self.output_placement())),
            None => OutputPlace::alone(bytes),
        }
    }

    #[cold]
    fn outstanding_model(&self) -> usize {
        // SAFETY: a request is outstanding, so `requests` is not changed by anyone.
        let payload = unsafe { &*self.requests.get() }.payload();
        payload.map_or(0, |payload| self.shared.spec.payloads[payload.0 as usize].model)
    }

    /// Sends `request`, and whatever the sink asks for next as long as requests complete on this stack.
    pub(super) fn issue(&self, request: Request) {
        let mut request = request;
        while let Some(Next::Issue(next)) = self.issue_once(request) {
            request = next;
        }
    }

    /// Sends one request. `None`: it is under way; else it is over, and this is what the sink said.
    fn issue_once(&self, request: Request) -> Option<Next> {
        let (object, number) = match self.ready(request) {
            Ok(ready) => ready,
            Err(status) => return Some(self.refuse(Stamp::now(), status)),
        };
        self.progress.responses.store(0, Ordering::Relaxed);
        let cancels = self.shared.spec.cancels;
        if cancels {
            self.hand_over.begin(number);
        }
        self.progress.pending.store(FINAL | RELEASE, Ordering::Relaxed);
        let outer = (ISSUING.replace(self), OVER.replace(false));
        let sent = Stamp::now();
        self.progress.sent.store(sent.0, Ordering::Relaxed);
        // SAFETY: the pointer is the slot's own request object, which nobody replaces before it is issued.
        let pointer = unsafe { &*object }.pointer;
        let issued = InferenceRequest::issue(&self.shared.server, pointer);
        ISSUING.set(outer.0);
        let over = OVER.replace(outer.1);
        if let Err(status) = issued {
            self.progress.pending.store(0, Ordering::Relaxed);
            return Some(self.refuse(sent, status));
        }
        if cancels {
            self.hand_over.end(number);
        }
        if number % SEND_SAMPLE == 1 {
            // Belongs to this request, and may be reported with the slot's next: only its average is used.
            self.progress.send_ns.store(Stamp::now().since(sent).max(1), Ordering::Relaxed);
        }
        if over { Some(self.complete()) } else { None }
    }

    /// The request object for `request`, ready to go, and the number of this issue in the slot.
    fn ready(&self, request: Request) -> Result<(*const InferenceRequest, u32), Status> {
        let object = self.prepare(request.payload)?;
        if let Some(position) = request.sequence {
            // SAFETY: as in `issue_once`.
            unsafe { &*object }.set_sequence(position, self.shared.spec.options.correlation)?;
        }
        // SAFETY: the slot is free, so this thread alone uses it.
        let number = unsafe { &mut *self.requests.get() }.count_issue();
        Ok((object, number))
    }

    fn prepare(&self, payload: PayloadId) -> Result<*const InferenceRequest, Status> {
        // SAFETY: the slot is free, so this thread alone uses it.
        let requests = unsafe { &mut *self.requests.get() };
        let callbacks = Callbacks {
            release: self.shared.on_release,
            response: self.shared.on_response,
            allocator: self.shared.allocator.pointer,
            userp: ptr::from_ref(self).cast_mut().cast(),
        };
        requests.prepare(&self.shared, payload, &callbacks).map(ptr::from_ref)
    }

    /// Completes a request that never reached the server.
    #[cold]
    fn refuse(&self, sent: Stamp, status: Status) -> Next {
        let now = Stamp::now();
        self.progress.sent.store(sent.0, Ordering::Relaxed);
        self.progress.last_response.store(now.0, Ordering::Relaxed);
        self.progress.first_response.store(now.0, Ordering::Relaxed);
        self.fail(status);
        self.complete()
    }

    #[cold]
    fn fail(&self, status: Status) {
        let mut error = self.error.lock();
        error.get_or_insert_with(|| Box::new(status.into()));
        self.progress.failed.store(true, Ordering::Release);
    }

    /// Tells the sink that the request is over. Everything of the slot is free from here on.
    #[inline]
    fn complete(&self) -> Next {
        if self.shared.spec.cancels {
            self.hand_over.over();
        }
        let sent = Stamp(self.progress.sent.load(Ordering::Relaxed));
        let send_ns = self.take_send_time();
        let failed = self.progress.failed.load(Ordering::Acquire).then(|| self.take_error()).flatten();
        let completion = Completion {
            sent,
            send_end: (send_ns > 0).then(|| sent.plus(send_ns)),
            first_response: Stamp(self.progress.first_response.load(Ordering::Relaxed)),
            last_response: Stamp(self.progress.last_response.load(Ordering::Relaxed)),
            responses: self.progress.responses.load(Ordering::Acquire),
            error: failed.as_deref(),
        };
        self.shared.sink.complete(self.id, &completion)
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

    /// Takes in one response.
    #[inline]
    pub(super) fn respond(&self, at: Stamp, response: Option<InferenceResponse<'_>>, is_final: bool) {
        let Some(response) = response else {
            return self.end_without_data(at, is_final);
        };
        let failure = response.error().err();
        if self.count_response() == 0 {
            self.progress.first_response.store(at.0, Ordering::Relaxed);
        }
        self.progress.last_response.store(at.0, Ordering::Relaxed);
        if self.shared.spec.watch_responses {
            let error = failure
                .as_ref()
                .map(|status| InferError { code: status.code.clone(), message: status.message.clone() });
            self.shared
                .sink
                .response(self.id, &Response { at, empty: false, outputs: &response, error: error.as_ref() });
        }
        if let Some(status) = failure {
            self.fail(status);
        }
    }

    /// Counts a response; returns how many there were before it.
    #[inline]
    fn count_response(&self) -> u32 {
        if self.shared.decoupled {
            return self.progress.responses.fetch_add(1, Ordering::AcqRel);
        }
        let before = self.progress.responses.load(Ordering::Relaxed);
        self.progress.responses.store(before + 1, Ordering::Release);
        before
    }

    /// A null response ends a request; if none came before it, its time stands for the response's.
    #[cold]
    fn end_without_data(&self, at: Stamp, is_final: bool) {
        if self.progress.responses.load(Ordering::Acquire) == 0 {
            self.progress.first_response.store(at.0, Ordering::Relaxed);
            self.progress.last_response.store(at.0, Ordering::Relaxed);
        }
        if self.shared.spec.watch_responses && is_final {
            self.shared.sink.response(self.id, &Response { at, empty: true, outputs: &NoOutputs, error: None });
        }
    }

    /// One of the two callbacks that end a request has come.
    #[inline]
    pub(super) fn part_done(&self, part: u8) {
        // While the other part is outstanding, only that part's callback can change `pending` besides this one.
        let both = FINAL | RELEASE;
        let pending = self.progress.pending.load(Ordering::Acquire);
        if pending & part == 0 {
            return; // a server that ends a request twice
        }
        let is_first = pending == both
            && self.progress.pending.compare_exchange(both, both ^ part, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !is_first {
            self.all_done();
        }
    }

    /// Both callbacks have come: completes the request, unless its submission is still on this thread's stack.
    #[inline]
    fn all_done(&self) {
        // A visitor from before the slot becomes free until after its last use here: keeps the slot's memory.
        self.visitors.fetch_add(1, Ordering::AcqRel);
        self.progress.pending.store(0, Ordering::Release);
        if ptr::eq(ISSUING.get(), self) {
            OVER.set(true);
        } else if let Next::Issue(request) = self.complete() {
            self.issue(request);
        }
        self.visitors.fetch_sub(1, Ordering::Release);
    }

    /// Asks the server to give up the outstanding request, if it was sent before `sent_before`. `false`: that is not so, or
    /// it is still being handed over.
    pub(super) fn cancel(&self, sent_before: Stamp) -> bool {
        self.hand_over.if_done(|| {
            if self.progress.sent.load(Ordering::Relaxed) >= sent_before.0 {
                return false;
            }
            // SAFETY: the server has a request that is not over before this returns, so `requests` is not changed by anyone.
            if let Some(request) = unsafe { &*self.requests.get() }.current() {
                request.cancel();
            }
            true
        })
    }
}

struct NoOutputs;

impl Outputs for NoOutputs {
    fn visit(&self, _visitor: &mut dyn FnMut(OutputView<'_>)) {}
}
