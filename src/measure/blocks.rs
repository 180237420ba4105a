//! How certain the throughput of a load is that is measured whole: its completions in blocks of equal length.
//!
//! There are no windows to compare, so the time is cut into blocks while it goes by. Their length doubles whenever there are
//! too many of them, so that memory does not grow and neighbouring blocks have little to do with each other.

use std::time::Duration;

use crate::measure::precision::CONFIDENCE;
use crate::stats::{Interval, batch_means};

/// Length of the first blocks.
const FIRST: Duration = Duration::from_millis(10);
/// Most blocks; then each two become one.
const MOST: usize = 32;
/// Fewer blocks say too little.
const LEAST: usize = 8;

/// Completions so far at the ends of blocks.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    length: Duration,
    completed: Vec<u64>,
}

impl Blocks {
    /// No block yet.
    pub(super) fn new() -> Self {
        Self { length: FIRST, completed: Vec::with_capacity(MOST) }
    }

    /// Notes how many requests have succeeded so long after the start.
    pub(super) fn look(&mut self, elapsed: Duration, completed: u64) {
        while elapsed >= self.length * (self.completed.len() as u32 + 1) {
            self.completed.push(completed);
            if self.completed.len() == MOST {
                self.completed = self.completed.iter().copied().skip(1).step_by(2).collect();
                self.length *= 2;
            }
        }
    }

    /// The interval of the throughput in inferences a second; `None` where the load was too short or nothing succeeded.
    pub(super) fn throughput(&self, batch_size: u64) -> Option<Interval> {
        let before = std::iter::once(0).chain(self.completed.iter().copied());
        let per_second = |(before, after): (u64, &u64)| {
            (after.saturating_sub(before) * batch_size) as f64 / self.length.as_secs_f64()
        };
        let each: Vec<f64> = before.zip(&self.completed).map(per_second).collect();
        let idle = self.completed.last().is_none_or(|&completed| completed == 0);
        if idle || each.len() < LEAST { None } else { batch_means(&each, CONFIDENCE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(milliseconds: u64, completed: impl Fn(u64) -> u64) -> Option<Interval> {
        let mut blocks = Blocks::new();
        (0..=milliseconds).for_each(|ms| blocks.look(Duration::from_millis(ms), completed(ms)));
        assert!(blocks.completed.len() < MOST);
        blocks.throughput(2)
    }

    #[test]
    fn a_steady_pace_is_certain_and_an_uneven_one_is_not() {
        for milliseconds in [80, 1_000, 100_000] {
            let steady = interval(milliseconds, |ms| ms * 3).unwrap();
            assert!((steady.low - 6000.0).abs() < 1e-6 && (steady.high - 6000.0).abs() < 1e-6, "{steady:?}");
        }
        let uneven = interval(2_000, |ms| if ms < 1_000 { ms } else { 1_000 + (ms - 1_000) * 5 }).unwrap();
        assert!(uneven.low < 5_000.0 && uneven.high > 7_000.0, "{uneven:?}");
        assert!(interval(70, |ms| ms).is_none(), "too short to tell");
        assert!(interval(2_000, |_| 0).is_none(), "nothing to tell of");
    }
}
