//! [`WarmUp`]: what a level's result lacks of its beginning.

use crate::drift::Step;
use crate::terms::Statistic;

/// A server that is so many times as slow at first has to warm up: others who take a processor, or half of it, leave more to it.
const CLEARLY: f64 = 2.5;
/// It does so in no more than this share of what was measured.
const EARLY: f64 = 0.5;
/// And both sides of its step are so many times as far apart as each is wide.
const CLEAR_STEP: f64 = 4.0;

/// The time in which a figure changed before it came to rest, which is no part of the result: mostly because a server warmed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WarmUp {
    /// The figure that tells.
    pub(super) statistic: Statistic,
    /// How it changed; over so long after the first window's beginning.
    pub(super) step: Step,
}

impl WarmUp {
    /// How many times as good the server got.
    pub(super) fn gain(self) -> f64 {
        let Step { before, after, .. } = self.step;
        if self.statistic == Statistic::Throughput { after / before } else { before / after }
    }

    /// Whether the server got so much better, so suddenly and so early in what was measured that neither noise nor others on the
    /// machine look like that; nor does a pause, in which nothing is answered.
    pub(super) fn is_beyond_doubt(self) -> bool {
        let Step { share, lasting, before, clarity, .. } = self.step;
        self.gain() >= CLEARLY && clarity >= CLEAR_STEP && share <= EARLY && lasting && before > 0.0
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::blocks::{Block, Blocks};
    use crate::drift::step;
    use crate::result::summary::sample;

    #[test]
    fn a_pause_at_the_beginning_is_no_warm_up_beyond_doubt() {
        let is_beyond_doubt = |slow: Range<u64>, requests: u64| {
            let mut blocks = Blocks::default();
            for number in 0..48 {
                let requests = if slow.contains(&number) { requests } else { 1_000 + number % 5 };
                blocks.push(Block::new(&sample::client(requests, 1_000_000)));
            }
            let statistic = Statistic::Throughput;
            WarmUp { statistic, step: step(statistic, &blocks, 0.1).unwrap() }.is_beyond_doubt()
        };
        // A stretch is four blocks.
        assert!(is_beyond_doubt(0..13, 200) && is_beyond_doubt(0..6, 200));
        assert!(!is_beyond_doubt(0..4, 200), "no longer than a stretch");
        assert!(!is_beyond_doubt(1..6, 0), "a pause");
        assert!(!is_beyond_doubt(0..13, 0), "nothing is answered");
    }
}
