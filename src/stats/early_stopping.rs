//! How many samples a percentile needs, by MLPerf's early-stopping rule.
//!
//! The rule (MLCommons inference rules, "early stopping"): with `t` queries over a latency bound among `n`, the claim "the
//! true percentile `p` is within the bound" holds with confidence `c` when a binomial variable of `n` trials that fail with
//! probability `1 - p` is at most `t` with probability at most `1 - c`. At least `t = 1` has to be allowed: hence a floor.

use crate::binomial_cdf;

/// MLPerf's confidence.
const CONFIDENCE: f64 = 0.99;

/// The smallest number of samples from which percentile `percentile` (0 to 100, both excluded) can be claimed at all:
/// 64 for p90, 662 for p99. `None` for percentiles outside that range.
pub fn early_stopping_floor(percentile: f64) -> Option<u64> {
    if !(percentile > 0.0 && percentile < 100.0) {
        return None;
    }
    let enough = |n: u64| binomial_cdf(1, n, 1.0 - percentile / 100.0) <= 1.0 - CONFIDENCE;
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
}
