//! The open streams of a connection.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use bytes::Bytes;

/// The owner's name for a stream or message. Handed back in events, never interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

/// A piece of a body that waits for its window.
#[derive(Debug)]
pub struct Piece {
    /// What to send.
    pub bytes: Bytes,
    /// The message that ends with this piece.
    pub ends: Option<Token>,
}

/// An open stream.
#[derive(Debug)]
pub struct Stream {
    /// The owner's name for it.
    pub token: Token,
    /// Bytes that we may still send to the peer; negative after it shrank its windows.
    pub send_window: i64,
    /// Bytes received for which the window was not reopened yet.
    pub unreported: u32,
    /// Body that waits for windows.
    pub body: VecDeque<Piece>,
    /// Bytes in `body`.
    pub body_len: u64,
    /// Our side ends with `body`.
    pub ends: bool,
    /// Our side has ended.
    pub ended: bool,
}

impl Stream {
    /// A stream that was just opened.
    pub fn new(token: Token, send_window: u32) -> Self {
        let send_window = i64::from(send_window);
        Self { token, send_window, unreported: 0, body: VecDeque::new(), body_len: 0, ends: false, ended: false }
    }
}

/// Open streams by number.
pub type Streams = HashMap<u32, Stream, BuildHasherDefault<StreamHasher>>;

/// Spreads stream numbers, which are consecutive odd numbers; no attacker chooses them to collide.
#[derive(Debug, Default)]
pub struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
