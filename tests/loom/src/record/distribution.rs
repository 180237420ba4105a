//! Times of 0 or 1 ns.

pub const DIGITS: u8 = 3;
pub const MAX_TIME_NS: u64 = 1;

#[derive(Clone, Debug)]
pub struct Distribution {
    pub histogram: Counts,
    pub sum_ns: u128,
}

#[derive(Clone, Debug, Default)]
pub struct Counts([u64; 2]);

impl Counts {
    pub fn saturating_record_n(&mut self, value: u64, count: u64) {
        self.0[value as usize] += count;
    }
}

impl Distribution {
    pub fn empty() -> Self {
        Self { histogram: Counts::default(), sum_ns: 0 }
    }

    pub fn count(&self) -> u64 {
        self.histogram.0.iter().sum()
    }

    pub fn merge(&mut self, other: &Self) {
        (0..2).for_each(|value| self.histogram.0[value] += other.histogram.0[value]);
        self.sum_ns += other.sum_ns;
    }
}
