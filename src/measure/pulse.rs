//! [`Pulse`]: keeps in touch with the other processes while each measures, so that they end together and none waits for
//! one that has ended.
//!
//! Five times a second all tell each other whether they have what they need. That is the only communication while
//! requests are under way, on a thread that otherwise sleeps.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::measure::measurement::Measurement;
use crate::measure::summary::Ending;
use crate::ranks::{ANSWER_LIMIT, Ranks};

/// Time between two of them.
const BETWEEN: Duration = Duration::from_millis(200);
/// Poll interval of a process that only waits for others.
const WAIT: Duration = Duration::from_millis(2);

/// What a process says of itself.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Beat {
    /// It has what it needs, and would end.
    settled: bool,
    /// Its user has asked for the end.
    interrupted: bool,
}

/// The exchanges of one level. Without other processes it has nothing to do.
pub(super) struct Pulse<'a> {
    ranks: Option<&'a Ranks>,
    /// Counts interrupts that all know of.
    interrupts: &'a AtomicUsize,
    /// What this process would end with.
    own: Cell<Option<Ending>>,
    next: Cell<Stamp>,
    under_way: Cell<bool>,
    over: Cell<bool>,
    trouble: RefCell<Option<Error>>,
    /// Windows that were measured for others.
    further: Cell<usize>,
}

impl<'a> Pulse<'a> {
    /// That of a level. Windows of a joint load are exchanges themselves, and [`Pulse::rest`] leaves it to them.
    pub(super) fn of(measurement: &Measurement<'a>) -> Self {
        Self {
            ranks: measurement.ranks,
            interrupts: measurement.interrupts,
            own: Cell::new(None),
            next: Cell::new(Stamp::now().plus_duration(BETWEEN)),
            under_way: Cell::new(false),
            over: Cell::new(false),
            trouble: RefCell::default(),
            further: Cell::new(0),
        }
    }

    /// Lets it rest for good.
    pub(super) fn rest(&mut self) {
        self.ranks = None;
    }

    /// Whether the level is over for all: each has what it needs, one was interrupted, or one is lost. Never waits.
    pub(super) fn is_over(&self) -> bool {
        let Some(ranks) = self.ranks else { return false };
        if !self.over.get()
            && let Err(error) = self.poll(ranks)
        {
            *self.trouble.borrow_mut() = Some(error);
            self.over.set(true);
        }
        self.over.get()
    }

    fn poll(&self, ranks: &Ranks) -> Result<()> {
        if interrupt::is_terminated() {
            let reason = Error::machine(
                "the launcher is ending this process, because another has ended or the user asked for it",
            );
            ranks.fall_silent(&reason);
            return Err(reason);
        }
        if !self.under_way.get() {
            if Stamp::now() >= self.next.get() {
                let interrupted = interrupt::counter().load(Ordering::Relaxed) > 0;
                ranks.begin(&Beat { settled: self.own.get().is_some(), interrupted }, ANSWER_LIMIT)?;
                self.under_way.set(true);
            }
            return Ok(());
        }
        let Some(all) = ranks.poll::<Beat>()? else { return Ok(()) };
        self.under_way.set(false);
        self.next.set(Stamp::now().plus_duration(BETWEEN));
        let interrupted = all.iter().any(|beat| beat.interrupted);
        if interrupted {
            self.interrupts.fetch_max(1, Ordering::Relaxed);
        }
        self.over.set(interrupted || all.iter().all(|beat| beat.settled));
        Ok(())
    }

    /// What the level ends with, if it is over for all and this process has had what it needs: the window that is open
    /// is no part of it, because others have stopped already.
    ///
    /// # Errors
    /// One is lost, or cannot continue.
    pub(super) fn is_over_with(&self) -> Result<Option<Ending>> {
        self.check()?;
        Ok(self.own.get().filter(|_| self.over.get()))
    }

    /// This process would end with `own`, or needs more; returns what it ends with if all would.
    ///
    /// # Errors
    /// As [`Pulse::is_over_with`].
    pub(super) fn settle(&self, own: Option<Ending>) -> Result<Option<Ending>> {
        self.check()?;
        if self.ranks.is_none() || self.over.get() {
            return Ok(own);
        }
        self.own.set(self.own.get().or(own));
        Ok(None)
    }

    /// Counts a window that this process does not need any more, and that is measured for others; none if it still needs some.
    pub(super) fn further(&self) -> Option<usize> {
        self.own.get()?;
        self.further.set(self.further.get() + 1);
        Some(self.further.get())
    }

    /// Whether this process has what it needs.
    pub(super) fn has_settled(&self) -> bool {
        self.own.get().is_some()
    }

    /// This process ends with `own`, and waits until all are done.
    ///
    /// # Errors
    /// As [`Pulse::is_over_with`].
    pub(super) fn wait_with(&self, own: Ending) -> Result<Ending> {
        self.own.set(Some(own));
        while self.ranks.is_some() && !self.is_over() {
            thread::sleep(WAIT);
        }
        self.check().map(|()| own)
    }

    fn check(&self) -> Result<()> {
        self.trouble.borrow().clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::threads::together;

    fn pulse<'a>(ranks: &'a Ranks, interrupts: &'a AtomicUsize) -> Pulse<'a> {
        Pulse {
            ranks: Some(ranks),
            interrupts,
            own: Cell::new(None),
            next: Cell::new(Stamp::now()),
            under_way: Cell::new(false),
            over: Cell::new(false),
            trouble: RefCell::default(),
            further: Cell::new(0),
        }
    }

    #[test]
    fn all_end_when_the_last_has_what_it_needs() {
        let settled = AtomicUsize::new(0);
        let ended = together(3, |ranks| {
            let interrupts = AtomicUsize::new(0);
            let pulse = pulse(&ranks, &interrupts);
            for _ in 0..50 * ranks.place().rank {
                assert!(!pulse.is_over(), "one needs more");
                thread::sleep(Duration::from_millis(1));
            }
            settled.fetch_add(1, Ordering::SeqCst);
            let ending = pulse.wait_with(Ending::Stable).unwrap();
            (ending, settled.load(Ordering::SeqCst), interrupts.load(Ordering::Relaxed))
        });
        assert_eq!(ended, [(Ending::Stable, 3, 0); 3]);
    }

    #[test]
    fn a_rank_that_cannot_go_on_ends_the_others() {
        let told = together(2, |ranks| {
            let interrupts = AtomicUsize::new(0);
            if ranks.place().rank == 1 {
                ranks.give_up(&Error::server("the server is gone"));
                return String::new();
            }
            pulse(&ranks, &interrupts).wait_with(Ending::Stable).unwrap_err().to_string()
        });
        assert_eq!(told[0], "rank 1 (host1): the server is gone");
    }
}
