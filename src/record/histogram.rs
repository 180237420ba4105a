//! A histogram that several threads may add to without waiting.

use crate::distribution::{DIGITS, Distribution, MAX_TIME_NS};
use crate::sync::{AtomicU64, Ordering};

/// Steps of half a bucket, as a power of two: enough for [`DIGITS`].
const FINE: u32 = 10u64.pow(DIGITS as u32).ilog2() + 1;

/// Counts of nanoseconds in HdrHistogram's layout: buckets of equal steps, the step doubling from bucket to bucket,
/// with the lower half unused in all but the first. A half has `2^BITS` steps.
#[derive(Debug)]
pub struct AtomicHistogram<const BITS: u32 = FINE> {
    counts: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

/// A histogram of an eighth of the size, with a resolution of 0.8 %.
pub type CoarseHistogram = AtomicHistogram<7>;

impl<const BITS: u32> AtomicHistogram<BITS> {
    const HALF: u64 = 1 << BITS;

    /// An empty histogram for 1 ns to 1 h.
    pub fn new() -> Self {
        let counts = (0..=Self::index_of(MAX_TIME_NS)).map(|_| AtomicU64::new(0)).collect();
        Self { counts, sum_ns: AtomicU64::new(0) }
    }

    /// Adds one value. Longer ones than an hour count as an hour.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.counts[Self::index_of(ns.min(MAX_TIME_NS))].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Moves everything into `target`. Values that are added meanwhile are moved now or next time, never lost.
    pub fn drain_into(&self, target: &mut Distribution) {
        for (index, count) in self.counts.iter().enumerate() {
            if count.load(Ordering::Relaxed) != 0 {
                let count = count.swap(0, Ordering::Relaxed);
                target.histogram.saturating_record_n(Self::lowest_value(index), count);
            }
        }
        target.sum_ns += u128::from(self.sum_ns.swap(0, Ordering::Relaxed));
    }

    /// Adds everything to `target` and leaves it here.
    pub fn copy_into(&self, target: &mut Distribution) {
        for (index, count) in self.counts.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            // A value with a count of 0 would become the minimum or maximum, too.
            if count != 0 {
                target.histogram.saturating_record_n(Self::lowest_value(index), count);
            }
        }
        target.sum_ns += u128::from(self.sum_ns.load(Ordering::Relaxed));
    }

    #[inline]
    fn index_of(ns: u64) -> usize {
        let exponent = u64::BITS - (ns | (2 * Self::HALF - 1)).leading_zeros() - (BITS + 1);
        let step = ns >> exponent;
        ((u64::from(exponent) << BITS) + step) as usize
    }

    fn lowest_value(index: usize) -> u64 {
        let index = index as u64;
        if index < 2 * Self::HALF {
            return index;
        }
        let exponent = (index >> BITS) - 1;
        (index - (exponent << BITS)) << exponent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value is known to one part in so many.
    const PARTS: u64 = 10u64.pow(DIGITS as u32);

    #[test]
    fn values_come_back_within_the_resolution() {
        type Fine = AtomicHistogram;
        for value in [0, 1, 2047, 2048, 2049, 4095, 4096, 123_456, 7_654_321, 999_999_999_999, MAX_TIME_NS] {
            let lowest = Fine::lowest_value(Fine::index_of(value));
            assert!(lowest <= value && (value - lowest) * PARTS <= value.max(1), "{value} became {lowest}");
            assert_eq!(Fine::index_of(lowest), Fine::index_of(value));
            let lowest = CoarseHistogram::lowest_value(CoarseHistogram::index_of(value));
            assert!(lowest <= value && (value - lowest) * 128 <= value.max(1), "{value} became {lowest}");
        }
    }

    #[test]
    fn copying_leaves_what_is_there() {
        let histogram = CoarseHistogram::new();
        (1..=100).for_each(|ms| histogram.record(ms * 1_000_000));
        for _ in 0..2 {
            let mut target = Distribution::empty();
            histogram.copy_into(&mut target);
            assert_eq!((target.count(), target.sum_ns), (100, 5_050_000_000));
            assert!((target.percentile_ns(99.0) as f64 / 99e6 - 1.0).abs() < 10.0 / PARTS as f64);
            assert!(
                target.histogram.min() > 1_000_000 - 10_000_000 / PARTS && target.histogram.max() < 110_000_000,
                "what was recorded"
            );
        }
    }

    #[test]
    fn draining_moves_everything_once() {
        let histogram: AtomicHistogram = AtomicHistogram::new();
        let mut target = Distribution::empty();
        for value in 1..=100 {
            histogram.record(value * 1_000_000);
        }
        histogram.drain_into(&mut target);
        histogram.drain_into(&mut target);
        assert_eq!(target.count(), 100);
        assert_eq!(target.sum_ns, 5_050_000_000);
        assert!((target.percentile_ns(50.0) as f64 / 50_000_000.0 - 1.0).abs() < 1.0 / PARTS as f64);
    }

    #[test]
    fn longer_than_an_hour_is_an_hour() {
        let histogram: AtomicHistogram = AtomicHistogram::new();
        histogram.record(u64::MAX / 4);
        let mut target = Distribution::empty();
        histogram.drain_into(&mut target);
        assert_eq!(target.count(), 1);
    }
}
