//! One-sided bounds of a level's figures: what is certain about them, even where an interval is not known.
//!
//! Whether a percentile is below a limit is a question about how many requests exceed the limit, and so about a share. Its
//! exact bound (Clopper and Pearson, 1934) needs the number of independent requests, which `measure::worth` tells from
//! how the blocks differ. Where neighbours are alike and few requests are independent, the upper bound reaches further
//! up, for the same reason and by the same rule as intervals do.

use crate::blocks::Blocks;
use crate::precision::interval;
use crate::result::ratio::ALIKE_IF_UNKNOWN;
use crate::result::statistic::CONFIDENCE;
use crate::result::summary::{ClientSummary, StatisticEstimate};
use crate::stats::{Bounds, EffectiveSize, MIN_TERMS, beta_cdf, percentile_bounds};
use crate::terms::{PERCENTILES, Statistic};
use crate::worth::{Worth, worth_below, worth_for_mean, worth_if_independent};

/// A bound from further up is so many times that value: simulated queues that had seen few bursts were wrong by less.
const FURTHER: f64 = 2.0;
/// How far up a bound is looked for: in halves of the share of requests that may exceed it.
const MOST_HALVINGS: i32 = 16;
/// A lower bound takes this many independent requests beyond the percentile: fewer came in a burst or two.
const LEAST_BEYOND: f64 = 1.0;

/// The figures of a level's report: throughput, mean latency, the usual percentiles and the requested ones.
pub fn figures(asked: impl IntoIterator<Item = f64>) -> Vec<Statistic> {
    let mut percentiles = PERCENTILES.to_vec();
    for percentile in asked {
        if !percentiles.contains(&percentile) {
            percentiles.push(percentile);
        }
    }
    let wanted = [Statistic::Throughput, Statistic::MeanLatency].into_iter();
    wanted.chain(percentiles.into_iter().map(Statistic::Percentile)).collect()
}

/// How well a figure is known: latencies in nanoseconds, throughput in inferences a second. `all` is `blocks` merged.
pub fn estimate(statistic: Statistic, blocks: &Blocks, all: &ClientSummary) -> StatisticEstimate {
    let interval = interval(statistic, blocks, all);
    match statistic {
        Statistic::Percentile(percentile) => {
            StatisticEstimate { statistic, interval, bounds: of_percentile(percentile, blocks, all) }
        }
        _ => StatisticEstimate::new(statistic, interval),
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
    let bounds = within(low, below / worth.reach().powi(2));
    let high = bounds.high.or_else(|| further_up(1.0 - p, blocks, all));
    Bounds { high, ..bounds }
}

/// Twice a value that surely no more than the share `rarer` of all requests exceed, where those about the percentile itself came
/// in too few bursts to tell: further up there are fewer, and what came in one burst counts as one.
fn further_up(rarer: f64, blocks: &Blocks, all: &ClientSummary) -> Option<f64> {
    let n = all.latency.count() as f64;
    let shares = (1..=MOST_HALVINGS).map(|times| rarer / 2.0_f64.powi(times)).take_while(|share| n * share >= 1.0);
    shares.map(|share| 1.0 - share).find_map(|p| {
        let ns = all.latency.percentile_ns(100.0 * p);
        let independent = worth_below(ns, p, blocks, n).min(n);
        let beyond = (independent * (1.0 - p)).max(1.0);
        // The probability of so few, or fewer, if a share of `rarer` were.
        let chance = beta_cdf(1.0 - rarer, independent - beyond, beyond + 1.0);
        (independent > beyond && chance <= 1.0 - CONFIDENCE).then_some(FURTHER * ns as f64)
    })
}
