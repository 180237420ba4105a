//! [`Breaker`]: ends a run in which too many requests fail for too long, or one after the other.
//!
//! Where several processes share a load, each only counts its own requests; all receive everybody's counts in the same messages, and so
//! judge alike.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::record::Completed;
use crate::stdio::note;
use crate::terms::StopRule;

/// Looks that are kept of the longest time that a rule is about.
const LOOKS: u32 = 64;

/// Looks at what was over lately, whenever somebody waits anyway; requests know nothing of it.
pub struct Breaker<'a> {
    rules: &'a [StopRule],
    /// Other processes have requests of the same load.
    is_shared: bool,
    state: RefCell<State>,
}

/// The requests of a process that were over so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    all: u64,
    failed: u64,
    /// The most that failed one after the other.
    in_a_row: u64,
}

impl Counts {
    /// Those of two processes. What failed in a row did so in one of them.
    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            failed: self.failed + other.failed,
            in_a_row: self.in_a_row.max(other.in_a_row),
        }
    }
}

#[derive(Default)]
struct State {
    /// What had ended in the open window at the last poll.
    last: Completed,
    /// Requests of this process.
    counts: Counts,
    /// Counts of the load at earlier looks, oldest first.
    looks: VecDeque<(Stamp, Counts)>,
    is_open: bool,
}

impl<'a> Breaker<'a> {
    /// One that has seen nothing yet.
    pub fn new(rules: &'a [StopRule]) -> Self {
        Self { rules, is_shared: false, state: RefCell::default() }
    }

    /// The same for a load that several processes share, if they do.
    #[must_use]
    pub fn shared(self, is_shared: bool) -> Self {
        Self { is_shared, ..self }
    }

    /// Whether a rule has ended the run.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open
    }

    /// Whether a rule has ended the run of all processes that share the load; all of them know that from the same messages.
    pub(super) fn is_open_for_all(&self) -> bool {
        self.is_shared && self.is_open()
    }

    /// Checks what has ended in the open window, and the longest run of failed requests in the level; says so where
    /// that ends the run. Returns whether it does.
    pub(super) fn poll(&self, now: Stamp, completed: Completed, in_a_row: u64) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let mut state = self.state.borrow_mut();
        state.add(completed, in_a_row);
        if !self.is_shared {
            let counts = state.counts;
            self.judge(&mut state, now, counts);
        }
        state.is_open
    }

    /// The requests of this process, for the others.
    pub(super) fn counts(&self) -> Counts {
        self.state.borrow().counts
    }

    /// Checks the counts that all processes which share the load have sent, the last of them at `now`.
    pub(super) fn receive(&self, now: Stamp, all: impl Iterator<Item = Counts>) {
        if self.is_shared && !self.rules.is_empty() {
            let counts = all.fold(Counts::default(), Counts::plus);
            self.judge(&mut self.state.borrow_mut(), now, counts);
        }
    }

    /// Ends the run if a rule does at these counts.
    fn judge(&self, state: &mut State, now: Stamp, counts: Counts) {
        if state.is_open {
            return;
        }
        if state.looks.is_empty() {
            // What ends before the first look counts, too.
            state.looks.push_back((now, Counts::default()));
        }
        match self.rules.iter().find_map(|rule| state.breaks(rule, counts, now).map(|found| (rule, found))) {
            Some((rule, found)) => {
                note!("--stop-on '{rule}': {found}; the run ends");
                state.is_open = true;
            }
            None => state.keep(self.rules, now, counts),
        }
    }
}

impl State {
    /// Adds what has ended since the last poll. A new window counts from zero.
    fn add(&mut self, completed: Completed, in_a_row: u64) {
        let is_new = completed.all() < self.last.all() || completed.failed < self.last.failed;
        let before = if is_new { Completed::default() } else { self.last };
        self.counts.all += (completed.succeeded + completed.failed).saturating_sub(before.succeeded + before.failed);
        self.counts.failed += completed.failed - before.failed;
        self.counts.in_a_row = self.counts.in_a_row.max(in_a_row);
        self.last = completed;
    }

    /// What a rule finds in these counts that ends the run, if anything.
    fn breaks(&self, rule: &StopRule, counts: Counts, now: Stamp) -> Option<String> {
        match *rule {
            StopRule::Share { share, or_equal, over, least } => {
                let (all, failed) = self.within(counts, over, least, now)?;
                // 3 of 30 are 0.1, but a tenth of 30 may be rounded to more than 3.
                let found = failed as f64 / all as f64;
                let is_broken = found > share || (or_equal && found >= share);
                is_broken.then(|| format!("{failed} of the latest {all} requests failed"))
            }
            StopRule::InARow { failures } => {
                (counts.in_a_row >= failures).then(|| format!("{} requests failed in a row", counts.in_a_row))
            }
        }
    }

    /// Requests that ended within a rule's time and how many of them failed, once known.
    fn within(&self, counts: Counts, over: Duration, least: u64, now: Stamp) -> Option<(u64, u64)> {
        let whole = self.looks.iter().rev().find(|(at, _)| now - *at >= over);
        let since = if least > 0 { whole.or(self.looks.front()) } else { whole };
        let (_, since) = since?;
        let (all, failed) = (counts.all - since.all, counts.failed - since.failed);
        (all >= least.max(1)).then_some((all, failed))
    }

    /// Keeps a sample if the last one is some time ago, and drops those that no rule needs.
    fn keep(&mut self, rules: &[StopRule], now: Stamp, counts: Counts) {
        let time = |rule: &StopRule| match rule {
            StopRule::Share { over, .. } => Some(*over),
            StopRule::InARow { .. } => None,
        };
        let times = || rules.iter().filter_map(time);
        let (shortest, longest) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
        if self.looks.back().is_some_and(|(at, _)| now - *at < shortest / LOOKS) {
            return;
        }
        self.looks.push_back((now, counts));
        while self.looks.get(1).is_some_and(|(at, _)| now - *at >= longest) {
            self.looks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(least: u64) -> StopRule {
        StopRule::Share { share: 0.1, or_equal: false, over: Duration::from_secs(5), least }
    }

    /// Polls a load of 10 requests every 100 ms, of which `failed` returns how many fail; returns when it ended.
    fn ends(rule: StopRule, windows: u64, failed: impl Fn(u64) -> u64) -> Option<u64> {
        let rules = [rule];
        let breaker = Breaker::new(&rules);
        let (mut succeeded, mut bad) = (0, 0);
        (0..300).find(|&look| {
            if windows > 0 && look % windows == 0 {
                (succeeded, bad) = (0, 0);
            }
            succeeded += 10 - failed(look);
            bad += failed(look);
            breaker.poll(Stamp(look * 100_000_000), Completed { succeeded, failed: bad, cancelled: 0 }, 0)
        })
    }

    #[test]
    fn failures_of_the_latest_time_count() {
        assert_eq!(ends(rule(0), 0, |_| 0), None);
        assert_eq!(ends(rule(0), 0, |_| 1), None, "a tenth is not more than a tenth");
        let at = ends(rule(0), 0, |_| 2).expect("it ends");
        assert!((50..55).contains(&at), "{at}: once the time has gone by");
        assert_eq!(ends(rule(0), 0, |look| if (100..105).contains(&look) { 9 } else { 0 }), None, "45 of 500");
        let at = ends(rule(0), 0, |look| if look >= 100 { 9 } else { 0 }).expect("it ends");
        assert!((104..110).contains(&at), "{at}");
    }

    #[test]
    fn windows_do_not_matter() {
        let at = ends(rule(0), 20, |look| if look >= 100 { 9 } else { 0 }).expect("it ends");
        assert!((104..112).contains(&at), "{at}");
        assert_eq!(ends(rule(0), 7, |_| 1), None);
    }

    #[test]
    fn enough_requests_need_no_more_time() {
        let at = ends(rule(60), 0, |_| 5).expect("it ends");
        assert!((5..9).contains(&at), "{at}");
    }

    #[test]
    fn a_share_may_be_reached_or_passed() {
        let at_least = |share, least| StopRule::Share { share, or_equal: true, over: Duration::from_secs(5), least };
        assert_eq!(ends(at_least(0.1, 60), 0, |_| 1), Some(5), "a tenth is enough");
        assert_eq!(ends(at_least(1.0, 1), 0, |_| 10), Some(0), "so is the first look");
        assert_eq!(ends(at_least(1.0, 1), 0, |_| 9), None);
        assert_eq!(
            ends(StopRule::Share { share: 1.0, or_equal: false, over: Duration::from_secs(5), least: 1 }, 0, |_| 10),
            None
        );
    }

    #[test]
    fn failures_in_a_row_end_it_at_once() {
        let rules = [StopRule::InARow { failures: 10 }];
        let breaker = Breaker::new(&rules);
        let poll = |at, in_a_row| breaker.poll(Stamp(at), Completed::default(), in_a_row);
        assert!(!poll(1, 9) && !breaker.is_open());
        assert!(poll(2, 12) && breaker.is_open() && poll(3, 0), "it stays so");
    }

    #[test]
    fn processes_that_share_a_load_find_the_same_in_the_counts_of_all() {
        let rules = [rule(60)];
        let breakers = [Breaker::new(&rules).shared(true), Breaker::new(&rules).shared(true)];
        // All requests of one process fail, which are a twentieth, and then a fifth of those of both.
        let opened = |look: u64, failed: u64| {
            let over = [(190 * look, 0), (0, failed)];
            for (breaker, (succeeded, failed)) in breakers.iter().zip(over) {
                assert!(!breaker.poll(Stamp(look), Completed { succeeded, failed, cancelled: 0 }, failed));
            }
            for breaker in &breakers {
                breaker.receive(Stamp(look), breakers.iter().map(Breaker::counts));
            }
            breakers.each_ref().map(Breaker::is_open_for_all)
        };
        assert_eq!(opened(1, 10), [false; 2]);
        assert_eq!(opened(2, 50), [true; 2]);
    }

    #[test]
    fn a_process_whose_requests_fail_in_a_row_ends_the_load_of_all() {
        let rules = [StopRule::InARow { failures: 10 }];
        let breaker = Breaker::new(&rules).shared(true);
        let counts = |in_a_row| Counts { all: 20, failed: 10, in_a_row };
        breaker.receive(Stamp(1), [counts(9), counts(9)].into_iter());
        assert!(!breaker.is_open());
        breaker.receive(Stamp(2), [counts(0), counts(10)].into_iter());
        assert!(breaker.is_open());
    }

    #[test]
    fn without_rules_nothing_is_kept() {
        let breaker = Breaker::new(&[]);
        assert!(!breaker.poll(Stamp(1), Completed { failed: 9, ..Completed::default() }, 9));
        assert!(breaker.state.borrow().looks.is_empty());
    }
}
