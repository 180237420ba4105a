//! How well a level's figures are known: their confidence intervals.
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

use crate::blocks::{Block, Blocks};
use crate::result::statistic::{CONFIDENCE, value};
use crate::result::summary::ClientSummary;
use crate::stats::{AIM, EffectiveSize, Interval, MIN_TERMS, batch_means, percentile_interval};
use crate::terms::Statistic;
use crate::worth::{RARER_SIDE_OF_MEAN, Ratio, Worth, half_of, is_closed_loop, worth_below, worth_for_mean};

/// An interval that is wider than half of its value to either side says nothing.
const WIDEST: f64 = 0.5;
/// An interval as narrow as this is reported however few they are: if latencies are so similar, there is nothing rare.
const NARROW: f64 = 0.05;
/// The mean of fewer is not known: they may be alike by chance.
const FEWEST_REQUESTS: u64 = 5;
/// With this many requests on the rarer side of a figure, it is not for too few of them that it is not known: then the
/// differences between stretches of the level tell, however wide the interval becomes.
const MANY_BEYOND: f64 = 5_000.0;
/// With more requests one after the other than this, blocks hold enough of them to tell their rate.
const FEW_IN_A_ROW: f64 = 100.0;
/// What a beginning and an end at random cut off differ by this much of a request at most in 95 of 100 cases: 1 - 1 / sqrt 20.
const CUT_OFF: f64 = 0.776;
/// How many stretches. Each is long beside what makes neighbours alike, or there is a burst in some and none in others.
const STRETCHES: usize = 6;

/// The interval of a figure: latencies in nanoseconds, throughput in inferences a second. `all` is `blocks` merged. `None`
/// where there is too little to tell.
pub fn interval(statistic: Statistic, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    if all.requests == 0 {
        return None;
    }
    // Fewer blocks tell nothing of what neighbours have in common.
    let interval = if blocks.each().len() < MIN_TERMS { None } else { of_blocks(statistic, blocks, all) };
    interval.or_else(|| of_stretches(statistic, blocks, all))
}

fn of_blocks(statistic: Statistic, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    match statistic {
        Statistic::Throughput => {
            let counted = half_of(&Ratio::throughput(blocks));
            let (rate, share) =
                (all.throughput(), of_closed_loop(blocks, all).map_or(counted, |share| share.min(counted)));
            (share <= WIDEST).then_some(Interval { low: rate * (1.0 - share), high: rate * (1.0 + share) })
        }
        Statistic::MeanLatency => of_mean(blocks, all),
        Statistic::Percentile(percentile) => of_percentile(percentile, blocks, all),
    }
}

/// Half the interval of the throughput of few requests in a closed loop, as a share. There it is the number of places over the
/// time that each request has one, so it is known as well as their latency is, but for what the ends cut off.
fn of_closed_loop(blocks: &Blocks, all: &ClientSummary) -> Option<f64> {
    let (mean, turnaround) = (all.latency.mean_ns(), all.turnaround_ns);
    let in_a_row = all.duration.as_nanos() as f64 / (mean + turnaround);
    if !is_closed_loop(all) || all.failed > 0 || all.cancelled > 0 || in_a_row > FEW_IN_A_ROW {
        return None;
    }
    let half_width = of_mean_by_itself(blocks, all)?.relative_half_width(mean);
    Some(half_width + turnaround / mean + CUT_OFF / in_a_row)
}

/// From the figure of each of a few stretches, on the scale of factors: Student's t with their number less one.
fn of_stretches(statistic: Statistic, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let rarer = match statistic {
        Statistic::Throughput => 1.0,
        Statistic::MeanLatency => RARER_SIDE_OF_MEAN,
        Statistic::Percentile(percentile) => (percentile / 100.0).min(1.0 - percentile / 100.0),
    };
    if (all.requests as f64) * rarer < MANY_BEYOND {
        return None;
    }
    let figure = |stretch: &Block| match statistic {
        Statistic::Throughput => (stretch.seconds > 0.0).then(|| stretch.requests as f64 / stretch.seconds),
        Statistic::MeanLatency => stretch.latency_ns(None),
        Statistic::Percentile(percentile) => stretch.latency_ns(Some(percentile)),
    };
    let stretches = blocks.stretches(STRETCHES);
    let figures = stretches.iter().map(|stretch| Some(figure(stretch)?.max(1e-9).ln()));
    let spread = batch_means(&figures.collect::<Option<Vec<f64>>>()?, CONFIDENCE)?;
    // Around the figure of the whole, which weighs stretches by their requests.
    let (value, factor) = (value(statistic, all), ((spread.high - spread.low) / 2.0).exp());
    Some(Interval { low: value / factor, high: value * factor })
}

/// By itself, or by the throughput: the narrower one.
fn of_mean(blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    if all.latency.count() < FEWEST_REQUESTS {
        return None;
    }
    let width = |interval: &Interval| interval.high - interval.low;
    let intervals = [of_mean_by_itself(blocks, all), of_mean_by_throughput(blocks, all)].into_iter().flatten();
    intervals.min_by(|left, right| width(left).total_cmp(&width(right)))
}

/// A mean latency is the number of requests under way over the throughput (Little, 1961). Where that number is known better
/// than the throughput, as in a closed loop, queues are as short as ever, and none comes in a burst that few have seen.
fn of_mean_by_throughput(blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let rate = half_of(&Ratio::throughput(blocks));
    let under_way = half_of(&Ratio::new(blocks, |block| block.sum_ns, |block| block.seconds));
    let (mean, share) = (all.latency.mean_ns(), rate + under_way);
    let is_known = under_way < rate && share <= WIDEST;
    is_known.then(|| Interval { low: mean / (1.0 + share), high: mean / (1.0 - share) })
}

fn of_mean_by_itself(blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let (mean, share) = (all.latency.mean_ns(), half_of(&Ratio::latency(blocks)));
    let worth = Worth::new(worth_for_mean(blocks, all), all.latency.count(), RARER_SIDE_OF_MEAN);
    let further = share * worth.reach(all);
    let is_known = further <= WIDEST && (worth.is_enough() || further <= NARROW);
    // In a closed loop a mean latency is one over a throughput, in a queue it is one over spare capacity: of these
    // the interval is symmetric.
    is_known.then(|| Interval { low: mean / (1.0 + share), high: mean / (1.0 - further) })
}

fn of_percentile(percentile: f64, blocks: &Blocks, all: &ClientSummary) -> Option<Interval> {
    let p = percentile / 100.0;
    let (value, rarer) = (all.latency.percentile_ns(percentile), p.min(1.0 - p));
    let below = worth_below(value, p, blocks, all.latency.count() as f64);
    let worth = Worth::new(below.min(worth_for_mean(blocks, all)), all.latency.count(), rarer);
    // Few that are rare make a skewed figure.
    let certain = below - 1.0 / rarer;
    let effective = EffectiveSize { low: certain, high: certain / worth.reach(all).powi(2) };
    let interval = percentile_interval(&all.latency.histogram, percentile, effective, AIM)?;
    (worth.is_enough() || interval.relative_half_width(value as f64) <= NARROW).then_some(interval)
}

#[cfg(test)]
mod tests;
