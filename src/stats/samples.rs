//! What a series of samples says about itself: dependence of neighbours, fit to a distribution, agreement with Little's law.

/// Correlation of neighbours in a series, kept up one value at a time in constant memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Autocorrelation {
    count: u64,
    origin: f64,
    first: f64,
    last: f64,
    sum: f64,
    squares: f64,
    products: f64,
}

impl Autocorrelation {
    /// Takes the next value of the series.
    pub fn record(&mut self, value: f64) {
        if self.count == 0 {
            // Sums of differences from the first value lose less to rounding than sums of values.
            self.origin = value;
        }
        let value = value - self.origin;
        if self.count == 0 {
            self.first = value;
        } else {
            self.products += self.last * value;
        }
        self.sum += value;
        self.squares += value * value;
        self.last = value;
        self.count += 1;
    }

    /// Values taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Correlation of a value with the one after it, -1 to 1; 0 where there are fewer than three values or all are equal.
    pub fn lag_one(&self) -> f64 {
        let n = self.count as f64;
        let mean = if self.count > 0 { self.sum / n } else { 0.0 };
        let variation = self.squares - n * mean * mean;
        if self.count < 3 || variation <= 0.0 {
            return 0.0;
        }
        let shared = self.products - mean * (2.0 * self.sum - self.first - self.last) + (n - 1.0) * mean * mean;
        (shared / variation).clamp(-1.0, 1.0)
    }
}

/// How many independent samples `n` samples with correlation `lag_one` between neighbours are worth, for a series whose
/// correlation decays geometrically: `n (1 - r) / (1 + r)`. Negative correlation is not taken as a gain.
pub fn effective_size(n: u64, lag_one: f64) -> f64 {
    let r = lag_one.clamp(0.0, 1.0);
    n as f64 * (1.0 - r) / (1.0 + r)
}

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

/// What a Kolmogorov test found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KolmogorovTest {
    /// Largest distance between the sample's distribution function and the one it was compared with.
    pub distance: f64,
    /// Probability of such a distance or a larger one, if the sample does come from that distribution.
    pub p_value: f64,
}

/// Compares a sample with a continuous distribution that is fully known beforehand, such as exponential gaps of a given
/// rate. The probability is Kolmogorov's limit with Stephens' correction for small samples (1970).
pub fn kolmogorov(sample: &[f64], cdf: impl Fn(f64) -> f64) -> KolmogorovTest {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let distance = sorted.iter().enumerate().fold(0.0_f64, |largest, (at, &value)| {
        let expected = cdf(value);
        largest.max(expected - at as f64 / n).max((at + 1) as f64 / n - expected)
    });
    let scaled = distance * (n.sqrt() + 0.12 + 0.11 / n.sqrt());
    KolmogorovTest { distance, p_value: kolmogorov_tail(scaled) }
}

/// Probability that Kolmogorov's statistic is above `x`.
fn kolmogorov_tail(x: f64) -> f64 {
    // Below this the series converges slowly, and to 1.
    if x < 0.2 {
        return 1.0;
    }
    let term = |k: i32| f64::from(1 - 2 * ((k + 1) % 2)) * (-2.0 * f64::from(k * k) * x * x).exp();
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
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
    fn autocorrelation_is_the_textbook_formula() {
        let values = [1003.0, 1001.0, 1004.0, 1001.0, 1005.0, 1009.0, 1002.0];
        let mut series = Autocorrelation::default();
        values.iter().for_each(|&value| series.record(value));
        let mean = values.iter().sum::<f64>() / 7.0;
        let shared: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        let variation: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        assert!((series.lag_one() - shared / variation).abs() < 1e-12);
        assert_eq!(series.count(), 7);
    }

    #[test]
    fn autocorrelation_finds_the_coefficient_of_a_geometric_series() {
        let mut series = Autocorrelation::default();
        let mut value = 0.0;
        for i in 0..200_000 {
            value = 0.8 * value + unit(hash(3, i)) - 0.5;
            series.record(5e6 + value);
        }
        assert!((series.lag_one() - 0.8).abs() < 0.01, "{}", series.lag_one());
        assert!((effective_size(900, 0.8) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn series_without_variation_are_uncorrelated() {
        let mut series = Autocorrelation::default();
        assert_eq!(series.lag_one(), 0.0);
        (0..10).for_each(|_| series.record(4.0));
        assert_eq!(series.lag_one(), 0.0);
        assert_eq!(effective_size(10, -0.5), 10.0);
        assert_eq!(effective_size(10, 1.0), 0.0);
    }

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
    fn kolmogorov_accepts_its_own_distribution_and_refuses_others() {
        let even: Vec<f64> = (0..5000).map(|i| unit(hash(8, i))).collect();
        assert!(kolmogorov(&even, |x| x.clamp(0.0, 1.0)).p_value > 0.05);
        assert!(kolmogorov(&even, |x| x.clamp(0.0, 1.0).powf(1.1)).p_value < 1e-3);
        // Critical values of the limit distribution: 1.358 for 5 %, 1.628 for 1 %.
        assert!((kolmogorov_tail(1.358) - 0.05).abs() < 1e-3);
        assert!((kolmogorov_tail(1.628) - 0.01).abs() < 1e-3);
        assert_eq!(kolmogorov_tail(0.0), 1.0);
    }

    #[test]
    fn kolmogorov_distance_by_hand() {
        let test = kolmogorov(&[0.1, 0.5, 0.6], |x| x);
        assert!((test.distance - (1.0 - 0.6)).abs() < 1e-12);
    }

    #[test]
    fn littles_law_by_hand() {
        assert_eq!(littles_law_gap(4.0, 800.0, 0.005), Some(0.0));
        assert!((littles_law_gap(4.0, 700.0, 0.005).unwrap() + 0.125).abs() < 1e-12);
        assert_eq!(littles_law_gap(0.0, 1.0, 1.0), None);
    }
}
