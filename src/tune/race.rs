//! Compares candidates that were measured in the same rounds.
//!
//! A round measures every candidate once, so whatever the machine does meanwhile affects all alike. Scores are
//! logarithms, so differences are ratios. The spread of a score is estimated from all candidates together, as the
//! residual of their scores after subtracting the candidates' means and the rounds' means (a two-way layout without
//! interaction): two rounds of twenty candidates give a good estimate, two of one do not.

use crate::trial::{Candidate, MeasuredTrial};
use stats::{Interval, student_t_quantile};

/// Candidates over the rounds that all of them have.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    /// Their numbers and mean scores.
    pub means: Vec<(usize, f64)>,
    /// Standard error of the difference of two means; infinite with fewer than two rounds.
    pub error: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
}

impl Standings {
    /// The standings of `members`, over the trials that `counts` accepts.
    pub fn new(candidates: &[Candidate], members: &[usize], counts: impl Fn(&MeasuredTrial) -> bool) -> Self {
        let trials = |member: usize| candidates[member].trials.iter().filter(|trial| counts(trial)).collect::<Vec<_>>();
        let all: Vec<Vec<&MeasuredTrial>> = members.iter().map(|member| trials(*member)).collect();
        let Some(first) = all.first() else { return Self::default() };
        let is_common = |round: usize| all.iter().all(|trials| trials.iter().any(|trial| trial.round == round));
        let rounds: Vec<(usize, f64)> =
            first.iter().filter(|trial| is_common(trial.round)).map(|trial| (trial.round, trial.unit_s)).collect();
        let score = |trials: &[&MeasuredTrial], round: usize| {
            trials.iter().find(|trial| trial.round == round).map_or(0.0, |trial| trial.score)
        };
        let scores: Vec<Vec<f64>> =
            all.iter().map(|trials| rounds.iter().map(|(round, _)| score(trials, *round)).collect()).collect();
        let weights: Vec<f64> = rounds.iter().map(|(_, unit)| *unit).collect();
        let (error, freedom) = spread(&scores, &weights);
        let weight: f64 = weights.iter().sum();
        let mean =
            |scores: &Vec<f64>| scores.iter().zip(&weights).map(|(score, weight)| score * weight).sum::<f64>() / weight;
        let means =
            if weight > 0.0 { members.iter().copied().zip(scores.iter().map(mean)).collect() } else { Vec::new() };
        Self { means, error, freedom }
    }

    /// The mean score of a member.
    pub fn mean(&self, member: usize) -> Option<f64> {
        self.means.iter().find(|(number, _)| *number == member).map(|(_, mean)| *mean)
    }

    /// Half the width of the intervals of differences, so that all of `comparisons` hold together with `confidence`.
    pub fn half_width(&self, confidence: f64, comparisons: usize) -> f64 {
        let tail = (1.0 - confidence) / 2.0 / comparisons.max(1) as f64;
        if self.freedom > 0.0 { student_t_quantile(1.0 - tail, self.freedom) * self.error } else { f64::INFINITY }
    }

    /// Where the true difference of two members lies.
    pub fn difference(&self, first: usize, second: usize, half_width: f64) -> Option<Interval> {
        let middle = self.mean(first)? - self.mean(second)?;
        Some(Interval { low: middle - half_width, high: middle + half_width })
    }
}

/// Standard error of the difference of two weighted means, and its degrees of freedom.
fn spread(scores: &[Vec<f64>], weights: &[f64]) -> (f64, f64) {
    let (members, rounds) = (scores.len() as f64, weights.len() as f64);
    let freedom = (members - 1.0) * (rounds - 1.0);
    if freedom < 1.0 {
        return (f64::INFINITY, 0.0);
    }
    let total: f64 = weights.iter().sum();
    let mean = |scores: &[f64]| scores.iter().zip(weights).map(|(score, weight)| score * weight).sum::<f64>() / total;
    let means: Vec<f64> = scores.iter().map(|scores| mean(scores)).collect();
    let common: Vec<f64> =
        (0..weights.len()).map(|round| scores.iter().map(|scores| scores[round]).sum::<f64>() / members).collect();
    let grand = mean(&common);
    let squares: f64 = scores
        .iter()
        .zip(&means)
        .flat_map(|(scores, mean)| {
            scores.iter().zip(&common).zip(weights).map(move |((score, common), weight)| (score - mean, common, weight))
        })
        .map(|(residual, common, weight)| weight * (residual - (common - grand)).powi(2))
        .sum();
    ((2.0 * squares / freedom / total).sqrt(), freedom)
}

/// How much two trials of one candidate differ: the standard deviation of `value` within candidates, and its degrees of
/// freedom.
pub fn repeatability(candidates: &[Candidate], value: impl Fn(&MeasuredTrial) -> f64) -> (f64, f64) {
    let repeated = candidates.iter().filter(|candidate| candidate.trials.len() > 1);
    let (squares, freedom) = repeated.fold((0.0, 0.0), |(squares, freedom), candidate| {
        let values: Vec<f64> = candidate.trials.iter().map(&value).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let sum_of_squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares + sum_of_squares, freedom + values.len() as f64 - 1.0)
    });
    if freedom > 0.0 { ((squares / freedom).sqrt(), freedom) } else { (0.0, 0.0) }
}

/// Whether trials show clearly that a constraint is violated: both of two, three of four, or a single one by far.
pub fn is_violated(violations: &[f64]) -> bool {
    let above = violations.iter().filter(|violation| **violation > 0.0).count();
    match violations.len() {
        0 => false,
        1 => violations[0] > std::f64::consts::LN_2,
        count => above * 4 >= count * 3 && (count > 2 || above == count),
    }
}

/// The median.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}
