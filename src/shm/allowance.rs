//! [`Allowance`]: a limit on the memory of all input data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::{Placement, free_bytes};

/// The memory budget shared by everything that is read or generated as input data: what would exceed it is refused
/// before it is read.
#[derive(Debug)]
pub struct Allowance {
    limit: u64,
    /// Whether the user has set the limit.
    asked: bool,
    taken: AtomicU64,
}

impl Allowance {
    /// `asked` bytes; by default three quarters of the free memory, because a server in this process needs some, too.
    pub fn new(asked: Option<u64>) -> Arc<Self> {
        let usual = || free_bytes(Placement::Pageable).map_or(u64::MAX, |free| free - free / 4);
        Arc::new(Self { limit: asked.unwrap_or_else(usual), asked: asked.is_some(), taken: AtomicU64::new(0) })
    }

    /// Without a limit.
    pub fn unbounded() -> Arc<Self> {
        Self::new(Some(u64::MAX))
    }

    /// Bytes in use.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Fails if `bytes` more would exceed the limit; reserves nothing.
    ///
    /// # Errors
    /// Says how many there would be, and how many are allowed.
    pub fn check(&self, bytes: u64) -> Result<()> {
        self.fits(self.taken().saturating_add(bytes))
    }

    /// Reserves bytes.
    ///
    /// # Errors
    /// As [`Allowance::check`].
    pub fn take(&self, bytes: u64) -> Result<()> {
        let all = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.fits(all).inspect_err(|_| self.give_back(bytes))
    }

    /// Releases reserved bytes.
    pub fn give_back(&self, bytes: u64) {
        let less = |taken: u64| Some(taken.saturating_sub(bytes));
        let _ = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn fits(&self, all: u64) -> Result<()> {
        if all <= self.limit {
            return Ok(());
        }
        let limit = self.limit;
        let whose = if self.asked { "" } else { ", three quarters of the memory that is free" };
        Err(Error::input(format!(
            "input data would take at least {all} bytes of memory, but --max-input-memory allows {limit}{whose}; use less data, \
             smaller shapes or batches, or allow more"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_its_size_and_leaves_room_for_less() {
        let allowance = Allowance::new(Some(100));
        allowance.take(60).unwrap();
        let refused = allowance.take(50).unwrap_err().to_string();
        assert!(
            refused.contains("at least 110 bytes") && refused.contains("--max-input-memory allows 100;"),
            "{refused}"
        );
        assert!(allowance.check(41).is_err());
        allowance.check(40).and_then(|()| allowance.take(40)).unwrap();
        allowance.give_back(100);
        assert_eq!(allowance.taken(), 0);
    }

    #[test]
    fn without_a_word_it_is_less_than_what_is_free() {
        let usual = Allowance::new(None);
        assert!(usual.limit < u64::MAX);
        let refused = usual.check(1 << 60).unwrap_err().to_string();
        assert!(refused.contains("three quarters of the memory that is free"), "{refused}");
    }
}
