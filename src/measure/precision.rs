//! How well a level's figures are known: their confidence intervals, and `--precision p99:2%`, which measures until an
//! interval is narrow enough.
//!
//! The blocks of a level differ, by chance and because neighbouring requests meet the same queue. How much the slow
//! waves in a figure vary from block to block gives the variance of the whole. For a percentile the figure is the
//! number of a block's requests below it, which gives the effective sample size of the level, and so the order
//! statistics between which the percentile lies.
//!
//! Queues come in bursts. A run that saw few bursts has latencies that are too low and differ too little, and so seems
//! to have a larger sample size than it has; a rule that shows a figure if the sample size is large enough selects
//! exactly such runs. So if neighbours are similar and the sample size is small, intervals reach further up, by as much
//! as simulated runs were wrong; where it is too small, the figure is not known: rare events cannot be told from a
//! lucky quiet time.

use crate::measure::blocks::{Block, Blocks};
use crate::measure::summary::{ClientSummary, Known};
use crate::plan::{Precision, Statistic};
use crate::stats::{AIM, CERTAIN_HALF_WIDTH, Interval, MIN_TERMS, half_width, percentile_interval, variance_of_sum};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// Fewest independent samples on the rarer side of a percentile. A mean of latencies, which are skewed, needs as many as
/// the percentile with this rarer side.
const MIN_BEYOND: f64 = 10.0;
const RARER_SIDE_OF_MEAN: f64 = 0.1;
/// If neighbours are similar, up to this share more of them are needed.
const MORE_WHERE_ALIKE: f64 = 0.8;
/// With just enough of them, the upper side is longer by this much of itself; with twice as many, by a quarter of that.
const FURTHER_UP: f64 = 1.5;
/// Neighbours are similar if this many samples are worth less than one independent one. By chance, samples that have
/// nothing in common may seem to be worth as little, but not less.
const WORTH_LITTLE: f64 = 1.5;
/// An interval that is wider than half of its value to either side says nothing.
const WIDEST: f64 = 0.5;
/// An interval as narrow as this is reported however few they are: if latencies are so similar, there is nothing rare.
const NARROW: f64 = 0.05;
/// The resolution of the histograms: latencies that are closer are alike.
const RESOLUTION: f64 = 0.001;
/// More independent samples than this many times the samples are due to chance.
const MAX_WORTH: f64 = 4.0;

/// The interval of a figure: latencies in nanoseconds, throughput in inferences a second. `all` is `blocks` merged. `None`
/// where there is too little to tell.
pub fn interval(of: Statistic, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    // Fewer blocks tell nothing of what neighbours have in common.
    if blocks.each().len() < MIN_TERMS || all.requests == 0 {
        return None;
    }
    match of {
        Statistic::Throughput => {
            let (rate, share) = (all.throughput(), half_of(&Ratio::throughput(blocks)));
            (share <= WIDEST).then_some(Interval { low: rate * (1.0 - share), high: rate * (1.0 + share) })
        }
        Statistic::MeanLatency => of_mean(blocks, all),
        Statistic::Percentile(percentile) => of_percentile(percentile, blocks, all),
    }
}

fn of_mean(blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let (mean, share) = (all.latency.mean_ns(), half_of(&Ratio::latency(blocks)));
    let worth = Worth::new(worth_for_mean(blocks, all), all.latency.count(), RARER_SIDE_OF_MEAN);
    let further = share * worth.reach();
    let told = further <= WIDEST && (worth.is_enough() || further <= NARROW);
    // In a closed loop a mean latency is one over a throughput, in a queue it is one over spare capacity: of these
    // the interval is symmetric.
    told.then(|| Interval { low: mean / (1.0 + share), high: mean / (1.0 - further) })
}

fn of_percentile(percentile: f64, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let p = percentile / 100.0;
    let (value, rarer) = (all.latency.percentile_ns(percentile), p.min(1.0 - p));
    let below = worth_below(value, p, blocks, all.latency.count() as f64);
    let worth = Worth::new(below.min(worth_for_mean(blocks, all)), all.latency.count(), rarer);
    // Few that are rare make a skewed figure.
    let certain = below - 1.0 / rarer;
    let effective = (certain, certain / worth.reach().powi(2));
    let interval = percentile_interval(&all.latency.histogram, percentile, effective, AIM)?;
    (worth.is_enough() || interval.relative_half_width(value as f64) <= NARROW).then_some(interval)
}

/// What samples are worth to a figure.
struct Worth {
    /// Independent ones on its rarer side.
    beyond: f64,
    /// How much neighbours have in common: 0 for nothing, 1 for all.
    alike: f64,
}

impl Worth {
    /// `independent` of `count` samples, of which the rarer side has this share.
    fn new(independent: f64, count: u64, rarer: f64) -> Self {
        let count = count as f64;
        let alike = (1.0 - WORTH_LITTLE * independent / count).max(0.0);
        Self { beyond: independent.min(count) * rarer, alike }
    }

    /// Whether they tell the figure.
    fn is_enough(&self) -> bool {
        self.beyond >= MIN_BEYOND * (1.0 + MORE_WHERE_ALIKE * self.alike)
    }

    /// How many times as long as the lower side of its interval the upper one is.
    fn reach(&self) -> f64 {
        let enough = MIN_BEYOND * (1.0 + MORE_WHERE_ALIKE);
        1.0 + FURTHER_UP * self.alike * (enough / self.beyond).min(1.0).powi(2)
    }
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
fn half_of(ratio: &Ratio) -> f64 {
    half_width(ratio.excess.len()) * variance_of_sum(&ratio.excess).sqrt() / ratio.sum
}

/// What the interval of a figure with this value takes for its standard error, by the side that nothing makes longer.
pub fn standard_error(value: f64, interval: Interval) -> f64 {
    (value - interval.low) / CERTAIN_HALF_WIDTH
}

/// How many independent samples `n` are worth, where a sum of as many would have the variance `independent` and theirs
/// has that of these blocks. The latter is an estimate: the widening of intervals for that is compensated here, so that
/// others may take the result for certain.
fn worth(n: f64, independent: f64, ratio: &Ratio) -> f64 {
    let estimate = (CERTAIN_HALF_WIDTH / half_width(ratio.excess.len())).powi(2);
    let worth = n * independent / variance_of_sum(&ratio.excess) * estimate;
    if worth < MAX_WORTH * n { worth } else { MAX_WORTH * n }
}

/// How many independent samples the mean latency is worth.
fn worth_for_mean(blocks: &Blocks, all: &ClientSummary) -> f64 {
    let n = all.latency.count() as f64;
    let deviation = all.latency.std_ns().max(RESOLUTION * all.latency.mean_ns());
    worth(n, n * deviation.powi(2), &Ratio::latency(blocks))
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
    nearest.map_or(n, |(share, ratio)| worth(n, n * share * (1.0 - share), ratio))
}

/// Percentiles of a latency that every report shows.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

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
