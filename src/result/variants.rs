//! Variants, measured in rounds, compared with the first of them.

mod file;
mod logs;
mod named;
#[cfg(any(test, feature = "testing"))]
pub mod simulation;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Distinction;
use crate::bare::BareCopies;
use crate::compare::{Direction, direction};
use crate::rounds::{Figure, Round, Unit};
use crate::stats::{Bounds, Interval, Paired, two_sample_t};
use crate::summary::LevelLoad;
use crate::terms::{Rounds, Statistic};

pub use crate::compare::ErrorsChange;
pub use file::VariantsFile;
pub use logs::Logs;

/// A difference as large as this is by chance in one of twenty cases.
const SIGNIFICANT: f64 = 0.05;
/// Where rounds of one order differ from those of the other by more, in standard errors, the order matters.
const ORDER_MATTERS: f64 = 3.0;

/// A machine that others use stays in one state, or its scheduler keeps one variant beside them, for about a second: rounds whose
/// windows are within so many seconds say one thing, not several.
const ONE_STATE_S: f64 = 0.6;
/// Where there is little time, a state takes this share of it at most, so that there is time for those that decide.
const ONE_STATE_OF_TIME: f64 = 1.0 / 12.0;

/// How rounds are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Changes up to this share count as no change.
    pub margin: f64,
    /// Seed of the run.
    pub seed: u64,
    /// Rounds went on until something was decided, so what they tell must hold at every look.
    pub sequential: bool,
    /// How many rounds there will be at most.
    pub most_rounds: usize,
    /// Rounds whose windows are within so many seconds say one thing, if they go on.
    pub state_s: f64,
}

/// What variants of a run came to.
#[derive(Clone, Debug, Deserialize)]
pub struct VariantsResult {
    /// What is varied, if the program chose it: the word of `--matrix`.
    pub matrix: Option<String>,
    /// The variants; the first is the reference.
    pub variants: Vec<VariantIdentity>,
    /// How they took turns, and which changes count as no change.
    pub rounds: Rounds,
    /// How often the servers were started.
    pub starts: u32,
    /// Seed of permutation tests.
    pub seed: u64,
    /// The main figure: the mean latency, or the requested percentile.
    pub primary: Figure,
    /// Levels and, for a matrix, input sizes.
    pub cells: Vec<Cell>,
}

/// A variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantIdentity {
    /// Its name in reports.
    pub name: String,
    /// The flags with which it overrides the run's.
    pub flags: String,
    /// Why it could not be measured, if so.
    pub problem: Option<String>,
}

/// All variants at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The load of each variant.
    pub loads: Vec<LevelLoad>,
    /// Bytes of an input with free dimensions, if `--matrix-sizes` sets them.
    pub size: Option<u64>,
    /// Bytes of the input tensors of an inference, on average, of each variant.
    pub input_bytes: Vec<Option<f64>>,
    /// The same of the output tensors, where that is known; empty in files of earlier versions.
    #[serde(default)]
    pub output_bytes: Vec<Option<f64>>,
    /// What the machine does with these tensors without a server; only for a matrix.
    #[serde(default)]
    pub bare: Option<BareCopies>,
    /// How many times as long as asked for windows became, because too few requests ended in shorter ones.
    #[serde(default = "once")]
    pub window_times: u32,
    /// For how many seconds its rounds were measured.
    #[serde(default)]
    pub measured_s: f64,
    /// The rounds, in the order in which they were measured.
    pub rounds: Vec<Round>,
}

/// Bytes a second of the tensors of successful requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bandwidth {
    /// Of inputs.
    pub input: Option<f64>,
    /// Of outputs.
    pub output: Option<f64>,
}

/// Files of earlier versions do not say it.
fn once() -> u32 {
    1
}

/// A variant against the reference, at one level.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The number of the variant, from 0, which is the reference.
    pub variant: usize,
    /// Its figures.
    pub figures: Vec<FigureChange>,
    /// Change in the share of failed requests; none if no request failed.
    pub errors: Option<ErrorsChange>,
    /// Rounds that count: those in which both were measured.
    pub rounds: usize,
    /// Those of them that were disturbed.
    pub disturbed: usize,
    /// Student's t of the rounds in which the reference came first against the others, for the mean latency or the
    /// requested percentile; above 3 the order matters.
    pub order_effect_t: Option<f64>,
}

/// The change in a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FigureChange {
    /// Which one.
    #[serde(rename = "of")]
    pub figure: Figure,
    /// The reference: rates a second, times in nanoseconds. A geometric mean, or a median where rounds went on until there was an
    /// answer.
    pub reference: f64,
    /// The same of the variant.
    pub value: f64,
    /// The same of the rounds' ratios, variant by reference.
    pub ratio: f64,
    /// The 95 % confidence interval of the ratio.
    pub interval: Option<Interval>,
    /// Two-sided p of the sign-flip permutation test.
    pub p: f64,
    /// Standard deviation of the logarithms of the rounds' ratios, or of the starts' means.
    pub sd_log_ratio: Option<f64>,
    /// The smallest change, as a share, that these rounds find with a probability of 80 %.
    pub detectable: Option<f64>,
    /// Share of the variance of a start's mean that lies between starts, 0 to 1; only with several starts.
    pub restart_share: Option<f64>,
    /// What that means.
    pub verdict: Direction,
    /// For an undecided figure: the number of rounds, or of starts if there are several, that would probably decide it.
    pub rounds_to_decide: Option<usize>,
}

impl Comparison {
    /// Whether it mattered which of the two was measured first.
    pub fn order_matters(&self) -> bool {
        self.order_effect_t.is_some_and(|t| t.abs() > ORDER_MATTERS)
    }
}

impl VariantsResult {
    /// Whether a variant failed where it was measured. Where rounds go on until something is decided, one that fails costs
    /// that round; then it is a variant that was given up.
    pub fn has_failures(&self) -> bool {
        let failed = |unit: &Unit| unit.problem.is_some();
        if self.rounds.until_decided.is_none() {
            let units = self.cells.iter().flat_map(|cell| &cell.rounds).flat_map(|round| &round.units);
            return units.flatten().any(failed);
        }
        let last = |cell: &Cell, variant: usize| {
            cell.rounds.iter().rev().find_map(|round| round.units[variant].as_ref()).is_some_and(failed)
        };
        self.cells.iter().any(|cell| (0..self.variants.len()).any(|variant| last(cell, variant)))
    }

    /// How its rounds are read.
    pub fn reading(&self) -> Reading {
        Reading {
            margin: self.rounds.margin,
            seed: self.seed,
            sequential: self.rounds.until_decided.is_some(),
            most_rounds: self.rounds.count,
            state_s: self
                .rounds
                .until_decided
                .map_or(ONE_STATE_S, |time| ONE_STATE_S.min(ONE_STATE_OF_TIME * time.as_secs_f64())),
        }
    }

    /// Whether every round covers every variant: a file may contain anything.
    pub fn is_consistent(&self) -> bool {
        let count = self.variants.len();
        let fits = |cell: &Cell| {
            let of_all = [cell.loads.len(), cell.input_bytes.len()].iter().all(|length| *length == count);
            let outputs = cell.output_bytes.len();
            of_all && (outputs == 0 || outputs == count) && cell.rounds.iter().all(|round| round.units.len() == count)
        };
        self.cells.iter().all(fits)
    }

    /// Compares every variant but the first with the first, in a cell.
    pub fn comparisons(&self, cell: &Cell) -> Vec<Comparison> {
        (1..self.variants.len()).map(|variant| compare(cell, variant, self.reading(), self.primary)).collect()
    }
}

impl Cell {
    /// Whether all variants were measured in one of its rounds.
    pub fn has_whole_round(&self) -> bool {
        self.rounds.iter().any(|round| round.units.iter().all(Option::is_some))
    }

    /// A variant's results in the rounds that count.
    pub fn units(&self, variant: usize) -> impl Iterator<Item = &Unit> {
        self.rounds.iter().filter_map(move |round| round.counted(variant))
    }

    /// A variant's own figure: its geometric mean over the rounds, or its median where they go on. `None` if a round lacks it that
    /// has to have it.
    pub fn value(&self, variant: usize, figure: Figure, reading: Reading) -> Option<f64> {
        self.values(variant, figure).complete(reading)?.middle(reading)
    }

    /// The same, and its bounds.
    pub fn estimate(&self, variant: usize, figure: Figure, reading: Reading) -> Option<(f64, Bounds)> {
        self.values(variant, figure).complete(reading)?.bounds(reading)
    }

    /// What the rounds say about the ratio of a variant's figure to the reference's. `None` if a round lacks either that
    /// has to have both.
    pub fn ratio(&self, variant: usize, figure: Figure, reading: Reading) -> Option<Paired> {
        self.ratios(variant, figure).complete(reading)?.read(reading)
    }

    /// Bytes a second of a variant's tensors, as far as they are known.
    pub fn bandwidth(&self, variant: usize, reading: Reading) -> Bandwidth {
        let rate = self.value(variant, Figure::Client(Statistic::Throughput), reading);
        let bytes_per_second = |bytes: &[Option<f64>]| Some(rate? * bytes.get(variant).copied()??);
        Bandwidth { input: bytes_per_second(&self.input_bytes), output: bytes_per_second(&self.output_bytes) }
    }

    /// A variant's own figure.
    pub fn values(&self, variant: usize, figure: Figure) -> Logs {
        self.by_start(|round| Some(round.counted(variant)?.get(figure).map(f64::ln)))
    }

    /// The ratios of a variant's figure to the reference's.
    pub fn ratios(&self, variant: usize, figure: Figure) -> Logs {
        self.by_start(|round| Some(logs(round, variant, figure)?.map(|(reference, other)| other - reference)))
    }

    /// What tells it apart from other cells of its load.
    pub fn distinction(&self) -> Distinction {
        Distinction { input_bytes: self.size, ..Distinction::default() }
    }

    /// The values of the rounds that count, start by start.
    fn by_start(&self, value: impl Fn(&Round) -> Option<Option<f64>>) -> Logs {
        Logs::of(&self.rounds, value)
    }
}

/// Compares a variant with the reference; `primary` is the figure that the effect of the order is judged by.
pub fn compare(cell: &Cell, variant: usize, reading: Reading, primary: Figure) -> Comparison {
    let is_counted = |round: &&Round| round.counted(0).is_some() && round.counted(variant).is_some();
    let rounds: Vec<&Round> = cell.rounds.iter().filter(is_counted).collect();
    let disturbed =
        |round: &&&Round| [0, variant].iter().any(|&subject| round.counted(subject).is_some_and(|unit| unit.disturbed));
    let figures = Figure::of_all(rounds.iter().filter_map(|round| round.counted(0)));
    Comparison {
        variant,
        figures: figures.into_iter().filter_map(|key| figure(cell, variant, reading, key)).collect(),
        errors: errors(cell, variant),
        rounds: rounds.len(),
        disturbed: rounds.iter().filter(disturbed).count(),
        order_effect_t: order_effect(&rounds, variant, primary),
    }
}

/// The logarithms of a figure in a round in which both were measured: the reference's, and the variant's; `None` if one
/// of them has too few requests for it.
fn logs(round: &Round, variant: usize, figure: Figure) -> Option<Option<(f64, f64)>> {
    let (reference, other) = (round.counted(0)?.get(figure), round.counted(variant)?.get(figure));
    Some(reference.zip(other).map(|(reference, other)| (reference.ln(), other.ln())))
}

fn figure(cell: &Cell, variant: usize, reading: Reading, key: Figure) -> Option<FigureChange> {
    let (paired, margin) = (cell.ratio(variant, key, reading)?, reading.margin);
    let middle = |side: fn((f64, f64)) -> f64| {
        let all = cell.by_start(|round| Some(logs(round, variant, key)?.map(side)));
        all.middle(reading).unwrap_or(f64::NAN)
    };
    let verdict = verdict(key, &paired, margin);
    Some(FigureChange {
        figure: key,
        reference: middle(|(reference, _)| reference),
        value: middle(|(_, other)| other),
        ratio: paired.ratio,
        interval: paired.interval,
        p: paired.p,
        sd_log_ratio: paired.deviation,
        detectable: paired.detectable,
        restart_share: paired.restart_share,
        verdict,
        rounds_to_decide: if verdict == Direction::Undecided { paired.units_to_decide(margin) } else { None },
    })
}

/// The verdict on a figure from its pairs. A change must show both in the interval and in the permutation test;
/// sameness follows from the interval alone, because no test proves it.
pub fn verdict(figure: Figure, paired: &Paired, margin: f64) -> Direction {
    match direction(figure.more_is_better(), paired.interval, margin) {
        Direction::Worse | Direction::Better if paired.p > SIGNIFICANT => Direction::Undecided,
        word => word,
    }
}

fn errors(cell: &Cell, variant: usize) -> Option<ErrorsChange> {
    let [reference, other] = [0, variant].map(|variant| cell.share_of(variant, |unit| Some(unit.failures())));
    ErrorsChange::new(reference, other)
}

fn order_effect(rounds: &[&Round], variant: usize, key: Figure) -> Option<f64> {
    let position = |round: &Round, subject| round.order.iter().position(|&candidate| candidate == subject);
    let side = |first: bool| -> Vec<f64> {
        let of_order = rounds.iter().filter(|round| (position(round, 0) < position(round, variant)) == first);
        of_order.filter_map(|round| logs(round, variant, key)?).map(|(reference, other)| other - reference).collect()
    };
    two_sample_t(&side(true), &side(false))
}

#[cfg(test)]
mod tests;
