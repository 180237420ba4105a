//! [`Source`]: the memory that batches are packed from.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::shm::{ALIGNMENT, Region};
use crate::steps::Value;

/// Bytes copied before the memory that they came from is released.
const PIECE: usize = 16 << 20;

/// Regions of values that are copied, most of them front to back. Their memory is released piece by piece after the
/// last copy, so that the values and their copies are never in memory completely at the same time.
pub(super) struct Source {
    regions: Vec<Arc<Region>>,
    /// Per region, the part that is no longer needed but not yet released; `None` if values share bytes or are out of
    /// order.
    spent: Vec<Option<Range<usize>>>,
}

impl Source {
    /// The `regions` of these `values`.
    pub(super) fn new<'a>(regions: Vec<Arc<Region>>, values: impl Iterator<Item = &'a Value>) -> Self {
        let mut spent = vec![Some(0..0); regions.len()];
        for value in values {
            if let Some(range) = &mut spent[value.region] {
                match value.offset < range.end {
                    true => spent[value.region] = None,
                    false => range.end = value.offset + value.len,
                }
            }
        }
        spent.iter_mut().flatten().for_each(|range| range.end = 0);
        Self { regions, spent }
    }

    /// Bytes of all regions, and of those whose memory is released as it is copied.
    pub(super) fn lens(&mut self) -> (u64, u64) {
        let len = |region: &Arc<Region>| region.len() as u64;
        let all = self.regions.iter().map(len).sum();
        let spendable =
            self.regions.iter_mut().zip(&self.spent).filter_map(|(region, spent)| {
                spent.as_ref().and(Arc::get_mut(region)).map(|region| region.len() as u64)
            });
        (all, spendable.sum())
    }

    /// Copies a value to a place, if it has one; `is_last` if it is not needed after that.
    ///
    /// # Errors
    /// If a place is outside of its region, there is no memory for it, or a driver fails.
    pub(super) fn copy(&mut self, value: &Value, mut to: Option<(&mut Region, usize)>, is_last: bool) -> Result<()> {
        for start in (0..value.len).step_by(PIECE) {
            let (offset, len) = (value.offset + start, PIECE.min(value.len - start));
            if let Some((target, base)) = &mut to {
                target.write(*base + start, &self.regions[value.region].bytes(offset, len)?)?;
            }
            if is_last {
                self.spend(value.region, offset, len);
            }
        }
        Ok(())
    }

    fn spend(&mut self, region: usize, offset: usize, len: usize) {
        let Some(spent) = &mut self.spent[region] else { return };
        if !(spent.end..spent.end + ALIGNMENT).contains(&offset) {
            spent.start = offset;
        }
        spent.end = offset + len;
        if spent.len() >= PIECE
            && let Some(region) = Arc::get_mut(&mut self.regions[region])
        {
            region.give_back(spent.start, spent.len());
            spent.start = spent.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::Placement;

    fn value(offset: usize, len: usize) -> Value {
        Value { region: 0, offset, len, shape: [len as i64].into() }
    }

    /// Copies the values of a region of 40 MiB one after the other, and returns the region afterwards.
    fn copied(values: &[Value], keeper: Option<&mut Option<Arc<Region>>>) -> Arc<Region> {
        let bytes: Vec<u8> = (0..40 << 20).map(|index| (index % 251) as u8 + 1).collect();
        let region = Arc::new(Region::filled(Placement::Pageable, &bytes).unwrap());
        if let Some(keeper) = keeper {
            *keeper = Some(Arc::clone(&region));
        }
        let mut source = Source::new(vec![region], values.iter());
        let total = values.iter().map(|value| value.len).sum();
        let mut target = Region::unfilled(Placement::Pageable, total).unwrap();
        let mut at = 0;
        for value in values {
            source.copy(value, Some((&mut target, at)), true).unwrap();
            let wanted = &bytes[value.offset..value.offset + value.len];
            assert!(target.bytes(at, value.len).unwrap().as_ref() == wanted, "{value:?}");
            at += value.len;
        }
        source.regions.remove(0)
    }

    fn left(region: &Region) -> usize {
        region.bytes(0, region.len()).unwrap().iter().filter(|&&byte| byte != 0).count()
    }

    #[test]
    fn what_was_copied_is_given_back_piece_by_piece() {
        let region = copied(&[value(0, 40 << 20)], None);
        assert_eq!(left(&region), 8 << 20, "all but the last piece");
        let small: Vec<Value> = (0..640).map(|index| value(index << 16, 1 << 16)).collect();
        assert_eq!(left(&copied(&small, None)), 8 << 20);
    }

    #[test]
    fn what_may_be_needed_again_is_kept() {
        let shared = [value(0, 20 << 20), value(0, 20 << 20), value(20 << 20, 20 << 20)];
        assert_eq!(left(&copied(&shared, None)), 40 << 20, "values that share bytes");
        let mut keeper = None;
        let region = copied(&[value(0, 40 << 20)], Some(&mut keeper));
        assert_eq!(left(&region), 40 << 20, "a region that somebody else has, too");
        let mut source = Source::new(vec![region], [value(0, 40 << 20)].iter());
        drop(keeper);
        source.copy(&value(0, 40 << 20), None, false).unwrap();
        assert_eq!(left(&source.regions[0]), 40 << 20, "a value that comes again");
    }
}
