//! `--restarts`: repeats a measured level, with the model reloaded each time.

use crate::error::Result;
use crate::result::reasons::Verdict;
use crate::result::restarts::{at_starts, restarts};
use crate::result::summary::{Ending, LevelSummary, MissingStarts};
use crate::stdio::note;
use crate::terms::MeasurementPlan;

/// Adds to `level` its results at as many starts as the plan asks for, including the first. `again` reloads the model
/// and measures; its argument is whether this is the first call. Failures there do not lose earlier results: if
/// `may_go_on` returns false (its argument is whether the last start was useful), or a model cannot be reloaded, the
/// repetition ends. Which starts are missing, and why, is kept: a server that failed at one of them has not passed.
pub fn repeat(
    plan: &MeasurementPlan,
    level: &mut LevelSummary,
    may_go_on: impl Fn(bool) -> bool,
    again: impl Fn(bool) -> Result<LevelSummary>,
) {
    let starts = plan.restarts as usize;
    if starts < 2 {
        return;
    }
    let mut levels = vec![level.clone()];
    let (mut is_of_use, mut cause) = (!is_worthless(level), None);
    while levels.len() < starts && may_go_on(is_of_use) && is_of_use {
        match again(levels.len() == 1) {
            Ok(level) => {
                is_of_use = !is_worthless(&level);
                cause = failure(&level);
                levels.extend(is_of_use.then_some(level));
            }
            Err(error) => {
                note!("{error}");
                cause = Some(Cause { reason: error.to_string(), requests_failed: false });
                break;
            }
        }
    }
    if is_worthless(level) {
        return;
    }
    if levels.len() < starts {
        note!("--restarts: {} of {starts} starts were measured", levels.len());
    }
    level.missing_starts = cause.map(|Cause { reason, requests_failed }| {
        let (planned, measured) = (starts, levels.len());
        MissingStarts { planned, measured, reason, requests_failed }
    });
    level.restarts = restarts(&levels, plan.percentile);
    level.at_starts = at_starts(&levels, plan);
}

/// Why a start is missing.
struct Cause {
    reason: String,
    /// Its requests failed; else the model could not be loaded again.
    requests_failed: bool,
}

/// Why a start is worth nothing, if its requests failed.
fn failure(level: &LevelSummary) -> Option<Cause> {
    if !is_worthless(level) || level.ending == Ending::Interrupted {
        return None;
    }
    let reason = match &level.verdict {
        Verdict::Invalid(reasons) => reasons.first().map(ToString::to_string),
        Verdict::Valid => None,
    };
    let error = || level.client.errors.first().map(|(error, _)| error.to_string());
    let reason = reason.or_else(error).unwrap_or_else(|| "no request succeeded".to_owned());
    Some(Cause { reason, requests_failed: true })
}

fn is_worthless(level: &LevelSummary) -> bool {
    level.client.requests == 0 || matches!(level.ending, Ending::Interrupted | Ending::Failed)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::error::Error;
    use crate::result::summary::{LevelLoad, sample};

    /// How many starts a level has where the plan asks for five and `again` is called with the number of the start.
    fn starts(again: impl Fn(u32) -> Result<LevelSummary>, interrupted_after: u32) -> Option<usize> {
        repeated(again, interrupted_after).restarts.map(|all| all.starts)
    }

    fn repeated(again: impl Fn(u32) -> Result<LevelSummary>, interrupted_after: u32) -> LevelSummary {
        let plan = MeasurementPlan { restarts: 5, ..sample::plan() };
        let mut level = sample::level(LevelLoad::Concurrency(1), 100, 1_000);
        let number = Cell::new(0);
        let measure = |is_first: bool| {
            number.set(number.get() + 1);
            assert_eq!(is_first, number.get() == 1);
            again(number.get())
        };
        repeat(&plan, &mut level, |is_of_use| is_of_use && number.get() < interrupted_after, measure);
        level
    }

    #[test]
    fn a_start_that_fails_is_told() {
        let level = |ending| LevelSummary { ending, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) };
        let from_third = |ending: Ending| move |number| Ok(level(if number < 2 { Ending::Stable } else { ending }));
        let missing = |again: &dyn Fn(u32) -> Result<LevelSummary>| repeated(again, 9).missing_starts;
        let failed = missing(&from_third(Ending::Failed)).unwrap();
        assert_eq!((failed.planned, failed.measured, failed.requests_failed), (5, 2, true));
        assert_eq!(failed.reason, "no request succeeded");
        assert_eq!(missing(&from_third(Ending::Interrupted)), None);
        assert_eq!(missing(&|_| Ok(level(Ending::Stable))), None);
        let gone = missing(&|_| Err(Error::server("gone"))).unwrap();
        assert_eq!((gone.planned, gone.measured, gone.requests_failed), (5, 1, false));
        assert!(gone.reason.contains("gone"), "{gone:?}");
    }

    #[test]
    fn failures_of_every_start_are_kept() {
        let level = |failed| {
            let mut level = sample::level(LevelLoad::Concurrency(1), 100 - failed, 1_000);
            level.client.failed = failed;
            level
        };
        let failed = |all: &LevelSummary| {
            all.at_starts.iter().find(|figure| figure.key == "errors").map(|errors| errors.values.clone())
        };
        let all = repeated(|number| Ok(level(u64::from(number))), 9);
        assert_eq!(failed(&all), Some(vec![0.0, 0.01, 0.02, 0.03, 0.04]));
        assert_eq!(failed(&repeated(|_| Err(Error::server("gone")), 9)), None);
    }

    #[test]
    fn what_was_measured_is_kept_whatever_ends_the_repetition() {
        let level = || sample::level(LevelLoad::Concurrency(1), 100, 1_000);
        assert_eq!(starts(|_| Ok(level()), 9), Some(5));
        assert_eq!(starts(|_| Ok(level()), 2), Some(3));
        assert_eq!(starts(|number| if number < 3 { Ok(level()) } else { Err(Error::server("gone")) }, 9), Some(3));
        let broken = |number: u32| LevelSummary {
            ending: if number < 2 { Ending::Stable } else { Ending::Interrupted },
            ..level()
        };
        assert_eq!(starts(|number| Ok(broken(number)), 9), Some(2));
        assert_eq!(starts(|_| Err(Error::server("gone")), 9), None);
    }
}
