//! [`EndBarrier`]: processes with loads of their own measure until each has what it needs, so that they end together and none
//! waits for one that has ended.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::breaker::Breaker;
use crate::error::{Error, Result};
use crate::heartbeat::{Heartbeat, Progress};
use crate::measurement::Measurement;
use crate::result::summary::Ending;
use crate::waiting::wait;
use ::ranks::Ranks;

/// Time between two exchanges.
const INTERVAL: Duration = Duration::from_millis(200);
/// Poll interval of a process that only waits for others.
const POLL: Duration = Duration::from_millis(2);

/// What the processes know of each other's end. Without other processes it has nothing to do.
pub(super) struct EndBarrier<'a> {
    heartbeat: Option<RefCell<Heartbeat<'a, ()>>>,
    /// Ends the load of all where too many of its requests fail.
    breaker: &'a Breaker<'a>,
    /// Counts interrupts that all know of.
    interrupts: &'a AtomicUsize,
    /// What this process would end with.
    local_ending: Cell<Option<Ending>>,
    over: Cell<bool>,
    trouble: RefCell<Option<Error>>,
    /// Windows that were measured for others.
    further: Cell<usize>,
}

impl<'a> EndBarrier<'a> {
    /// That of a level.
    pub(super) fn for_level(measurement: &'a Measurement<'a>) -> Self {
        Self::new(measurement.ranks, measurement.interrupts, &measurement.breaker)
    }

    fn new(ranks: Option<&'a Ranks>, interrupts: &'a AtomicUsize, breaker: &'a Breaker<'a>) -> Self {
        Self {
            heartbeat: ranks.map(|ranks| RefCell::new(Heartbeat::every(INTERVAL, ranks, breaker))),
            breaker,
            interrupts,
            local_ending: Cell::new(None),
            over: Cell::new(false),
            trouble: RefCell::default(),
            further: Cell::new(0),
        }
    }

    /// Takes it away: what is exchanged about a joint load tells its end, too.
    pub(super) fn remove(&mut self) {
        self.heartbeat = None;
    }

    /// Whether the level is over for all: each has what it needs, one was interrupted, one is lost, or too many of the requests of
    /// all fail. Never waits.
    pub(super) fn is_over(&self) -> bool {
        let Some(heartbeat) = &self.heartbeat else { return false };
        if !self.over.get()
            && let Err(error) = self.poll(&mut heartbeat.borrow_mut())
        {
            *self.trouble.borrow_mut() = Some(error);
            self.over.set(true);
        }
        self.over.get()
    }

    fn poll(&self, heartbeat: &mut Heartbeat<'_, ()>) -> Result<()> {
        let local_progress = || Progress { done: self.local_ending.get().is_some(), ..Progress::default() };
        let Some(all) = heartbeat.poll(local_progress)? else { return Ok(()) };
        let interrupted = all.iter().any(|rank| rank.interrupted);
        if interrupted {
            self.interrupts.fetch_max(1, Ordering::Relaxed);
        }
        self.over.set(interrupted || self.breaker.is_open_for_all() || all.iter().all(|rank| rank.done));
        Ok(())
    }

    /// What the level ends with, if it is over for all and this process has had what it needs: the window that is open
    /// is no part of it, because others have stopped already.
    ///
    /// # Errors
    /// One is lost, or cannot continue.
    pub(super) fn is_over_with(&self) -> Result<Option<Ending>> {
        self.check()?;
        Ok(self.local_ending.get().filter(|_| self.over.get()))
    }

    /// This process would end with `ending`, or needs more; returns what it ends with if all would.
    ///
    /// # Errors
    /// As [`EndBarrier::is_over_with`].
    pub(super) fn arrive(&self, ending: Option<Ending>) -> Result<Option<Ending>> {
        self.check()?;
        if self.heartbeat.is_none() || self.over.get() {
            return Ok(ending);
        }
        self.local_ending.set(self.local_ending.get().or(ending));
        Ok(None)
    }

    /// Counts a window that this process does not need any more, and that is measured for others; none if it still needs some.
    pub(super) fn further(&self) -> Option<usize> {
        self.local_ending.get()?;
        self.further.set(self.further.get() + 1);
        Some(self.further.get())
    }

    /// Whether this process has what it needs.
    pub(super) fn has_arrived(&self) -> bool {
        self.local_ending.get().is_some()
    }

    /// This process ends with `ending`, and waits until all are done.
    ///
    /// # Errors
    /// As [`EndBarrier::is_over_with`].
    pub(super) fn wait_with(&self, ending: Ending) -> Result<Ending> {
        self.local_ending.set(Some(ending));
        wait(|| match self.heartbeat.is_none() || self.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(POLL),
        });
        self.check().map(|()| ending)
    }

    fn check(&self) -> Result<()> {
        self.trouble.borrow().clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::clock::Stamp;
    use crate::record::Completed;
    use crate::terms::StopRule;
    use ::ranks::threads::together;

    #[test]
    fn all_end_when_the_last_has_what_it_needs() {
        let settled = AtomicUsize::new(0);
        let ended = together(3, |ranks| {
            let (interrupts, breaker) = (AtomicUsize::new(0), Breaker::new(&[]));
            let barrier = EndBarrier::new(Some(&ranks), &interrupts, &breaker);
            for _ in 0..50 * ranks.part().rank {
                assert!(!barrier.is_over(), "one needs more");
                thread::sleep(Duration::from_millis(1));
            }
            settled.fetch_add(1, Ordering::SeqCst);
            let ending = barrier.wait_with(Ending::Stable).unwrap();
            (ending, settled.load(Ordering::SeqCst), interrupts.load(Ordering::Relaxed))
        });
        assert_eq!(ended, [(Ending::Stable, 3, 0); 3]);
    }

    #[test]
    fn too_many_failures_of_one_end_all_together() {
        let rules = [StopRule::InARow { failures: 3 }];
        let endings = together(3, |ranks| {
            let (interrupts, breaker) = (AtomicUsize::new(0), Breaker::new(&rules).shared(true));
            let barrier = EndBarrier::new(Some(&ranks), &interrupts, &breaker);
            let failed = if ranks.part().rank == 2 { 3 } else { 0 };
            let completed = Completed { succeeded: 10, failed, cancelled: 0 };
            // None of them has what it needs.
            wait(|| match breaker.poll(Stamp::now(), completed, failed) || barrier.is_over() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(POLL),
            });
            barrier.wait_with(Ending::Complete).is_ok() && breaker.is_open_for_all()
        });
        assert_eq!(endings, [true; 3]);
    }

    #[test]
    fn a_rank_that_cannot_go_on_ends_the_others() {
        let messages = together(2, |ranks| {
            let (interrupts, breaker) = (AtomicUsize::new(0), Breaker::new(&[]));
            if ranks.part().rank == 1 {
                ranks.give_up(&Error::server("the server is gone"));
                return String::new();
            }
            EndBarrier::new(Some(&ranks), &interrupts, &breaker).wait_with(Ending::Stable).unwrap_err().to_string()
        });
        assert_eq!(messages[0], "rank 1 (host1): the server is gone");
    }
}
