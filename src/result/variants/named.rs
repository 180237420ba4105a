//! Figures of the catalogue that requirements are about, and shares, over the rounds of a cell.

use super::{Cell, Logs, Reading};
use crate::rounds::Unit;
use crate::stats::{Clustered, Part, Proportion, as_one};

/// A figure that is 0 in a round is this share of what it is compared with: as far off as any, and it has a logarithm.
const NOTHING: f64 = 1e-3;
/// Where half of the values are 0, which count as the least number, the middle of the logarithms is below this.
const NEXT_TO_NOTHING: f64 = 1e-100;

impl Cell {
    /// The values of a figure of the catalogue, by its key, in the rounds that count; 0 is next to nothing beside `bound`.
    pub fn named_values(&self, variant: usize, key: &str, bound: f64) -> Logs {
        self.by_start(|round| {
            let value = round.counted(variant)?.named(key).and_then(|named| named.value);
            Some(value.map(|value| value.max(NOTHING * bound).max(f64::MIN_POSITIVE).ln()))
        })
    }

    /// Its ratios to the reference's.
    pub fn named_ratios(&self, variant: usize, key: &str) -> Logs {
        let value = |unit: &Unit| unit.named(key).and_then(|named| named.value);
        self.by_start(|round| {
            let (reference, other) = (value(round.counted(0)?), value(round.counted(variant)?));
            let sides = reference.filter(|value| *value > 0.0).zip(other);
            Some(sides.map(|(reference, other)| (other / reference).max(NOTHING).ln()))
        })
    }

    /// A figure of the catalogue that requirements are about, over the rounds that count: a share of all their requests, of anything
    /// else the geometric mean.
    pub fn named(&self, variant: usize, key: &str, reading: Reading) -> Option<f64> {
        let has_cases = |unit: &Unit| unit.named(key).is_some_and(|named| named.of.is_some());
        if self.units(variant).any(has_cases) {
            let share = self.share_of(variant, |unit| unit.share(key)).proportion;
            return (share.all > 0).then(|| share.share());
        }
        let is_none = |unit: &Unit| unit.named(key).is_some_and(|named| named.value == Some(0.0));
        let middle = self.named_values(variant, key, 0.0).complete(reading)?.middle(reading)?;
        // One that is nothing makes a product nothing, and not a median.
        let is_nothing = if reading.sequential { middle < NEXT_TO_NOTHING } else { self.units(variant).any(is_none) };
        Some(if is_nothing { 0.0 } else { middle })
    }

    /// Whether the rounds that count tell that a variant does not have a figure of the catalogue. Those that were not asked for it,
    /// because an earlier run without that requirement has measured them, tell nothing.
    pub fn lacks_named(&self, variant: usize, key: &str) -> bool {
        let mut values = self.units(variant).filter_map(|unit| unit.named(key)).peekable();
        values.peek().is_some() && values.all(|named| named.absent)
    }

    /// A variant's failed requests among all its requests, over the measured rounds.
    pub fn failures(&self, variant: usize) -> Proportion {
        self.share_of(variant, |unit| Some(unit.failures())).proportion
    }

    /// A share of a variant's requests over the measured rounds, and by how much these differ in it.
    pub fn share_of(&self, variant: usize, share: impl Fn(&Unit) -> Option<Proportion>) -> Clustered {
        let counted = self.rounds.iter().filter(|round| !round.set_aside);
        let units = counted.filter_map(|round| round.units[variant].as_ref());
        let part = |unit: &Unit| Some(Part { seconds: unit.seconds.unwrap_or(1.0), proportion: share(unit)? });
        let parts: Vec<Part> = units.filter_map(part).collect();
        let sum = parts.iter().fold(Proportion { hits: 0, all: 0 }, |sum, Part { proportion, .. }| Proportion {
            hits: sum.hits.saturating_add(proportion.hits),
            all: sum.all.saturating_add(proportion.all),
        });
        sum.in_clusters(as_one(&parts))
    }
}
