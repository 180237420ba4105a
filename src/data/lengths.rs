//! Lengths of generated prompts and outputs: distributions of token counts, and recorded counts.

use std::f64::consts::TAU;
use std::fmt;
use std::path::PathBuf;

use rand::SeedableRng;
use rand_distr::{Distribution, Poisson};
use rand_xoshiro::SplitMix64;

use crate::seed;

/// Maximum number of tokens of a prompt or an output.
pub const MAX_TOKENS: u32 = 10_000_000;

/// Longest pause of a generated conversation, in seconds.
pub const MAX_DELAY_SECONDS: u32 = 1_000_000;

/// A distribution of token counts. Draws beyond its bounds become the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLength {
    /// Its shape.
    pub shape: LengthShape,
    /// The smallest number.
    pub least: u32,
    /// The largest.
    pub most: u32,
}

/// The shape of a distribution, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthShape {
    /// Normal, with mean and standard deviation; constant if that is 0.
    Normal(f64, f64),
    /// Log-normal, with mean and standard deviation; shifted to the smallest number.
    LogNormal(f64, f64),
    /// The same from 0 on: numbers below the smallest become it.
    LogNormalFromZero(f64, f64),
    /// Azzalini's skew-normal, with location, scale and shape.
    SkewNormal(f64, f64, f64),
    /// Poisson, with a mean.
    Poisson(f64),
    /// Uniform between the bounds.
    Uniform,
}

impl TokenLength {
    /// That shape without bounds, except those of any length.
    pub fn unbounded(shape: LengthShape) -> Self {
        Self { shape, least: 1, most: MAX_TOKENS }
    }

    /// The length from draws `first` and `first + 1` of the stream with this seed.
    pub(super) fn draw(&self, stream: u64, first: u64) -> u64 {
        let unit = |number| seed::unit(seed::hash(stream, number));
        // The Box-Muller transform turns two draws into two; the logarithm's argument is never 0.
        let (radius, angle) = ((-2.0 * (1.0 - unit(first)).ln()).sqrt(), TAU * unit(first + 1));
        let (normal, other_normal) = (radius * angle.cos(), radius * angle.sin());
        let (least, most) = (f64::from(self.least), f64::from(self.most));
        let drawn = match self.shape {
            LengthShape::Normal(mean, deviation) => mean + normal * deviation,
            LengthShape::LogNormal(mean, deviation) => {
                // Where nothing of the mean is left, any number above the smallest would do.
                let above = if mean > least { mean - least } else { 1.0 };
                least + log_normal(above, deviation, normal)
            }
            LengthShape::LogNormalFromZero(mean, deviation) => log_normal(mean, deviation, normal),
            LengthShape::SkewNormal(location, scale, shape) => {
                let delta = shape / (1.0 + shape * shape).sqrt();
                let skewed = delta * normal + (1.0 - delta * delta).sqrt() * other_normal;
                location + scale * if normal >= 0.0 { skewed } else { -skewed }
            }
            LengthShape::Poisson(mean) => {
                let mut draws = SplitMix64::seed_from_u64(seed::hash(stream, first));
                Poisson::new(mean).map_or(mean, |distribution| distribution.sample(&mut draws))
            }
            LengthShape::Uniform => (least + unit(first) * (most - least + 1.0)).floor(),
        };
        drawn.round().clamp(least, most) as u64
    }
}

/// A draw from the log-normal distribution with this mean and standard deviation, made of a standard normal one.
fn log_normal(mean: f64, deviation: f64, normal: f64) -> f64 {
    let variance = (1.0 + (deviation / mean).powi(2)).ln();
    (mean.ln() - variance / 2.0 + normal * variance.sqrt()).exp()
}

impl fmt::Display for TokenLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            LengthShape::Normal(mean, _)
            | LengthShape::LogNormal(mean, _)
            | LengthShape::LogNormalFromZero(mean, _)
            | LengthShape::Poisson(mean) => write!(f, "{mean} words on average"),
            LengthShape::SkewNormal(..) | LengthShape::Uniform => write!(f, "{} to {} words", self.least, self.most),
        }
    }
}

/// A distribution of pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Their lengths in units, of which whole ones are drawn.
    pub units: TokenLength,
    /// Milliseconds of a unit.
    pub unit_ms: u64,
}

impl Delay {
    /// The pause in milliseconds from draws `first` and `first + 1` of the stream with this seed.
    pub(super) fn draw_ms(&self, stream: u64, first: u64) -> u64 {
        self.units.draw(stream, first) * self.unit_ms
    }
}

/// Where the lengths of prompts come from.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptLength {
    /// Drawn.
    Drawn(TokenLength),
    /// Those of a recorded trace, row after row; outputs have the recorded lengths, too.
    Recorded(PathBuf),
    /// Those of the prompts that a data set has.
    Dataset(Dataset),
}

/// A data set of prompts and answers, as language models are trained and measured with.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// A file of JSON, or a folder of such files.
    pub path: PathBuf,
    /// Fewest and most tokens of the prompts that are taken.
    pub prompt: Option<(u32, u32)>,
    /// The same of their answers.
    pub answer: Option<(u32, u32)>,
}

/// Prefixes that generated prompts share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedPrefix {
    /// Length of each, in tokens.
    pub length: TokenLength,
    /// Number of different ones, each of which begins as many prompts.
    pub count: u32,
}

/// Conversations to generate; their turns are prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationSpec {
    /// How many.
    pub count: u32,
    /// Turns of each.
    pub turns: ConversationTurns,
    /// Length of the part of a system prompt that is a conversation's own, in tokens.
    pub own_system: Option<TokenLength>,
    /// How long it pauses after a turn.
    pub delay: Option<Delay>,
}

/// How many turns a conversation has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConversationTurns {
    /// Drawn.
    Drawn(TokenLength),
    /// As many as the load asks for: it says the same again and again.
    Endless,
}

/// The blocks of recorded prompts: equal numbers are equal text, so prompts share exactly the blocks that they shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    /// The numbers of each prompt's blocks.
    pub each: Vec<Box<[u64]>>,
    /// Tokens of a block; of a prompt's last one there may be fewer.
    pub tokens: u32,
}

impl Blocks {
    /// Tokens of a block of prompts with these `rows`.
    pub(super) fn size(&self, rows: &[TokenCounts]) -> u64 {
        let blocks = self.each.iter().map(|blocks| blocks.len());
        block_size(
            u64::from(self.tokens),
            rows.iter().zip(blocks).map(|(row, blocks)| BlockCount { tokens: row.context, blocks }),
        )
    }
}

/// How many tokens and blocks a recorded prompt has.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockCount {
    pub(super) tokens: u64,
    pub(super) blocks: usize,
}

/// Tokens of a block: as many as is `usual`, unless most prompts have more blocks than those would fill. Then it is the power of
/// two that leaves something for the last block of most. Recorders have sizes of their own, and do not write them down.
pub(super) fn block_size(usual: u64, prompts: impl Iterator<Item = BlockCount>) -> u64 {
    let several = prompts.filter(|prompt| prompt.blocks > 1);
    let fill = |BlockCount { tokens, blocks }: BlockCount| tokens.saturating_sub(1) / (blocks as u64 - 1);
    let mut fills: Vec<u64> = several.map(fill).filter(|&fill| fill > 0).collect();
    fills.sort_unstable();
    // More than half do not fill the usual ones, and at least half fill those of so many.
    match (fills.get(fills.len() / 2), fills.get(fills.len().saturating_sub(1) / 2)) {
        (Some(&upper), Some(&lower)) if upper < usual => 1 << lower.ilog2(),
        _ => usual,
    }
}

/// Sizes of one recorded request, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCounts {
    /// Tokens of the prompt.
    pub context: u64,
    /// Tokens of the answer, if they were recorded.
    pub generated: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(shape: LengthShape, least: u32, most: u32) -> Vec<f64> {
        let length = TokenLength { shape, least, most };
        (0..20_000).map(|number| length.draw(seed::hash(5, number), 0) as f64).collect()
    }

    fn moments(all: &[f64]) -> (f64, f64) {
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / all.len() as f64;
        (mean, variance.sqrt())
    }

    fn near(found: (f64, f64), wanted: (f64, f64)) {
        let off = |found: f64, wanted: f64| (found - wanted).abs() / wanted;
        assert!(off(found.0, wanted.0) < 0.02 && off(found.1, wanted.1) < 0.04, "{found:?} {wanted:?}");
    }

    #[test]
    fn blocks_are_as_large_as_their_prompts_say() {
        let size = |usual, prompts: &[(u64, usize)]| {
            block_size(usual, prompts.iter().map(|(tokens, blocks)| BlockCount { tokens: *tokens, blocks: *blocks }))
        };
        // As Mooncake has them, and as the exporters of Dynamo, with 64 tokens a block.
        assert_eq!(size(512, &[(6755, 14), (7322, 15), (20, 1), (1024, 2), (513, 2)]), 512);
        assert_eq!(size(512, &[(65, 2), (128, 2), (6400, 100), (6401, 101), (20, 1)]), 64);
        assert_eq!(size(512, &[(300, 2), (1000, 4)]), 256);
        assert_eq!(size(512, &[(65, 2), (128, 2), (6400, 100), (6401, 101), (20, 3)]), 64, "one that does not fit");
        assert_eq!(size(512, &[(1100, 2), (101, 2)]), 512, "no more than half");
        assert_eq!(size(16, &[(521, 33), (400, 25)]), 16);
        // A prefix of the prompt alone, one prompt that does not fit, and prompts without blocks.
        assert_eq!(size(512, &[(9000, 2), (5000, 9), (5000, 10), (600, 9)]), 512);
        assert_eq!((size(512, &[(0, 3), (2, 9), (50, 0)]), size(512, &[])), (512, 512));
    }

    #[test]
    fn every_shape_has_the_moments_that_are_asked_for() {
        near(moments(&draws(LengthShape::Normal(500.0, 50.0), 1, 10_000)), (500.0, 50.0));
        near(moments(&draws(LengthShape::LogNormal(500.0, 100.0), 10, 100_000)), (500.0, 100.0));
        near(moments(&draws(LengthShape::LogNormalFromZero(500.0, 100.0), 1, 100_000)), (500.0, 100.0));
        near(moments(&draws(LengthShape::Poisson(400.0), 1, 10_000)), (400.0, 20.0));
        near(moments(&draws(LengthShape::Uniform, 1, 1000)), (500.5, 288.7));
        // Azzalini's distribution: mean = location + scale * delta * sqrt(2 / pi).
        let delta = 4.0 / 17_f64.sqrt();
        let mean = 500.0 + 100.0 * delta * (2.0 / std::f64::consts::PI).sqrt();
        let deviation = 100.0 * (1.0 - 2.0 * delta * delta / std::f64::consts::PI).sqrt();
        near(moments(&draws(LengthShape::SkewNormal(500.0, 100.0, 4.0), 1, 10_000)), (mean, deviation));
        assert!(draws(LengthShape::Normal(7.0, 0.0), 1, 10).iter().all(|length| *length == 7.0));
    }

    #[test]
    fn bounds_hold() {
        for shape in [LengthShape::Normal(50.0, 40.0), LengthShape::LogNormal(50.0, 60.0), LengthShape::Uniform] {
            let all = draws(shape, 20, 80);
            assert!(all.iter().all(|length| (20.0..=80.0).contains(length)), "{shape:?}");
            assert!(all.contains(&80.0), "{shape:?}");
        }
    }

    #[test]
    fn log_normal_lengths_begin_at_the_smallest_number_or_at_0() {
        let at_least_of = |shape| draws(shape, 400, 100_000).iter().filter(|length| **length <= 400.0).count();
        // Of the distribution around 500, 15 % are below 400, and become it; what is shifted to 400 is hardly there.
        let found = at_least_of(LengthShape::LogNormalFromZero(500.0, 100.0)) as f64 / 20_000.0;
        assert!((found - 0.146).abs() < 0.02, "{found}");
        assert!(at_least_of(LengthShape::LogNormal(500.0, 100.0)) < 20);
    }

    fn pauses(shape: LengthShape, bounds: [u32; 2], unit_ms: u64) -> Vec<f64> {
        let delay = Delay { units: TokenLength { shape, least: bounds[0], most: bounds[1] }, unit_ms };
        (0..20_000).map(|number| delay.draw_ms(seed::hash(5, number), 0) as f64).collect()
    }

    #[test]
    fn pauses_have_milliseconds_unless_they_are_of_whole_seconds() {
        near(moments(&pauses(LengthShape::Normal(400.0, 100.0), [0, 1000], 1)), (400.0, 100.0));
        assert!(pauses(LengthShape::Normal(0.0, 0.0), [0, 1000], 1).iter().all(|pause| *pause == 0.0));
        assert!(pauses(LengthShape::Normal(0.15, 0.01), [0, 1], 1000).iter().all(|pause| *pause == 0.0));
        let whole = pauses(LengthShape::Uniform, [0, 2], 1000);
        assert!([0.0, 1000.0, 2000.0].iter().all(|pause| whole.contains(pause)));
        assert!(whole.iter().all(|pause| pause % 1000.0 == 0.0));
        assert!(pauses(LengthShape::Poisson(0.0), [0, 9], 1000).iter().all(|pause| *pause == 0.0));
        // A mean within a unit of the smallest pause.
        let brief = pauses(LengthShape::LogNormal(0.15, 0.01), [0, 9], 1000);
        assert!(brief.iter().all(|pause| *pause == 0.0));
    }
}
