//! What paired measurements say about a ratio.
//!
//! Two things are measured in rounds, each once a round. Whatever else the machine does affects both alike, so the unit
//! is the round's difference of logarithms, and never a request: neighbouring requests meet the same queue, and runs
//! differ among themselves. If the server was restarted in between, the unit is a start's mean (Kalibera and Jones,
//! "Rigorous Benchmarking in Reasonable Time", 2013, with two levels).

use crate::seed::hash;
use crate::{Interval, Sequence, student_t_quantile};

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;
/// Probability with which a change of the smallest detectable size is found.
const POWER: f64 = 0.8;
/// Up to this many pairs, all signs are enumerated.
const MAX_EXACT: usize = 16;
/// Number of draws beyond that.
const DRAWS: u64 = 20_000;
/// With fewer pairs no sign-flip test can be below 5 %.
pub const MIN_PAIRS: usize = 6;
/// More rounds than this cannot be planned.
const MAX_PAIRS: usize = 100_000;

/// What pairs say about a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Units that the interval rests on: rounds, or starts where there are several.
    pub units: usize,
    /// The ratio: the geometric mean over the units; where rounds went on until there was an answer, the median.
    pub ratio: f64,
    /// Where the true one lies, with 95 % confidence; none with a single unit.
    pub interval: Option<Interval>,
    /// How probable a difference of this size is if there is none: the share of all ways to exchange the sides of pairs
    /// that come as far from a ratio of 1 (sign-flip permutation test, two-sided).
    pub p: f64,
    /// Standard deviation of the units' logarithms.
    pub deviation: Option<f64>,
    /// The smallest change, as a share, that as many units find with a probability of 80 %.
    pub detectable: Option<f64>,
    /// Share of the variance of a start's mean that lies between starts, 0 to 1; none with a single start.
    pub restart_share: Option<f64>,
}

impl Paired {
    /// From the logarithms of the ratios, start by start; `stream` seeds the draws if there are too many pairs for all
    /// signs. `None` if there is no pair.
    pub fn new(starts: &[Vec<f64>], stream: u64) -> Option<Self> {
        let starts: Vec<&[f64]> = starts.iter().map(Vec::as_slice).filter(|start| !start.is_empty()).collect();
        let rounds: Vec<f64> = starts.concat();
        let means: Vec<f64> = starts.iter().map(|start| mean(start)).collect();
        let units = if means.len() > 1 { &means } else { &rounds };
        if units.is_empty() {
            return None;
        }
        let (middle, n) = (mean(units), units.len() as f64);
        let deviation = deviation(units);
        let half = |s: f64| student_t_quantile(0.5 + CONFIDENCE / 2.0, n - 1.0) * s / n.sqrt();
        let interval = |s: f64| Interval { low: (middle - half(s)).exp(), high: (middle + half(s)).exp() };
        // Few starts have too few signs for any answer; then their interval, which is wide, decides.
        let tested = if means.len() >= MIN_PAIRS { &means } else { &rounds };
        Some(Self {
            units: units.len(),
            ratio: middle.exp(),
            interval: deviation.map(interval),
            p: sign_flip_p(tested, stream),
            deviation,
            detectable: deviation.map(|s| (reach(units.len()) * s).exp_m1()),
            restart_share: restart_share(&starts, &means),
        })
    }

    /// The same for rounds that went on until there was an answer: interval and p hold at all looks together. `independent` are
    /// values of each start, each of one or more neighbouring rounds; several starts are heard one by one, and most of them count.
    pub fn sequential(starts: &[Vec<f64>], independent: &[Vec<f64>]) -> Option<Self> {
        let of_fixed = Self::new(starts, 0)?;
        let bounds = Sequence::bounds_of_most(independent);
        let ratio = Sequence::middle_of_most(starts, bounds).exp();
        let mut ps: Vec<f64> = independent.iter().map(|values| Sequence::new(values).p(0.0)).collect();
        ps.sort_by(f64::total_cmp);
        let interval = bounds.low.zip(bounds.high).map(|(low, high)| Interval { low: low.exp(), high: high.exp() });
        Some(Self { ratio, interval, p: ps.get(ps.len() / 2).copied().unwrap_or(1.0), ..of_fixed })
    }

    /// How many units would decide whether the change is beyond `margin`, with a probability of 80 %, if the ratio and
    /// its deviation are what they seem to be. `None` if no feasible number would.
    pub fn units_to_decide(&self, margin: f64) -> Option<usize> {
        let gap = (self.ratio.ln().abs() - margin.ln_1p()).abs();
        let decides = |units: usize| reach(units) * self.deviation.unwrap_or(f64::INFINITY) <= gap;
        let (mut low, mut high) = (MIN_PAIRS.max(self.units + 1), MAX_PAIRS);
        if !decides(high) {
            return None;
        }
        while low < high {
            let middle = low.midpoint(high);
            if decides(middle) { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }
}

/// How many standard deviations the smallest change is that `units` find with a probability of 80 %.
fn reach(units: usize) -> f64 {
    let (n, freedom) = (units as f64, units as f64 - 1.0);
    (student_t_quantile(0.5 + CONFIDENCE / 2.0, freedom) + student_t_quantile(POWER, freedom)) / n.sqrt()
}

/// The two-sided p of the sign-flip test: exact up to 16 values, else from draws that `stream` seeds.
fn sign_flip_p(values: &[f64], stream: u64) -> f64 {
    let actual: f64 = values.iter().sum();
    // Sums of the same numbers in another order differ by rounding.
    let least = actual.abs() - 1e-9 * values.iter().map(|value| value.abs()).sum::<f64>();
    if values.len() <= MAX_EXACT {
        let all = 1_u64 << values.len();
        let (mut signs, mut sum, mut hits) = (values.to_vec(), actual, 1_u64);
        // Neighbours of a Gray code differ in one sign.
        for step in 1..all {
            let turned = &mut signs[step.trailing_zeros() as usize];
            sum -= 2.0 * *turned;
            *turned = -*turned;
            hits += u64::from(sum.abs() >= least);
        }
        return hits as f64 / all as f64;
    }
    let hits = (0..DRAWS).filter(|&draw| drawn_sum(values, stream, draw).abs() >= least).count();
    // The measurement itself is one of the draws.
    (hits as f64 + 1.0) / (DRAWS as f64 + 1.0)
}

/// The sum with signs of draw number `draw`.
fn drawn_sum(values: &[f64], stream: u64, draw: u64) -> f64 {
    let words = values.len().div_ceil(64) as u64;
    let signed = values.chunks(64).enumerate().map(|(word, values)| {
        let bits = hash(stream, draw * words + word as u64);
        values.iter().enumerate().map(|(bit, value)| if bits >> bit & 1 == 1 { -value } else { *value }).sum::<f64>()
    });
    signed.sum()
}

/// Student's t of the difference of two means, with their variances pooled; none if one side has fewer than two values.
pub fn two_sample_t(first: &[f64], second: &[f64]) -> Option<f64> {
    let (n, m) = (first.len() as f64, second.len() as f64);
    let (s, r) = (deviation(first)?, deviation(second)?);
    let pooled = ((n - 1.0) * s * s + (m - 1.0) * r * r) / (n + m - 2.0);
    let error = (pooled * (1.0 / n + 1.0 / m)).sqrt();
    let difference = mean(first) - mean(second);
    (error > 0.0).then_some(difference / error)
}

fn restart_share(starts: &[&[f64]], means: &[f64]) -> Option<f64> {
    let variance = deviation(means)?.powi(2);
    let errors: Option<Vec<f64>> =
        starts.iter().map(|start| Some(deviation(start)?.powi(2) / start.len() as f64)).collect();
    let within = mean(&errors?);
    Some(if variance > 0.0 { (1.0 - within / variance).max(0.0) } else { 0.0 })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() as f64 - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students_on_the_scale_of_factors() {
        // Mean ln 1.1, standard deviation 0.01, t(0.975, 2) = 4.30265.
        let middle = 1.1_f64.ln();
        let found = Paired::new(&[vec![middle - 0.01, middle, middle + 0.01]], 0).unwrap();
        let interval = found.interval.unwrap();
        assert!((found.ratio - 1.1).abs() < 1e-12 && (found.deviation.unwrap() - 0.01).abs() < 1e-12);
        assert!((interval.high.ln() - middle - 0.024_841).abs() < 1e-5, "{interval:?}");
        assert_eq!((found.units, found.restart_share), (3, None));
        let once = Paired::new(&[vec![middle]], 0).unwrap();
        assert_eq!((once.interval, once.detectable, once.p), (None, None, 1.0));
        assert_eq!(Paired::new(&[Vec::new()], 0), None);
    }

    #[test]
    fn all_signs_are_gone_through() {
        assert_eq!(sign_flip_p(&[1.0; 5], 0), 2.0 / 32.0);
        assert_eq!(sign_flip_p(&[1.0; 6], 0), 2.0 / 64.0);
        assert_eq!(sign_flip_p(&[0.0; 4], 0), 1.0);
        // Sums of 3, 2, -1: 4; as far from 0 are 4, 6 and their opposites.
        assert_eq!(sign_flip_p(&[3.0, 2.0, -1.0], 0), 4.0 / 8.0);
    }

    #[test]
    fn draws_come_near_to_all_signs_and_are_the_seeds() {
        let values: Vec<f64> = (0..16).map(|i| (f64::from(i) * 12.9898).sin() + 0.3).collect();
        let exact = sign_flip_p(&values, 0);
        let actual = values.iter().sum::<f64>().abs();
        let hits = (0..DRAWS).filter(|&draw| drawn_sum(&values, 7, draw).abs() >= actual).count();
        assert!((hits as f64 / DRAWS as f64 - exact).abs() < 0.01, "{hits} {exact}");
        let many: Vec<f64> = (0..100).map(|i| (f64::from(i) * 78.233).sin() + 0.2).collect();
        assert_eq!(sign_flip_p(&many, 1), sign_flip_p(&many, 1));
        assert!(sign_flip_p(&[1.0; 17], 3) < 0.001);
    }

    #[test]
    fn the_smallest_detectable_change_is_the_references() {
        let factors =
            [(3, 3.1), (5, 1.66), (6, 1.43), (8, 1.15), (10, 0.99), (12, 0.89), (16, 0.75), (20, 0.66), (30, 0.53)];
        for (units, factor) in factors {
            assert!((reach(units) - factor).abs() < 0.012, "{units}: {}", reach(units));
        }
    }

    #[test]
    fn rounds_that_would_decide() {
        let paired = |ratio: f64, deviation: f64| Paired {
            units: 10,
            ratio,
            interval: None,
            p: 1.0,
            deviation: Some(deviation),
            detectable: None,
            restart_share: None,
        };
        // ln 1.05 = 0.0488: a ratio of 1 at a deviation of 0.05 takes a factor of 0.976, which 11 rounds have.
        assert_eq!(paired(1.0, 0.05).units_to_decide(0.05), Some(11));
        assert_eq!(paired(1.0, 0.05), paired(1.0, 0.05));
        let more = paired(1.1, 0.1).units_to_decide(0.05).unwrap();
        assert!(
            reach(more) * 0.1 <= 1.1_f64.ln() - 0.05_f64.ln_1p()
                && reach(more - 1) * 0.1 > 1.1_f64.ln() - 0.05_f64.ln_1p()
        );
        assert_eq!(paired(1.05, 0.05).units_to_decide(0.05), None, "it is at the margin");
    }

    #[test]
    fn starts_are_the_unit_where_there_are_several() {
        let starts = [vec![0.0, 0.02], vec![0.10, 0.12], vec![0.20, 0.22]];
        let found = Paired::new(&starts, 0).unwrap();
        assert!(found.units == 3 && (found.ratio.ln() - 0.11).abs() < 1e-12, "{found:?}");
        // Standard deviation 0.1 over 3 starts.
        assert!((found.interval.unwrap().high.ln() - 0.11 - 0.248_41).abs() < 1e-4, "{found:?}");
        assert!(found.restart_share.unwrap() > 0.98, "{found:?}");
        let alike = [vec![0.0, 0.1], vec![0.1, 0.0]];
        assert_eq!(Paired::new(&alike, 0).unwrap().restart_share, Some(0.0));
    }

    #[test]
    fn students_t_of_two_samples() {
        // Means 2 and 5, both variances 1, three values each: -3 / sqrt(2/3).
        let t = two_sample_t(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert!((t + 3.674_235).abs() < 1e-5, "{t}");
        assert_eq!(two_sample_t(&[1.0], &[1.0, 2.0]), None);
    }
}
