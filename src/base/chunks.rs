//! A table that can grow while other threads read it, without locks: an initial chunk and a row of further ones, each
//! twice as long as the one before. No chunk is ever moved.

use std::sync::OnceLock;

/// Entries of the first chunk that is added.
const FIRST_CHUNK: usize = 64;
/// Number of chunks; together they hold more entries than 32 bits can number.
const CHUNKS: usize = 27;

/// Entries by number, from 0.
#[derive(Debug)]
pub struct Chunks<T> {
    first: Box<[T]>,
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { first: Box::default(), chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

impl<T: Default> Chunks<T> {
    /// A table with `entries` initial entries, which are faster to look up than those added later.
    pub fn new(entries: usize) -> Self {
        Self { first: (0..entries).map(|_| T::default()).collect(), ..Self::default() }
    }

    /// Makes sure that the entries below `entries` exist.
    pub fn grow(&self, entries: usize) {
        let mut start = self.first.len();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if start >= entries {
                return;
            }
            let length = FIRST_CHUNK << number;
            chunk.get_or_init(|| (0..length).map(|_| T::default()).collect());
            start += length;
        }
    }

    /// An entry.
    ///
    /// # Panics
    /// Where the table was not grown to it.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        self.first.get(index).unwrap_or_else(|| self.added(index - self.first.len()))
    }

    #[inline]
    fn added(&self, index: usize) -> &T {
        let number = (index / FIRST_CHUNK + 1).ilog2() as usize;
        let start = FIRST_CHUNK * ((1 << number) - 1);
        &self.chunks[number].get().expect("entries exist before they are used")[index - start]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_entry_has_its_own_place_and_keeps_it() {
        [0, 1, 7, 900].map(Chunks::<AtomicUsize>::new).iter().for_each(keeps_entries);
    }

    fn keeps_entries(table: &Chunks<AtomicUsize>) {
        table.grow(1);
        let first: *const _ = table.get(0);
        table.grow(1000);
        (0..1000).for_each(|index| table.get(index).store(index, Ordering::Relaxed));
        assert!((0..1000).all(|index| table.get(index).load(Ordering::Relaxed) == index));
        assert!(std::ptr::eq(first, table.get(0)));
    }
}
