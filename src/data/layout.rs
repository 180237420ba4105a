//! The layout of an input's batches in packed memory.

use crate::batches::Cycle;
use crate::shm::ALIGNMENT;

/// The layout of a cycle's elements in packed memory: in order, the first ones repeated at the end, so that every batch
/// is a window. An element is stored once, or twice near the beginning, whatever the size of the batches.
///
/// Windows that share no element begin at multiples of [`ALIGNMENT`]; otherwise only the first does, and the others
/// begin where the elements before them end, which is a multiple of the size of their type.
pub(super) struct Ring {
    /// Offset of each element of the cycle.
    offsets: Vec<usize>,
    /// Distance from an element to its repetition at the end.
    period: usize,
}

impl Ring {
    /// Lays out elements of these lengths from `total`, which is advanced past them; `repeats` of them make a window.
    /// `None` if the result is too large to be addressed.
    pub(super) fn new(
        cycle: Cycle,
        repeats: usize,
        lens: impl Iterator<Item = usize>,
        total: &mut usize,
    ) -> Option<Self> {
        let apart = repeats == 1 || cycle.is_apart();
        let mut offsets = Vec::with_capacity(cycle.count);
        let mut end = *total;
        for (position, len) in lens.enumerate() {
            if apart && position.is_multiple_of(repeats) {
                end = end.checked_next_multiple_of(ALIGNMENT)?;
            }
            offsets.push(end);
            end = end.checked_add(len)?;
        }
        let ring = Self { period: end - *total, offsets };
        let window = cycle.window(repeats);
        let remainder = ring.offsets[window % cycle.count];
        *total = ring.period.checked_mul(window / cycle.count)?.checked_add(remainder)?;
        *total = total.checked_next_multiple_of(ALIGNMENT)?;
        Some(ring)
    }

    /// Offset of the element at a position of the cycle; positions past its end are the repeated first elements.
    pub(super) fn offset(&self, position: usize) -> usize {
        let count = self.offsets.len();
        self.offsets[position % count] + position / count * self.period
    }
}
