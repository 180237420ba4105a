//! Outgoing bytes in order: small ones copied together, tensors by reference.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::COPY_LIMIT;

/// Outgoing bytes.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Copied bytes; those before `start` have left.
    copied: Vec<u8>,
    start: usize,
    /// Each entry: a number of copied bytes, then this piece. What is copied after the last piece follows it.
    pieces: VecDeque<(usize, Bytes)>,
    /// Copied bytes that belong before pieces.
    claimed: usize,
    /// Bytes that have left, since the beginning.
    departed: u64,
    /// Bytes of `pieces`.
    shared: u64,
}

impl Outbox {
    /// Where to append bytes.
    #[inline]
    pub fn copied(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Appends a piece, by reference if it is large enough.
    pub fn push(&mut self, piece: Bytes) {
        if piece.len() < COPY_LIMIT {
            self.copied.extend_from_slice(&piece);
            return;
        }
        let before = self.copied_len() - self.claimed;
        self.claimed += before;
        self.shared += piece.len() as u64;
        self.pieces.push_back((before, piece));
    }

    /// Whether everything has left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.start == self.copied.len()
    }

    /// Copied bytes that are waiting.
    #[inline]
    pub fn copied_len(&self) -> usize {
        self.copied.len() - self.start
    }

    /// Bytes that have left, since the beginning.
    pub fn departed(&self) -> u64 {
        self.departed
    }

    /// Bytes that have been appended, since the beginning.
    #[inline]
    pub fn appended(&self) -> u64 {
        self.departed + self.shared + self.copied_len() as u64
    }

    /// Fills `slices` from the front of the waiting bytes; returns how many were filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let mut at = self.start;
        let mut add = |bytes: &'a [u8]| {
            if !bytes.is_empty() && filled < slices.len() {
                slices[filled] = IoSlice::new(bytes);
                filled += 1;
            }
        };
        for (before, piece) in &self.pieces {
            add(&self.copied[at..at + before]);
            add(piece);
            at += before;
        }
        add(&self.copied[at..]);
        filled
    }

    /// Drops `count` bytes from the front: they have left.
    pub fn advance(&mut self, mut count: usize) {
        self.departed += count as u64;
        while let Some((before, piece)) = self.pieces.front_mut() {
            let copied = count.min(*before);
            *before -= copied;
            self.start += copied;
            self.claimed -= copied;
            count -= copied;
            let taken = count.min(piece.len());
            piece.advance(taken);
            self.shared -= taken as u64;
            count -= taken;
            if *before > 0 || !piece.is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
        self.start += count;
        if self.start == self.copied.len() {
            self.copied.clear();
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(outbox: &Outbox) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 16];
        let filled = outbox.slices(&mut slices);
        slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn order_is_kept_and_any_cut_is_survived() {
        let large = Bytes::from(vec![7_u8; COPY_LIMIT]);
        for step in [1, 2, 3, 1000, COPY_LIMIT, COPY_LIMIT + 5, 100_000] {
            let mut outbox = Outbox::default();
            outbox.copied().extend_from_slice(b"abc");
            outbox.push(large.clone());
            outbox.push(Bytes::from_static(b"small"));
            outbox.push(large.clone());
            outbox.copied().extend_from_slice(b"end");
            let mut expected = contents(&outbox);
            assert_eq!(expected.len(), 3 + 2 * COPY_LIMIT + 5 + 3);
            assert_eq!(outbox.appended(), expected.len() as u64);
            while !outbox.is_empty() {
                let count = step.min(expected.len());
                outbox.advance(count);
                expected.drain(..count);
                assert_eq!(contents(&outbox), expected);
                assert_eq!(outbox.appended() - outbox.departed(), expected.len() as u64);
            }
            assert!(expected.is_empty());
        }
    }
}
