//! Measurements in blocks of equal length, whose differences show how well the whole is known.
//!
//! A window is cut into blocks as it runs (`measure::slicer`). Their length doubles whenever there are too many of
//! them, so that memory does not grow with the run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::InferError;
use crate::failures;
use crate::result::summary::{Bursts, ClientSummary};
use crate::stats::{Part, Proportion, as_one};

/// Most blocks; then each two become one.
const MOST: usize = 64;
/// A block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Sum of their headline latencies in nanoseconds.
    pub sum_ns: f64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that kept the limits of `--goodput`.
    #[serde(default)]
    pub good: u64,
    /// Those that failed, by reason.
    pub errors: Vec<(InferError, u64)>,
    /// How late the latest request was sent, in open loops.
    pub late_ns: Option<u64>,
    /// How often each latency of the histogram's occurs, ascending.
    counts: Vec<(u64, u64)>,
}

impl Block {
    /// That of a summary over this much time.
    pub fn new(client: &ClientSummary) -> Self {
        let recorded = client.latency.histogram.iter_recorded();
        Self {
            seconds: client.duration.as_secs_f64(),
            requests: client.requests,
            sum_ns: client.latency.sum_ns as f64,
            failed: client.failed,
            good: client.good.unwrap_or(0),
            errors: client.errors.clone(),
            late_ns: client.open_loop.as_ref().map(|open| open.schedule_delay.percentile_ns(100.0)),
            counts: recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        }
    }

    /// That of this many seconds with these latencies, which are added to those of `whole`.
    #[cfg(test)]
    pub(super) fn of_latencies(seconds: f64, latencies: &mut [u64], whole: &mut crate::record::Distribution) -> Self {
        latencies.sort_unstable();
        let steps = latencies.chunk_by(|latency, next| whole.histogram.equivalent(*latency, *next));
        let counts = steps.map(|step| (whole.histogram.highest_equivalent(step[0]), step.len() as u64));
        let counts: Vec<(u64, u64)> = counts.collect();
        let sum_ns = latencies.iter().sum::<u64>();
        counts.iter().for_each(|(value, count)| whole.histogram.record_n(*value, *count).unwrap());
        whole.sum_ns += u128::from(sum_ns);
        let requests = latencies.len() as u64;
        Self { seconds, requests, sum_ns: sum_ns as f64, counts, ..Self::default() }
    }

    /// That of this many seconds with so many requests that succeeded, and so many that failed.
    #[cfg(test)]
    pub(super) fn of_requests(seconds: f64, requests: u64, failed: u64) -> Self {
        Self { seconds, requests, failed, ..Self::default() }
    }

    /// How often each latency occurs, ascending.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().copied()
    }

    /// The latency that was asked for, in nanoseconds: the mean, or a percentile (0 to 100). None without requests.
    pub fn latency_ns(&self, percentile: Option<f64>) -> Option<f64> {
        let Some(percentile) = percentile else {
            return (self.requests > 0).then(|| self.sum_ns / self.requests as f64);
        };
        let (all, _) = self.up_to(u64::MAX);
        let mut left = (all as f64 * percentile / 100.0).ceil().max(1.0);
        let holds = |(_, count): &(u64, u64)| {
            left -= *count as f64;
            left <= 0.0
        };
        self.counts().find(holds).map(|(ns, _)| ns as f64)
    }

    /// Latencies that were counted, and those of them that are at most `ns`.
    pub fn up_to(&self, ns: u64) -> (u64, u64) {
        let sum = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum();
        (sum(&self.counts), sum(&self.counts[..self.counts.partition_point(|(value, _)| *value <= ns)]))
    }

    /// Adds the block that follows.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.requests += other.requests;
        self.sum_ns += other.sum_ns;
        self.failed += other.failed;
        self.good += other.good;
        self.errors = failures::sum(std::mem::take(&mut self.errors), &other.errors);
        self.late_ns = self.late_ns.max(other.late_ns);
        self.recount(other, u64::saturating_add);
    }

    /// Adds what another process has of the same time.
    pub(super) fn join(&mut self, other: &Self) {
        let seconds = shared_seconds([(self.requests, self.seconds), (other.requests, other.seconds)].into_iter());
        self.absorb(other);
        self.seconds = seconds;
    }

    /// Takes away a part of it.
    fn without(mut self, part: &Self) -> Self {
        self.seconds -= part.seconds;
        self.requests = self.requests.saturating_sub(part.requests);
        self.sum_ns -= part.sum_ns;
        self.failed = self.failed.saturating_sub(part.failed);
        self.good = self.good.saturating_sub(part.good);
        failures::take_away(&mut self.errors, &part.errors);
        self.recount(part, u64::saturating_sub);
        self
    }

    fn recount(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        let mut counts: BTreeMap<u64, u64> = std::mem::take(&mut self.counts).into_iter().collect();
        for (value, count) in &other.counts {
            let mine = counts.entry(*value).or_default();
            *mine = change(*mine, *count);
        }
        self.counts = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    }
}

/// How long several processes measured the same window, each with its requests and its seconds: the length for which
/// the rate is the sum of theirs. A process that is delayed at a window's edge has a longer one, followed by a shorter
/// one; the longest of all would count that time twice.
pub(super) fn shared_seconds(parts: impl Iterator<Item = (u64, f64)> + Clone) -> f64 {
    let requests: u64 = parts.clone().map(|(requests, _)| requests).sum();
    let timed = parts.clone().filter(|(_, seconds)| *seconds > 0.0);
    let rate: f64 = timed.map(|(requests, seconds)| requests as f64 / seconds).sum();
    if rate > 0.0 { requests as f64 / rate } else { parts.map(|(_, seconds)| seconds).fold(0.0, f64::max) }
}

/// Blocks that abut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Blocks {
    each: Vec<Block>,
    /// Their length in seconds; that of the first if unknown.
    length: f64,
}

impl Blocks {
    /// None yet, of this much time each.
    pub(super) fn new(length: Duration) -> Self {
        Self { each: Vec::new(), length: length.as_secs_f64() }
    }

    /// Adds the block that follows; one that is too short takes it in.
    pub fn push(&mut self, block: Block) {
        match self.each.last_mut() {
            None if self.length == 0.0 => self.length = block.seconds,
            Some(last) if last.seconds + block.seconds / 2.0 < self.length => return last.absorb(&block),
            _ => {}
        }
        self.each.push(block);
        if self.each.len() > MOST {
            self.length *= 2.0;
            let pairs = std::mem::take(&mut self.each);
            pairs.into_iter().for_each(|block| self.push(block));
        }
    }

    /// Adds those that follow.
    pub fn extend(&mut self, later: &Self) {
        if self.each.is_empty() {
            self.clone_from(later);
        } else {
            later.each.iter().for_each(|block| self.push(block.clone()));
        }
    }

    /// Adds what another process has of the same time, block by block. Where it has more of them, the last are one.
    pub(super) fn join(&mut self, other: &Self) {
        let gather = |blocks: &mut Vec<Block>, most: usize| {
            while blocks.len() > most.max(1) {
                let last = blocks.pop().unwrap_or_default();
                blocks.iter_mut().next_back().into_iter().for_each(|block| block.absorb(&last));
            }
        };
        let mut others = other.each.clone();
        gather(&mut self.each, others.len());
        gather(&mut others, self.each.len());
        self.each.iter_mut().zip(&others).for_each(|(block, other)| block.join(other));
    }

    /// What remains of the whole after these blocks is the last one.
    pub(super) fn completed(mut self, whole: &ClientSummary) -> Self {
        let remaining = self.each.iter().fold(Block::new(whole), Block::without);
        if remaining.seconds > 0.0 {
            self.push(remaining);
        }
        self
    }

    /// How long the next block should be.
    pub(super) fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.length).unwrap_or(Duration::MAX)
    }

    /// The same as this many, or fewer, which are as equal as the blocks allow.
    pub(super) fn stretches(&self, count: usize) -> Vec<Block> {
        let chunks = self.each.chunks(self.each.len().div_ceil(count.max(1)).max(1));
        let joined = chunks.map(|part| {
            let mut all = part[0].clone();
            part[1..].iter().for_each(|block| all.absorb(block));
            all
        });
        joined.collect()
    }

    /// How many requests count as one in their shares.
    pub(super) fn bursts(&self) -> Bursts {
        let together = |hits: fn(&Block) -> u64| {
            let part = |block: &Block| Part {
                seconds: block.seconds,
                proportion: Proportion { hits: hits(block), all: block.requests + block.failed },
            };
            as_one(&self.each.iter().map(part).collect::<Vec<_>>())
        };
        Bursts { failed: together(|block| block.failed), good: together(|block| block.good) }
    }

    /// How long all of them are.
    pub(super) fn seconds(&self) -> f64 {
        self.each.iter().map(|block| block.seconds).sum()
    }

    /// Each of them.
    pub fn each(&self) -> &[Block] {
        &self.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;
    use crate::window_summary::merge;

    fn block(requests: u64) -> Block {
        Block::new(&sample::client(requests, 1_000_000))
    }

    #[test]
    fn many_blocks_become_longer_ones_of_equal_length() {
        let mut blocks = Blocks::default();
        for number in 1..=2_500 {
            blocks.push(block(number));
            assert!(blocks.each.len() <= MOST);
        }
        let (last, earlier) = blocks.each.split_last().unwrap();
        assert!(
            earlier.len() >= MOST / 2 - 1 && earlier.iter().all(|block| block.seconds == 64.0),
            "{}",
            earlier.len()
        );
        assert!(last.seconds <= 64.0);
        assert_eq!(blocks.each.iter().map(|block| block.requests).sum::<u64>(), 2_500 * 2_501 / 2);
        assert_eq!(blocks.each[0].up_to(u64::MAX), (64 * 65 / 2, 64 * 65 / 2));
        assert_eq!(blocks.each[0].up_to(999_000), (64 * 65 / 2, 0));
    }

    #[test]
    fn failures_keep_their_reasons_whatever_becomes_of_their_block() {
        let failed = |first: u64, count: u64| {
            let errors =
                (first..first + count).map(|number| (InferError::new("Internal", format!("request {number}")), 1));
            let late = (InferError::new("Late", "no answer"), 2);
            ClientSummary {
                failed: count + 2,
                errors: failures::few(errors.chain([late]).collect()),
                ..sample::client(9, 1)
            }
        };
        let parts = [failed(0, 3), failed(3, 40), failed(43, 5)];
        let whole = parts.iter().skip(1).fold(parts[0].clone(), merge);
        let mut blocks = Blocks::new(Duration::from_secs(1));
        parts[..2].iter().for_each(|part| blocks.push(Block::new(part)));
        let blocks = blocks.completed(&whole);
        let sums = |block: &Block| (block.failed, block.errors.iter().map(|(_, count)| count).sum::<u64>());
        assert_eq!(blocks.each().iter().map(sums).collect::<Vec<_>>(), [(5, 5), (42, 42), (7, 7)]);
        let mut joined = blocks.each()[0].clone();
        joined.absorb(&blocks.each()[2]);
        assert_eq!(sums(&joined), (12, 12));
        assert!(joined.errors.contains(&(InferError::new("Late", "no answer"), 4)));
    }

    #[test]
    fn a_block_tells_its_latencies() {
        let mut latencies: Vec<u64> = (1..=100).map(|ms| ms * 1_000_000).collect();
        let block = Block::of_latencies(1.0, &mut latencies, &mut crate::record::Distribution::empty());
        let is = |percentile, ms: f64| {
            let ns = block.latency_ns(percentile).unwrap();
            assert!((ns / (ms * 1e6) - 1.0).abs() < 0.002, "{percentile:?}: {ns}");
        };
        is(None, 50.5);
        [(0.0, 1.0), (50.0, 50.0), (99.0, 99.0), (100.0, 100.0)].into_iter().for_each(|(p, ms)| is(Some(p), ms));
        assert_eq!((Block::default().latency_ns(None), Block::default().latency_ns(Some(99.0))), (None, None));
    }

    #[test]
    fn the_last_block_is_what_remains() {
        let (early, late) = (sample::client(30, 2_000_000), sample::client(50, 1_000_000));
        let whole = merge(merge(early.clone(), &early), &late);
        let mut blocks = Blocks::default();
        [&early, &early].into_iter().for_each(|part| blocks.push(Block::new(part)));
        let blocks = blocks.completed(&whole);
        assert_eq!(blocks.each, [Block::new(&early), Block::new(&early), Block::new(&late)]);
    }
}
