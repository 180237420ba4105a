//! The objects of a list that is not complete.

use std::io::{self, Read};

use crate::trace::{Entry, Joined};

/// Finds the objects of a list that may begin and end anywhere.
#[derive(Default)]
pub(super) struct Objects {
    /// Bytes of the object that is not complete.
    object: Vec<u8>,
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Bytes so far.
    bytes_read: u64,
    /// The latest objects, all of one trace, and where they begin.
    latest: Vec<Entry>,
    begun: u64,
    /// Whether the object that is not complete holds a tensor, whose data Triton writes as they are: they may hold quotes
    /// and braces.
    is_tensor: bool,
    /// Objects with a tensor that are no JSON.
    damaged: u64,
}

/// What was read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Bytes of all objects of complete traces, with what stands between them.
    pub bytes: u64,
    /// Objects with a tensor that were left out, because they are no JSON.
    pub damaged: u64,
}

/// How Triton begins an object with a tensor, after its trace's id, and what stands at the end of the tensor's data.
const TENSOR: (&[u8], &[u8]) = (b",\"activity\":\"TENSOR_", b"\",\"shape\":\"");
/// The end of an object with a tensor.
const TENSOR_END: &[u8] = b"\"}}";
/// Longest beginning and end of such an object, without the tensor's data.
const TENSOR_EDGE: usize = 256;

/// So much is read at once.
const PIECE: usize = 1 << 20;

impl Objects {
    /// Adds all objects of complete traces to `joined`.
    pub(super) fn read(mut self, file: &mut impl Read, joined: &mut Joined) -> io::Result<Extent> {
        let mut piece = vec![0; PIECE];
        loop {
            let length = file.read(&mut piece)?;
            if length == 0 {
                break;
            }
            for &byte in &piece[..length] {
                self.bytes_read += 1;
                if self.push(byte) {
                    self.complete(joined)?;
                }
            }
        }
        let damaged = self.damaged;
        if !self.object.is_empty() {
            return Ok(Extent { bytes: self.begun, damaged });
        }
        self.latest.drain(..).for_each(|entry| joined.add(entry));
        Ok(Extent { bytes: self.bytes_read, damaged })
    }

    /// Takes a byte; whether an object is complete with it.
    fn push(&mut self, byte: u8) -> bool {
        if self.depth == 0 && byte != b'{' {
            return false;
        }
        self.object.push(byte);
        if self.object.len() < TENSOR_EDGE && self.depth == 1 && self.object.ends_with(TENSOR.0) {
            self.is_tensor = true;
        }
        if self.is_tensor {
            return byte == b'}' && ends_tensor(&self.object);
        }
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
        let entry = serde_json::from_slice::<Entry>(&self.object);
        if std::mem::take(&mut self.is_tensor) {
            (self.depth, self.in_text, self.escaped) = (0, false, false);
            if entry.is_err() {
                self.damaged += 1;
                self.object.clear();
                return Ok(());
            }
        }
        let entry = entry.map_err(broken)?;
        // Without an id, each object is a trace of its own.
        if self.latest.first().is_none_or(|latest| entry.id.is_none() || latest.id != entry.id) {
            self.latest.drain(..).for_each(|entry| joined.add(entry));
            self.begun = self.bytes_read - self.object.len() as u64;
        }
        self.latest.push(entry);
        self.object.clear();
        Ok(())
    }
}

/// Whether an object with a tensor is complete: its last members are the shape and the datatype.
fn ends_tensor(object: &[u8]) -> bool {
    if !object.ends_with(TENSOR_END) {
        return false;
    }
    let end = &object[object.len().saturating_sub(TENSOR_EDGE)..object.len() - TENSOR_END.len()];
    let Some(at) = end.windows(TENSOR.1.len()).rposition(|part| part == TENSOR.1) else { return false };
    let tail = &end[at + TENSOR.1.len()..];
    let Some(quote) = tail.iter().position(|byte| *byte == b'"') else { return false };
    let (shape, datatype) = (&tail[..quote], &tail[quote..]);
    let is_shape = shape.iter().all(|byte| byte.is_ascii_digit() || b",-".contains(byte));
    let word = datatype.strip_prefix(b"\",\"dtype\":\"");
    is_shape && word.is_some_and(|word| word.iter().all(u8::is_ascii_alphanumeric))
}
