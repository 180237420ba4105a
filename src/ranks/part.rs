//! [`Part`]: the part of one load that a process has.

/// The part of one of several processes: of numbered things, every `size`-th starting at `rank`. What follows from a
/// thing's number (when it is due, what it carries) is then the same however many processes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The process' number, from 0.
    pub rank: usize,
    /// Number of processes; not 0.
    pub size: usize,
}

impl Part {
    /// All of it: there is one process.
    pub const WHOLE: Self = Self { rank: 0, size: 1 };

    /// How many of `count` things are in this part.
    pub fn share(self, count: usize) -> usize {
        count.saturating_sub(self.rank).div_ceil(self.size)
    }

    /// The same for larger numbers.
    pub fn of_many(self, count: u64) -> u64 {
        count.saturating_sub(self.rank as u64).div_ceil(self.size as u64)
    }

    /// The number, among all, of this part's thing number `index`.
    pub fn number(self, index: usize) -> usize {
        index * self.size + self.rank
    }

    /// Whether there is more than this part.
    pub fn is_shared(self) -> bool {
        self.size > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole() {
        for size in [1, 2, 3, 7] {
            for count in [0, 1, 2, 6, 7, 100] {
                let parts = (0..size).map(|rank| Part { rank, size });
                let numbers =
                    parts.clone().flat_map(|part| (0..part.share(count)).map(move |index| part.number(index)));
                let mut numbers: Vec<usize> = numbers.collect();
                numbers.sort_unstable();
                assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{count} things, {size} processes");
                assert_eq!(parts.map(|part| part.of_many(count as u64)).sum::<u64>(), count as u64);
            }
        }
    }
}
