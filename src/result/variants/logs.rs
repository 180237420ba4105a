//! What rounds say about a figure, or the ratio of two: logarithms, whose middle is told with its bounds.

use super::Reading;
use crate::rounds::Round;
use crate::seed::{self, Purpose};
use crate::stats::{Bounds, Paired, Sequence, likeness_of_neighbours, median};

/// So many rounds tell whether neighbours are alike.
const ROUNDS_TELL: usize = 24;
/// Neighbours whose correlation is less say something each. So many values that come by themselves seem more alike one time in six.
const UNLIKE: f64 = 0.2;

/// The logarithms of a figure of rounds, or of its ratio, start by start.
pub struct Logs {
    starts: Vec<Vec<f64>>,
    /// How many seconds the windows of each took, where that is known.
    seconds: Vec<Vec<Option<f64>>>,
    /// In how many rounds that count it is missing.
    pub lacking: usize,
}

impl Logs {
    /// Those of the rounds that count, by what `value` finds in each: nothing where it does not count, and no value where it
    /// lacks the figure.
    pub(super) fn of(rounds: &[Round], value: impl Fn(&Round) -> Option<Option<f64>>) -> Self {
        let most = rounds.iter().map(|round| round.start).max().unwrap_or(0);
        let of_start = |number| rounds.iter().filter(move |round| round.start == number);
        let found = |round: &&Round| value(round).flatten().is_some();
        Self {
            starts: (1..=most).map(|number| of_start(number).filter_map(&value).flatten().collect()).collect(),
            seconds: (1..=most).map(|number| of_start(number).filter(found).map(Round::seconds).collect()).collect(),
            lacking: rounds.iter().filter_map(&value).filter(Option::is_none).count(),
        }
    }

    /// What each start says by itself: the medians of its runs of rounds within a state of the machine.
    pub(super) fn states(&self, reading: Reading) -> Vec<Vec<f64>> {
        let starts = self.starts.iter().zip(&self.seconds).filter(|(logs, _)| !logs.is_empty());
        starts.map(|(logs, seconds)| states_of(logs, seconds, reading)).collect()
    }

    /// What they say.
    pub fn read(&self, reading: Reading) -> Option<Paired> {
        match reading.sequential {
            true => Paired::sequential(&self.starts, &self.states(reading)),
            false => Paired::new(&self.starts, seed::derive(reading.seed, Purpose::SignFlips)),
        }
    }

    /// The same without what only a report needs: what is looked at after every round.
    pub fn bounds(&self, reading: Reading) -> Option<(f64, Bounds)> {
        if !reading.sequential {
            return self.read(reading).map(|paired| (paired.ratio, paired.interval.into()));
        }
        let has_values = self.starts.iter().any(|logs| !logs.is_empty());
        let bounds = Sequence::bounds_of_most(&self.states(reading));
        let exponentials = Bounds { low: bounds.low.map(f64::exp), high: bounds.high.map(f64::exp) };
        has_values.then(|| (Sequence::middle_of_most(&self.starts, bounds).exp(), exponentials))
    }

    /// Their geometric mean, or the median where rounds go on, of which the bounds are; starts count alike, however many rounds
    /// each has.
    pub(super) fn middle(&self, reading: Reading) -> Option<f64> {
        if reading.sequential {
            return self.bounds(reading).map(|(middle, _)| middle);
        }
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let starts: Vec<f64> = self.starts.iter().filter(|logs| !logs.is_empty()).map(|logs| mean(logs)).collect();
        (!starts.is_empty()).then(|| mean(&starts).exp())
    }

    /// All of them, where a figure is told only if every round has it: percentiles are missing in the slowest rounds, and
    /// the others alone would be biased. Where rounds go on, one that lacks it costs that round.
    pub(super) fn complete(self, reading: Reading) -> Option<Self> {
        (reading.sequential || self.lacking == 0).then_some(self)
    }
}

/// The median of each run of rounds within a state of the machine; a run that has not ended says nothing yet. A round of unknown
/// length is one by itself, and so few rounds that they would not decide are not taken together. Nor are rounds once those before
/// them have shown that each comes by itself: then all of them count.
fn states_of(logs: &[f64], seconds: &[Option<f64>], reading: Reading) -> Vec<f64> {
    let most_together = (reading.most_rounds / Sequence::FEWEST).max(1);
    let (mut medians, mut begin, mut lasted_s, mut are_alike) = (Vec::new(), 0, 0.0, true);
    for (number, seconds) in seconds.iter().enumerate() {
        let end = number + 1;
        lasted_s += seconds.unwrap_or(reading.state_s);
        // The windows of a run may be a hair shorter than asked for.
        if !are_alike || lasted_s > 0.98 * reading.state_s || end - begin == most_together {
            medians.push(median(logs[begin..end].to_vec()));
            (begin, lasted_s) = (end, 0.0);
            are_alike = end < ROUNDS_TELL || likeness_of_neighbours(&logs[..end]) > UNLIKE;
        }
    }
    medians
}
