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
    /// machine look like that.
    pub(super) fn is_beyond_doubt(self) -> bool {
        self.gain() >= CLEARLY && self.step.clarity >= CLEAR_STEP && self.step.share <= EARLY
    }
}
