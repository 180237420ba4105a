//! One-sided bounds of a level's figures: what is certain about them, even where an interval is not known.
//!
//! Whether a percentile is below a limit is a question about how many requests exceed the limit, and so about a share. Its
//! exact bound (Clopper and Pearson, 1934) needs the number of independent requests, which `measure::worth` tells from
//! how the blocks differ. Where neighbours are alike and few requests are independent, the upper bound reaches further
//! up, for the same reason and by the same rule as intervals do.

use crate::blocks::Blocks;
use crate::precision::interval;
use crate::result::ratio::ALIKE_IF_UNKNOWN;
use crate::result::statistic::{CONFIDENCE, value};
use crate::result::summary::{ClientSummary, StatisticEstimate};
use crate::stats::{Bounds, EffectiveSize, Interval, MIN_TERMS, beta_cdf, percentile_bounds};
use crate::terms::{PERCENTILES, Precision, Statistic};
use crate::worth::{Worth, worth_below, worth_for_mean, worth_if_independent};

/// A bound from further up is more than that value by this share of what the value has beyond the usual: simulated queues that had
/// seen few bursts were wrong by less. Where it is surer than asked that few enough exceed the value, by as much less as the
/// logarithm of the chance is more.
const FURTHER: f64 = 1.0;
/// The usual latency is this percentile: what every request takes, whatever others do, says nothing of what bursts add.
const USUAL: f64 = 10.0;
/// Few bursts may be worth so many times fewer independent requests than they seem to be.
const OVERRATED: f64 = 2.0;
/// How far up a bound is looked for: in halves of the share of requests that may exceed it.
const MOST_HALVINGS: i32 = 16;
/// Bounds to both sides as close as this to a percentile are an interval.
const CLOSE: f64 = 0.1;
/// A mean latency is less than the longest of a block's this many times, and more than the shortest divided by it: simulated
/// servers kept to the first in 93 % of the runs and more, with 90 requests in three blocks, and to the second in 97 %; in 85 %
/// where others use the machine in spells, within which such a run may lie.
const FAR: f64 = 2.0;
/// Of fewer blocks nothing is known of a mean.
const FEWEST_BLOCKS: usize = 3;
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
        Statistic::Percentile(percentile) => StatisticEstimate {
            statistic,
            interval: interval.or_else(|| between_bounds(percentile, blocks, all)),
            bounds: of_percentile(percentile, CONFIDENCE, blocks, all),
        },
        Statistic::MeanLatency if interval.is_none() => {
            StatisticEstimate { statistic, interval, bounds: of_mean(blocks) }
        }
        _ => StatisticEstimate::new(statistic, interval),
    }
}

/// Whether a figure is known as well as `wanted`.
pub fn is_precise(wanted: Precision, blocks: &Blocks, all: &ClientSummary) -> bool {
    let interval = estimate(wanted.statistic, blocks, all).interval;
    interval.is_some_and(|interval| interval.relative_half_width(value(wanted.statistic, all)) <= wanted.share)
}

/// The interval of a percentile beyond which few requests came by themselves, where what bounds it from either side is close: other
/// requests are so much like these that it matters little how many they were. Of requests that have nothing in common their number
/// tells.
fn between_bounds(percentile: f64, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    if blocks.each().len() < MIN_TERMS || worth_if_independent(percentile, blocks, all).is_some() {
        return None;
    }
    let each_side = f64::midpoint(1.0, CONFIDENCE);
    let Bounds { low, high } = of_percentile(percentile, each_side, blocks, all);
    let interval = Interval { low: low?, high: high? };
    (interval.relative_half_width(all.latency.percentile_ns(percentile) as f64) <= CLOSE).then_some(interval)
}

/// Of a mean latency of which too little is known for an interval: far beyond those of all blocks.
fn of_mean(blocks: &Blocks) -> Bounds {
    let means: Vec<f64> = blocks.each().iter().filter_map(|block| block.latency_ns(None)).collect();
    if means.len() < FEWEST_BLOCKS {
        return Bounds::default();
    }
    let (least, most) = means.iter().fold((f64::MAX, 0.0_f64), |(low, high), mean| (low.min(*mean), high.max(*mean)));
    Bounds { low: Some(least / FAR), high: Some(most * FAR) }
}

fn of_percentile(percentile: f64, confidence: f64, blocks: &Blocks, all: &ClientSummary) -> Bounds {
    let (p, n) = (percentile / 100.0, all.latency.count() as f64);
    let within = |low: f64, high: f64| {
        percentile_bounds(&all.latency.histogram, percentile, EffectiveSize { low, high }, confidence)
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
    let bounds = within(low, below / worth.reach(all).powi(2));
    let further_up = further_up(1.0 - p, 1.0 - confidence, blocks, all);
    let high = bounds.high.into_iter().chain(further_up).min_by(f64::total_cmp);
    Bounds { high, ..bounds }
}

/// The least of the bounds from further up: from values that surely no more than the share `rarer` of all requests exceed, where
/// those about the percentile itself came in too few bursts to tell. Further up there are fewer, and what came in one burst
/// counts as one. It is wrong with the probability `risk`.
fn further_up(rarer: f64, risk: f64, blocks: &Blocks, all: &ClientSummary) -> Option<f64> {
    let (n, usual) = (all.latency.count() as f64, all.latency.percentile_ns(USUAL) as f64);
    let shares = (1..=MOST_HALVINGS).map(|times| rarer / 2.0_f64.powi(times)).take_while(|share| n * share >= 1.0);
    let bounds = shares.map(|share| 1.0 - share).filter_map(|p| {
        let ns = all.latency.percentile_ns(100.0 * p);
        let independent = worth_below(ns, p, blocks, n).min(n);
        if chance_of_so_few(independent, p, rarer) > risk {
            return None;
        }
        let cautious = chance_of_so_few(independent / OVERRATED, p, rarer).clamp(f64::MIN_POSITIVE, risk);
        Some(ns as f64 + FURTHER * risk.ln() / cautious.ln() * (ns as f64 - usual))
    });
    bounds.min_by(f64::total_cmp)
}

/// The probability that of so many independent requests no more than those above percentile `p` are beyond a value which the
/// share `rarer` of all are.
fn chance_of_so_few(independent: f64, p: f64, rarer: f64) -> f64 {
    let beyond = (independent * (1.0 - p)).max(1.0);
    if independent > beyond { beta_cdf(1.0 - rarer, independent - beyond, beyond + 1.0) } else { 1.0 }
}
