//! The knee of a range: where more load begins to cost more latency than it brings throughput.

use crate::statistic::value;
use crate::stats::Interval;
use crate::summary::{LevelLoad, LevelSummary, StatisticEstimate};
use crate::terms::Statistic;

/// The level at the knee, and between which ones it lies as far as is known.
#[derive(Clone, Copy, Debug)]
pub struct Knee<'a> {
    /// The level whose figures say so.
    pub level: &'a LevelSummary,
    /// The lowest load whose intervals leave it open whether it is the knee.
    pub lowest: &'a LevelSummary,
    /// The highest one.
    pub highest: &'a LevelSummary,
}

impl Knee<'_> {
    /// Whether it may be at another load.
    pub fn is_open(&self) -> bool {
        !std::ptr::eq(self.lowest, self.highest)
    }
}

/// The knee of a closed loop: the level with the most throughput for its latency, which Kleinrock calls the power of a
/// system (L. Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
/// communications", ICC 1979). With two levels there is no bend, and levels of different batch sizes follow no curve.
pub fn knee<'a>(levels: &[&'a LevelSummary], latency: Statistic) -> Option<Knee<'a>> {
    let first = levels.first()?;
    let is_curve = levels.len() > 2 && levels.iter().all(|level| matches!(level.load, LevelLoad::Concurrency(_)));
    let is_alike = levels.iter().all(|level| level.client.batch_size == first.client.batch_size);
    if !is_curve || !is_alike {
        return None;
    }
    let power = |level: &LevelSummary| level.client.throughput() / value(latency, &level.client).max(1.0);
    let best = levels.iter().copied().max_by(|left, right| power(left).total_cmp(&power(right)))?;
    let surely = power_range(best, latency).low;
    let open =
        levels.iter().copied().filter(|level| std::ptr::eq(*level, best) || power_range(level, latency).high > surely);
    let by_load = |left: &&LevelSummary, right: &&LevelSummary| left.load.number().total_cmp(&right.load.number());
    let lowest = open.clone().min_by(by_load)?;
    Some(Knee { level: best, lowest, highest: open.max_by(by_load)? })
}

/// Between which values a level's power lies; a figure without an interval is taken for what it is.
fn power_range(level: &LevelSummary, latency: Statistic) -> Interval {
    let range = |statistic| {
        let value = value(statistic, &level.client);
        let found = level.intervals.iter().find(|estimate: &&StatisticEstimate| estimate.statistic == statistic);
        found.and_then(|estimate| estimate.interval).unwrap_or(Interval { low: value, high: value })
    };
    let (rate, latency) = (range(Statistic::Throughput), range(latency));
    Interval { low: rate.low / latency.high.max(1.0), high: rate.high / latency.low.max(1.0) }
}
