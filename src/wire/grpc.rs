//! Length-prefixed messages of a gRPC body, assembled from pieces of any size.

use crate::held::Held;

/// Bytes before each message: whether it is compressed, and its length.
pub const PREFIX_LEN: usize = 5;
/// Largest message; gRPC's libraries hold lengths as signed 32-bit numbers.
pub const MAX_MESSAGE: usize = i32::MAX as usize;

/// The prefix of a message of `length` bytes.
#[inline]
pub fn prefix(compressed: bool, length: usize) -> [u8; PREFIX_LEN] {
    let length = (length as u32).to_be_bytes();
    [u8::from(compressed), length[0], length[1], length[2], length[3]]
}

/// How to treat messages.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Whether their bytes are wanted, in however many pieces they arrive.
    pub keep: bool,
    /// Longest message, before decompression.
    pub limit: u64,
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<'a> {
    /// Whether its bytes are compressed.
    pub compressed: bool,
    /// Its bytes; `None` if they were not wanted, not compressed, and arrived in several pieces.
    pub bytes: Option<&'a [u8]>,
}

/// Assembles messages.
#[derive(Debug, Default)]
pub struct MessageReader {
    prefix: [u8; PREFIX_LEN],
    prefix_len: usize,
    kept: Held,
    missing: usize,
    /// `kept` was handed out and must be cleared.
    handed_out: bool,
    /// Bytes of the message have arrived and were not kept.
    passed_over: bool,
}

impl MessageReader {
    /// Whether a message has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.prefix_len > 0
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.prefix_len = 0;
        self.kept.clear();
        self.handed_out = false;
        self.passed_over = false;
    }

    /// Consumes bytes from the front of `input` until a message is complete; `None` if more bytes are needed. Bytes of
    /// messages are kept if they are wanted or compressed; other messages are shown only if they arrive in one piece.
    ///
    /// # Errors
    /// If a prefix is malformed or announces more bytes than allowed, or all answers take too much memory; says which.
    #[inline]
    pub fn next<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        wish: Wish,
    ) -> Result<Option<Arrived<'a>>, String> {
        if self.handed_out {
            self.kept.clear();
            self.handed_out = false;
        }
        if self.prefix_len < PREFIX_LEN && !self.take_prefix(input, wish.limit)? {
            return Ok(None);
        }
        let compressed = self.prefix[0] == 1;
        let keep = wish.keep || compressed;
        let (now, tail) = input.split_at(self.missing.min(input.len()));
        *input = tail;
        self.missing -= now.len();
        let whole = self.missing == 0 && self.kept.is_empty() && !self.passed_over;
        if keep && !whole {
            self.kept.extend(now).map_err(|full| full.to_string())?;
        }
        if self.missing > 0 {
            self.passed_over = !keep && (self.passed_over || !now.is_empty());
            return Ok(None);
        }
        self.prefix_len = 0;
        self.passed_over = false;
        self.handed_out = true;
        let bytes = if whole { now } else { &self.kept[..] };
        Ok(Some(Arrived { compressed, bytes: (keep || whole).then_some(bytes) }))
    }

    fn take_prefix(&mut self, input: &mut &[u8], limit: u64) -> Result<bool, String> {
        let (now, tail) = input.split_at(input.len().min(PREFIX_LEN - self.prefix_len));
        *input = tail;
        self.prefix[self.prefix_len..self.prefix_len + now.len()].copy_from_slice(now);
        self.prefix_len += now.len();
        if self.prefix_len < PREFIX_LEN {
            return Ok(false);
        }
        let [flag, length @ ..] = self.prefix;
        let length = u32::from_be_bytes(length) as usize;
        if flag > 1 {
            return Err(format!("a message begins with {flag} where only 0 and 1 are known"));
        }
        if length > MAX_MESSAGE || length as u64 > limit {
            let limit = limit.min(MAX_MESSAGE as u64);
            return Err(format!("an answer of {length} bytes is longer than the {limit} that it may have"));
        }
        self.missing = length;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (bool, Option<Vec<u8>>);

    fn read(chunks: &[&[u8]], keep: bool) -> Result<Vec<Read>, String> {
        let mut reader = MessageReader::default();
        let mut messages = Vec::new();
        for chunk in chunks {
            let mut remaining = *chunk;
            while let Some(arrived) = reader.next(&mut remaining, Wish { keep, limit: 1000 })? {
                messages.push((arrived.compressed, arrived.bytes.map(<[u8]>::to_vec)));
            }
            assert!(remaining.is_empty());
        }
        Ok(messages)
    }

    #[test]
    fn messages_survive_any_cut() {
        let body = [&prefix(false, 3)[..], b"abc", &prefix(false, 0), &prefix(true, 2), b"zz"].concat();
        let expected = [(false, Some(b"abc".to_vec())), (false, Some(vec![])), (true, Some(b"zz".to_vec()))];
        for step in 1..=body.len() {
            let chunks: Vec<&[u8]> = body.chunks(step).collect();
            assert_eq!(read(&chunks, true).unwrap(), expected, "step {step}");
            let unkept = read(&chunks, false).unwrap();
            assert_eq!(unkept.len(), 3);
            for (actual, wanted) in unkept.iter().zip(&expected) {
                // What is not kept is shown where it came in one piece, and never in part.
                let shown = actual.1.is_some() || (!actual.0 && step < body.len());
                assert!(
                    actual.0 == wanted.0 && shown && (actual.1.is_none() || actual == wanted),
                    "step {step}: {actual:?}"
                );
            }
        }
    }

    #[test]
    fn malformed_prefixes_are_errors() {
        assert!(read(&[&[2, 0, 0, 0, 0]], true).is_err());
        assert!(read(&[&[0, 0x80, 0, 0, 0]], true).is_err());
        assert!(read(&[&[0, 0, 0, 3, 0xe8]], true).is_ok());
        assert!(read(&[&[0, 0, 0, 3, 0xe9]], true).unwrap_err().contains("1001 bytes is longer than the 1000"));
    }
}
