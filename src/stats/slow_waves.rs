//! The variance of a sum of correlated terms.
//!
//! A queue has memory: the terms of a time series that it produces vary together, and their sum varies more than that
//! of as many independent ones. How much more shows in the slow waves of the series, because they average over the
//! memory: the mean square of its first cosine terms, each of which is worth a degree of freedom (Lazarus, Lewis, Stock
//! and Watson, "HAR Inference: Recommendations for Practice", 2018). An estimate from few terms sees a long memory, but
//! is too small by chance now and then; one from many is steady, but misses a long memory. So several numbers of terms
//! are tried, each estimate is raised by its own uncertainty, and the largest counts.

use std::f64::consts::PI;
use std::sync::LazyLock;

use crate::student_t_quantile;

/// Numbers of cosine terms that are tried; at most one less than the series has terms.
const SCALES: [usize; 4] = [6, 12, 24, 48];
/// The factor of the mean of this many squares: how much wider than the normal distribution's the interval of Student's
/// t with as many degrees of freedom is, squared.
static UNCERTAINTY: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let wider = |terms: usize| student_t_quantile(0.5 + AIM / 2.0, terms as f64) / CERTAIN_HALF_WIDTH;
    (0..=SCALES[SCALES.len() - 1]).map(|terms| if terms == 0 { 1.0 } else { wider(terms).powi(2) }).collect()
});
/// What 95 % intervals aim at: the variance of few blocks of skewed figures promises a little too much.
pub const AIM: f64 = 0.96;
/// Half the width of such an interval if the standard deviation is certain: the normal distribution's.
pub const CERTAIN_HALF_WIDTH: f64 = 2.053_748_911;
/// Fewest terms of a series.
pub const MIN_TERMS: usize = SCALES[0] + 1;

/// The variance of the sum of a series with mean 0, assuming that a longer one would continue in the same way: the
/// length of each of its terms, and its value. There must be at least [`MIN_TERMS`]. The slowest of the `waves` count.
pub fn variance_of_sum(series: &[(f64, f64)], waves: usize) -> f64 {
    let squares = squares_of_waves(series, waves_of(series.len(), waves));
    let cautious = |scale: &usize| {
        let terms = (*scale).min(squares.len());
        mean_of(&squares, terms) * UNCERTAINTY[terms]
    };
    SCALES.iter().map(cautious).fold(0.0, f64::max)
}

/// How many waves so many terms have, if no more than `waves` are to count.
fn waves_of(terms: usize, waves: usize) -> usize {
    waves.clamp(SCALES[0], SCALES[SCALES.len() - 1]).min(terms - 1)
}

fn mean_of(squares: &[f64], terms: usize) -> f64 {
    2.0 * squares[..terms].iter().sum::<f64>() / terms as f64
}

/// Half the width of an interval ([`AIM`]) of a sum of this many terms, in roots of [`variance_of_sum`] of as many waves. Being
/// the largest of several estimates, it follows no distribution with a name: fitted, to within 0.03, to what 60 000 series
/// of independent normal terms show (2.06 for 7 terms, 1.70 for 48). What counts is the number of waves, one less.
pub fn half_width(terms: usize, waves: usize) -> f64 {
    let terms = if waves < terms { waves_of(terms, waves) + 1 } else { terms };
    1.665 + 1.72 / (terms as f64 - 2.6)
}

/// The squares of the first `n` cosine terms of a series.
fn squares_of_waves(series: &[(f64, f64)], waves: usize) -> Vec<f64> {
    let whole: f64 = series.iter().map(|(length, _)| length).sum();
    let mut sums = vec![0.0; waves];
    let mut passed = 0.0;
    for (length, value) in series {
        passed += length;
        let step = (PI * (passed - length / 2.0) / whole).cos();
        // cos(nx) from the two before it.
        let (mut earlier, mut wave) = (1.0, step);
        for sum in &mut sums {
            *sum += value * wave;
            (earlier, wave) = (wave, 2.0 * step * wave - earlier);
        }
    }
    sums.into_iter().map(|sum| sum * sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{hash, unit};

    /// The mean of the estimate of six waves over many series, for each of which `series` is called with its number.
    fn mean_estimate(series: impl Fn(u64) -> Vec<(f64, f64)>) -> f64 {
        let estimate = |number| mean_of(&squares_of_waves(&series(number), SCALES[0]), SCALES[0]);
        (0..2000).map(estimate).sum::<f64>() / 2000.0
    }

    #[test]
    fn independent_terms_add_their_variances() {
        let series = |number| (0..48).map(|at| (1.0, unit(hash(number, at)) - 0.5)).collect();
        assert!((mean_estimate(series) / (48.0 / 12.0) - 1.0).abs() < 0.05);
    }

    #[test]
    fn terms_like_their_neighbours_add_more() {
        // The sum of each draw appears four times, so that it counts four times over.
        let series = |number| (0..480).map(|at| (1.0, unit(hash(number, at / 4)) - 0.5)).collect();
        assert!((mean_estimate(series) / (16.0 * 120.0 / 12.0) - 1.0).abs() < 0.05);
    }

    #[test]
    fn terms_may_be_of_any_length() {
        // Every third one is four terms in one.
        let noise = |number: u64, at: u64| unit(hash(number, at)) - 0.5;
        let long = |number, at| (0..4).map(|part| noise(number, 1000 + 4 * at + part)).sum::<f64>();
        let term = |number, at| if at % 3 == 2 { (4.0, long(number, at)) } else { (1.0, noise(number, at)) };
        let series = |number| (0..9).map(|at| term(number, at)).collect();
        assert!((mean_estimate(series) / (18.0 / 12.0) - 1.0).abs() < 0.15, "{}", mean_estimate(series));
    }

    #[test]
    fn half_of_the_width_holds_the_sum_of_independent_terms() {
        let normal = |number, at: u64| {
            (-2.0 * (1.0 - unit(hash(number, 2 * at))).ln()).sqrt() * (2.0 * PI * unit(hash(number, 2 * at + 1))).cos()
        };
        for terms in [7, 10, 14, 25, 48, 64] {
            let holds = |number: &u64| {
                let values: Vec<f64> = (0..terms).map(|at| normal(hash(terms, *number), at)).collect();
                let sum: f64 = values.iter().sum();
                let excess: Vec<(f64, f64)> = values.iter().map(|value| (1.0, value - sum / terms as f64)).collect();
                sum.abs() <= half_width(excess.len(), usize::MAX) * variance_of_sum(&excess, usize::MAX).sqrt()
            };
            let held = (0..5000).filter(holds).count();
            assert!((4750..=4850).contains(&held), "{terms} terms: {held} of 5000");
        }
    }

    #[test]
    fn a_memory_is_seen_however_long_it_is() {
        // A wave of one, two, four or eight up and down over 48 terms, and one that is up and down all the time.
        let alone = |turns: usize| {
            (0..48)
                .map(|at| (1.0, if (at * turns * 2 / 48).is_multiple_of(2) { 1.0 } else { -1.0 }))
                .collect::<Vec<_>>()
        };
        let variances = [1, 2, 4, 8, 24].map(|turns| variance_of_sum(&alone(turns), usize::MAX));
        assert!(
            variances.is_sorted_by(|longer, shorter| longer > shorter) && variances[0] > 7.0 * variances[4],
            "{variances:?}"
        );
        assert!(variances[4] >= 48.0 * 0.9, "never less than what independent ones would have: {variances:?}");
    }

    #[test]
    fn a_trend_is_no_chance() {
        let series: Vec<(f64, f64)> = (0..48).map(|at| (1.0, f64::from(at) - 23.5)).collect();
        let chance: f64 = series.iter().map(|(_, value)| value * value).sum();
        assert!(variance_of_sum(&series, usize::MAX) > 10.0 * chance / 2.0);
        assert_eq!(variance_of_sum(&[(1.0, 0.0); 48], usize::MAX), 0.0);
    }
}
