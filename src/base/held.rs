//! Memory that answers are held in while they arrive, and its one limit (`--max-reply-memory`), over all requests under
//! way: however many of them a server answers without an end, the machine that measures stays alive.
//!
//! A buffer counts when it grows, so the next answer of the same size costs nothing. Buffers give their memory back when
//! they are needed no more and half of the limit is in use.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

static USED: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Smallest growth of a buffer.
const LEAST: usize = 4 << 10;

/// Sets the limit, in bytes.
pub fn limit(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Bytes that may still be held.
pub fn available() -> u64 {
    LIMIT.load(Ordering::Relaxed).saturating_sub(USED.load(Ordering::Relaxed))
}

/// There is no memory for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimitReached;

impl From<MemoryLimitReached> for String {
    fn from(full: MemoryLimitReached) -> Self {
        full.to_string()
    }
}

impl fmt::Display for MemoryLimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = LIMIT.load(Ordering::Relaxed);
        write!(f, "with it, the answers that are being received take more than {limit} bytes (--max-reply-memory)")
    }
}

/// A buffer for an answer, or a part of one.
#[derive(Debug, Default)]
pub struct Held {
    bytes: Vec<u8>,
    /// As many bytes as are counted for it.
    counted: u64,
}

impl Held {
    /// Appends a piece.
    ///
    /// # Errors
    /// If its memory would exceed the limit.
    #[inline]
    pub fn extend(&mut self, piece: &[u8]) -> Result<(), MemoryLimitReached> {
        if piece.len() > self.bytes.capacity() - self.bytes.len() {
            self.grow(piece.len())?;
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), MemoryLimitReached> {
        let needed = self.bytes.len().saturating_add(more);
        // Doubled, so that many pieces are not copied many times; where that finds no room, no more than needed.
        let usual = needed.max(self.bytes.capacity().saturating_mul(2)).max(LEAST);
        let wanted = [usual, needed].into_iter().find(|all| self.take(*all)).ok_or(MemoryLimitReached)?;
        self.bytes.reserve_exact(wanted - self.bytes.len());
        Ok(())
    }

    /// Counts `all` bytes for this buffer, if there is room.
    fn take(&mut self, all: usize) -> bool {
        let more = (all as u64).saturating_sub(self.counted);
        if USED.fetch_add(more, Ordering::Relaxed).saturating_add(more) > LIMIT.load(Ordering::Relaxed) {
            USED.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.counted += more;
        true
    }

    /// Forgets the content.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.counted > LEAST as u64 && available() < LIMIT.load(Ordering::Relaxed) / 2 {
            self.release();
        }
    }

    /// Shortens the content by a byte, which is returned.
    pub fn pop(&mut self) -> Option<u8> {
        self.bytes.pop()
    }

    fn release(&mut self) {
        self.bytes = Vec::new();
        USED.fetch_sub(std::mem::take(&mut self.counted), Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl Deref for Held {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test that sets the limit: it is that of the whole process, in which other tests hold answers, too.
    #[test]
    fn what_crosses_the_limit_fails_alone_and_room_comes_back() {
        let before = LIMIT.load(Ordering::Relaxed);
        limit(USED.load(Ordering::Relaxed) + (64 << 20));
        let (mut first, mut second) = (Held::default(), Held::default());
        first.extend(&vec![1; 40 << 20]).unwrap();
        second.extend(&[2; 100]).unwrap();
        assert_eq!(second.extend(&vec![2; 40 << 20]), Err(MemoryLimitReached));
        assert_eq!((first.len(), &second[..]), (40 << 20, &[2; 100][..]), "neither has changed");
        assert!(MemoryLimitReached.to_string().contains("--max-reply-memory"));
        // More than half is in use.
        first.clear();
        second.extend(&vec![2; 40 << 20]).unwrap();
        drop(second);
        first.extend(&vec![1; 50 << 20]).unwrap();
        drop(first);
        limit(before);
    }

    #[test]
    fn a_buffer_that_is_used_again_keeps_its_memory() {
        let mut buffer = Held::default();
        for _ in 0..3 {
            buffer.clear();
            (0..100).for_each(|_| buffer.extend(&[7; 1000]).unwrap());
            assert_eq!((buffer.len(), buffer.counted >= 100_000), (100_000, true));
        }
        assert_eq!((buffer.pop(), buffer.len()), (Some(7), 99_999));
    }
}
