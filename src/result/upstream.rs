//! What perf_analyzer would have kept of a result. Tools that call it take every row of its CSV file for a level within
//! the limit, and the last one for the best.

use std::borrow::Cow;

use crate::outcome::Outcome;
use crate::summary::{Ending, LevelSummary};
use crate::{RunResult, Setup};

impl RunResult {
    /// The result without levels of a range that are not stable, or above the latency threshold; with all of them if
    /// there are no others.
    pub fn as_upstream(&self) -> Cow<'_, Self> {
        let levels: Vec<LevelSummary> =
            self.levels.iter().filter(|level| self.setup.keeps_upstream(level)).cloned().collect();
        match levels.is_empty() || levels.len() == self.levels.len() {
            true => Cow::Borrowed(self),
            false => Cow::Owned(Self { levels, ..self.clone() }),
        }
    }
}

impl Setup {
    /// Whether perf_analyzer would report the level: not one of a range that is not stable, above the limit, or failed. What an
    /// interrupt ended early says what was measured until then.
    pub fn keeps_upstream(&self, level: &LevelSummary) -> bool {
        let has_ended = matches!(level.ending, Ending::Stable | Ending::Complete | Ending::Interrupted);
        !self.mode.is_range() || (has_ended && Outcome::new(level) != Outcome::Failed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reasons::{InvalidReason, Verdict};
    use crate::setup::sample as plans;
    use crate::summary::{LevelLoad, sample};
    use crate::terms::LoadMode;

    fn level(concurrency: u32, ending: Ending) -> LevelSummary {
        LevelSummary { ending, ..sample::level(LevelLoad::Concurrency(concurrency), 100, 1_000) }
    }

    fn kept(mode: Option<LoadMode>, levels: &[LevelSummary]) -> Vec<LevelLoad> {
        let mut setup = plans::setup();
        setup.mode = mode.unwrap_or(setup.mode);
        let result = RunResult { levels: levels.to_vec(), ..RunResult::new(Arc::new(setup)) };
        result.as_upstream().levels.iter().map(|level| level.load).collect()
    }

    #[test]
    fn levels_beyond_the_limit_are_left_out_where_others_remain() {
        let loads = |numbers: &[u32]| numbers.iter().copied().map(LevelLoad::Concurrency).collect::<Vec<_>>();
        let stable = level(1, Ending::Stable);
        let failed =
            LevelSummary { verdict: Verdict::Invalid(vec![InvalidReason::Errors(9, 10)]), ..level(4, Ending::Stable) };
        let beyond = [level(2, Ending::Unstable), level(3, Ending::OverThreshold), failed];
        let all = [std::slice::from_ref(&stable), &beyond, &[level(5, Ending::Complete)]].concat();
        assert_eq!(kept(None, &all), loads(&[1, 5]));
        assert_eq!(kept(None, &beyond), loads(&[2, 3, 4]), "nothing measured is lost");
        assert_eq!(kept(None, &[stable, level(2, Ending::Interrupted)]), loads(&[1, 2]));
        assert_eq!(kept(Some(LoadMode::FixedSchedule), &all), loads(&[1, 2, 3, 4, 5]), "a load without a range");
    }
}
