//! What the samples of a level are worth: how many independent ones they are for a figure, judged by how its blocks differ.
//!
//! How much the slow waves in a figure vary from block to block gives the variance of the whole, and so the number of
//! independent samples with the same variance.

use crate::blocks::{Block, Blocks};
use crate::result::summary::ClientSummary;
use crate::stats::{CERTAIN_HALF_WIDTH, half_width, variance_of_sum};

/// Fewest independent samples on the rarer side of a percentile. A mean of latencies, which are skewed, needs as many as
/// a percentile.
const MIN_BEYOND: f64 = 10.0;
/// That of a mean of latencies.
pub(super) const RARER_SIDE_OF_MEAN: f64 = 0.1;
/// If neighbours are similar, up to this share more of them are needed.
const MORE_WHERE_ALIKE: f64 = 0.8;
/// The upper half of an interval is longer by up to this factor where neighbours are similar: in full with just enough independent
/// samples, and as the inverse square of their number with more.
const FURTHER_UP: f64 = 1.5;
/// Neighbours are similar if this many samples are worth less than one independent one. By chance, samples that have
/// nothing in common may seem to be worth as little, but not less.
const WORTH_LITTLE: f64 = 1.5;
/// The resolution of the histograms: latencies that are closer are alike.
const RESOLUTION: f64 = 0.001;
/// The shortest wave in a throughput that counts, in requests one after the other. Blocks that are about as long as a request
/// beat with them, in waves several times as long.
const REQUESTS_IN_A_WAVE: f64 = 8.0;
/// More independent samples than this many times the samples are due to chance.
const MAX_WORTH: f64 = 4.0;

/// Blocks of independent samples differ by more than this many standard deviations in one case of a hundred.
const BY_CHANCE: f64 = 2.5;

/// What samples are worth to a figure.
pub(super) struct Worth {
    /// Independent ones on its rarer side.
    beyond: f64,
    /// How much neighbours have in common: 0 for nothing, 1 for all.
    alike: f64,
}

impl Worth {
    /// `independent` of `count` samples, of which the rarer side has this share.
    pub(super) fn new(independent: f64, count: u64, rarer: f64) -> Self {
        let count = count as f64;
        let alike = (1.0 - WORTH_LITTLE * independent / count).max(0.0);
        Self { beyond: independent.min(count) * rarer, alike }
    }

    /// Whether they tell the figure.
    pub(super) fn is_enough(&self) -> bool {
        self.beyond >= MIN_BEYOND * (1.0 + MORE_WHERE_ALIKE * self.alike)
    }

    /// How many times as long as the lower side of its interval the upper one is. In a closed loop no more requests wait for the
    /// server than there are places, and no queue grows in bursts that few runs see.
    pub(super) fn reach(&self, all: &ClientSummary) -> f64 {
        if is_closed_loop(all) {
            return 1.0;
        }
        let enough = MIN_BEYOND * (1.0 + MORE_WHERE_ALIKE);
        1.0 + FURTHER_UP * self.alike * (enough / self.beyond).min(1.0).powi(2)
    }
}

/// Whether as many requests are under way all the time, each until its latency ends.
pub(super) fn is_closed_loop(all: &ClientSummary) -> bool {
    all.open_loop.is_none() && all.sessions.is_none() && all.decoupled.is_none()
}

/// A figure that is the sum of one thing over the sum of another, block by block.
pub(super) struct Ratio {
    sum: f64,
    /// How long each block was, and what it has of the first, more than its share of the second.
    excess: Vec<(f64, f64)>,
    /// How many slow waves tell how it varies.
    waves: usize,
}

impl Ratio {
    pub(super) fn new(blocks: &Blocks, over: impl Fn(&Block) -> f64, under: impl Fn(&Block) -> f64) -> Self {
        let sum: f64 = blocks.each().iter().map(&over).sum();
        let whole: f64 = blocks.each().iter().map(&under).sum();
        let excess = |block: &Block| (block.seconds, over(block) - sum / whole * under(block));
        let excess = blocks.each().iter().map(excess).collect();
        Self { sum, excess, waves: usize::MAX }
    }

    /// Requests end whole and, where all take equally long, one after the other or all at once. A wave that is not much longer
    /// than a request shows that, and not how the rate varies.
    pub(super) fn throughput(blocks: &Blocks) -> Self {
        let all = |figure: fn(&Block) -> f64| blocks.each().iter().map(figure).sum::<f64>();
        let (requests, seconds) = (all(|block| block.requests as f64), all(|block| block.seconds));
        let in_a_row = seconds * requests / (all(|block| block.sum_ns) / 1e9);
        // The fastest wave has a period of 2 / waves of the whole.
        let waves = 2.0 * requests.min(in_a_row) / REQUESTS_IN_A_WAVE;
        let ratio = Self::new(blocks, |block| block.requests as f64, |block| block.seconds);
        Self { waves: waves as usize, ..ratio }
    }

    pub(super) fn latency(blocks: &Blocks) -> Self {
        Self::new(blocks, |block| block.sum_ns, |block| block.requests as f64)
    }

    /// Of the sum.
    fn variance(&self) -> f64 {
        variance_of_sum(&self.excess, self.waves)
    }
}

/// Half the interval's width, as a share of the figure.
pub(super) fn half_of(ratio: &Ratio) -> f64 {
    half_width(ratio.excess.len(), ratio.waves) * ratio.variance().sqrt() / ratio.sum
}

/// How many independent samples `n` are worth, where a sum of as many would have the variance `independent` and theirs
/// has that of these blocks. The latter is an estimate: the widening of intervals for that is compensated here, so that
/// others may take the result for certain.
fn worth(n: f64, independent: f64, ratio: &Ratio) -> f64 {
    let estimate = (CERTAIN_HALF_WIDTH / half_width(ratio.excess.len(), ratio.waves)).powi(2);
    let worth = n * independent / ratio.variance() * estimate;
    if worth < MAX_WORTH * n { worth } else { MAX_WORTH * n }
}

/// How many independent samples the mean latency is worth.
pub(super) fn worth_for_mean(blocks: &Blocks, all: &ClientSummary) -> f64 {
    worth(all.latency.count() as f64, variance_for_mean(all), &Ratio::latency(blocks))
}

/// The variance of the sum of the latencies if they are independent.
fn variance_for_mean(all: &ClientSummary) -> f64 {
    let deviation = all.latency.std_ns().max(RESOLUTION * all.latency.mean_ns());
    all.latency.count() as f64 * deviation.powi(2)
}

/// How many independent samples the share of latencies below the percentile is worth, which is at `ns`.
pub(super) fn worth_below(ns: u64, p: f64, blocks: &Blocks, n: f64) -> f64 {
    Below::new(ns, p, blocks, n).map_or(n, |below| worth(n, below.variance(n), &below.ratio))
}

/// What the samples are worth if neighbours have nothing in common, and nothing contradicts that: in the mean, the median,
/// the 90th percentile and this one the blocks differ no more than by chance. None if something does.
///
/// [`worth`] is an estimate from slow waves, which sees any memory but is half of the truth or twice of it now and then.
/// Where samples are independent, that would cost a third of the judgements that they allow.
pub(super) fn worth_if_independent(percentile: f64, blocks: &Blocks, all: &ClientSummary) -> Option<f64> {
    let n = all.latency.count() as f64;
    let mean = Dispersion::new(variance_for_mean(all), n, &Ratio::latency(blocks));
    let shares = [50.0, 90.0, percentile].into_iter().filter_map(|percentile| {
        let below = Below::new(all.latency.percentile_ns(percentile), percentile / 100.0, blocks, n)?;
        let rarer = n * below.share.min(1.0 - below.share);
        Some(Dispersion::new(below.variance(n), rarer, &below.ratio))
    });
    let dispersions: Vec<Dispersion> = shares.chain([mean]).collect();
    let most = dispersions.iter().map(|dispersion| dispersion.times).fold(1.0, f64::max);
    dispersions.iter().all(Dispersion::is_chance).then_some(n / most)
}

/// The number of a block's latencies below a value, over all of the block's.
struct Below {
    share: f64,
    ratio: Ratio,
}

impl Below {
    /// None if all of the latencies are, or none.
    fn new(ns: u64, p: f64, blocks: &Blocks, n: f64) -> Option<Self> {
        // Many latencies may be alike: with them or without them, what is nearer.
        let shares = [ns, ns.saturating_sub(1)].map(|ns| {
            let below = |block: &Block| block.up_to(ns).1 as f64;
            let ratio = Ratio::new(blocks, below, |block| block.up_to(ns).0 as f64);
            Self { share: ratio.sum / n, ratio }
        });
        let nearest = shares.into_iter().filter(|below| below.share > 0.0 && below.share < 1.0);
        nearest.min_by(|left, right| (left.share - p).abs().total_cmp(&(right.share - p).abs()))
    }

    /// That of the number below among `n` independent samples.
    fn variance(&self, n: f64) -> f64 {
        n * self.share * (1.0 - self.share)
    }
}

/// How much the blocks differ in a sum of independent terms.
struct Dispersion {
    /// As a multiple of what they would if the blocks' terms were independent.
    times: f64,
    /// Its standard deviation if they are.
    chance: f64,
}

impl Dispersion {
    /// Of a sum that has this variance if its terms are independent, and so many of them that matter.
    fn new(independent: f64, rarer: f64, ratio: &Ratio) -> Self {
        let blocks = ratio.excess.len() as f64;
        let squares: f64 = ratio.excess.iter().map(|(_, value)| value * value).sum();
        let times = squares / independent * blocks / (blocks - 1.0);
        Self { times, chance: ((2.0 + blocks / rarer) / blocks).sqrt() }
    }

    fn is_chance(&self) -> bool {
        self.times <= 1.0 + BY_CHANCE * self.chance
    }
}
