//! How many samples a percentile needs, by MLPerf's early-stopping rule.
//!
//! The rule (MLCommons inference rules, "early stopping"): with `t` queries over a latency bound among `n`, the claim "the
//! true percentile `p` is within the bound" holds with confidence `c` when a binomial variable of `n` trials that fail with
//! probability `1 - p` is at most `t` with probability at most `1 - c`. The bound that can be claimed from a sample is then
//! the `t`-th largest value (`t - 1` are discarded), for the largest `t` that is allowed. One has to be: hence the floor.

use hdrhistogram::Histogram;

use crate::stats::binomial_cdf;

/// MLPerf's confidence.
const CONFIDENCE: f64 = 0.99;

/// The smallest number of samples from which percentile `percentile` (0 to 100, both excluded) can be claimed at all:
/// 64 for p90, 662 for p99. `None` for percentiles outside that range.
pub fn early_stopping_floor(percentile: f64) -> Option<u64> {
    if !(percentile > 0.0 && percentile < 100.0) {
        return None;
    }
    let enough = |n: u64| allowed(n, 1, percentile);
    let mut high = 2_u64;
    while !enough(high) {
        high = high.checked_mul(2)?;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The latency that percentile `percentile` is below with 99 % confidence; `None` with fewer samples than
/// [`early_stopping_floor`] asks for.
pub fn early_stopping_bound(values: &Histogram<u64>, percentile: f64) -> Option<u64> {
    let n = values.len();
    if n < early_stopping_floor(percentile)? {
        return None;
    }
    // The largest t that is allowed: between 1 and the expected number above the percentile.
    let (mut low, mut high) = (1_u64, ((1.0 - percentile / 100.0) * n as f64).ceil() as u64 + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if allowed(n, middle, percentile) { low = middle } else { high = middle }
    }
    let rank = n - (low - 1);
    Some(values.value_at_quantile(rank as f64 / n as f64))
}

fn allowed(n: u64, over: u64, percentile: f64) -> bool {
    binomial_cdf(over, n, 1.0 - percentile / 100.0) <= 1.0 - CONFIDENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_floors() {
        assert_eq!(early_stopping_floor(90.0), Some(64));
        assert_eq!(early_stopping_floor(99.0), Some(662));
        assert!(early_stopping_floor(99.9).unwrap() > 6600);
        for percentile in [0.0, 100.0, -1.0, f64::NAN] {
            assert_eq!(early_stopping_floor(percentile), None);
        }
    }

    #[test]
    fn the_bound_is_the_largest_value_at_the_floor_and_nears_the_percentile_with_more() {
        let sample = |n: u64| {
            let mut values = Histogram::<u64>::new(5).unwrap();
            (1..=n).for_each(|value| values.record(value).unwrap());
            values
        };
        assert_eq!(early_stopping_bound(&sample(661), 99.0), None);
        assert_eq!(early_stopping_bound(&sample(662), 99.0), Some(662));
        let bound = early_stopping_bound(&sample(100_000), 99.0).unwrap();
        assert!((99_000..99_120).contains(&bound), "{bound}");
    }
}
