//! Plays a schedule: waits for intended times, and sends.

use std::iter;
use std::time::Duration;

use crate::backend::{Next, Request, SlotId};
use crate::clock::Stamp;
use crate::engine::{InFlight, Issuer, Policy};
use crate::error::Result;
use crate::open::OpenShare;
use crate::pace::{Pacer, Wake};

/// How often a thread that drives its client checks whether the load is over.
const WAIT_LIMIT: Duration = Duration::from_millis(10);

/// A slot is free when its request is over; the schedule says when it is used again.
pub(super) struct Scheduled;

impl Policy for Scheduled {
    const SCHEDULED: bool = true;

    #[inline]
    fn next(&self, _: &InFlight<Self>, _: SlotId) -> Next {
        Next::Idle
    }
}

/// One worker's progress through its part of the schedule.
pub(super) struct Player<'a> {
    pub(super) issuer: &'a mut Issuer<Scheduled>,
    pub(super) pacer: Pacer,
    pub(super) share: OpenShare,
    pub(super) serial: bool,
    /// Number of requests issued, to cycle through the request streams.
    pub(super) sent: u64,
    /// First and last send.
    pub(super) sends: Option<(Stamp, Stamp)>,
    /// Offset from which on nothing is sent.
    pub(super) until: u64,
}

impl Player<'_> {
    /// Plays the schedule to its end, or until the load is over.
    pub(super) fn play(&mut self, schedule: &mut impl Iterator<Item = u64>, start: Stamp) -> Result<()> {
        for offset in schedule {
            // A load with a fixed length is stopped from outside; until then nothing is due any more.
            let intended = if offset < self.until {
                start.plus(offset)
            } else {
                self.issuer.flight.control.note_caught_up();
                Stamp::NEVER
            };
            if self.wait_until(intended)? == Wake::Stopped {
                return Ok(());
            }
            let Some(slot) = self.free_slot()? else { return Ok(()) };
            if !self.issuer.flight.control.may_send() {
                self.issuer.free.push_front(slot);
                return Ok(());
            }
            let request_stream = self.request_stream(slot);
            let request = self.issuer.flight.context.input_source.next(request_stream);
            self.submit(slot, request, request_stream, intended)?;
        }
        Ok(())
    }

    fn submit(&mut self, slot: SlotId, request: Request, request_stream: usize, intended: Stamp) -> Result<()> {
        let now = Stamp::now();
        self.sent += 1;
        self.sends = Some((self.sends.map_or(now, |(first, _)| first), now));
        self.issuer.submit_due(slot, request, request_stream, intended, now)
    }

    /// The request stream whose turn it is. Serial sequences are bound to slots, so a free slot is an idle sequence.
    fn request_stream(&self, slot: SlotId) -> usize {
        self.share.request_stream(if self.serial {
            slot.index()
        } else {
            (self.sent % self.share.request_streams as u64) as usize
        })
    }

    /// Waits for a moment; meanwhile drives the backend if it must be driven, and cancels overdue requests.
    fn wait_until(&mut self, moment: Stamp) -> Result<Wake> {
        loop {
            let next = moment.min(self.issuer.next_look());
            let wake = if self.issuer.driven {
                self.drive_until(next)?
            } else {
                let control = &self.issuer.flight.control;
                self.pacer.wait(next, || control.is_over())
            };
            self.issuer.cancel_overdue();
            if wake == Wake::Stopped || next == moment {
                return Ok(wake);
            }
        }
    }

    /// Drives the backend at least once, and until a moment, or shortly before it if nothing is under way then. Connections that end
    /// meanwhile are noticed before a request depends on them.
    fn drive_until(&mut self, moment: Stamp) -> Result<Wake> {
        let nap_end = self.pacer.nap_end(moment);
        loop {
            let now = Stamp::now();
            let until = if now < nap_end { nap_end.min(now.plus_duration(WAIT_LIMIT)) } else { now };
            self.issuer.client.drive(until)?;
            if Stamp::now() >= moment {
                return Ok(Wake::Due);
            }
            if Stamp::now() >= nap_end && self.issuer.is_idle() {
                let control = &self.issuer.flight.control;
                return Ok(self.pacer.wait(moment, || control.is_over()));
            }
            if self.issuer.flight.control.is_over() {
                return Ok(Wake::Stopped);
            }
        }
    }

    /// A slot to issue in: a returned one, else a new one, else the next that returns. `None` if the load is over.
    fn free_slot(&mut self) -> Result<Option<SlotId>> {
        if let Some(slot) = self.issuer.take_free() {
            return Ok(Some(slot));
        }
        if self.issuer.slots < self.share.slots {
            self.grow()?;
        } else {
            self.issuer.flight.control.note_held_back();
        }
        loop {
            if let Some(slot) = self.issuer.take_free() {
                return Ok(Some(slot));
            }
            if self.issuer.flight.control.is_over() {
                return Ok(None);
            }
            self.issuer.rest(|| false)?;
        }
    }

    fn grow(&mut self) -> Result<()> {
        let slots = self.issuer.slots;
        // A slot of a driven backend may be a connection, which takes longer to make.
        let more = if self.issuer.driven { slots / 4 + 1 } else { slots };
        self.issuer.grow((slots + more).min(self.share.slots))
    }

    /// Ends every open sequence, and waits for all outstanding requests.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.serial {
            return self.finish_serial();
        }
        let share = self.share;
        let has_sequences = self.issuer.flight.context.input_source.has_sequences();
        let mut open: Vec<usize> = (0..share.request_streams)
            .filter(|_| has_sequences)
            .map(|request_stream| share.request_stream(request_stream))
            .collect();
        while !open.is_empty() && !self.issuer.flight.control.has_given_up() {
            // Each ends as soon as its own requests are over: the server may hold back another's until then.
            let mut busy = self.issuer.busy_request_streams();
            for request_stream in &open {
                if !busy.contains(request_stream) && !self.close(*request_stream)? {
                    busy.insert(*request_stream);
                }
            }
            open.retain(|request_stream| busy.contains(request_stream));
            if !open.is_empty() {
                self.issuer.rest(|| false)?;
            }
        }
        self.issuer.settle()
    }

    /// Ends the sequence of a request stream, if one is open. Returns `false` if there is no slot for that yet.
    fn close(&mut self, request_stream: usize) -> Result<bool> {
        let Some(slot) = self.issuer.take_free() else { return Ok(false) };
        match self.issuer.flight.context.input_source.close(request_stream) {
            Some(request) => self.submit(slot, request, request_stream, Stamp::now())?,
            None => self.issuer.free.push_front(slot),
        }
        Ok(true)
    }

    /// Ends every sequence as it becomes idle, without waiting for the others: the server may hold back the start of
    /// one until another ends.
    fn finish_serial(&mut self) -> Result<()> {
        let mut at_rest = Vec::with_capacity(self.issuer.slots);
        while at_rest.len() < self.issuer.slots && !self.issuer.flight.control.has_given_up() {
            for slot in iter::from_fn(|| self.issuer.take_free()).collect::<Vec<_>>() {
                let request_stream = self.share.request_stream(slot.index());
                match self.issuer.flight.context.input_source.close(request_stream) {
                    Some(request) => self.submit(slot, request, request_stream, Stamp::now())?,
                    None => at_rest.push(slot),
                }
            }
            if at_rest.len() < self.issuer.slots {
                self.issuer.rest(|| false)?;
            }
        }
        self.issuer.free.extend(at_rest);
        Ok(())
    }
}
