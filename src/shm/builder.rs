//! [`RegionBuilder`]: ordinary memory that grows while input data are read into it.

use memmap2::MmapMut;

use crate::error::{Error, Result};
use crate::shm::posix::{self, HostMemory};
use crate::shm::{Placement, Region};

/// Tensors start at multiples of this: a cache line, and what vector units like.
pub const ALIGNMENT: usize = 64;

/// First size of the mapping; doubled when full. Pages that are never written cost nothing.
const FIRST: usize = 1 << 16;

/// Ordinary memory that grows at its end and becomes a frozen [`Region`] without a copy.
#[derive(Debug)]
pub struct RegionBuilder {
    mapping: MmapMut,
    len: usize,
}

impl RegionBuilder {
    /// An empty builder.
    ///
    /// # Errors
    /// Where the machine lacks the memory.
    pub fn new() -> Result<Self> {
        let mapping = MmapMut::map_anon(FIRST).map_err(|e| Error::machine(format!("cannot allocate memory: {e}")))?;
        Ok(Self { mapping, len: 0 })
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends zeros up to the next multiple of [`ALIGNMENT`], where the next tensor starts, and returns that offset.
    ///
    /// # Errors
    /// Where the machine lacks the memory.
    pub fn align(&mut self) -> Result<usize> {
        let start = self.len.next_multiple_of(ALIGNMENT);
        self.extend(start - self.len)?;
        Ok(start)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Where the machine lacks the memory.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.len + bytes.len();
        if end > self.mapping.len() {
            self.reserve(end)?;
        }
        self.mapping[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Appends `count` zero bytes and lends them to be filled in.
    ///
    /// # Errors
    /// Where the machine lacks the memory.
    pub fn extend(&mut self, count: usize) -> Result<&mut [u8]> {
        let end = self
            .len
            .checked_add(count)
            .ok_or_else(|| Error::input(format!("{count} further bytes are more than can be addressed")))?;
        if end > self.mapping.len() {
            self.reserve(end)?;
        }
        let fresh = &mut self.mapping[self.len..end];
        fresh.fill(0);
        self.len = end;
        Ok(fresh)
    }

    /// Bytes written since `start`.
    pub fn since(&self, start: usize) -> &[u8] {
        &self.mapping[start..self.len]
    }

    /// Takes back everything written since `start`.
    pub fn truncate(&mut self, start: usize) {
        self.len = self.len.min(start);
    }

    /// The region of what was written.
    pub fn finish(self) -> Region {
        Region::from_host(Placement::Pageable, HostMemory::built(self.mapping, self.len))
    }

    #[cold]
    fn reserve(&mut self, end: usize) -> Result<()> {
        let doubled = self.mapping.len().saturating_mul(2).min(self.mapping.len().saturating_add(1 << 30));
        posix::grow(&mut self.mapping, end.max(doubled))
    }
}
