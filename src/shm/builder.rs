//! [`RegionBuilder`]: ordinary memory that grows while input data are read into it.

use std::sync::Arc;

use memmap2::MmapMut;

use crate::error::{Error, Result};
use crate::posix::{self, HostMemory};
use crate::{Allowance, Placement, Region};

/// Tensors start at multiples of this: a cache line, and the alignment that vector units prefer.
pub const ALIGNMENT: usize = 64;

/// First size of the mapping; doubled when full. Pages that are never written cost nothing.
const FIRST: usize = 1 << 16;

/// Ordinary memory that grows at its end and becomes a frozen [`Region`] without a copy.
#[derive(Debug)]
pub struct RegionBuilder {
    mapping: MmapMut,
    len: usize,
    claim: Claim,
}

/// Bytes that a builder has reserved, released if it makes no region.
#[derive(Debug)]
struct Claim {
    /// Bytes reserved so far.
    bytes: usize,
    /// The allowance that they count against, if any.
    from: Option<Arc<Allowance>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(allowance) = &self.from {
            allowance.give_back(self.bytes as u64);
        }
    }
}

impl RegionBuilder {
    /// An empty builder.
    ///
    /// # Errors
    /// If the machine lacks the memory.
    pub fn new() -> Result<Self> {
        let mapping = MmapMut::map_anon(FIRST).map_err(|e| Error::machine(format!("cannot allocate memory: {e}")))?;
        Ok(Self { mapping, len: 0, claim: Claim { bytes: FIRST, from: None } })
    }

    /// An empty builder that takes its memory from an allowance; the region keeps the written part.
    ///
    /// # Errors
    /// If the machine lacks the memory.
    pub fn within(allowance: &Arc<Allowance>) -> Result<Self> {
        Ok(Self { claim: Claim { bytes: 0, from: Some(Arc::clone(allowance)) }, ..Self::new()? })
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
    /// If the machine lacks the memory.
    pub fn align(&mut self) -> Result<usize> {
        let start = self.len.next_multiple_of(ALIGNMENT);
        self.extend(start - self.len)?;
        Ok(start)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the machine lacks the memory.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let end = self.len + bytes.len();
        if end > self.claim.bytes {
            self.reserve(end)?;
        }
        self.mapping[self.len..end].copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Appends `count` zero bytes and returns them to be filled in.
    ///
    /// # Errors
    /// If the machine lacks the memory.
    pub fn extend(&mut self, count: usize) -> Result<&mut [u8]> {
        let end = self
            .len
            .checked_add(count)
            .ok_or_else(|| Error::input(format!("{count} further bytes are more than can be addressed")))?;
        if end > self.claim.bytes {
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

    /// Removes everything written since `start`.
    pub fn truncate(&mut self, start: usize) {
        self.len = self.len.min(start);
    }

    /// The region of everything written.
    pub fn finish(self) -> Region {
        let Self { mapping, len, mut claim } = self;
        // The region's share no longer belongs to the builder.
        claim.bytes = claim.bytes.saturating_sub(len);
        Region::from_host(Placement::Pageable, HostMemory::built(mapping, len))
    }

    #[cold]
    fn reserve(&mut self, end: usize) -> Result<()> {
        if let Some(allowance) = &self.claim.from {
            let more = |until: usize| allowance.take((until - self.claim.bytes) as u64).map(|()| until);
            // Reserves a little ahead, to avoid a reservation per element; exactly if that is too much.
            let ahead = end.saturating_add(end / 16).saturating_add(FIRST);
            self.claim.bytes = more(ahead).or_else(|_| more(end))?;
        }
        let needed = if self.claim.from.is_some() { self.claim.bytes } else { end };
        if needed > self.mapping.len() {
            let doubled = self.mapping.len().saturating_mul(2).min(self.mapping.len().saturating_add(1 << 30));
            posix::grow(&mut self.mapping, needed.max(doubled))?;
        }
        if self.claim.from.is_none() {
            self.claim.bytes = self.mapping.len();
        }
        Ok(())
    }
}
