//! The body of a reply: how long it may be, what of it is kept, and how it is unpacked.

use std::io::{self, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::backend::InferError;
use crate::engine::malformed;
use crate::wire::http1::{Encoding, Head};

/// Most bytes of a refusal that are kept for its text.
pub(super) const KEPT_OF_REFUSAL: u64 = 64 * 1024;

/// What is said of a reply that is compressed without need.
pub(super) fn not_asked_for() -> &'static str {
    "its body is compressed in a way that was not asked for"
}

/// The body without its compression; `None` where it has none.
///
/// # Errors
/// Where it is damaged, unpacks to more than `most` bytes, or is compressed in an unknown way.
pub(super) fn decompress(encoding: Encoding, body: &[u8], most: u64) -> Result<Option<Vec<u8>>, String> {
    if encoding == Encoding::Identity {
        return Ok(None);
    }
    let mut out = Vec::new();
    let read = with_unpacked(encoding, body, |reader| {
        reader.take(most.saturating_add(1)).read_to_end(&mut out).map(|_| out.len() as u64)
    })?;
    if read > most { Err(format!("its body unpacks to more than {most} bytes")) } else { Ok(Some(out)) }
}

/// What `act` makes of the unpacked bytes of a compressed body.
pub(super) fn with_unpacked(
    encoding: Encoding,
    body: &[u8],
    act: impl FnOnce(&mut dyn Read) -> io::Result<u64>,
) -> Result<u64, String> {
    let done = match encoding {
        Encoding::Gzip => act(&mut MultiGzDecoder::new(body)),
        Encoding::Deflate => act(&mut ZlibDecoder::new(body)),
        Encoding::Identity | Encoding::Unknown => return Err(not_asked_for().to_owned()),
    };
    done.map_err(|error| format!("its compressed body is damaged: {error}"))
}

/// Reads a body's JSON, which is all of it where no length is given, and counts the bytes that follow; no more of either
/// than `most` and one.
pub(super) fn count_unpacked(
    reader: &mut dyn Read,
    json_length: Option<u64>,
    most: u64,
    json: &mut Vec<u8>,
) -> io::Result<u64> {
    json.clear();
    let most = most.saturating_add(1);
    reader.take(json_length.unwrap_or(most).min(most)).read_to_end(json)?;
    let mut rest = reader.take(most);
    io::copy(&mut rest, &mut io::sink())
}

/// How long the reply to a request may be, as it comes and unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Longest {
    /// The model's outputs take no more.
    Outputs(u64),
    /// The user says so (`--max-reply-bytes`), or nobody does.
    Allowed(u64),
}

impl Default for Longest {
    fn default() -> Self {
        Self::Allowed(u64::MAX)
    }
}

impl Longest {
    fn bytes(self) -> u64 {
        match self {
            Self::Outputs(bytes) | Self::Allowed(bytes) => bytes,
        }
    }

    fn check(self, length: u64) -> Result<(), InferError> {
        if length <= self.bytes() {
            return Ok(());
        }
        Err(malformed(match self {
            Self::Outputs(most) => format!("it is longer than {most} bytes, and the model's outputs cannot be"),
            Self::Allowed(most) => format!("it is longer than {most} bytes (--max-reply-bytes)"),
        }))
    }
}

/// The part of a body that is kept while it comes in.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    limit: u64,
    longest: Longest,
}

impl Kept {
    /// Decides, when the head has come, how much is worth keeping: all of it for outputs that are looked at, the JSON
    /// otherwise, and all of what is compressed, which can be checked only when it is unpacked.
    ///
    /// # Errors
    /// Where the head promises more than `longest`.
    pub(super) fn begin(&mut self, head: &Head, watch: bool, longest: Longest) -> Result<(), InferError> {
        self.bytes.clear();
        self.longest = longest;
        self.limit = match head.part_length {
            _ if head.status != 200 => KEPT_OF_REFUSAL,
            _ if watch || head.encoding != Encoding::Identity => u64::MAX,
            Some(length) => length,
            None => u64::MAX,
        };
        longest.check(head.length.unwrap_or(0))
    }

    /// Keeps a further piece, or as much of it as is wanted; with it, `total` bytes have come.
    ///
    /// # Errors
    /// Where that is more than the reply may have.
    #[inline]
    pub(super) fn push(&mut self, piece: &[u8], total: u64) -> Result<(), InferError> {
        self.longest.check(total)?;
        let wanted = self.limit.saturating_sub(self.bytes.len() as u64).min(piece.len() as u64);
        self.bytes.extend_from_slice(&piece[..wanted as usize]);
        Ok(())
    }

    /// How long it may be unpacked.
    pub(super) fn most(&self) -> u64 {
        self.longest.bytes()
    }

    /// Fails where JSON and tensors together, unpacked, are more than the reply may have.
    pub(super) fn check_unpacked(&self, json: u64, tensors: u64) -> Result<(), InferError> {
        self.longest.check(json.saturating_add(tensors))
    }

    /// Everything that was kept.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
