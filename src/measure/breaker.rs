//! [`Breaker`]: ends a run in which too many requests fail for too long, or one after the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Stamp;
use crate::record::Completed;
use crate::stdio::note;
use crate::terms::StopRule;

/// Looks that are kept of the longest time that a rule is about.
const LOOKS: u32 = 64;

/// Looks at what was over lately, whenever somebody waits anyway; requests know nothing of it.
pub struct Breaker<'a> {
    rules: &'a [StopRule],
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// What had ended in the open window at the last poll.
    last: Completed,
    /// Requests that were over so far, and those of them that failed.
    sums: (u64, u64),
    /// Sums at earlier polls, oldest first.
    looks: VecDeque<(Stamp, (u64, u64))>,
    is_open: bool,
}

impl<'a> Breaker<'a> {
    /// One that has seen nothing yet.
    pub fn new(rules: &'a [StopRule]) -> Self {
        Self { rules, state: RefCell::default() }
    }

    /// Whether a rule has ended the run.
    pub(super) fn is_open(&self) -> bool {
        self.state.borrow().is_open
    }

    /// Checks what has ended in the open window, and the longest run of failed requests in the level; says so where
    /// that ends the run. Returns whether it does.
    pub(super) fn poll(&self, now: Stamp, completed: Completed, in_a_row: u64) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let mut state = self.state.borrow_mut();
        if state.looks.is_empty() {
            // What ends before the first look counts, too.
            state.looks.push_back((now, (0, 0)));
        }
        state.add(completed);
        for rule in self.rules.iter().filter(|_| !state.is_open) {
            let found = match *rule {
                StopRule::Share { share, or_equal, over, least } => {
                    let is_broken = |(all, failed): &(u64, u64)| {
                        // 3 of 30 are 0.1, but a tenth of 30 may be rounded to more than 3.
                        let found = *failed as f64 / *all as f64;
                        found > share || (or_equal && found >= share)
                    };
                    let found = state.within(over, least, now).filter(is_broken);
                    found.map(|(all, failed)| format!("{failed} of the latest {all} requests failed"))
                }
                StopRule::InARow { failures } => {
                    (in_a_row >= failures).then(|| format!("{in_a_row} requests failed in a row"))
                }
            };
            if let Some(found) = found {
                note!("--stop-on '{rule}': {found}; the run ends");
                state.is_open = true;
                return true;
            }
        }
        state.keep(self.rules, now);
        state.is_open
    }
}

impl State {
    /// Adds what has ended since the last poll. A new window counts from zero.
    fn add(&mut self, completed: Completed) {
        let is_new = completed.all() < self.last.all() || completed.failed < self.last.failed;
        let before = if is_new { Completed::default() } else { self.last };
        self.sums.0 += (completed.succeeded + completed.failed).saturating_sub(before.succeeded + before.failed);
        self.sums.1 += completed.failed - before.failed;
        self.last = completed;
    }

    /// Requests that ended within a rule's time and how many of them failed, once known.
    fn within(&self, over: Duration, least: u64, now: Stamp) -> Option<(u64, u64)> {
        let whole = self.looks.iter().rev().find(|(at, _)| now - *at >= over);
        let since = if least > 0 { whole.or(self.looks.front()) } else { whole };
        let (_, since) = since?;
        let (all, failed) = (self.sums.0 - since.0, self.sums.1 - since.1);
        (all >= least.max(1)).then_some((all, failed))
    }

    /// Keeps a sample if the last one is some time ago, and drops those that no rule needs.
    fn keep(&mut self, rules: &[StopRule], now: Stamp) {
        let time = |rule: &StopRule| match rule {
            StopRule::Share { over, .. } => Some(*over),
            StopRule::InARow { .. } => None,
        };
        let times = || rules.iter().filter_map(time);
        let (shortest, longest) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
        if self.looks.back().is_some_and(|(at, _)| now - *at < shortest / LOOKS) {
            return;
        }
        self.looks.push_back((now, self.sums));
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
    fn without_rules_nothing_is_kept() {
        let breaker = Breaker::new(&[]);
        assert!(!breaker.poll(Stamp(1), Completed { failed: 9, ..Completed::default() }, 9));
        assert!(breaker.state.borrow().looks.is_empty());
    }
}
