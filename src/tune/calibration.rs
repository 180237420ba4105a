//! Predictions for all points from one measurement along each dimension.
//!
//! Settings mostly act as factors: twice the instances multiply the capacity by the same factor, whatever the batch. So
//! a point's logarithm is predicted as that of the base plus the change that each of its settings made there.
//! Predictions order candidates, and exclude those that would have to be far better than predicted; they are used for
//! nothing else.

use crate::space::{Place, Space};

/// A candidate is not measured if even this much better than predicted (a factor of 1.5) it would be worse than the
/// best.
pub const DOUBT: f64 = 0.405_465;

/// What a point would come to, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// How good it is.
    pub score: f64,
    /// By how much it misses a constraint.
    pub violation: f64,
}

/// Measurements at the base and along each dimension.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    base: Place,
    /// Score and violation at the base.
    at_base: (f64, f64),
    /// For each dimension and value, the change that it made; unmeasured values are interpolated.
    effects: Vec<Vec<(f64, f64)>>,
    /// Whether a value was measured, or values on both sides of it.
    bracketed: Vec<Vec<bool>>,
}

impl Calibration {
    /// From the scores and violations that `found` returns for points.
    pub fn new(space: &Space, base: Place, found: impl Fn(&Place) -> Option<(f64, f64)>) -> Option<Self> {
        let at_base = found(&base)?;
        let along = space.dimensions.iter().enumerate().map(|(dimension, searched)| {
            let effect = |index: usize| {
                let mut place = base.clone();
                place[dimension] = index;
                let (score, violation) = found(&place)?;
                Some((score - at_base.0, violation - at_base.1))
            };
            (0..searched.values.len()).map(effect).collect::<Vec<_>>()
        });
        let along: Vec<Vec<Option<(f64, f64)>>> = along.collect();
        let is_bracketed = along.iter().map(|effects| bracketed(effects)).collect();
        let effects = along.into_iter().map(interpolated).collect();
        Some(Self { base, at_base, effects, bracketed: is_bracketed })
    }

    /// Whether each setting of a point was measured, or values on both sides of it.
    pub fn is_bracketed(&self, place: &Place) -> bool {
        place.iter().enumerate().all(|(dimension, index)| self.bracketed[dimension][*index])
    }

    /// What a point would come to.
    pub fn predict(&self, place: &Place) -> Prediction {
        let effects = place.iter().enumerate().map(|(dimension, index)| self.effects[dimension][*index]);
        let sum = |(score, violation), (more, worse)| (score + more, violation + worse);
        let (score, violation) = effects.fold(self.at_base, sum);
        Prediction { score, violation }
    }

    /// The point with the best value of every setting.
    pub fn most_promising(&self) -> Place {
        let best = |effects: &Vec<(f64, f64)>| {
            let numbered = effects.iter().enumerate().rev();
            numbered.max_by(|(_, (left, _)), (_, (right, _))| left.total_cmp(right)).map_or(0, |(index, _)| index)
        };
        self.effects.iter().map(best).collect()
    }

    /// Whether a point was itself measured.
    pub fn saw(&self, place: &Place) -> bool {
        place.iter().zip(&self.base).filter(|(left, right)| left != right).count() <= 1
    }
}

/// For each value, whether it was measured or lies between two that were.
fn bracketed(effects: &[Option<(f64, f64)>]) -> Vec<bool> {
    let first = effects.iter().position(Option::is_some);
    let last = effects.iter().rposition(Option::is_some);
    let within = |index: usize| first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&index));
    (0..effects.len()).map(within).collect()
}

/// Fills in unmeasured values: on the line between measured neighbours on both sides, or like the nearest.
fn interpolated(effects: Vec<Option<(f64, f64)>>) -> Vec<(f64, f64)> {
    let effect_at = |index: usize| Some((index, effects[index]?));
    let fill = |index: usize| {
        let below = (0..=index).rev().find_map(effect_at);
        let above = (index..effects.len()).find_map(effect_at);
        match (below, above) {
            (Some((low, low_effect)), Some((high, high_effect))) if high > low => {
                let share = (index - low) as f64 / (high - low) as f64;
                (
                    low_effect.0 + share * (high_effect.0 - low_effect.0),
                    low_effect.1 + share * (high_effect.1 - low_effect.1),
                )
            }
            (Some((_, effect)), _) | (_, Some((_, effect))) => effect,
            (None, None) => (0.0, 0.0),
        }
    };
    (0..effects.len()).map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_between_its_neighbours() {
        let at = |score: f64| Some((score, -score));
        assert_eq!(
            interpolated(vec![at(0.0), None, None, at(3.0), None])[1..],
            [(1.0, -1.0), (2.0, -2.0), (3.0, -3.0), (3.0, -3.0)]
        );
        assert_eq!(interpolated(vec![None, None]), [(0.0, 0.0); 2]);
        assert_eq!(bracketed(&[None, at(0.0), None, at(1.0), None]), [false, true, true, true, false]);
    }
}
