//! With a latency as a constraint: how many requests outstanding meet it.
//!
//! In a closed loop that is saturated, latency grows with the number of requests outstanding, and throughput does not.
//! So a candidate that misses its latency is measured again at once with as many fewer; one that stays far below it gets
//! more the next time.

use crate::app::tune::goal;
use crate::error::{Error, Result};
use crate::plan::TunePlan;
use crate::result::TrialFigures;

/// Maximum number of tries in one trial.
pub const TRIES: usize = 5;
/// How far a latency stays below its limit.
struct Distance {
    /// What is left of the limit, as latencies are not the same each time.
    guard: f64,
    /// A latency this near the limit, as a logarithm, would miss it in a part of the trials that confirm it.
    near: f64,
}

/// On a quiet machine, and where others disturb, whose tails differ more from trial to trial.
const QUIET: Distance = Distance { guard: 0.9, near: 0.05 };
const DISTURBED: Distance = Distance { guard: 0.75, near: 0.25 };

fn distance(is_disturbed: bool) -> Distance {
    if is_disturbed { DISTURBED } else { QUIET }
}

/// A candidate gets more requests if its latency is below the limit by this much, as a logarithm.
const HEADROOM: f64 = 0.25;
/// At most this many times as many.
const GROWTH: f64 = 2.0;

/// What is known of a candidate's load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownLoad {
    /// Requests outstanding in the next trial.
    pub next: u32,
    /// The fewest that missed a constraint on a quiet machine.
    missed: Option<u32>,
    /// Whether the last trial of the confirmation missed one.
    has_missed: bool,
}

/// A trial.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// The load that it ended with.
    pub load: u32,
    /// The fewest that missed a constraint in it, on a quiet machine.
    pub missed: Option<u32>,
    /// How it came out.
    pub violation: f64,
    /// Whether others disturbed it.
    pub is_disturbed: bool,
    /// Whether it is one of the confirmation, whose figures are those of one load: two in a row must miss a constraint
    /// before there are fewer, and there are never more.
    pub confirms: bool,
}

/// Whether and how a trial goes on after a try with `load` that came to this `violation`: with this many requests.
pub fn fewer(load: u32, violation: f64, is_disturbed: bool) -> Option<u32> {
    let Distance { guard, near } = distance(is_disturbed);
    let fitting = f64::from(load) * (-violation).exp() * guard;
    (violation > -near && load > 1).then(|| (fitting as u32).clamp(1, load - 1))
}

impl KnownLoad {
    /// Nothing but this is known.
    pub fn new(next: u32) -> Self {
        Self { next, missed: None, has_missed: false }
    }

    /// After a trial, where `before` was known.
    pub fn after(before: Option<Self>, trial: Loaded) -> Self {
        let Loaded { load, violation, is_disturbed, .. } = trial;
        let missed = [before.and_then(|known_load| known_load.missed), trial.missed].into_iter().flatten().min();
        if trial.confirms {
            let misses = violation > 0.0;
            let has_missed = before.is_some_and(|known_load| known_load.has_missed);
            let next = if misses && has_missed { fewer(load, violation, is_disturbed).unwrap_or(load) } else { load };
            return Self { next, missed, has_missed: misses && next == load };
        }
        let factor = ((-violation).exp() * distance(is_disturbed).guard).min(GROWTH);
        let grown = (f64::from(load) * factor) as u32;
        let next = match violation < -HEADROOM {
            true => grown.min(missed.map_or(u32::MAX, |missed| missed - 1)).max(load),
            false => load,
        };
        Self { next, missed, has_missed: false }
    }
}

/// Looks with fewer and fewer requests outstanding, from `first`, until the constraints are met.
///
/// # Errors
/// Why a look says nothing.
pub fn within(
    plan: &TunePlan,
    first: Option<u32>,
    look: impl Fn(Option<u32>) -> Result<TrialFigures>,
) -> Result<TrialFigures> {
    let (mut load, mut missed) = (first, None);
    for tries in 1.. {
        let found = look(load)?;
        let violation = goal::found(plan, &found.figures).violation;
        let is_disturbed = found.disturbance.is_some();
        match load.and_then(|load| fewer(load, violation, is_disturbed)).filter(|_| tries < TRIES) {
            Some(fewer) => (missed, load) = (load, Some(fewer)),
            None => return Ok(TrialFigures { missed, ..found }),
        }
    }
    Err(Error::server("no load was tried"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load after some trials to a model whose latency with `n` outstanding is `law(n)`, of a limit of 1.
    fn settled(law: impl Fn(u32) -> f64, most: u32) -> (u32, Vec<usize>) {
        let (mut known_load, mut tries): (Option<KnownLoad>, Vec<usize>) = (None, Vec::new());
        for _ in 0..6 {
            let mut load = known_load.map_or(most, |known_load| known_load.next.min(most));
            let (mut missed, mut count) = (None, 1);
            while let Some(next) = fewer(load, law(load).ln(), false).filter(|_| count < TRIES) {
                (missed, load, count) = (Some(load), next, count + 1);
            }
            let violation = law(load).ln();
            let trial = Loaded { load, missed, violation, is_disturbed: false, confirms: false };
            known_load = Some(KnownLoad::after(known_load, trial));
            tries.push(count);
        }
        (known_load.unwrap().next.min(most), tries)
    }

    #[test]
    fn the_load_that_meets_a_latency_is_found() {
        let saturated = settled(|load| f64::from(load) / 20.0, 64);
        assert!((16..=20).contains(&saturated.0) && saturated.1.iter().sum::<usize>() <= 8, "{saturated:?}");
        // Batches of 8: up to as many, requests take one execution, and beyond two.
        let in_steps = settled(|load| 0.7 * f64::from(load.div_ceil(8)), 16);
        assert!((7..=8).contains(&in_steps.0), "{in_steps:?}");
        assert_eq!(settled(|_| 0.5, 16), (16, vec![1; 6]), "who meets it has all that fills its batches");
        let never = settled(|load| 2.0 + f64::from(load) / 8.0, 64);
        assert_eq!(never.0, 1, "who misses it with one request misses it");
    }

    #[test]
    fn the_load_of_the_confirmation_stays_unless_it_misses_twice() {
        let trial =
            |load: u32, violation: f64| Loaded { load, missed: None, violation, is_disturbed: false, confirms: true };
        let good = KnownLoad::after(None, trial(8, -1.0));
        assert_eq!(good.next, 8, "it does not grow");
        let once = KnownLoad::after(Some(good), trial(8, 0.2));
        assert_eq!(once.next, 8);
        assert_eq!(KnownLoad::after(Some(once), trial(8, -0.1)).next, 8);
        let twice = KnownLoad::after(Some(once), trial(8, 0.2));
        assert_eq!(twice.next, 5);
        let missed = Loaded { missed: Some(8), confirms: false, ..trial(6, -0.5) };
        assert_eq!(KnownLoad::after(Some(good), missed).next, 7, "8 missed it");
    }

    #[test]
    fn where_others_disturb_a_load_stays_farther_below_the_limit() {
        let just_below = (0.9_f64).ln();
        assert_eq!((fewer(60, just_below, false), fewer(60, just_below, true)), (None, Some(50)));
        assert_eq!(fewer(50, (0.75_f64).ln(), true), None);
        let trial = Loaded { load: 50, missed: None, violation: -0.28, is_disturbed: true, confirms: false };
        assert_eq!(KnownLoad::after(None, trial).next, 50, "it does not grow back");
    }
}
