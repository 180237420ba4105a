//! The distributions that the intervals need: binomial, beta and Student's t.

/// Probability that a binomial variable of `n` trials with success probability `p` is at most `k`. Exact to about 1e-12,
/// for any `n`: it is the regularised incomplete beta function at `1 - p`.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    incomplete_beta((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

/// Probability that a beta variable with parameters `a` and `b`, both above 0, is at most `x`.
pub fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    incomplete_beta(a, b, x)
}

/// The value that Student's t with `freedom` degrees of freedom stays below with probability `p` (0 to 1, both excluded).
pub fn student_t_quantile(p: f64, freedom: f64) -> f64 {
    let cdf = |t: f64| {
        let tail = 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
        if t > 0.0 { 1.0 - tail } else { tail }
    };
    invert(cdf, p, -1e6, 1e6)
}

/// Solves `cdf(x) = p` by halving the bracket.
fn invert(cdf: impl Fn(f64) -> f64, p: f64, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if cdf(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Regularised incomplete beta function I_x(a, b): the continued fraction DLMF 8.17.22, evaluated by Lentz's method on the
/// side of the mean where it converges.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let ln_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    if x < (a + 1.0) / (a + b + 2.0) {
        (ln_front - a.ln()).exp() * beta_fraction(a, b, x)
    } else {
        1.0 - (ln_front - b.ln()).exp() * beta_fraction(b, a, 1.0 - x)
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    // The number of terms grows with the square root of the larger parameter.
    let terms = 200 + (5.0 * a.max(b).sqrt()) as u64;
    for m in 1..=terms {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + coefficient * d);
            c = away_from_zero(1.0 + coefficient / c);
            change = c * d;
            result *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// Logarithm of the gamma function for positive arguments: Stirling's series (DLMF 5.11.1) after moving the argument up.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut z = x;
    while z < 12.0 {
        shift += z.ln();
        z += 1.0;
    }
    let w = 1.0 / (z * z);
    let series = (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / z;
    (z - 0.5) * z.ln() - z + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn ln_gamma_of_factorials_and_one_half() {
        close(ln_gamma(1.0), 0.0, 1e-13);
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13);
        close(ln_gamma(11.0), 3_628_800_f64.ln(), 1e-12);
        close(ln_gamma(171.0), 706.573_062_245_787_3, 1e-10);
    }

    #[test]
    fn binomial_cdf_is_the_sum_of_its_terms() {
        close(binomial_cdf(2, 5, 0.5), 0.5, 1e-12);
        close(binomial_cdf(0, 10, 0.1), 0.9_f64.powi(10), 1e-12);
        close(binomial_cdf(1, 662, 0.01), 0.99_f64.powi(662) + 662.0 * 0.01 * 0.99_f64.powi(661), 1e-12);
        for (n, p) in [(30_u64, 0.3), (100, 0.99), (50, 0.01)] {
            let mut term = (1.0_f64 - p).powi(n as i32);
            let mut sum = 0.0;
            for k in 0..n {
                sum += term;
                close(binomial_cdf(k, n, p), sum, 1e-11);
                term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
            }
        }
        assert_eq!(binomial_cdf(5, 5, 0.3), 1.0);
        assert_eq!(binomial_cdf(0, 0, 0.3), 1.0);
    }

    #[test]
    fn binomial_cdf_of_many_trials_meets_the_normal_distribution() {
        let (n, p) = (100_000_000_u64, 0.99);
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        let k = (n as f64 * p + 1.5 * deviation) as u64;
        close(binomial_cdf(k, n, p), 0.933_193, 2e-4);
    }

    #[test]
    fn quantiles_from_tables() {
        close(student_t_quantile(0.975, 1.0), 12.706_204_74, 1e-6);
        close(student_t_quantile(0.975, 2.0), 4.302_652_73, 1e-7);
        close(student_t_quantile(0.95, 10.0), 1.812_461_12, 1e-7);
        close(student_t_quantile(0.025, 30.0), -2.042_272_46, 1e-7);
    }
}
