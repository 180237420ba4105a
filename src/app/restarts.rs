//! `--restarts`: repeats a measured level, with the model reloaded each time.

use crate::error::Result;
use crate::result::restarts::restarts;
use crate::result::summary::{Ending, LevelSummary};
use crate::stdio::note;
use crate::terms::MeasurementPlan;

/// Adds to `level` its results at as many starts as the plan asks for, including the first. `again` reloads the model
/// and measures; its argument is whether this is the first call. Failures there do not lose earlier results: if
/// `may_go_on` returns false (its argument is whether the last start was useful), or a model cannot be reloaded, the
/// repetition ends.
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
    let mut is_of_use = !is_worthless(level);
    while levels.len() < starts && may_go_on(is_of_use) && is_of_use {
        match again(levels.len() == 1) {
            Ok(level) => {
                is_of_use = !is_worthless(&level);
                levels.extend(is_of_use.then_some(level));
            }
            Err(error) => {
                note!("{error}");
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
    level.restarts = restarts(&levels, plan.percentile);
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
        let plan = MeasurementPlan { restarts: 5, ..sample::plan() };
        let mut level = sample::level(LevelLoad::Concurrency(1), 100, 1_000);
        let number = Cell::new(0);
        let measure = |is_first: bool| {
            number.set(number.get() + 1);
            assert_eq!(is_first, number.get() == 1);
            again(number.get())
        };
        repeat(&plan, &mut level, |is_of_use| is_of_use && number.get() < interrupted_after, measure);
        level.restarts.map(|all| all.starts)
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
