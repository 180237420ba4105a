//! Bounds on the offsets between the ranks' clocks.
//!
//! In every round all ranks tell all others when they began it, and in the next round when it was over. No rank
//! finishes a round before every rank has begun it. So for two clocks `own` and `other`, and a round that `own` began
//! at `b` and ended at `e`, and `other` at `b'` and `e'`, the offset `own - other` is at least `b - e'` and at most `e
//! - b'`. Rounds narrow both bounds; nothing is assumed about how long messages take either way.

use serde::{Deserialize, Serialize};

/// Rounds of a comparison; the narrowest bounds of all count.
pub const ROUNDS: usize = 32;

/// When a rank began a round and ended the one before, on its own clock in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RoundTimes {
    /// The beginning of this round.
    pub begun: u64,
    /// The end of the last one; 0 in the first.
    pub over: u64,
}

/// How far the clock of rank 0 is ahead of another, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// The middle between its bounds.
    pub ns: i64,
    /// Its maximum error either way.
    pub error_ns: u64,
}

/// The bounds of each rank's offset so far.
#[derive(Debug)]
pub struct Comparison {
    bounds: Vec<(i64, i64)>,
    last: Vec<RoundTimes>,
}

impl Comparison {
    /// A comparison of `size` ranks.
    pub fn new(size: usize) -> Self {
        Self { bounds: vec![(i64::MIN, i64::MAX); size], last: Vec::new() }
    }

    /// Adds the values of the next round.
    pub fn round(&mut self, times: Vec<RoundTimes>) {
        let signed = |stamp: u64| i64::try_from(stamp).unwrap_or(i64::MAX);
        if let (Some(zero), Some(zero_now)) = (self.last.first(), times.first()) {
            for ((bounds, other), now) in self.bounds.iter_mut().zip(&self.last).zip(&times) {
                bounds.0 = bounds.0.max(signed(zero.begun) - signed(now.over));
                bounds.1 = bounds.1.min(signed(zero_now.over) - signed(other.begun));
            }
        }
        self.last = times;
    }

    /// The resulting offsets by rank; that of rank 0 is 0.
    pub fn offsets(&self) -> Vec<Offset> {
        let middle = |&(low, high): &(i64, i64)| Offset {
            ns: i64::midpoint(low, high),
            error_ns: low.abs_diff(high).div_ceil(2),
        };
        let zero = std::iter::once(Offset::default());
        zero.chain(self.bounds.iter().skip(1).map(middle)).collect()
    }
}

impl Offset {
    /// A moment of rank 0's clock on this rank's.
    pub fn to_own(self, stamp: u64) -> u64 {
        stamp.saturating_add_signed(-self.ns)
    }

    /// A moment of this rank's clock on rank 0's.
    pub fn to_zero(self, stamp: u64) -> u64 {
        stamp.saturating_add_signed(self.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    /// Rounds between a clock and one that is `ahead`, each way of a message taking a random time up to `most`.
    fn compared(ahead: i64, most: u64) -> Offset {
        let mut comparison = Comparison::new(2);
        let mut now = 1_000_000_000_u64;
        let mut over = [0_u64; 2];
        for round in 0..ROUNDS as u64 {
            let draw = |purpose: u64| seed::hash(purpose, round) % most;
            let begun = [now + draw(1), now + draw(2)];
            comparison.round(
                (0..2)
                    .map(|rank| RoundTimes {
                        begun: begun[rank].saturating_add_signed(if rank == 1 { ahead } else { 0 }),
                        over: over[rank].saturating_add_signed(if rank == 1 { ahead } else { 0 }),
                    })
                    .collect(),
            );
            let latest = begun[0].max(begun[1]);
            over = [latest + draw(3), latest + draw(4)];
            now = over[0].max(over[1]);
        }
        comparison.offsets()[1]
    }

    #[test]
    fn an_offset_is_found_within_its_error() {
        for ahead in [0, 7_000, -900_000_000, 3_600_000_000_000] {
            let found = compared(ahead, 50_000);
            assert!(found.ns.abs_diff(-ahead) <= found.error_ns, "{ahead}: {found:?}");
            assert!(found.error_ns < 30_000, "{found:?}");
            assert_eq!(found.to_zero(found.to_own(4_000_000_000_000)), 4_000_000_000_000);
        }
    }
}
