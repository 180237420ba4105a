//! Kolmogorov's test, for the tests of what is drawn at random.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{hash, unit};

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
}
