//! Decodes the chunked transfer coding, byte by byte. Its lines may end without a carriage return, as those of a head may.

use crate::http1::malformed::Malformed;

/// Limit on chunk extensions and trailers, in bytes, beyond what comes with the data.
const MAX_CONTROL_BYTES: u32 = 16 * 1024;
/// Bytes of an extension that any chunk may have, and further ones for each byte of its data: a long stream has many chunks.
const CONTROL_PER_CHUNK: u64 = 16;
const CONTROL_PER_BYTE: u64 = 2;

/// The reader's position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: u8 },
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    TrailerStart,
    Trailer,
    TrailerEnd,
    Complete,
}

/// Decodes the chunked transfer coding.
#[derive(Clone, Debug)]
pub struct Chunks {
    state: State,
    left: u64,
    control: u32,
}

impl Chunks {
    pub fn new() -> Self {
        Self { state: State::Size { digits: 0 }, left: 0, control: 0 }
    }

    /// Whether the last chunk and the trailers have arrived.
    pub fn complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Reads on to the next piece of data. Returns how many bytes were consumed and the piece, which is the last of
    /// those; it is empty if the bytes ran out or the body is complete.
    pub fn feed<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, &'b [u8]), Malformed> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Complete {
            if self.state == State::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = State::DataReturn;
                }
                return Ok((at + length, &bytes[at..at + length]));
            }
            self.state = self.step(bytes[at])?;
            at += 1;
        }
        Ok((at, &[]))
    }

    fn step(&mut self, byte: u8) -> Result<State, Malformed> {
        match (self.state, byte) {
            (State::Size { digits }, byte) => self.size(digits, byte),
            (State::Extension, b'\r') => Ok(State::SizeEnd),
            (State::Extension | State::SizeEnd, b'\n') => Ok(self.size_ends()),
            (State::Extension, _) => self.control(State::Extension),
            (State::DataReturn, b'\r') => Ok(State::DataEnd),
            (State::DataReturn | State::DataEnd, b'\n') => Ok(State::Size { digits: 0 }),
            (State::TrailerStart, b'\r') => Ok(State::TrailerEnd),
            (State::TrailerStart, b'\n') => Ok(State::Complete),
            (State::TrailerStart, _) => self.control(State::Trailer),
            (State::Trailer, b'\n') => Ok(State::TrailerStart),
            (State::Trailer, _) => self.control(State::Trailer),
            (State::TrailerEnd, b'\n') => Ok(State::Complete),
            _ => Err(Malformed::new("a chunk of the reply does not end where its size says")),
        }
    }

    fn size(&mut self, digits: u8, byte: u8) -> Result<State, Malformed> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' if digits > 0 => return Ok(State::SizeEnd),
            b'\n' if digits > 0 => return Ok(self.size_ends()),
            b';' | b' ' | b'\t' if digits > 0 => return Ok(State::Extension),
            _ => return Err(Malformed::new("the size of a chunk of the reply is not a hexadecimal number")),
        };
        if digits == 0 {
            self.left = 0;
        }
        if digits == 16 {
            return Err(Malformed::new("the size of a chunk of the reply does not fit 64 bits"));
        }
        self.left = self.left << 4 | u64::from(digit);
        Ok(State::Size { digits: digits + 1 })
    }

    /// The line with a chunk's size is over.
    fn size_ends(&mut self) -> State {
        if self.left == 0 {
            return State::TrailerStart;
        }
        let granted = self.left.saturating_mul(CONTROL_PER_BYTE).saturating_add(CONTROL_PER_CHUNK);
        self.control = self.control.saturating_sub(u32::try_from(granted).unwrap_or(u32::MAX));
        State::Data
    }

    fn control(&mut self, next: State) -> Result<State, Malformed> {
        self.control += 1;
        if self.control > MAX_CONTROL_BYTES {
            return Err(Malformed::new("the reply's chunk extensions and trailers are too long"));
        }
        Ok(next)
    }
}
