//! What was measured, in blocks of time of equal length: how they differ tells how well the whole is known.
//!
//! A window is cut into blocks while it goes by (`measure::slicer`). Their length doubles whenever there are too many of them,
//! so that memory does not grow with the run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::measure::summary::ClientSummary;

/// Most blocks; then each two become one.
const MOST: usize = 64;
/// A block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Sum of their headline latencies in nanoseconds.
    pub sum_ns: f64,
    /// How often each latency of the histogram's occurs, ascending.
    counts: Vec<(u64, u64)>,
}

impl Block {
    /// That of a summary of so much time.
    pub fn of(client: &ClientSummary) -> Self {
        let recorded = client.latency.histogram.iter_recorded();
        Self {
            seconds: client.duration.as_secs_f64(),
            requests: client.requests,
            sum_ns: client.latency.sum_ns as f64,
            counts: recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        }
    }

    /// That of so many seconds with these latencies, which are added to those of `whole`.
    #[cfg(test)]
    pub(super) fn of_latencies(seconds: f64, latencies: &mut [u64], whole: &mut crate::record::Distribution) -> Self {
        latencies.sort_unstable();
        let steps = latencies.chunk_by(|one, next| whole.histogram.equivalent(*one, *next));
        let counts = steps.map(|step| (whole.histogram.highest_equivalent(step[0]), step.len() as u64));
        let counts: Vec<(u64, u64)> = counts.collect();
        let sum_ns = latencies.iter().sum::<u64>();
        counts.iter().for_each(|(value, count)| whole.histogram.record_n(*value, *count).unwrap());
        whole.sum_ns += u128::from(sum_ns);
        Self { seconds, requests: latencies.len() as u64, sum_ns: sum_ns as f64, counts }
    }

    /// Latencies that were counted, and those of them that are at most `ns`.
    pub fn up_to(&self, ns: u64) -> (u64, u64) {
        let sum = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum();
        (sum(&self.counts), sum(&self.counts[..self.counts.partition_point(|(value, _)| *value <= ns)]))
    }

    /// Adds the block that follows.
    fn absorb(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.requests += other.requests;
        self.sum_ns += other.sum_ns;
        self.recount(other, u64::saturating_add);
    }

    /// Takes away a part of it.
    fn without(mut self, part: &Self) -> Self {
        self.seconds -= part.seconds;
        self.requests = self.requests.saturating_sub(part.requests);
        self.sum_ns -= part.sum_ns;
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

/// Blocks that abut.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    each: Vec<Block>,
    /// The length that they have, in seconds; that of the first where it was not told.
    length: f64,
}

impl Blocks {
    /// None yet, of so much time each.
    pub(super) fn of(length: Duration) -> Self {
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

    /// What remains of the whole after these blocks is the last one.
    pub(super) fn completed(mut self, whole: &ClientSummary) -> Self {
        let rest = self.each.iter().fold(Block::of(whole), Block::without);
        if rest.seconds > 0.0 {
            self.push(rest);
        }
        self
    }

    /// How long the next block should be.
    pub(super) fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.length).unwrap_or(Duration::MAX)
    }

    /// Each of them.
    pub fn each(&self) -> &[Block] {
        &self.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::sample;
    use crate::measure::window::merge;

    fn block(requests: u64) -> Block {
        Block::of(&sample::client(requests, 1_000_000))
    }

    #[test]
    fn many_blocks_become_longer_ones_of_equal_length() {
        let mut blocks = Blocks::default();
        for number in 1..=2_500 {
            blocks.push(block(number));
            assert!(blocks.each.len() <= MOST);
        }
        let (last, rest) = blocks.each.split_last().unwrap();
        assert!(rest.len() >= MOST / 2 - 1 && rest.iter().all(|block| block.seconds == 64.0), "{}", rest.len());
        assert!(last.seconds <= 64.0);
        assert_eq!(blocks.each.iter().map(|block| block.requests).sum::<u64>(), 2_500 * 2_501 / 2);
        assert_eq!(blocks.each[0].up_to(u64::MAX), (64 * 65 / 2, 64 * 65 / 2));
        assert_eq!(blocks.each[0].up_to(999_000), (64 * 65 / 2, 0));
    }

    #[test]
    fn the_last_block_is_what_remains() {
        let (early, late) = (sample::client(30, 2_000_000), sample::client(50, 1_000_000));
        let whole = merge(merge(early.clone(), &early), &late);
        let mut blocks = Blocks::default();
        [&early, &early].into_iter().for_each(|part| blocks.push(Block::of(part)));
        let blocks = blocks.completed(&whole);
        assert_eq!(blocks.each, [Block::of(&early), Block::of(&early), Block::of(&late)]);
    }
}
