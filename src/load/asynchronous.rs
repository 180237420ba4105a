//! An asynchronous worker: several requests outstanding, each followed by the next inside its own completion.
//!
//! With a backend that completes on the server's threads, the worker sends its first requests and then sleeps: the load
//! goes on inside the server's callbacks, with no hand-over to another thread. A backend that has to be driven is driven here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam::utils::CachePadded;

use crate::backend::{
    Client, Completion, CompletionSink, Next, Request, Response, SequencePosition, SlotId, Threading,
};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::Result;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::worker::Share;
use crate::record::{Finished, Sample, Source};

/// What a slot remembers. Calls for one slot never overlap, so plain loads and stores of relaxed atomics are enough.
#[derive(Default)]
struct SlotState {
    outstanding: AtomicBool,
    payload: AtomicU64,
    sequence_id: AtomicU64,
    sequence_start: AtomicBool,
    sequence_end: AtomicBool,
    last_response: AtomicU64,
    /// End of the last request; 0 before the first.
    end: AtomicU64,
    issued: AtomicU64,
    sent: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl SlotState {
    /// The request that the slot sent last.
    fn request(&self) -> Request {
        let flag = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let id = self.sequence_id.load(Ordering::Relaxed);
        let position = SequencePosition { id, start: flag(&self.sequence_start), end: flag(&self.sequence_end) };
        Request {
            payload: PayloadId(self.payload.load(Ordering::Relaxed) as u32),
            sequence: (id != 0).then_some(position),
        }
    }
}

/// The completion side of a worker.
struct Reissuer {
    context: Arc<LoadContext>,
    control: Arc<Control>,
    share: Share,
    slots: Box<[CachePadded<SlotState>]>,
    idle: AtomicUsize,
    worker: Thread,
}

impl CompletionSink for Reissuer {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        let state = &self.slots[slot.index()];
        let before = state.last_response.swap(response.at.0, Ordering::Relaxed);
        if before != 0 && !response.empty {
            let source = self.source(slot.index(), state);
            self.context.recorder.gap(source, response.at, response.at.since(Stamp(before)));
        }
        if let Some(observer) = &self.context.observer {
            observer.response(self.share.first_lane + slot.index(), response);
        }
    }

    #[inline]
    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        self.record(slot, completion);
        if self.control.may_send() {
            return Next::Issue(self.next(slot));
        }
        // Ended at once, and not when all slots are idle: the server may hold back another slot's sequence until this ends.
        if let Some(last) = self.context.feed.close(self.share.first_lane + slot.index()) {
            self.remember(slot, last);
            return Next::Issue(last);
        }
        self.slots[slot.index()].outstanding.store(false, Ordering::Release);
        let idle = self.idle.fetch_add(1, Ordering::AcqRel) + 1;
        if idle == self.slots.len() {
            self.worker.unpark();
        }
        Next::Idle
    }
}

impl Reissuer {
    #[inline]
    fn next(&self, slot: SlotId) -> Request {
        let request = self.context.feed.next(self.share.first_lane + slot.index());
        self.remember(slot, request);
        request
    }

    #[inline]
    fn remember(&self, slot: SlotId, request: Request) {
        let state = &self.slots[slot.index()];
        bump(&state.sent);
        state.payload.store(u64::from(request.payload.0), Ordering::Relaxed);
        if let Some(position) = request.sequence {
            state.sequence_id.store(position.id, Ordering::Relaxed);
            state.sequence_start.store(position.start, Ordering::Relaxed);
            state.sequence_end.store(position.end, Ordering::Relaxed);
        }
        if self.context.client.watch_responses {
            state.last_response.store(0, Ordering::Relaxed);
        }
        if self.context.cancel_after.is_some() {
            state.issued.store(Stamp::now().0, Ordering::Release);
        }
    }

    #[inline]
    fn record(&self, slot: SlotId, completion: &Completion<'_>) {
        let state = &self.slots[slot.index()];
        let lane = self.share.first_lane + slot.index();
        let before = state.end.load(Ordering::Relaxed);
        state.end.store(completion.last_response.0, Ordering::Relaxed);
        if let Some(error) = completion.error {
            bump(&state.failed);
            self.context.recorder.fail(self.source(lane, state), completion.last_response, error);
            if state.sequence_start.load(Ordering::Relaxed) {
                self.context.feed.cut_short(lane);
            }
        } else {
            bump(&state.completed);
            let sequence_end = state.sequence_end.load(Ordering::Relaxed);
            let turnaround_ns = if before == 0 { 0 } else { completion.sent.since(Stamp(before)) };
            let sample = Sample { turnaround_ns, ..Sample::of(completion, None, sequence_end) };
            self.context.recorder.record(self.source(lane, state), &sample);
        }
        if let Some(observer) = &self.context.observer {
            let finished = Finished {
                request: state.request(),
                sent: completion.sent,
                intended: None,
                end: completion.last_response,
                error: completion.error,
            };
            observer.complete(lane, &finished);
        }
    }

    #[inline]
    fn source(&self, writer: usize, state: &SlotState) -> Source {
        self.context.source(writer, PayloadId(state.payload.load(Ordering::Relaxed) as u32))
    }

    fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire) == self.slots.len()
    }

    fn total(&self, counter: impl Fn(&SlotState) -> &AtomicU64) -> u64 {
        self.slots.iter().map(|slot| counter(slot).load(Ordering::Acquire)).sum()
    }
}

#[inline]
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// How often a sleeping worker looks whether it must go on.
const LOOK_UP: Duration = Duration::from_millis(10);
/// How often outstanding requests are looked through for ones to cancel.
const CANCEL_LOOK_UP: Duration = Duration::from_micros(100);

/// A worker's whole life.
pub(super) fn work(context: &Arc<LoadContext>, control: &Arc<Control>, share: Share) -> Result<()> {
    let slots = (0..share.slots).map(|_| CachePadded::default()).collect();
    let idle = AtomicUsize::new(share.slots);
    let (context, control) = (Arc::clone(context), Arc::clone(control));
    let sink = Arc::new(Reissuer { context, control, share, slots, idle, worker: thread::current() });
    sink.context.reserve_observed(sink.share.first_lane + sink.share.slots);
    let spec = sink.context.client_spec(sink.share.slots);
    let mut client = sink.context.backend.open_client(spec, Arc::clone(&sink) as Arc<dyn CompletionSink>)?;
    if !sink.control.wait_for_go() {
        return Ok(());
    }
    let worked = sink.run(client.as_mut());
    let (sent, completed, failed) = (sink.total(|s| &s.sent), sink.total(|s| &s.completed), sink.total(|s| &s.failed));
    sink.control.report_end(sent, completed, failed, Stamp::now());
    worked
}

impl Reissuer {
    fn run(&self, client: &mut dyn Client) -> Result<()> {
        for index in 0..self.slots.len() {
            if self.control.may_send() {
                let slot = SlotId(index as u32);
                let request = self.next(slot);
                self.submit(client, slot, request)?;
            }
        }
        self.wait_until_idle(client)
    }

    fn submit(&self, client: &mut dyn Client, slot: SlotId, request: Request) -> Result<()> {
        self.idle.fetch_sub(1, Ordering::AcqRel);
        self.slots[slot.index()].outstanding.store(true, Ordering::Release);
        client.submit(slot, request)
    }

    /// Drives or sleeps until no request is outstanding, or the load's patience with the last ones ends.
    fn wait_until_idle(&self, client: &mut dyn Client) -> Result<()> {
        let driven = self.context.backend.capabilities().threading == Threading::Driven;
        let look_up = if self.context.cancel_after.is_some() { CANCEL_LOOK_UP } else { LOOK_UP };
        while !self.is_idle() && !self.control.has_given_up() {
            if driven {
                client.drive(Stamp::now().plus_duration(look_up))?;
            } else {
                thread::park_timeout(look_up);
            }
            if let Some(after) = self.context.cancel_after {
                self.cancel_overdue(client, after);
            }
        }
        Ok(())
    }

    fn cancel_overdue(&self, client: &mut dyn Client, after: Duration) {
        for (index, state) in self.slots.iter().enumerate() {
            let now = Stamp::now();
            let issued = state.issued.load(Ordering::Acquire);
            let due = Stamp(issued).plus_duration(after);
            let overdue = issued != 0 && state.outstanding.load(Ordering::Acquire) && now >= due;
            // Where it cannot be given up yet, the next look asks again.
            if overdue && client.cancel(SlotId(index as u32), now) {
                // Unless the slot's next request has put its own there.
                let _ = state.issued.compare_exchange(issued, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
}
