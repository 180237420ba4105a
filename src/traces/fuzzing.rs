//! The entry point of the fuzz target under `fuzz/`: trace files of servers.

use std::io::{self, Read};

use crate::objects::Objects;
use crate::trace::Joined;
use crate::{Trace, add_up, stages};

/// Parses bytes as a trace file, at once and in pieces, with equal results, and adds up what was found.
///
/// # Panics
/// Where an invariant is broken.
pub fn file(piece: usize, bytes: &[u8]) {
    let whole = found(bytes.len().max(1), bytes);
    assert_eq!(whole, found(piece.max(1), bytes));
    if let Ok((read, traces)) = whole {
        assert!(read <= bytes.len() as u64);
        add_up(&traces).0.iter().for_each(|model| drop(stages(model, 3)));
    }
}

type Found = Result<(u64, Vec<Trace>), io::ErrorKind>;

fn found(piece: usize, bytes: &[u8]) -> Found {
    let mut joined = Joined::default();
    let read = Objects::default().read(&mut Pieces { piece, bytes }, &mut joined).map_err(|error| error.kind())?;
    Ok((read.bytes, joined.traces()))
}

/// A file that returns no more than `piece` bytes per read.
struct Pieces<'a> {
    piece: usize,
    bytes: &'a [u8],
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.piece.min(out.len());
        self.bytes.read(&mut out[..length])
    }
}
