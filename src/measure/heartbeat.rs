//! [`Heartbeat`]: messages between the processes of a run, some times a second, where the next step does not follow from
//! stamps alone: a window of a number of requests, a stage that ends with its requests, a pause, an interrupt.
//!
//! All receive the same messages in the same order, so that all make the same decisions. It is the only communication while
//! requests are under way, on a thread that otherwise sleeps.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::breaker::{Breaker, Counts};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::interrupt;
use ::ranks::{ANSWER_LIMIT, Ranks};

/// The launcher gives a process that it wants to end but a moment: no time for other processes.
///
/// # Errors
/// It does.
pub(super) fn check_terminated(ranks: &Ranks) -> Result<()> {
    if !interrupt::is_terminated() {
        return Ok(());
    }
    let reason = "the launcher is ending this process, because another has ended or the user asked for it";
    let reason = Error::machine(reason);
    ranks.fall_silent(&reason);
    Err(reason)
}

/// How far a process is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Progress {
    /// When it said so, on rank 0's clock; filled in by [`Heartbeat::poll`].
    pub(super) at: u64,
    /// The load warms up here: no window has begun.
    pub(super) warming: bool,
    /// Windows or stages that are over here.
    pub(super) over: usize,
    /// The stage that is under way here, from 1; 0 without stages.
    pub(super) stage: usize,
    /// Requests of the open window, or of that stage.
    pub(super) requests: u64,
    /// How many of them failed; not told of windows.
    pub(super) failed: u64,
    /// That window is as long as one must be. Each says so itself, because each has opened it at its own moment.
    pub(super) long_enough: bool,
    /// Its user has asked for the end; filled in as well.
    pub(super) interrupted: bool,
    /// Its load broke off.
    pub(super) broken: bool,
    /// It has what it needs, and would end.
    pub(super) done: bool,
    /// Requests that were over here, for rules about all of them; filled in as well.
    pub(super) counts: Counts,
}

/// What one process sends: how far it is, and the next result that the others have not received.
#[derive(Serialize, Deserialize)]
struct Beat<T> {
    progress: Progress,
    result: Option<T>,
}

/// The exchanges of a level, or of several. They carry results of kind `T`, one each, in order.
pub(super) struct Heartbeat<'a, T> {
    ranks: &'a Ranks,
    /// Passes on what the requests of all have come to.
    breaker: &'a Breaker<'a>,
    interval: Duration,
    next: Stamp,
    under_way: bool,
    pending: VecDeque<T>,
    /// What each has sent that not all have.
    received: Vec<VecDeque<T>>,
}

impl<'a, T: Serialize + DeserializeOwned> Heartbeat<'a, T> {
    /// One exchange every `interval`, the first at once.
    pub(super) fn every(interval: Duration, ranks: &'a Ranks, breaker: &'a Breaker<'a>) -> Self {
        let received = (0..ranks.part().size).map(|_| VecDeque::new()).collect();
        let (next, pending) = (Stamp::now(), VecDeque::new());
        Self { ranks, breaker, interval, next, under_way: false, pending, received }
    }

    /// The others receive this with the next exchange that has room.
    pub(super) fn send(&mut self, result: T) {
        self.pending.push_back(result);
    }

    /// Whether the next exchange is the last one with something to send.
    pub(super) fn is_nearly_sent(&self) -> bool {
        self.pending.len() < 2
    }

    /// Whether an exchange is under way, which makes progress only while it is polled.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Begins an exchange where it is time for one, and says how far this process is; returns how far each is, once all have
    /// said so. Never waits.
    ///
    /// # Errors
    /// A process is lost, or cannot continue; or the launcher ends this one.
    pub(super) fn poll(&mut self, local_progress: impl FnOnce() -> Progress) -> Result<Option<Vec<Progress>>> {
        check_terminated(self.ranks)?;
        if !self.under_way {
            if Stamp::now() >= self.next {
                let at = self.ranks.offset().to_zero(Stamp::now().0);
                let interrupted = interrupt::counter().load(Ordering::Relaxed) > 0;
                let progress = Progress { at, interrupted, counts: self.breaker.counts(), ..local_progress() };
                self.ranks.begin(&Beat { progress, result: self.pending.pop_front() }, ANSWER_LIMIT)?;
                self.under_way = true;
            }
            return Ok(None);
        }
        let Some(all) = self.ranks.poll::<Beat<T>>()? else { return Ok(None) };
        self.under_way = false;
        self.next = Stamp::now().plus_duration(self.interval);
        let all = self.received.iter_mut().zip(all).map(|(received, beat)| {
            received.extend(beat.result);
            beat.progress
        });
        let all: Vec<Progress> = all.collect();
        // What warms up is not looked at.
        if !all.iter().any(|progress| progress.warming) {
            // On the clock of rank 0, so that all look at the same time.
            let last = all.iter().map(|progress| progress.at).max().unwrap_or(0);
            self.breaker.receive(Stamp(last), all.iter().map(|progress| progress.counts));
        }
        Ok(Some(all))
    }

    /// The next result of each, once all have sent it.
    pub(super) fn receive(&mut self) -> Option<Vec<T>> {
        if self.received.iter().any(VecDeque::is_empty) {
            return None;
        }
        Some(self.received.iter_mut().filter_map(VecDeque::pop_front).collect())
    }

    /// A time far enough after the last of these reports that all know of it in time, on this process's clock.
    pub(super) fn after(&self, all: &[Progress], lead: Duration) -> Stamp {
        let last = all.iter().map(|progress| progress.at).max().unwrap_or(0);
        Stamp(self.ranks.offset().to_own(Stamp(last).plus_duration(lead).0))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use ::ranks::threads::together;

    #[test]
    fn all_decide_by_the_same_messages_and_results_arrive_in_order() {
        let ended = together(3, |ranks| {
            let rank = ranks.part().rank;
            let breaker = Breaker::new(&[]);
            let mut heartbeat = Heartbeat::every(Duration::from_millis(50), &ranks, &breaker);
            // Some have their results later than others.
            thread::sleep(Duration::from_millis(30 * rank as u64));
            (0..3).for_each(|number| heartbeat.send(number * 10 + rank));
            let (mut taken, mut decided) = (Vec::new(), None);
            while decided.is_none() {
                let over = taken.len();
                if let Some(all) = heartbeat.poll(|| Progress { over, ..Progress::default() }).unwrap() {
                    taken.extend(heartbeat.receive());
                    if all.iter().all(|progress| progress.over == 3) {
                        decided = Some(heartbeat.after(&all, Duration::from_millis(5)));
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            (taken, decided, heartbeat.is_nearly_sent())
        });
        assert_eq!(ended[0].0, [[0, 1, 2], [10, 11, 12], [20, 21, 22]]);
        assert!(ended[0].2 && ended.iter().all(|other| *other == ended[0]), "{ended:?}");
    }
}
