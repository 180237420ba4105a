//! Sessions: conversations of several turns, a number of them at a time. A turn leaves when those that it follows are over
//! and its pause has passed; a finished session makes room for the next. Each is played once, in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{Request, SequencePosition, SlotId};
use crate::clock::Stamp;
use crate::closed::ClosedLoop;
use crate::context::LoadContext;
use crate::control::Control;
use crate::data::PayloadId;
use crate::engine::{self, Issuer, Numbers, Setup};
use crate::error::Result;
use crate::ranks::Part;
use crate::record::Played;
use crate::rest::Rest;
use crate::worker::{self, Worker, WorkerShare};

/// Limit on the slots of a worker whose sessions have turns under way together.
const MOST_SLOTS: usize = 4096;

/// A turn of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What it sends.
    pub payload: PayloadId,
    /// The turns of its session that are over before it leaves.
    pub after: Box<[u32]>,
    /// How long the session pauses before it.
    pub wait: Duration,
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
    /// The first that is played, and how many are.
    pub first: usize,
    /// How many are played.
    pub count: usize,
    /// How many begin in a second, at most; no limit if absent.
    pub rate: Option<f64>,
    /// Which of them are played here.
    pub part: Part,
}

impl SessionLoop {
    /// Limit on the turns of one session that are under way together: chains of turns that follow each other.
    fn width(&self) -> usize {
        self.sessions.iter().map(|turns| chains(turns)).max().unwrap_or(1)
    }

    /// Number of slots of all clients together.
    pub(super) fn slots(&self) -> usize {
        self.concurrency.saturating_mul(self.width().min(MOST_SLOTS)).max(1)
    }
}

/// In how many chains the turns of a session are: each continues one of those that it follows, if no other does.
fn chains(turns: &[Turn]) -> usize {
    let mut is_last = vec![false; turns.len()];
    let mut count = 0;
    for (number, turn) in turns.iter().enumerate() {
        match turn.after.iter().find(|before| is_last[**before as usize]) {
            Some(before) => is_last[*before as usize] = false,
            None => count += 1,
        }
        is_last[number] = true;
    }
    count
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
    let SessionLoop { concurrency, max_threads, .. } = shape;
    let (begun, width) = (Arc::new(Mutex::new(Begun::default())), shape.width());
    for share in (ClosedLoop { concurrency: *concurrency, max_threads: *max_threads, synchronous: false }).shares() {
        let (begun, shape) = (Arc::clone(&begun), shape.clone());
        workers.push(worker::spawn(share.worker, context, control, move |context, control| {
            work(context, control, &share, Script { shape: &shape, width, begun: &begun })
        })?);
    }
    Ok(())
}

/// The sessions that have begun.
#[derive(Default)]
struct Begun {
    count: usize,
    /// When the next may begin, if that is later than the load.
    next: Option<Stamp>,
}

impl Begun {
    /// Counts one that begins now. After a backlog, the following ones are as far apart as ever: they do not catch up.
    fn add(&mut self, now: Stamp, rate: Option<f64>) {
        self.count += 1;
        let Some(rate) = rate else { return };
        let interval = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
        self.next = Some(self.next.unwrap_or(now).plus_duration(interval).max(now));
    }
}

/// What the workers play together.
#[derive(Clone, Copy)]
struct Script<'a> {
    shape: &'a SessionLoop,
    /// Limit on the turns of one session that are under way together.
    width: usize,
    /// The sessions that any of the threads has begun.
    begun: &'a Mutex<Begun>,
}

fn work(context: &Arc<LoadContext>, control: &Arc<Control>, share: &WorkerShare, script: Script<'_>) -> Result<()> {
    let Script { shape, width, begun } = script;
    let numbers = Numbers { first: share.first_request_stream * width, stride: 1 };
    let slots = share.slots.saturating_mul(width).min(MOST_SLOTS.max(share.slots));
    let (worker, workers) = (share.worker, share.workers);
    let policy = Rest::new(slots);
    let setup = Setup { policy, numbers, worker, workers, slots, alone: false, reissues: false, watches: false };
    engine::work(context, control, setup, |issuer| {
        let mut player = Player {
            shape,
            begun,
            most_at_once: share.slots,
            all_begun: false,
            running: HashMap::new(),
            places: vec![None; slots],
            idle: Vec::new(),
            due: BinaryHeap::new(),
        };
        let played = player.play(issuer);
        let settled = played.and_then(|()| player.settle(issuer));
        issuer.free.extend(player.idle);
        settled
    })
}

/// A session that is being played.
struct Running {
    /// How many of the turns that each one follows are not over yet.
    open: Vec<u32>,
    /// When each may leave, as far as what it follows is over.
    due: Vec<Stamp>,
    sent: usize,
    over: usize,
    played: Played,
}

struct Player<'a> {
    shape: &'a SessionLoop,
    /// The sessions that any of the threads has begun.
    begun: &'a Mutex<Begun>,
    /// How many this one plays at a time.
    most_at_once: usize,
    /// Whether all have begun.
    all_begun: bool,
    running: HashMap<usize, Running>,
    /// The session and the turn that each slot has sent.
    places: Vec<Option<(usize, u32)>>,
    /// Slots without a turn.
    idle: Vec<SlotId>,
    /// Turns that leave at these times: moment, session, turn.
    due: BinaryHeap<Reverse<(Stamp, usize, u32)>>,
}

impl Player<'_> {
    fn play(&mut self, issuer: &mut Issuer<Rest<false>>) -> Result<()> {
        loop {
            self.take_over(issuer);
            if issuer.flight.control.is_stopped() {
                return Ok(());
            }
            let next = self.begin(issuer);
            if self.all_begun && self.running.is_empty() {
                return Ok(());
            }
            let now = Stamp::now();
            while let Some(Reverse((moment, number, turn))) = self.due.peek().copied()
                && moment <= now
                && let Some(slot) = self.idle.pop()
            {
                self.due.pop();
                if !issuer.flight.control.may_send() {
                    self.idle.push(slot);
                    return Ok(());
                }
                self.send(issuer, slot, number, turn)?;
            }
            let due = self.due.peek().filter(|_| !self.idle.is_empty()).map_or(Stamp::NEVER, |due| due.0.0);
            issuer.rest_until(due.min(next), || false)?;
        }
    }

    /// Waits for what is under way, so that sessions which end with it are counted.
    fn settle(&mut self, issuer: &mut Issuer<Rest<false>>) -> Result<()> {
        while self.places.iter().any(Option::is_some) && !issuer.flight.control.has_given_up() {
            issuer.rest(|| false)?;
            self.take_over(issuer);
        }
        Ok(())
    }

    /// Looks at the turns that are over.
    fn take_over(&mut self, issuer: &mut Issuer<Rest<false>>) {
        while let Some(slot) = issuer.take_free() {
            self.idle.push(slot);
            let Some((number, turn)) = self.places[slot.index()].take() else { continue };
            issuer.flight.control.note_end();
            let Some(session) = self.running.get_mut(&number) else { continue };
            session.played.join(&issuer.flight.policy.take(slot));
            session.over += 1;
            let turns = &self.shape.sessions[number];
            let end = Stamp::now().plus_duration(turns[turn as usize].delay);
            for (later, next) in turns.iter().enumerate().skip(turn as usize + 1) {
                let follows = next.after.iter().filter(|before| **before == turn).count() as u32;
                if follows == 0 {
                    continue;
                }
                session.due[later] = session.due[later].max(end.plus_duration(next.wait));
                session.open[later] -= follows;
                if session.open[later] == 0 {
                    self.due.push(Reverse((session.due[later], number, later as u32)));
                }
            }
            if session.over == turns.len() {
                issuer.flight.context.recorder.session(issuer.flight.numbers.number(slot), &session.played);
                self.running.remove(&number);
            }
        }
    }

    /// Begins sessions where there is room. Returns when the next may begin, if one must wait for its time.
    fn begin(&mut self, issuer: &Issuer<Rest<false>>) -> Stamp {
        let started = issuer.flight.control.started();
        while !self.all_begun && self.running.len() < self.most_at_once {
            let mut begun = self.begun.lock();
            let now = Stamp::now();
            let moment = begun.next.unwrap_or(started);
            if now < moment {
                return moment;
            }
            let index = self.shape.part.number(begun.count);
            begun.add(now, self.shape.rate);
            drop(begun);
            let number = self.shape.first + index;
            if index >= self.shape.count || number >= self.shape.sessions.len() {
                self.all_begun = true;
                break;
            }
            self.start(number);
        }
        Stamp::NEVER
    }

    fn start(&mut self, number: usize) {
        let (turns, now) = (&self.shape.sessions[number], Stamp::now());
        for (turn, _) in turns.iter().enumerate().filter(|(_, turn)| turn.after.is_empty()) {
            self.due.push(Reverse((now, number, turn as u32)));
        }
        let open = turns.iter().map(|turn| turn.after.len() as u32).collect();
        let due = vec![now; turns.len()];
        self.running.insert(number, Running { open, due, sent: 0, over: 0, played: Played::default() });
    }

    fn send(&mut self, issuer: &mut Issuer<Rest<false>>, slot: SlotId, number: usize, turn: u32) -> Result<()> {
        let turns = &self.shape.sessions[number];
        let Some(session) = self.running.get_mut(&number) else { return Ok(()) };
        session.sent += 1;
        let (start, end) = (session.sent == 1, session.sent == turns.len());
        self.places[slot.index()] = Some((number, turn));
        let sequence = Some(SequencePosition { id: number as u64 + 1, start, end });
        let request_stream = issuer.flight.numbers.number(slot);
        issuer.flight.control.note_issue();
        issuer.submit(slot, Request { payload: turns[turn as usize].payload, sequence }, request_stream, Stamp::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(after: &[&[u32]]) -> Vec<Turn> {
        let turn = |after: &&[u32]| Turn {
            payload: PayloadId(0),
            after: (*after).into(),
            wait: Duration::ZERO,
            delay: Duration::ZERO,
        };
        after.iter().map(turn).collect()
    }

    #[test]
    fn sessions_do_not_catch_up_after_a_backlog() {
        let ms = |count: u64| Stamp(count * 1_000_000);
        let mut begun = Begun::default();
        let mut next = |now| {
            begun.add(ms(now), Some(10.0));
            begun.next.unwrap()
        };
        assert_eq!([next(5), next(105), next(210)], [ms(105), ms(205), ms(305)], "a moment late is not later for all");
        assert_eq!([next(900), next(900), next(1000)], [ms(900), ms(1000), ms(1100)]);
        begun.next = None;
        begun.add(ms(2000), None);
        assert_eq!((begun.next, begun.count), (None, 7));
    }

    #[test]
    fn slots_suffice_for_the_turns_that_may_be_under_way_together() {
        assert_eq!(chains(&turns(&[&[], &[0], &[1]])), 1);
        assert_eq!(chains(&turns(&[&[], &[0], &[0], &[0], &[1, 2, 3]])), 3);
        assert_eq!(chains(&turns(&[&[], &[], &[0, 1]])), 2);
    }
}
