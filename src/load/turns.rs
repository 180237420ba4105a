//! Turns: a number of conversations take turns. Request `k` is the next turn of conversation `k` modulo their number, and waits
//! for the turn before it; a conversation whose last turn is over begins again, or goes on for as long as the load does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backend::{Request, SequencePosition, SlotId};
use crate::clock::Stamp;
use crate::context::LoadContext;
use crate::control::Control;
use crate::engine::{self, Issuer, Numbers, Setup};
use crate::error::Result;
use crate::record::Played;
use crate::rest::Rest;
use crate::schedule::{Arrivals, Schedule};
use crate::sessions::Turn;
use crate::worker::{self, Worker};

/// Slots that the client is opened with.
const FIRST_SLOTS: usize = 8;

/// The shape of a load whose conversations take turns.
#[derive(Clone, Debug)]
pub struct TurnLoop {
    /// Turns of each conversation, none of them empty.
    pub sessions: Arc<[Vec<Turn>]>,
    /// Whether a conversation goes on with its last turn, again and again, instead of beginning anew.
    pub endless: bool,
    /// Limit on the turns under way; a pause after a turn counts as a part of it.
    pub outstanding: usize,
    /// When turns are due, with the seed of their gaps; whenever there is room if absent.
    pub arrivals: Option<(Arrivals, u64)>,
    /// Turns due at this offset from the start, or later, are not sent.
    pub until: Option<Duration>,
}

impl TurnLoop {
    /// Number of slots that its client is opened with.
    pub(super) fn first_slots(&self) -> usize {
        FIRST_SLOTS.min(self.outstanding).min(self.sessions.len()).max(1)
    }
}

/// Starts the worker. There is one, because every turn needs what its conversation has said before.
///
/// # Errors
/// If a thread cannot be had.
pub(super) fn spawn(
    context: &Arc<LoadContext>,
    control: &Arc<Control>,
    shape: &TurnLoop,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    control.behind.store(usize::from(shape.until.is_some()), Ordering::Release);
    let shape = shape.clone();
    workers.push(worker::spawn(0, context, control, move |context, control| match shape.arrivals {
        Some(_) => work::<true>(context, control, &shape),
        None => work::<false>(context, control, &shape),
    })?);
    Ok(())
}

fn work<const SCHEDULED: bool>(context: &Arc<LoadContext>, control: &Arc<Control>, shape: &TurnLoop) -> Result<()> {
    let slots = shape.first_slots();
    let (policy, numbers) = (Rest::<SCHEDULED>::new(slots), Numbers { first: 0, stride: 1 });
    let setup = Setup { policy, numbers, worker: 0, workers: 1, slots, alone: false, reissues: false, watches: false };
    engine::work(context, control, setup, |issuer| {
        let mut player = Player {
            shape,
            schedule: shape.arrivals.as_ref().map(|(arrivals, seed)| Schedule::share(arrivals, *seed, 0, 1)),
            next: Stamp::NEVER,
            is_closed: false,
            admitted: 0,
            under_way: 0,
            conversations: (0..shape.sessions.len()).map(|_| ConversationState::default()).collect(),
            places: vec![None; slots],
            idle: Vec::new(),
            pausing: BinaryHeap::new(),
            sends: None,
            sent: 0,
        };
        player.next = player.due(control.started(), control);
        let played = player.play(issuer);
        if SCHEDULED {
            control.report_sends(player.sends, player.sent);
        }
        let settled = played.and_then(|()| player.settle(issuer));
        issuer.free.extend(player.idle);
        settled
    })
}

/// A conversation.
#[derive(Default)]
struct ConversationState {
    /// Turns that it has begun.
    turns: usize,
    is_busy: bool,
    /// When the turns were due that wait for the one under way.
    waiting: VecDeque<Stamp>,
    played: Played,
}

struct Player<'a> {
    shape: &'a TurnLoop,
    schedule: Option<Schedule>,
    /// When the next request is due.
    next: Stamp,
    /// Whether no further request is admitted.
    is_closed: bool,
    /// How many have been.
    admitted: usize,
    /// How many of these are not over.
    under_way: usize,
    conversations: Vec<ConversationState>,
    /// The conversation and the turn that each slot has sent.
    places: Vec<Option<(usize, usize)>>,
    idle: Vec<SlotId>,
    /// Conversations that pause until these times.
    pausing: BinaryHeap<Reverse<(Stamp, usize)>>,
    /// First and last send.
    sends: Option<(Stamp, Stamp)>,
    sent: u64,
}

impl Player<'_> {
    fn play<const SCHEDULED: bool>(&mut self, issuer: &mut Issuer<Rest<SCHEDULED>>) -> Result<()> {
        loop {
            self.take_over(issuer)?;
            if issuer.flight.control.is_stopped() {
                return Ok(());
            }
            while let Some(Reverse((moment, conversation))) = self.pausing.peek().copied()
                && moment <= Stamp::now()
            {
                self.pausing.pop();
                self.go_on(issuer, conversation)?;
            }
            self.admit(issuer)?;
            if self.is_closed && self.under_way == 0 {
                return Ok(());
            }
            let pause = self.pausing.peek().map_or(Stamp::NEVER, |pause| pause.0.0);
            let next = if self.has_capacity() { self.next } else { Stamp::NEVER };
            issuer.rest_until(pause.min(next), || false)?;
        }
    }

    fn settle<const SCHEDULED: bool>(&mut self, issuer: &mut Issuer<Rest<SCHEDULED>>) -> Result<()> {
        while self.places.iter().any(Option::is_some) && !issuer.flight.control.has_given_up() {
            issuer.rest(|| false)?;
            self.take_over(issuer)?;
        }
        Ok(())
    }

    /// When the next request is due that has not been admitted.
    fn due(&mut self, started: Stamp, control: &Control) -> Stamp {
        let Some(schedule) = &mut self.schedule else { return started };
        let until = self.shape.until.map_or(u64::MAX, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        match schedule.next().filter(|offset| *offset < until) {
            Some(offset) => started.plus(offset),
            // A load with a fixed length is stopped from outside.
            None => {
                if self.shape.until.is_some() {
                    control.note_caught_up();
                }
                Stamp::NEVER
            }
        }
    }

    fn has_capacity(&self) -> bool {
        !self.is_closed && self.under_way < self.shape.outstanding
    }

    /// Admits the requests that are due.
    fn admit<const SCHEDULED: bool>(&mut self, issuer: &mut Issuer<Rest<SCHEDULED>>) -> Result<()> {
        while self.has_capacity() && self.next <= Stamp::now() {
            if !issuer.flight.control.may_send() {
                self.is_closed = true;
                return Ok(());
            }
            let (conversation, intended) = (self.admitted % self.conversations.len(), self.next);
            (self.admitted, self.under_way) = (self.admitted + 1, self.under_way + 1);
            self.conversations[conversation].waiting.push_back(intended);
            let (flight, started) = (&issuer.flight, issuer.flight.control.started());
            self.next = self.due(started, &flight.control);
            if !self.conversations[conversation].is_busy {
                self.send(issuer, conversation)?;
            }
        }
        Ok(())
    }

    /// Looks at the turns that are over.
    fn take_over<const SCHEDULED: bool>(&mut self, issuer: &mut Issuer<Rest<SCHEDULED>>) -> Result<()> {
        while let Some(slot) = issuer.take_free() {
            self.idle.push(slot);
            let Some((conversation, turn)) = self.places[slot.index()].take() else { continue };
            issuer.flight.control.note_end();
            let played = issuer.flight.policy.take(slot);
            let turns = &self.shape.sessions[conversation];
            self.conversations[conversation].played.join(&played);
            if turn + 1 == turns.len() && !self.shape.endless {
                let whole = std::mem::take(&mut self.conversations[conversation].played);
                issuer.flight.context.recorder.session(issuer.flight.numbers.number(slot), &whole);
            }
            if issuer.flight.control.is_stopped() {
                continue;
            }
            match turns[turn].delay {
                Duration::ZERO => self.go_on(issuer, conversation)?,
                delay => self.pausing.push(Reverse((Stamp::now().plus_duration(delay), conversation))),
            }
        }
        Ok(())
    }

    /// A turn of a conversation is over, and so is its pause.
    fn go_on<const SCHEDULED: bool>(
        &mut self,
        issuer: &mut Issuer<Rest<SCHEDULED>>,
        conversation: usize,
    ) -> Result<()> {
        self.under_way -= 1;
        self.conversations[conversation].is_busy = false;
        if self.conversations[conversation].waiting.is_empty() { Ok(()) } else { self.send(issuer, conversation) }
    }

    /// Sends the next turn of a conversation.
    fn send<const SCHEDULED: bool>(&mut self, issuer: &mut Issuer<Rest<SCHEDULED>>, conversation: usize) -> Result<()> {
        let slot = match self.idle.pop() {
            Some(slot) => slot,
            None => self.grow(issuer)?,
        };
        let (turns, state) = (&self.shape.sessions[conversation], &mut self.conversations[conversation]);
        let turn = if self.shape.endless { state.turns.min(turns.len() - 1) } else { state.turns % turns.len() };
        let intended = state.waiting.pop_front().unwrap_or_default();
        (state.is_busy, state.turns) = (true, state.turns + 1);
        self.places[slot.index()] = Some((conversation, turn));
        let end = turn + 1 == turns.len() && !self.shape.endless;
        let start = turn == 0 && (state.turns == 1 || !self.shape.endless);
        let sequence = Some(SequencePosition { id: conversation as u64 + 1, start, end });
        let request = Request { payload: turns[turn].payload, sequence };
        let (request_stream, now) = (issuer.flight.numbers.number(slot), Stamp::now());
        self.sends = Some((self.sends.map_or(now, |(first, _)| first), now));
        self.sent += 1;
        if SCHEDULED {
            return issuer.submit_due(slot, request, request_stream, intended, now);
        }
        issuer.flight.control.note_issue();
        issuer.submit(slot, request, request_stream, now)
    }

    /// Adds slots, and takes one of them.
    fn grow<const SCHEDULED: bool>(&mut self, issuer: &mut Issuer<Rest<SCHEDULED>>) -> Result<SlotId> {
        let slots = issuer.slots + issuer.slots / 4 + 1;
        issuer.flight.policy.grow(slots);
        self.places.resize(slots, None);
        issuer.grow(slots)?;
        let (fresh, over): (Vec<_>, Vec<_>) =
            issuer.free.drain(..).partition(|slot| self.places[slot.index()].is_none());
        issuer.free.extend(over);
        self.idle.extend(fresh);
        Ok(self.idle.pop().expect("a client that has grown has free slots"))
    }
}
