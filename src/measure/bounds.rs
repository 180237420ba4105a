//! One-sided bounds of a level's figures: what is certain about them, even where an interval is not known.
//!
//! Whether a percentile is below a limit is a question about how many requests exceed the limit, and so about a share. Its
//! exact bound (Clopper and Pearson, 1934) needs the number of independent requests, which `measure::worth` tells from
//! how the blocks differ. Where neighbours are alike and few requests are independent, the upper bound reaches further
//! up, for the same reason and by the same rule as intervals do.

use crate::measure::blocks::Blocks;
use crate::measure::precision::{CONFIDENCE, PERCENTILES, interval};
use crate::measure::summary::{ClientSummary, Known};
use crate::measure::worth::{Worth, worth_below, worth_for_mean, worth_if_independent};
use crate::plan::Statistic;
use crate::stats::{Bounds, EffectiveSize, MIN_TERMS, percentile_bounds};

/// So few blocks do not tell what neighbours have in common: this many requests count as one.
pub(super) const ALIKE_IF_UNKNOWN: f64 = 3.0;
/// A lower bound takes this many independent requests beyond the percentile: fewer came in a burst or two.
const LEAST_BEYOND: f64 = 1.0;

/// The figures of a level's report: throughput, mean latency, the usual percentiles and the requested ones.
pub fn intervals(blocks: &Blocks, all: &ClientSummary, asked: impl IntoIterator<Item = f64>) -> Vec<Known> {
    let mut percentiles = PERCENTILES.to_vec();
    for percentile in asked {
        if !percentiles.contains(&percentile) {
            percentiles.push(percentile);
        }
    }
    let wanted = [Statistic::Throughput, Statistic::MeanLatency].into_iter();
    let wanted = wanted.chain(percentiles.into_iter().map(Statistic::Percentile));
    wanted.map(|of| known(of, blocks, all)).collect()
}

/// How well a figure is known: latencies in nanoseconds, throughput in inferences a second. `all` is `blocks` merged.
pub fn known(of: Statistic, blocks: &Blocks, all: &ClientSummary) -> Known {
    let interval = interval(of, blocks, all);
    match of {
        Statistic::Percentile(percentile) => Known { of, interval, bounds: of_percentile(percentile, blocks, all) },
        _ => Known::by(of, interval),
    }
}

fn of_percentile(percentile: f64, blocks: &Blocks, all: &ClientSummary) -> Bounds {
    let (p, n) = (percentile / 100.0, all.latency.count() as f64);
    let within = |low: f64, high: f64| {
        percentile_bounds(&all.latency.histogram, percentile, EffectiveSize { low, high }, CONFIDENCE)
    };
    if blocks.each().len() < MIN_TERMS {
        let few = n / ALIKE_IF_UNKNOWN;
        return within(few, few);
    }
    if let Some(independent) = worth_if_independent(percentile, blocks, all) {
        return within(independent, independent);
    }
    let below = worth_below(all.latency.percentile_ns(percentile), p, blocks, n).min(n);
    let worth = Worth::new(below.min(worth_for_mean(blocks, all)), all.latency.count(), p.min(1.0 - p));
    let low = if below * (1.0 - p) < LEAST_BEYOND { 0.0 } else { below };
    within(low, below / worth.reach().powi(2))
}
