//! Sessions: conversations of several turns, a number of them at a time. A turn leaves when the one before it is over
//! and its delay has passed; a finished session makes room for the next. Each is played once, in order.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{Next, Request, SequencePosition, SlotId};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::Result;
use crate::load::closed::ClosedLoop;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::engine::{self, InFlight, Issuer, Numbers, Policy, Setup};
use crate::load::worker::{self, Worker, WorkerShare};
use crate::ranks::Part;
use crate::record::{Played, Sample};

/// A turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What it sends.
    pub payload: PayloadId,
    /// How long the session pauses after its answer.
    pub delay: Duration,
}

/// The shape of a load of sessions.
#[derive(Clone, Debug)]
pub struct SessionLoop {
    /// Number of sessions at a time.
    pub concurrency: usize,
    /// Limit on the threads that issue them.
    pub max_threads: usize,
    /// Turns of each session, none of them empty.
    pub sessions: Arc<[Vec<Turn>]>,
    /// Which of them are played here.
    pub part: Part,
}

/// Starts the workers.
///
/// # Errors
/// If a thread cannot be had.
pub(super) fn spawn(
    context: &Arc<LoadContext>,
    control: &Arc<Control>,
    shape: &SessionLoop,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    let SessionLoop { concurrency, max_threads, sessions, part } = shape;
    let begun = Arc::new(AtomicUsize::new(0));
    for share in (ClosedLoop { concurrency: *concurrency, max_threads: *max_threads, synchronous: false }).shares() {
        let (sessions, begun, part) = (Arc::clone(sessions), Arc::clone(&begun), *part);
        workers.push(worker::spawn(share.worker, context, control, move |context, control| {
            work(context, control, &share, Script { sessions: &sessions, part, begun: &begun })
        })?);
    }
    Ok(())
}

/// A slot is idle when its turn is over: its worker knows when it goes on.
struct Rest {
    /// The session that each slot is in. The locks are never waited for, because calls for one slot never overlap.
    played: Box<[Mutex<Played>]>,
}

impl Rest {
    fn of(slots: usize) -> Self {
        Self { played: (0..slots).map(|_| Mutex::default()).collect() }
    }
}

impl Policy for Rest {
    fn recorded(&self, flight: &InFlight<Self>, slot: SlotId, turn: &Sample, failed: bool) {
        let mut played = self.played[slot.index()].lock();
        played.add(turn, failed);
        if turn.sequence_end {
            flight.context.recorder.session(flight.numbers.of(slot), &mem::take(&mut *played));
        }
    }

    fn next(&self, flight: &InFlight<Self>, _: SlotId) -> Next {
        flight.wake();
        Next::Idle
    }
}

/// What the workers play together.
#[derive(Clone, Copy)]
struct Script<'a> {
    sessions: &'a [Vec<Turn>],
    /// Which of them are played by this process.
    part: Part,
    /// How many of these any of its threads has begun.
    begun: &'a AtomicUsize,
}

fn work(context: &Arc<LoadContext>, control: &Arc<Control>, share: &WorkerShare, script: Script<'_>) -> Result<()> {
    let (numbers, slots) = (Numbers { first: share.first_lane, stride: 1 }, share.slots);
    let (worker, workers) = (share.worker, share.workers);
    let policy = Rest::of(slots);
    let setup = Setup { policy, numbers, worker, workers, slots, alone: false, reissues: false, watches: false };
    engine::work(context, control, setup, |issuer| {
        let mut places = vec![Place::default(); slots];
        let mut player = Player { script, places: &mut places, resting: Vec::new(), done: Vec::new() };
        let played = player.play(issuer);
        issuer.free.extend(player.resting.iter().map(|(_, slot)| *slot).chain(player.done));
        played.and_then(|()| issuer.settle())
    })
}

/// A slot's position: its session, and how many of its turns have been sent.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    session: Option<usize>,
    sent: usize,
}

struct Player<'a> {
    script: Script<'a>,
    places: &'a mut [Place],
    /// Slots whose next turn is due at these times.
    resting: Vec<(Stamp, SlotId)>,
    /// Slots that have nothing left to do.
    done: Vec<SlotId>,
}

impl Player<'_> {
    fn play(&mut self, issuer: &mut Issuer<Rest>) -> Result<()> {
        while !issuer.flight.control.is_stopped() && self.done.len() < self.places.len() {
            while let Some(slot) = issuer.take_free() {
                if self.places[slot.index()].session.is_some() {
                    issuer.flight.control.note_end();
                }
                match self.due(slot) {
                    Some(due) => self.resting.push((due, slot)),
                    None => self.done.push(slot),
                }
            }
            while let Some(index) = self.resting.iter().position(|(due, _)| *due <= Stamp::now()) {
                let (_, slot) = self.resting.swap_remove(index);
                if !issuer.flight.control.may_send() {
                    self.done.push(slot);
                    continue;
                }
                let lane = issuer.flight.numbers.of(slot);
                let request = self.request(slot);
                issuer.flight.control.note_issue();
                issuer.submit(slot, request, lane, Stamp::now())?;
            }
            let next = self.resting.iter().map(|(due, _)| *due).min().unwrap_or(Stamp::NEVER);
            issuer.rest_until(next, || false)?;
        }
        Ok(())
    }

    /// When a free slot sends its next turn, of its own session or of the next one; `None` if all have begun.
    fn due(&mut self, slot: SlotId) -> Option<Stamp> {
        let place = &mut self.places[slot.index()];
        if let Some(session) = place.session
            && place.sent < self.script.sessions[session].len()
        {
            let delay = self.script.sessions[session][place.sent - 1].delay;
            return Some(Stamp::now().plus_duration(delay));
        }
        let next = self.script.part.number(self.script.begun.fetch_add(1, Ordering::Relaxed));
        *place = Place { session: (next < self.script.sessions.len()).then_some(next), sent: 0 };
        place.session.map(|_| Stamp::now())
    }

    /// The next turn of a slot's session.
    fn request(&mut self, slot: SlotId) -> Request {
        let place = &mut self.places[slot.index()];
        let number = place.session.unwrap_or_default();
        let turns = &self.script.sessions[number];
        let turn = place.sent;
        place.sent += 1;
        let position = SequencePosition { id: number as u64 + 1, start: turn == 0, end: turn + 1 == turns.len() };
        Request { payload: turns[turn].payload, sequence: Some(position) }
    }
}
