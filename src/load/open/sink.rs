//! The completion side of an open loop's worker: records, and gives the slot back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};

use crossbeam::utils::CachePadded;

use crate::backend::{Completion, CompletionSink, Next, Request, Response, SlotId};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::open::Share;
use crate::load::slots::SlotTable;
use crate::record::{Finished, Sample, Source};

/// What the issuing thread and the completions of its requests share.
pub(super) struct OpenSink {
    pub(super) context: Arc<LoadContext>,
    pub(super) control: Arc<Control>,
    pub(super) share: Share,
    pub(super) slots: SlotTable,
    completed: CachePadded<AtomicU64>,
    failed: CachePadded<AtomicU64>,
    /// When the last request was over; 0 before the first.
    last_end: CachePadded<AtomicU64>,
    serial: bool,
    /// The issuing thread sleeps until a slot is free.
    waiting: AtomicBool,
    issuer: Thread,
}

impl OpenSink {
    /// The sink of the calling thread.
    pub(super) fn for_this_thread(
        context: &Arc<LoadContext>,
        control: &Arc<Control>,
        share: Share,
        serial: bool,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            control: Arc::clone(control),
            share,
            slots: SlotTable::new(),
            completed: CachePadded::default(),
            failed: CachePadded::default(),
            last_end: CachePadded::default(),
            serial,
            waiting: AtomicBool::new(false),
            issuer: thread::current(),
        }
    }

    /// Requests that succeeded and that failed.
    pub(super) fn ended(&self) -> (u64, u64) {
        (self.completed.load(Ordering::Acquire), self.failed.load(Ordering::Acquire))
    }

    /// When the last request was over.
    pub(super) fn last_end(&self) -> Option<Stamp> {
        Some(Stamp(self.last_end.load(Ordering::Acquire))).filter(|end| end.0 > 0)
    }

    /// Remembers what is about to be submitted in a slot.
    #[inline]
    pub(super) fn remember(&self, slot: SlotId, request: Request, lane: usize, (intended, issued): (Stamp, Stamp)) {
        let state = self.slots.get(slot);
        state.intended.store(intended.0, Ordering::Relaxed);
        state.remember(request, lane, issued);
    }

    /// Announces that the issuing thread is about to sleep for want of a free slot, or that it goes on.
    pub(super) fn set_waiting(&self, waiting: bool) {
        // Sequentially consistent, as the push to the list of free slots is: either the completion sees that the issuer
        // waits, or the issuer, which looks again after this, sees the slot.
        self.waiting.store(waiting, Ordering::SeqCst);
    }

    /// Makes sure that the slots below `slots` exist.
    pub(super) fn grow(&self, slots: usize) {
        self.slots.grow(slots);
        self.context.reserve_observed(slots * self.share.workers);
    }

    /// A number that no other outstanding request of the load has.
    fn number(&self, slot: SlotId) -> usize {
        slot.index() * self.share.workers + self.share.worker
    }

    #[inline]
    fn source(&self, slot: SlotId) -> Source {
        self.context.source(slot.index(), PayloadId(self.slots.get(slot).payload.load(Ordering::Relaxed)))
    }

    #[inline]
    fn record(&self, slot: SlotId, completion: &Completion<'_>) {
        let state = self.slots.get(slot);
        let recorder = &self.context.recorder;
        self.last_end.fetch_max(completion.last_response.0, Ordering::Relaxed);
        if let Some(error) = completion.error {
            self.failed.fetch_add(1, Ordering::Relaxed);
            recorder.fail(self.source(slot), completion.last_response, error);
            // Only where no other request of the sequence can be under way.
            if self.serial && state.sequence_start.load(Ordering::Relaxed) {
                self.context.feed.cut_short(state.lane.load(Ordering::Relaxed) as usize);
            }
        } else {
            self.completed.fetch_add(1, Ordering::Relaxed);
            let sequence_end = state.sequence_end.load(Ordering::Relaxed);
            recorder.record(self.source(slot), &Sample::of(completion, Some(state.intended()), sequence_end));
        }
        if let Some(observer) = &self.context.observer {
            let (request, intended) = (state.request(), Some(state.intended()));
            let finished = Finished {
                request,
                sent: completion.sent,
                intended,
                end: completion.last_response,
                error: completion.error,
            };
            observer.complete(self.number(slot), &finished);
        }
    }
}

impl CompletionSink for OpenSink {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        if !response.empty {
            let before = self.slots.get(slot).last_response.swap(response.at.0, Ordering::Relaxed);
            if before != 0 {
                self.context.recorder.gap(self.source(slot), response.at, response.at.since(Stamp(before)));
            }
        }
        if let Some(observer) = &self.context.observer {
            observer.response(self.number(slot), response);
        }
    }

    #[inline]
    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        self.record(slot, completion);
        self.control.note_end();
        self.slots.get(slot).issued.store(0, Ordering::Release);
        self.slots.free(slot);
        if self.waiting.load(Ordering::SeqCst) {
            self.issuer.unpark();
        }
        Next::Idle
    }
}
