//! A histogram that several threads may add to without waiting.

use std::sync::atomic::{AtomicU64, Ordering};

use super::distribution::{Distribution, MAX_TIME_NS};

/// Counts of nanoseconds in HdrHistogram's layout for 3 significant digits: buckets of 2048 equal steps, the step doubling
/// from bucket to bucket, the lower half of all but the first unused.
pub struct AtomicHistogram {
    counts: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

/// Bits of a bucket's half: values in it differ by at least 1 part in 1024.
const HALF_BITS: u32 = 10;
const HALF: u64 = 1 << HALF_BITS;

impl AtomicHistogram {
    /// An empty histogram for 1 ns to 1 h.
    pub fn new() -> Self {
        let counts = (0..=index_of(MAX_TIME_NS)).map(|_| AtomicU64::new(0)).collect();
        Self { counts, sum_ns: AtomicU64::new(0) }
    }

    /// Adds one value. Longer ones than an hour count as an hour.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.counts[index_of(ns.min(MAX_TIME_NS))].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Moves everything into `target`. Values that are added meanwhile are moved now or next time, never lost.
    pub fn drain_into(&self, target: &mut Distribution) {
        for (index, count) in self.counts.iter().enumerate() {
            if count.load(Ordering::Relaxed) != 0 {
                let count = count.swap(0, Ordering::Relaxed);
                target.histogram.saturating_record_n(lowest_value(index), count);
            }
        }
        target.sum_ns += u128::from(self.sum_ns.swap(0, Ordering::Relaxed));
    }
}

#[inline]
fn index_of(ns: u64) -> usize {
    let exponent = u64::BITS - (ns | (2 * HALF - 1)).leading_zeros() - (HALF_BITS + 1);
    let step = ns >> exponent;
    ((u64::from(exponent) << HALF_BITS) + step) as usize
}

fn lowest_value(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * HALF {
        return index;
    }
    let exponent = (index >> HALF_BITS) - 1;
    (index - (exponent << HALF_BITS)) << exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_within_a_thousandth() {
        for value in [0, 1, 2047, 2048, 2049, 4095, 4096, 123_456, 7_654_321, 999_999_999_999, MAX_TIME_NS] {
            let lowest = lowest_value(index_of(value));
            assert!(lowest <= value && (value - lowest) * 1000 <= value.max(1), "{value} became {lowest}");
            assert_eq!(index_of(lowest), index_of(value));
        }
    }

    #[test]
    fn draining_moves_everything_once() {
        let histogram = AtomicHistogram::new();
        let mut target = Distribution::empty();
        for value in 1..=100 {
            histogram.record(value * 1_000_000);
        }
        histogram.drain_into(&mut target);
        histogram.drain_into(&mut target);
        assert_eq!(target.count(), 100);
        assert_eq!(target.sum_ns, 5_050_000_000);
        assert!((target.percentile_ns(50.0) as f64 / 50_000_000.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn longer_than_an_hour_is_an_hour() {
        let histogram = AtomicHistogram::new();
        histogram.record(u64::MAX / 4);
        let mut target = Distribution::empty();
        histogram.drain_into(&mut target);
        assert_eq!(target.count(), 1);
    }
}
