//! The objects of a list that is not complete.

use std::io::{self, Read};

use crate::traces::trace::{Entry, Joined};

/// Finds the objects of a list that may begin and end anywhere.
#[derive(Default)]
pub(super) struct Objects {
    /// Bytes of the object that is not complete.
    object: Vec<u8>,
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Bytes so far.
    seen: u64,
    /// The latest objects, all of one trace, and where they begin.
    latest: Vec<Entry>,
    begun: u64,
}

/// So much is read at once.
const PIECE: usize = 1 << 20;

impl Objects {
    /// Adds all objects of complete traces to `joined`. Returns how many bytes those take, with what stands between them.
    pub(super) fn read(mut self, file: &mut impl Read, joined: &mut Joined) -> io::Result<u64> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = file.read(&mut piece)?;
            if length == 0 {
                break;
            }
            for &byte in &piece[..length] {
                self.seen += 1;
                if self.push(byte) {
                    self.complete(joined)?;
                }
            }
        }
        if !self.object.is_empty() {
            return Ok(self.begun);
        }
        self.latest.drain(..).for_each(|entry| joined.add(entry));
        Ok(self.seen)
    }

    /// Takes a byte; whether an object is complete with it.
    fn push(&mut self, byte: u8) -> bool {
        if self.depth == 0 && byte != b'{' {
            return false;
        }
        self.object.push(byte);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            b'{' if !self.in_text => self.depth += 1,
            b'}' if !self.in_text => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }

    /// An object is complete.
    fn complete(&mut self, joined: &mut Joined) -> io::Result<()> {
        let broken = |error: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        let entry: Entry = serde_json::from_slice(&self.object).map_err(broken)?;
        // Without an id, each object is a trace of its own.
        if self.latest.first().is_none_or(|latest| entry.id.is_none() || latest.id != entry.id) {
            self.latest.drain(..).for_each(|entry| joined.add(entry));
            self.begun = self.seen - self.object.len() as u64;
        }
        self.latest.push(entry);
        self.object.clear();
        Ok(())
    }
}
