//! [`Beats`]: messages between processes that share a load, some times a second, where the next step does not follow
//! from stamps alone: a window of a number of requests, a stage that ends with its requests, a pause.
//!
//! All receive the same beats in the same order, so that all make the same decisions.

use std::collections::VecDeque;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::ranks::{ANSWER_LIMIT, Ranks};

/// Time between two of them.
const BETWEEN: Duration = Duration::from_millis(50);

/// How far a process is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// When it said so, on rank 0's clock; filled in by [`Beats::poll`].
    pub(super) at: u64,
    /// Windows or stages that are over here.
    pub(super) over: usize,
    /// Requests of the open window.
    pub(super) requests: u64,
    /// That window is as long as one must be. Each says so itself, because each has opened it at its own moment.
    pub(super) long_enough: bool,
    /// Its user has asked for the end.
    pub(super) interrupted: bool,
    /// Its load broke off.
    pub(super) broken: bool,
    /// It needs no further beat.
    pub(super) leaves: bool,
}

/// A beat of one process: how far it is, and the next result that the others do not know of yet.
#[derive(Serialize, Deserialize)]
struct Beat<T> {
    state: State,
    told: Option<T>,
}

/// The beats of a level, or of several. They carry results of kind `T`, one each, in order.
pub(super) struct Beats<'a, T> {
    ranks: &'a Ranks,
    between: Duration,
    next: Stamp,
    under_way: bool,
    untold: VecDeque<T>,
    /// What each has sent that not all have.
    heard: Vec<VecDeque<T>>,
}

impl<'a, T: Serialize + DeserializeOwned> Beats<'a, T> {
    /// The first follows at once.
    pub(super) fn new(ranks: &'a Ranks) -> Self {
        let heard = (0..ranks.place().size).map(|_| VecDeque::new()).collect();
        Self { ranks, between: BETWEEN, next: Stamp::now(), under_way: false, untold: VecDeque::new(), heard }
    }

    /// So long from one to the next.
    pub(super) fn every(self, between: Duration) -> Self {
        Self { between, ..self }
    }

    /// The others hear of this with the next beat that has room.
    pub(super) fn tell(&mut self, result: T) {
        self.untold.push_back(result);
    }

    /// Whether the next beat is the last one with something to send.
    pub(super) fn told_but_one(&self) -> bool {
        self.untold.len() < 2
    }

    /// Begins a beat where it is time for one, and says how far this process is; returns how far each is, once all have said so.
    /// Never waits.
    ///
    /// # Errors
    /// A process is lost, or cannot continue; or the launcher ends this one.
    pub(super) fn poll(&mut self, own: impl FnOnce() -> State) -> Result<Option<Vec<State>>> {
        if interrupt::is_terminated() {
            return Err(Error::machine(
                "the launcher is ending this process, because another has ended or the user asked for it",
            ));
        }
        if !self.under_way {
            if Stamp::now() >= self.next {
                let at = self.ranks.offset().to_zero(Stamp::now().0);
                let state = State { at, ..own() };
                self.ranks.begin(&Beat { state, told: self.untold.pop_front() }, ANSWER_LIMIT)?;
                self.under_way = true;
            }
            return Ok(None);
        }
        let Some(all) = self.ranks.poll::<Beat<T>>()? else { return Ok(None) };
        self.under_way = false;
        self.next = Stamp::now().plus_duration(self.between);
        let heard = self.heard.iter_mut().zip(all).map(|(heard, beat)| {
            heard.extend(beat.told);
            beat.state
        });
        Ok(Some(heard.collect()))
    }

    /// The next result of each, once all have sent it.
    pub(super) fn take(&mut self) -> Option<Vec<T>> {
        if self.heard.iter().any(VecDeque::is_empty) {
            return None;
        }
        Some(self.heard.iter_mut().filter_map(VecDeque::pop_front).collect())
    }

    /// A time far enough after the last of these states that all know of it in time, on this process's clock.
    pub(super) fn after(&self, states: &[State], lead: Duration) -> Stamp {
        let last = states.iter().map(|state| state.at).max().unwrap_or(0);
        Stamp(self.ranks.offset().to_own(Stamp(last).plus_duration(lead).0))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::ranks::threads::together;

    #[test]
    fn all_decide_by_the_same_beats_and_results_are_heard_in_order() {
        let heard = together(3, |ranks| {
            let rank = ranks.place().rank;
            let mut beats = Beats::new(&ranks);
            // Some have their results later than others.
            thread::sleep(Duration::from_millis(30 * rank as u64));
            (0..3).for_each(|number| beats.tell(number * 10 + rank));
            let (mut taken, mut decided) = (Vec::new(), None);
            while decided.is_none() {
                let over = taken.len();
                if let Some(all) = beats.poll(|| State { over, ..State::default() }).unwrap() {
                    taken.extend(beats.take());
                    if all.iter().all(|state| state.over == 3) {
                        decided = Some(beats.after(&all, Duration::from_millis(5)));
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            (taken, decided, beats.told_but_one())
        });
        assert_eq!(heard[0].0, [[0, 1, 2], [10, 11, 12], [20, 21, 22]]);
        assert!(heard[0].2 && heard.iter().all(|other| *other == heard[0]), "{heard:?}");
    }
}
