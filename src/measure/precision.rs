//! How well a level's figures are known: their confidence intervals, and `--precision p99:2%`, which measures until an
//! interval is narrow enough.
//!
//! The blocks of a level differ, by chance and because neighbouring requests meet the same queue. How much the slow
//! waves in a figure vary from block to block gives the variance of the whole. For a percentile the figure is the
//! number of a block's requests below it, which gives the effective sample size of the level, and so the order
//! statistics between which the percentile lies. If that is too small, the figure is not known: rare events cannot be
//! told from a lucky quiet time.

use std::sync::LazyLock;

use crate::measure::blocks::{Block, Blocks};
use crate::measure::summary::{ClientSummary, Known};
use crate::plan::{Precision, Statistic};
use crate::stats::{Interval, TERMS, percentile_interval, student_t_quantile, variance_of_sum};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// What they aim at: the variance of few blocks of skewed figures promises a little too much.
const AIM: f64 = 0.955;
/// So many independent samples, at least, on the rarer side of a percentile.
const LEAST_BEYOND: f64 = 10.0;
/// So many independent samples tell a mean of latencies, which are skewed.
const LEAST_FOR_MEAN: f64 = 50.0;
/// Queues come in bursts, so that a quiet time shows a mean that is too low and varies too little. So many independent samples
/// make up for that: in a mean, and on the rarer side of a percentile.
const SKEW_OF_MEAN: f64 = 10.0;
const SKEW_BEYOND: f64 = 1.5;
/// An interval that is wider than half of its value to either side says nothing.
const WIDEST: f64 = 0.5;
/// One as narrow as this is told however few they are: where latencies are so much alike, there is nothing rare.
const NARROW: f64 = 0.05;
/// Fewer blocks tell nothing of what neighbours have in common.
const LEAST_BLOCKS: usize = TERMS + 1;
/// The resolution of the histograms: latencies that are closer are alike.
const RESOLUTION: f64 = 0.001;
/// Half the width of an interval in standard deviations that are estimates.
static FACTOR: LazyLock<f64> = LazyLock::new(|| student_t_quantile(0.5 + AIM / 2.0, TERMS as f64));
/// The same where they are certain.
const CERTAIN_FACTOR: f64 = 2.004_654_462;
/// More independent samples than so many times the samples are chance.
const MOST_WORTH: f64 = 4.0;

/// The interval of a figure: latencies in nanoseconds, throughput in inferences a second. `all` is `blocks` merged. `None`
/// where there is too little to tell.
pub fn interval(of: Statistic, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    if blocks.each().len() < LEAST_BLOCKS || all.requests == 0 {
        return None;
    }
    match of {
        Statistic::Throughput => {
            let (rate, share) = (all.throughput(), half_width(&Ratio::throughput(blocks)));
            (share <= WIDEST).then_some(Interval { low: rate * (1.0 - share), high: rate * (1.0 + share) })
        }
        Statistic::MeanLatency => {
            let (mean, worth) = (all.latency.mean_ns(), worth_for_mean(blocks, all));
            let share = half_width(&Ratio::latency(blocks)) * (1.0 + SKEW_OF_MEAN / worth.max(LEAST_FOR_MEAN));
            let told = share <= WIDEST && (worth >= LEAST_FOR_MEAN || share <= NARROW);
            // In a closed loop a mean latency is one over a throughput, in a queue it is one over spare capacity: of these
            // the interval is symmetric.
            told.then(|| Interval { low: mean / (1.0 + share), high: mean / (1.0 - share) })
        }
        Statistic::Percentile(percentile) => of_percentile(percentile, blocks, all),
    }
}

fn of_percentile(percentile: f64, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let p = percentile / 100.0;
    let samples = all.latency.count() as f64;
    let worth = worth_below(all.latency.percentile_ns(percentile), p, blocks, samples);
    let least = worth.min(worth_for_mean(blocks, all)).min(samples);
    let rarer = p.min(1.0 - p);
    let certain = worth - SKEW_BEYOND / rarer;
    let interval = percentile_interval(&all.latency.histogram, percentile, certain, AIM)?;
    let value = all.latency.percentile_ns(percentile) as f64;
    let told = least * rarer >= LEAST_BEYOND || interval.relative_half_width(value) <= NARROW;
    told.then_some(interval)
}

/// A figure that is the sum of one thing over the sum of another, block by block.
struct Ratio {
    sum: f64,
    /// How long each block was, and what it has of the first, more than its share of the second.
    excess: Vec<(f64, f64)>,
}

impl Ratio {
    fn new(blocks: &Blocks, over: impl Fn(&Block) -> f64, under: impl Fn(&Block) -> f64) -> Self {
        let sum: f64 = blocks.each().iter().map(&over).sum();
        let whole: f64 = blocks.each().iter().map(&under).sum();
        let excess = |block: &Block| (block.seconds, over(block) - sum / whole * under(block));
        let excess = blocks.each().iter().map(excess).collect();
        Self { sum, excess }
    }

    fn throughput(blocks: &Blocks) -> Self {
        Self::new(blocks, |block| block.requests as f64, |block| block.seconds)
    }

    fn latency(blocks: &Blocks) -> Self {
        Self::new(blocks, |block| block.sum_ns, |block| block.requests as f64)
    }
}

/// Half the interval's width, as a share of the figure.
fn half_width(ratio: &Ratio) -> f64 {
    *FACTOR * variance_of_sum(&ratio.excess).sqrt() / ratio.sum
}

/// What the interval of a figure takes for its standard error.
pub fn standard_error(interval: Interval) -> f64 {
    (interval.high - interval.low) / 2.0 / *FACTOR
}

/// How many independent samples `n` are worth, where a sum of as many would have the variance `independent` and theirs has
/// the `actual` one. The latter is an estimate: what Student's t makes of that is made up for here, so that others may take
/// the result for certain.
fn worth(n: f64, independent: f64, actual: f64) -> f64 {
    let worth = n * independent / actual * (CERTAIN_FACTOR / *FACTOR).powi(2);
    if worth < MOST_WORTH * n { worth } else { MOST_WORTH * n }
}

/// How many independent samples the mean latency is worth.
fn worth_for_mean(blocks: &Blocks, all: &ClientSummary) -> f64 {
    let n = all.latency.count() as f64;
    let deviation = all.latency.std_ns().max(RESOLUTION * all.latency.mean_ns());
    worth(n, n * deviation.powi(2), variance_of_sum(&Ratio::latency(blocks).excess))
}

/// How many independent samples the share of latencies below the percentile is worth, which is at `ns`.
fn worth_below(ns: u64, p: f64, blocks: &Blocks, n: f64) -> f64 {
    // Many latencies may be alike: with them or without them, what is nearer.
    let shares = [ns, ns.saturating_sub(1)].map(|ns| {
        let below = |block: &Block| block.up_to(ns).1 as f64;
        let ratio = Ratio::new(blocks, below, |block| block.up_to(ns).0 as f64);
        (ratio.sum / n, ratio)
    });
    let nearest = shares.iter().filter(|(share, _)| *share > 0.0 && *share < 1.0);
    let nearest = nearest.min_by(|(one, _), (other, _)| (one - p).abs().total_cmp(&(other - p).abs()));
    nearest.map_or(n, |(share, ratio)| worth(n, n * share * (1.0 - share), variance_of_sum(&ratio.excess)))
}

/// Percentiles of a latency that every report shows.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// What a level's report tells of: throughput, mean latency, the usual percentiles and those asked for.
pub fn intervals(blocks: &Blocks, all: &ClientSummary, asked: impl IntoIterator<Item = f64>) -> Vec<Known> {
    let mut percentiles = PERCENTILES.to_vec();
    for percentile in asked {
        if !percentiles.contains(&percentile) {
            percentiles.push(percentile);
        }
    }
    let wanted = [Statistic::Throughput, Statistic::MeanLatency].into_iter();
    let wanted = wanted.chain(percentiles.into_iter().map(Statistic::Percentile));
    wanted.map(|of| Known { of, interval: interval(of, blocks, all) }).collect()
}

/// Whether a figure is known as well as `wanted`.
pub fn is_precise(wanted: Precision, blocks: &Blocks, all: &ClientSummary) -> bool {
    let value = value(wanted.of, all);
    interval(wanted.of, blocks, all).is_some_and(|interval| interval.relative_half_width(value) <= wanted.share)
}

/// A figure of the windows `all`, in the units of its interval.
pub fn value(of: Statistic, all: &ClientSummary) -> f64 {
    match of {
        Statistic::Throughput => all.throughput(),
        Statistic::MeanLatency => all.latency.mean_ns(),
        Statistic::Percentile(percentile) => all.latency.percentile_ns(percentile) as f64,
    }
}

#[cfg(test)]
mod tests;
