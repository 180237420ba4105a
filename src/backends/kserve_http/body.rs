//! The body of a reply: its size limit, and which part of it is kept.

use crate::backend::InferError;
use crate::engine::http1::{KEPT_OF_REFUSAL, keep, too_long};
use crate::engine::malformed;
use crate::held::Held;
use crate::wire::http1::{Encoding, Head};

/// The size limit of the reply to a request, compressed and decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Longest {
    /// Many times what the model's outputs take.
    Outputs(u64),
    /// The user's limit (`--max-reply-bytes`), or the default.
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
        Err(match self {
            Self::Outputs(most) => {
                malformed(format!("it is longer than {most} bytes, many times what the model's outputs take"))
            }
            Self::Allowed(most) => too_long(most),
        })
    }
}

/// The part of a body that is kept while it arrives.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Held,
    limit: u64,
    longest: Longest,
}

impl Kept {
    /// Decides, once the head has arrived, how much to keep: all of it for outputs that are read, otherwise the JSON;
    /// and all of a compressed body, which can be checked only after decompressing it.
    ///
    /// # Errors
    /// If the head announces more than `longest`.
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

    /// Keeps a further piece, or as much of it as is wanted; with it, `total` bytes have arrived.
    ///
    /// # Errors
    /// If that is more than the reply may have, or all replies together.
    #[inline]
    pub(super) fn push(&mut self, piece: &[u8], total: u64) -> Result<(), InferError> {
        self.longest.check(total)?;
        keep(&mut self.bytes, piece, self.limit)
    }

    /// Its size limit after decompression.
    pub(super) fn most(&self) -> u64 {
        self.longest.bytes()
    }

    /// Fails if JSON and tensors together, decompressed, are more than the reply may have.
    pub(super) fn check_unpacked(&self, json: u64, tensors: u64) -> Result<(), InferError> {
        self.longest.check(json.saturating_add(tensors))
    }

    /// Everything that was kept.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
