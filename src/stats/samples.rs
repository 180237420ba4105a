//! What a series of samples says about itself: how many independent ones it is worth, agreement with Little's law.

/// How many independent samples `n` samples in batches are worth, judged by how much the batches' means differ: means of
/// independent samples vary by `variance / n * batches`, and what they vary more is lost. `variance` is that of the single
/// samples. All `n` where there are fewer than three batches or no variance.
pub fn effective_size_of_batches(n: u64, variance: f64, means: &[f64]) -> f64 {
    let batches = means.len() as f64;
    if means.len() < 3 || variance <= 0.0 {
        return n as f64;
    }
    let mean = means.iter().sum::<f64>() / batches;
    let between = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (batches - 1.0);
    let inflation = between * n as f64 / batches / variance;
    n as f64 / inflation.max(1.0)
}

/// How far three measured figures are from Little's law, L = λW: `λW / L - 1`. `outstanding` is the mean number of requests
/// under way, `rate` requests a second, `latency_s` the mean time that one takes in seconds. `None` where nothing was
/// under way.
pub fn littles_law_gap(outstanding: f64, rate: f64, latency_s: f64) -> Option<f64> {
    (outstanding > 0.0).then(|| rate * latency_s / outstanding - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{hash, unit};

    #[test]
    fn batches_that_differ_more_than_chance_explains_are_worth_fewer_samples() {
        let series = |drift: f64| {
            let value = |i: u64| unit(hash(4, i)) + drift * (i / 1000) as f64;
            let means: Vec<f64> =
                (0..5).map(|batch| (batch * 1000..(batch + 1) * 1000).map(value).sum::<f64>() / 1000.0).collect();
            effective_size_of_batches(5000, 1.0 / 12.0, &means)
        };
        assert!(series(0.0) > 1500.0, "{}", series(0.0));
        // Means 0, 0.1, ... 0.4 vary by 0.025; chance explains 1/12000.
        assert!((series(0.1) / (5000.0 / 300.0) - 1.0).abs() < 0.3, "{}", series(0.1));
        assert_eq!(effective_size_of_batches(10, 1.0, &[1.0, 2.0]), 10.0);
        assert_eq!(effective_size_of_batches(10, 0.0, &[1.0, 2.0, 3.0]), 10.0);
    }

    #[test]
    fn littles_law_by_hand() {
        assert_eq!(littles_law_gap(4.0, 800.0, 0.005), Some(0.0));
        assert!((littles_law_gap(4.0, 700.0, 0.005).unwrap() + 0.125).abs() < 1e-12);
        assert_eq!(littles_law_gap(0.0, 1.0, 1.0), None);
    }
}
