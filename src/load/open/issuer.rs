//! The issuing side of an open loop's worker: waits for intended times and submits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::backend::{Client, CompletionSink, Request, SlotId, Threading};
use crate::clock::Stamp;
use crate::error::Result;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::open::sink::OpenSink;
use crate::load::open::{OpenLoop, Share};
use crate::load::pace::{Pacer, Wake};
use crate::load::schedule::Schedule;

/// Slots that a worker begins with; more are added as outstanding requests pile up.
pub(super) const FIRST_SLOTS: usize = 64;
/// The same where a slot may be a connection of its own.
const FIRST_DRIVEN_SLOTS: usize = 8;
/// How often a worker that waits for completions looks whether the load is over.
const LOOK_UP: Duration = Duration::from_millis(10);

/// A worker's whole life.
pub(super) fn work(context: &Arc<LoadContext>, control: &Arc<Control>, shape: &OpenLoop, share: Share) -> Result<()> {
    let sink = Arc::new(OpenSink::for_this_thread(context, control, share, shape.serial));
    let driven = context.backend.capabilities().threading == Threading::Driven;
    let first_slots = if driven { FIRST_DRIVEN_SLOTS } else { FIRST_SLOTS };
    let slots = if shape.serial { share.slots } else { share.slots.min(first_slots) };
    sink.grow(slots);
    let client =
        context.backend.open_client(context.client_spec(slots), Arc::clone(&sink) as Arc<dyn CompletionSink>)?;
    let mut issuer = Issuer {
        driven,
        pacer: Pacer::for_this_thread(shape.spin),
        serial: shape.serial,
        free: (0..slots as u32).map(SlotId).collect(),
        slots,
        to_cancel: VecDeque::new(),
        turn: 0,
        sent: 0,
        sends: None,
        until: shape.until.map_or(u64::MAX, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX)),
        client,
        sink,
    };
    if !control.wait_for_go() {
        return Ok(());
    }
    // Each worker sends its own part of a counted load, as it has its own part of the data: no step is left out because
    // another worker was ahead.
    let count = context.quota.map_or(u64::MAX, |quota| share.part_of(quota));
    let schedule = Schedule::share(&shape.arrivals, shape.seed, share.worker, share.workers);
    let mut schedule = schedule.take(usize::try_from(count).unwrap_or(usize::MAX));
    let played = issuer.play(&mut schedule, control.started());
    if let Some((first, last)) = issuer.sends {
        control.report_sends((first, last), issuer.sent);
    }
    let worked = played.and_then(|()| issuer.finish());
    let (completed, failed) = issuer.sink.ended();
    // A worker that sleeps for its last answers wakes a little later than they come.
    let all_over = issuer.sent == completed + failed;
    let ended = issuer.sink.last_end().filter(|_| all_over).unwrap_or_else(Stamp::now);
    control.report_end(issuer.sent, completed, failed, ended);
    worked
}

struct Issuer {
    sink: Arc<OpenSink>,
    client: Box<dyn Client>,
    pacer: Pacer,
    driven: bool,
    serial: bool,
    /// Slots that are known to be free, the one that has been free longest in front.
    free: VecDeque<SlotId>,
    /// Slots that there are.
    slots: usize,
    /// Requests that may have to be cancelled, and when they were issued; in that order.
    to_cancel: VecDeque<(SlotId, Stamp)>,
    /// Requests issued, for going round the lanes.
    turn: usize,
    sent: u64,
    /// First and last send.
    sends: Option<(Stamp, Stamp)>,
    /// Offset from which on nothing is sent.
    until: u64,
}

impl Issuer {
    /// Plays the schedule to its end, or until the load is over.
    fn play(&mut self, schedule: &mut impl Iterator<Item = u64>, start: Stamp) -> Result<()> {
        for offset in schedule {
            // A load that has a length is stopped from outside; until then nothing is due any more.
            let intended = if offset < self.until { start.plus(offset) } else { Stamp::NEVER };
            if self.wait_until(intended)? == Wake::Stopped {
                return Ok(());
            }
            let Some(slot) = self.free_slot()? else { return Ok(()) };
            if !self.sink.control.may_send() {
                self.free.push_front(slot);
                return Ok(());
            }
            let lane = self.lane(slot);
            self.issue(slot, lane, intended)?;
        }
        Ok(())
    }

    fn issue(&mut self, slot: SlotId, lane: usize, intended: Stamp) -> Result<()> {
        let request = self.sink.context.feed.next(lane);
        self.submit(slot, request, lane, intended)
    }

    /// Whether no request is outstanding.
    fn is_idle(&self) -> bool {
        let (completed, failed) = self.sink.ended();
        self.sent == completed + failed
    }

    fn submit(&mut self, slot: SlotId, request: Request, lane: usize, intended: Stamp) -> Result<()> {
        let now = Stamp::now();
        let sink = &self.sink;
        sink.remember(slot, request, lane, (intended, now));
        let source = sink.context.source(sink.share.worker, request.payload);
        sink.context.recorder.sent(source, now, now.since(intended));
        sink.control.note_issue();
        self.sent += 1;
        self.sends = Some((self.sends.map_or(now, |(first, _)| first), now));
        if sink.context.cancel_after.is_some() {
            self.to_cancel.push_back((slot, now));
        }
        self.client.submit(slot, request)
    }

    /// The lane whose turn it is. Serial sequences are bound to slots, so that a free slot is a sequence at rest.
    fn lane(&mut self, slot: SlotId) -> usize {
        let Share { worker, workers, lanes, .. } = self.sink.share;
        let number = if self.serial { slot.index() } else { self.turn % lanes };
        self.turn += 1;
        worker + number * workers
    }

    /// Waits for a moment, driving the backend where it has to be driven and cancelling requests whose time is up.
    fn wait_until(&mut self, moment: Stamp) -> Result<Wake> {
        loop {
            let next = moment.min(self.next_cancel());
            let wake = if self.driven && !self.is_idle() {
                self.drive_until(next)?
            } else {
                let control = &self.sink.control;
                self.pacer.wait(next, || control.is_over())
            };
            self.cancel_overdue();
            if wake == Wake::Stopped || next == moment {
                return Ok(wake);
            }
        }
    }

    /// Makes progress at least once, and until a moment or until nothing is left to make progress with.
    fn drive_until(&mut self, moment: Stamp) -> Result<Wake> {
        let nap_end = self.pacer.nap_end(moment);
        loop {
            let now = Stamp::now();
            let until = if now < nap_end { nap_end.min(now.plus_duration(LOOK_UP)) } else { now };
            self.client.drive(until)?;
            if Stamp::now() >= moment {
                return Ok(Wake::Due);
            }
            if self.is_idle() {
                let control = &self.sink.control;
                return Ok(self.pacer.wait(moment, || control.is_over()));
            }
            if self.sink.control.is_over() {
                return Ok(Wake::Stopped);
            }
        }
    }

    /// A slot to issue in: one that has come back, else a new one, else the next that comes back. `None`: the load is over.
    fn free_slot(&mut self) -> Result<Option<SlotId>> {
        if let Some(slot) = self.known_free() {
            return Ok(Some(slot));
        }
        if self.slots < self.sink.share.slots {
            self.grow()?;
        } else {
            self.sink.control.note_held_back();
        }
        loop {
            if let Some(slot) = self.known_free() {
                return Ok(Some(slot));
            }
            if self.sink.control.is_over() {
                return Ok(None);
            }
            self.await_completion()?;
        }
    }

    fn known_free(&mut self) -> Option<SlotId> {
        if self.free.is_empty() {
            self.sink.slots.take_freed(&mut self.free);
        }
        self.free.pop_front()
    }

    fn grow(&mut self) -> Result<()> {
        // A slot of a driven backend may be a connection, which takes longer to make.
        let more = if self.driven { self.slots / 4 + 1 } else { self.slots };
        let slots = (self.slots + more).min(self.sink.share.slots);
        self.sink.grow(slots);
        self.client.grow(slots)?;
        self.free.extend((self.slots as u32..slots as u32).map(SlotId));
        self.slots = slots;
        Ok(())
    }

    /// Returns when a request may have completed, after [`LOOK_UP`] at the latest.
    fn await_completion(&mut self) -> Result<()> {
        self.cancel_overdue();
        if self.driven {
            return self.client.drive(Stamp::now().plus_duration(LOOK_UP));
        }
        self.sink.set_waiting(true);
        self.sink.slots.take_freed(&mut self.free);
        if self.free.is_empty() {
            let until_cancel = self.next_cancel().from_now().max(Duration::from_micros(50));
            thread::park_timeout(LOOK_UP.min(until_cancel));
        }
        self.sink.set_waiting(false);
        Ok(())
    }

    /// When the request that was issued first of those that are remembered is to be cancelled.
    fn next_cancel(&self) -> Stamp {
        let oldest = self.to_cancel.front().zip(self.sink.context.cancel_after);
        oldest.map_or(Stamp::NEVER, |(&(_, issued), after)| issued.plus_duration(after))
    }

    fn cancel_overdue(&mut self) {
        while self.next_cancel() <= Stamp::now() {
            let Some((slot, issued)) = self.to_cancel.pop_front() else { return };
            if self.sink.slots.get(slot).issued.load(Ordering::Acquire) == issued.0 {
                self.client.cancel(slot, Stamp::now());
            }
        }
    }

    /// Waits for outstanding requests, then ends every open sequence and waits for that.
    fn finish(&mut self) -> Result<()> {
        if self.serial {
            return self.finish_serial();
        }
        self.settle()?;
        let Share { worker, workers, lanes, .. } = self.sink.share;
        for lane in (0..lanes).map(|number| worker + number * workers) {
            if let Some(request) = self.sink.context.feed.close(lane) {
                while self.free.is_empty() {
                    if self.sink.control.has_given_up() {
                        return Ok(());
                    }
                    self.await_completion()?;
                    self.sink.slots.take_freed(&mut self.free);
                }
                let slot = self.free.pop_front().expect("was just seen");
                self.submit(slot, request, lane, Stamp::now())?;
            }
        }
        self.settle()
    }

    /// Ends every sequence as it comes to rest, without waiting for the others: the server may hold the start of one back
    /// until another ends.
    fn finish_serial(&mut self) -> Result<()> {
        let Share { worker, workers, .. } = self.sink.share;
        let mut at_rest = 0;
        loop {
            self.sink.slots.take_freed(&mut self.free);
            for slot in std::mem::take(&mut self.free) {
                let lane = worker + slot.index() * workers;
                match self.sink.context.feed.close(lane) {
                    Some(request) => self.submit(slot, request, lane, Stamp::now())?,
                    None => at_rest += 1,
                }
            }
            if at_rest == self.slots || self.sink.control.has_given_up() {
                return Ok(());
            }
            self.await_completion()?;
        }
    }

    /// Waits until no request is outstanding, or the load's patience ends.
    fn settle(&mut self) -> Result<()> {
        loop {
            self.sink.slots.take_freed(&mut self.free);
            if self.free.len() == self.slots || self.sink.control.has_given_up() {
                return Ok(());
            }
            // Slots that came back must not keep it from sleeping for those that have not.
            let free = std::mem::take(&mut self.free);
            self.await_completion()?;
            self.free.extend(free);
        }
    }
}
