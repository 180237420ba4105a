//! The outstanding requests of one worker, and what their completions do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

use crate::backend::{
    Completion, CompletionSink, Generation, Next, Request, RequestTrace, Response, SequencePosition, SlotId, Uncounted,
};
use crate::clock::Stamp;
use crate::context::{Carried, LoadContext};
use crate::control::Control;
use crate::engine::slots::{Slot, SlotTable, bump};
use crate::engine::{Over, Policy};
use crate::record::{Origin, Sample, Source, TextLog};

/// How a worker's slots are numbered among those of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Number of its first slot.
    pub(crate) first: usize,
    /// Distance from one slot's number to the next.
    pub(crate) stride: usize,
}

impl Numbers {
    #[inline]
    pub(crate) fn number(self, slot: SlotId) -> usize {
        self.first + slot.index() * self.stride
    }
}

/// State shared by the issuing thread and the completions of its requests.
pub(crate) struct InFlight<P> {
    pub(crate) context: Arc<LoadContext>,
    pub(crate) control: Arc<Control>,
    pub(crate) policy: P,
    pub(crate) numbers: Numbers,
    pub(super) slots: SlotTable,
    /// Whether a request stream has never more than one request under way.
    alone: bool,
    /// Whether the issuing thread sleeps until something happens.
    waiting: AtomicBool,
    issuer: Thread,
}

impl<P: Policy> InFlight<P> {
    /// The requests of the calling thread.
    pub(super) fn of_this_thread(
        context: &Arc<LoadContext>,
        control: &Arc<Control>,
        policy: P,
        numbers: Numbers,
        slots: usize,
    ) -> Self {
        let flight = Self {
            context: Arc::clone(context),
            control: Arc::clone(control),
            policy,
            numbers,
            slots: SlotTable::new(slots),
            alone: false,
            waiting: AtomicBool::new(false),
            issuer: thread::current(),
        };
        flight.grow(slots);
        flight
    }

    /// Whether a request stream has never more than one request under way.
    pub(super) fn with_request_streams_alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }

    /// Request stream of the input source that a slot's requests come from.
    pub(super) fn request_stream(&self, slot: SlotId) -> usize {
        self.slots.get(slot).request_stream.load(Ordering::Relaxed) as usize
    }

    /// Wakes the issuing thread, if it sleeps until something happens.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) {
            self.issuer.unpark();
        }
    }

    /// Announces that the issuing thread is about to sleep until something happens, or that it continues.
    pub(super) fn set_waiting(&self, waiting: bool) {
        // Sequentially consistent, as is the push to the list of free slots: either the completion sees that the issuer
        // waits, or the issuer, which checks again after this, sees the slot.
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    /// Makes sure that the slots below `slots` exist.
    pub(super) fn grow(&self, slots: usize) {
        self.slots.grow(slots);
        if slots > 0 {
            self.context.reserve_observed(self.numbers.number(SlotId(slots as u32 - 1)) + 1);
        }
    }

    /// Stores the request that is about to be sent in a slot.
    #[inline]
    pub(super) fn remember(&self, state: &Slot, request: Request, issued: impl FnOnce() -> Stamp) {
        state.remember(request, |position| self.follow(state, position));
        if self.context.client.watch_responses {
            state.last_response.store(0, Ordering::Relaxed);
        }
        if self.context.cancel_after.is_some() {
            state.issued.store(issued().0, Ordering::Release);
        }
    }

    /// Notes when a sequence begins, and of its last request when it began.
    #[cold]
    #[inline(never)]
    fn follow(&self, state: &Slot, SequencePosition { start, end, .. }: SequencePosition) {
        let (input_source, request_stream) =
            (&self.context.input_source, state.request_stream.load(Ordering::Relaxed) as usize);
        if start {
            input_source.begin(request_stream, if P::SCHEDULED { state.intended() } else { Stamp::now() });
        }
        if end {
            state.sequence_begun.store(input_source.begun(request_stream).unwrap_or_default().0, Ordering::Relaxed);
        }
    }

    /// The source of records about a slot's request.
    #[inline]
    fn source(&self, slot: SlotId, state: &Slot) -> Source {
        self.context.source(self.numbers.number(slot), || Carried { payload: state.payload(), server: state.server() })
    }

    #[inline]
    fn book(&self, slot: SlotId, state: &Slot, completion: &Completion<'_>) {
        let before = state.end.load(Ordering::Relaxed);
        state.end.store(completion.last_response.0, Ordering::Relaxed);
        bump(if completion.error.is_some() { &state.failed } else { &state.completed });
        let intended = P::SCHEDULED.then(|| state.intended());
        let is_first = before == 0 || P::SCHEDULED;
        let turnaround_ns = if is_first { 0 } else { completion.sent.since(Stamp(before)) };
        let sample = Sample { turnaround_ns, ..Sample::new(completion, intended) };
        let (source, error) = (self.source(slot, state), completion.error);
        let over = Over { source, sample, error };
        self.context.book(&over, || state.request());
        if state.ends_sequence() {
            self.context.end_sequence(&over, state.sequence_begun());
        }
        self.policy.recorded(self, slot, &sample, error.is_some());
        if error.is_some() && self.alone {
            self.context.cut_short(state.request(), self.request_stream(slot));
        }
    }
}

impl<P: Policy> CompletionSink for InFlight<P> {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        // An error is not a response; the request ends with it.
        if !response.empty && response.error.is_none() {
            let state = self.slots.get(slot);
            let before = state.last_response.swap(response.at.0, Ordering::Relaxed);
            let gap_ns = (before != 0).then(|| response.at.since(Stamp(before)));
            if let Some(gap_ns) = gap_ns {
                let source = self.source(slot, state);
                self.context.recorder.gap(source, response.at, gap_ns);
            }
            self.policy.responded(self, slot, response.at, gap_ns);
        }
        if let Some(observer) = &self.context.observer {
            observer.response(self.numbers.number(slot), response);
        }
    }

    fn carried(&self, slot: SlotId, text: &[u8]) {
        if let Some(observer) = &self.context.observer {
            observer.carried(self.numbers.number(slot), text);
        }
    }

    #[cold]
    fn traced(&self, slot: SlotId, trace: &RequestTrace) {
        let intended = P::SCHEDULED.then(|| self.slots.get(slot).intended());
        self.context.keep_trace(trace, intended, None);
    }

    fn generated(&self, slot: SlotId, generation: &Generation, uncounted: Uncounted<'_>) {
        let state = self.slots.get(slot);
        let source = self.source(slot, state);
        let start = if P::SCHEDULED { state.intended() } else { generation.sent };
        let LoadContext { recorder, texts, .. } = &*self.context;
        TextLog::record(texts.as_ref(), recorder, Origin { source, start }, generation, uncounted);
    }

    fn placed(&self, slot: SlotId, server: usize) {
        self.slots.get(slot).assign(server);
    }

    #[inline]
    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        let state = self.slots.get(slot);
        self.book(slot, state, completion);
        let next = self.policy.next(self, slot);
        if let Next::Issue(request) = &next {
            self.remember(state, *request, Stamp::now);
            return next;
        }
        if P::SCHEDULED {
            self.control.note_end();
        }
        state.issued.store(0, Ordering::Release);
        self.slots.free(slot);
        self.wake();
        Next::Idle
    }
}
