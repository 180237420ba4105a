//! `--model-mix a:0.7,b:0.3`: chooses the model of each request.

use crate::error::{Error, Result};
use crate::seed::{self, Purpose};

/// How far from 1 the shares may sum up: allows decimals such as 0.333.
const TOLERANCE: f64 = 1e-3;

/// A weighted choice among models, drawn from the seed and the request's number alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// For each model but the last, the 64-bit draw below which it or an earlier one is chosen.
    thresholds: Vec<u64>,
    stream: u64,
}

impl Mix {
    /// One model only.
    pub fn single() -> Self {
        Self { thresholds: Vec::new(), stream: 0 }
    }

    /// Models with these shares.
    ///
    /// # Errors
    /// If there is none, one is not above 0, or they do not sum to 1 within 0.001.
    pub fn new(shares: &[f64], run_seed: u64) -> Result<Self> {
        if let Some(bad) = shares.iter().find(|&&share| !(share > 0.0 && share <= 1.0)) {
            return Err(Error::usage(format!("--model-mix: share {bad} must be above 0 and at most 1")));
        }
        let total: f64 = shares.iter().sum();
        if total.is_nan() || (total - 1.0).abs() > TOLERANCE {
            return Err(Error::usage(format!("--model-mix: the shares sum to {total}, not to 1")));
        }
        let (_, first) = shares.split_last().expect("shares that sum to 1 are not empty");
        let thresholds = first
            .iter()
            .scan(0.0, |sum, share| {
                *sum += share / total;
                // Saturates at the largest draw.
                Some((*sum * 2_f64.powi(64)) as u64)
            })
            .collect();
        Ok(Self { thresholds, stream: seed::derive(run_seed, Purpose::Mix) })
    }

    /// How many models there are.
    pub fn models(&self) -> usize {
        self.thresholds.len() + 1
    }

    /// The model of draw number `number`, counted from 0.
    pub fn pick(&self, number: u64) -> usize {
        if self.thresholds.is_empty() {
            return 0;
        }
        let draw = seed::hash(self.stream, number);
        self.thresholds.iter().position(|&threshold| draw < threshold).unwrap_or(self.thresholds.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_the_seed_decides() {
        let mix = Mix::new(&[0.7, 0.2, 0.1], 5).unwrap();
        let mut counts = [0; 3];
        (0..100_000).for_each(|number| counts[mix.pick(number)] += 1);
        for (count, share) in counts.into_iter().zip([0.7, 0.2, 0.1]) {
            assert!((f64::from(count) / 1e5 - share).abs() < 0.005, "{counts:?}");
        }
        let picks = |seed| (0..100).map(|number| Mix::new(&[0.5, 0.5], seed).unwrap().pick(number)).collect::<Vec<_>>();
        assert_eq!(picks(1), picks(1));
        assert_ne!(picks(1), picks(2));
        assert_eq!(mix.models(), 3);
    }

    #[test]
    fn one_model_takes_everything() {
        assert!((0..100).all(|number| Mix::single().pick(number) == 0));
        assert!((0..100).all(|number| Mix::new(&[1.0], 3).unwrap().pick(number) == 0));
        assert_eq!(Mix::new(&[0.333, 0.333, 0.333], 3).unwrap().models(), 3);
    }

    #[test]
    fn unusable_mixes_are_refused() {
        for shares in [&[][..], &[0.5, 0.4], &[0.7, 0.7], &[1.5, -0.5], &[f64::NAN, 1.0], &[0.0, 1.0]] {
            assert!(Mix::new(shares, 0).unwrap_err().to_string().starts_with("--model-mix: "));
        }
    }
}
