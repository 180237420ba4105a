//! The variance of a sum of correlated terms.
//!
//! A queue has memory: the terms of a time series that it produces vary together, and their sum varies more than that
//! of as many independent ones. How much more shows in the slow waves of the series, because they average over the
//! memory. The estimate is the mean square of its first cosine terms, each of which is worth a degree of freedom
//! (Lazarus, Lewis, Stock and Watson, "HAR Inference: Recommendations for Practice", 2018).

use std::f64::consts::PI;

/// Number of cosine terms, and so the degrees of freedom of Student's t. Fewer would make intervals wide, more would
/// miss a memory that is a good part of the series.
pub const TERMS: usize = 6;

/// The variance of the sum of a series with mean 0, assuming that a longer one would continue in the same way: the
/// length of each of its terms, and its value. There must be more terms than [`TERMS`].
pub fn variance_of_sum(series: &[(f64, f64)]) -> f64 {
    let whole: f64 = series.iter().map(|(length, _)| length).sum();
    let wave = |term: usize| -> f64 {
        let mut passed = 0.0;
        let part = |(length, value): &(f64, f64)| {
            passed += length;
            value * (PI * term as f64 * (passed - length / 2.0) / whole).cos()
        };
        series.iter().map(part).sum()
    };
    let power: f64 = (1..=TERMS).map(|term| wave(term).powi(2)).sum();
    2.0 * power / TERMS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{hash, unit};

    /// The mean of the estimate over many series, for each of which `series` is called with its number.
    fn mean_estimate(series: impl Fn(u64) -> Vec<(f64, f64)>) -> f64 {
        (0..2000).map(|number| variance_of_sum(&series(number))).sum::<f64>() / 2000.0
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
        let one = |number: u64, at: u64| unit(hash(number, at)) - 0.5;
        let long = |number, at| (0..4).map(|part| one(number, 1000 + 4 * at + part)).sum::<f64>();
        let term = |number, at| if at % 3 == 2 { (4.0, long(number, at)) } else { (1.0, one(number, at)) };
        let series = |number| (0..9).map(|at| term(number, at)).collect();
        assert!((mean_estimate(series) / (18.0 / 12.0) - 1.0).abs() < 0.15, "{}", mean_estimate(series));
    }

    #[test]
    fn a_trend_is_no_chance() {
        let series: Vec<(f64, f64)> = (0..48).map(|at| (1.0, f64::from(at) - 23.5)).collect();
        let chance: f64 = series.iter().map(|(_, value)| value * value).sum();
        assert!(variance_of_sum(&series) > 10.0 * chance / 2.0);
        assert_eq!(variance_of_sum(&[(1.0, 0.0); 48]), 0.0);
    }
}
