//! A worker's thread: opens the client, issues requests, waits for them, and settles the counts at the end.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::backend::{Client, ClientSpec, CompletionSink, Request, SlotId, Threading};
use crate::clock::Stamp;
use crate::context::{Carried, LoadContext};
use crate::control::Control;
use crate::engine::cancel::Overdue;
use crate::engine::slots::Counts;
use crate::engine::{InFlight, Numbers, Policy};
use crate::error::Result;

/// How often a thread that waits for its requests checks whether it should go on.
const WAIT_LIMIT: Duration = Duration::from_millis(10);
/// The shortest sleep: waking up takes about as long.
const MIN_SLEEP: Duration = Duration::from_micros(50);

/// Parameters of a worker.
pub(crate) struct Setup<P> {
    /// Decides when its slots send, and what.
    pub(crate) policy: P,
    /// How its slots are numbered.
    pub(crate) numbers: Numbers,
    /// Its number among the workers.
    pub(crate) worker: usize,
    /// Their number.
    pub(crate) workers: usize,
    /// Number of slots that it opens its client with.
    pub(crate) slots: usize,
    /// Whether a request stream has never more than one request under way.
    pub(crate) alone: bool,
    /// Whether completions issue requests, too.
    pub(crate) reissues: bool,
    /// Whether the policy looks at responses.
    pub(crate) watches: bool,
}

/// The body of a worker's thread: `run` issues what the plan says and returns when nothing is under way any more, or
/// nothing is worth waiting for.
///
/// # Errors
/// If the client cannot be opened, or breaks.
pub(crate) fn work<P: Policy + 'static>(
    context: &Arc<LoadContext>,
    control: &Arc<Control>,
    setup: Setup<P>,
    run: impl FnOnce(&mut Issuer<P>) -> Result<()>,
) -> Result<()> {
    let Setup { policy, numbers, worker, workers, slots, alone, reissues, watches } = setup;
    let flight = InFlight::of_this_thread(context, control, policy, numbers, slots).with_request_streams_alone(alone);
    let flight = Arc::new(flight);
    let spec = context.client_spec(slots, worker, workers);
    let spec = ClientSpec { watch_responses: spec.watch_responses || watches, ..spec };
    let client = context.backend.open_client(spec, Arc::clone(&flight) as Arc<dyn CompletionSink>)?;
    let mut issuer = Issuer {
        driven: context.backend.capabilities().threading == Threading::Driven,
        free: (0..slots as u32).map(SlotId).collect(),
        slots,
        overdue: Overdue::new(context.cancel_after, reissues),
        client,
        flight,
    };
    if !control.wait_for_go() {
        return Ok(());
    }
    let worked = run(&mut issuer);
    issuer.report();
    worked
}

/// The issuing side of a worker.
pub(crate) struct Issuer<P> {
    pub(crate) flight: Arc<InFlight<P>>,
    pub(crate) client: Box<dyn Client>,
    /// Whether its client makes progress only while it is driven.
    pub(crate) driven: bool,
    /// Slots known to be free, the one that has been free longest in front.
    pub(crate) free: VecDeque<SlotId>,
    /// Number of slots.
    pub(crate) slots: usize,
    overdue: Overdue,
}

impl<P: Policy> Issuer<P> {
    /// Sends a request from `request_stream` in a free slot; the current time is `now`.
    #[inline]
    pub(crate) fn submit(&mut self, slot: SlotId, request: Request, request_stream: usize, now: Stamp) -> Result<()> {
        let state = self.flight.slots.get(slot);
        state.request_stream.store(request_stream as u32, Ordering::Relaxed);
        self.flight.remember(state, request, || now);
        self.overdue.note(slot, now);
        self.client.submit(slot, request)
    }

    /// The same for a request with an intended time.
    #[inline]
    pub(crate) fn submit_due(
        &mut self,
        slot: SlotId,
        request: Request,
        request_stream: usize,
        intended: Stamp,
        now: Stamp,
    ) -> Result<()> {
        let flight = &self.flight;
        flight.slots.get(slot).intended.store(intended.0, Ordering::Relaxed);
        let source =
            flight.context.source(flight.numbers.number(slot), || Carried { payload: request.payload, server: 0 });
        flight.context.recorder.sent(source, now, now.since(intended));
        flight.control.note_issue();
        self.submit(slot, request, request_stream, now)
    }

    /// Takes a free slot. Over a network it is the one that was used last, as clients do with connections: servers close those that
    /// are idle for long.
    #[inline]
    pub(crate) fn take_free(&mut self) -> Option<SlotId> {
        if self.driven {
            self.flight.slots.take_freed(&mut self.free);
            return self.free.pop_back();
        }
        if self.free.is_empty() {
            self.flight.slots.take_freed(&mut self.free);
        }
        self.free.pop_front()
    }

    /// Adds slots up to a total of `slots`.
    pub(crate) fn grow(&mut self, slots: usize) -> Result<()> {
        self.flight.grow(slots);
        self.client.grow(slots)?;
        self.free.extend((self.slots as u32..slots as u32).map(SlotId));
        self.slots = slots;
        Ok(())
    }

    /// Whether no request is outstanding.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.flight.slots.take_freed(&mut self.free);
        self.free.len() == self.slots
    }

    /// The request streams that have requests under way.
    pub(crate) fn busy_request_streams(&mut self) -> HashSet<usize> {
        self.flight.slots.take_freed(&mut self.free);
        let free: HashSet<SlotId> = self.free.iter().copied().collect();
        let all = (0..self.slots as u32).map(SlotId);
        all.filter(|slot| !free.contains(slot)).map(|slot| self.flight.request_stream(slot)).collect()
    }

    /// When to look for overdue requests.
    pub(crate) fn next_look(&self) -> Stamp {
        self.overdue.next_look()
    }

    /// Cancels requests that have been under way for too long.
    pub(crate) fn cancel_overdue(&mut self) {
        self.overdue.cancel(&self.flight.slots, self.slots, self.client.as_mut());
    }

    /// Drives the client, or sleeps, until a slot may have come back or something else has `happened` that wakes the
    /// thread; only for a moment.
    pub(crate) fn rest(&mut self, happened: impl Fn() -> bool) -> Result<()> {
        self.rest_until(Stamp::NEVER, happened)
    }

    /// The same, at most until `due`.
    pub(crate) fn rest_until(&mut self, due: Stamp, happened: impl Fn() -> bool) -> Result<()> {
        self.cancel_overdue();
        let until = due.min(self.next_look()).min(Stamp::now().plus_duration(WAIT_LIMIT));
        if self.driven {
            return self.client.drive(until);
        }
        let before = self.free.len();
        self.flight.set_waiting(true);
        self.flight.slots.take_freed(&mut self.free);
        if self.free.len() == before && !happened() {
            thread::park_timeout(until.from_now().max(MIN_SLEEP));
        }
        self.flight.set_waiting(false);
        Ok(())
    }

    /// Waits until no request is outstanding, or the load gives up.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while !self.is_idle() && !self.flight.control.has_given_up() {
            self.rest(|| false)?;
        }
        Ok(())
    }

    /// Reports the final counts.
    fn report(&self) {
        let Counts { sent, completed, failed } = self.flight.slots.counts(self.slots);
        let ends = (0..self.slots as u32).map(|slot| self.flight.slots.get(SlotId(slot)).end.load(Ordering::Acquire));
        // A thread that sleeps for its last answers wakes a little after they have come.
        let last = ends.max().filter(|end| *end > 0);
        let ended = last.filter(|_| sent == completed + failed).map_or_else(Stamp::now, |end| Stamp(end).plus(1));
        self.flight.control.report_end(sent, completed, failed, ended);
    }
}
