//! The body of an answer: how long it may be, and what is kept of it.

use std::borrow::Cow;

use crate::backend::InferError;
use crate::held::{self, Held, MemoryLimitReached};
use crate::http1::refusal::KEPT_OF_REFUSAL;
use crate::wire::http1::{Encoding, Head, decompress};
use crate::{Exchanges, malformed};

/// Fails if an answer takes more than `most` bytes, compressed or decompressed.
///
/// # Errors
/// [`too_long`].
#[inline]
pub fn check_length(bytes: u64, most: u64) -> Result<(), InferError> {
    if bytes <= most { Ok(()) } else { Err(too_long(most)) }
}

/// The error of an answer that is longer than `most` bytes, the user's limit or the default.
pub fn too_long(most: u64) -> InferError {
    malformed(format!("it is longer than {most} bytes (--max-reply-bytes)"))
}

/// Appends a piece of a body to what is kept of it, up to `most` bytes in all.
///
/// # Errors
/// If all answers together take too much memory.
#[inline]
pub fn keep(kept: &mut Held, piece: &[u8], most: u64) -> Result<(), InferError> {
    let available = most.saturating_sub(kept.len() as u64).min(piece.len() as u64);
    kept.extend(&piece[..available as usize]).map_err(malformed)
}

/// What was kept of a body, decompressed to at most `most` bytes, which count as arrived once they are.
///
/// # Errors
/// If it is damaged, unpacks to more, or is compressed in an unknown way.
pub fn unpacked<'a>(
    head: &Head,
    kept: &'a [u8],
    most: u64,
    exchanges: &mut Exchanges,
) -> Result<Cow<'a, [u8]>, InferError> {
    let unpacked = decompressed(head, kept, most);
    if head.encoding != Encoding::Identity {
        exchanges.unpacked();
    }
    unpacked
}

/// The same of a body whose time is nobody's.
///
/// # Errors
/// As above.
pub fn decompressed<'a>(head: &Head, kept: &'a [u8], most: u64) -> Result<Cow<'a, [u8]>, InferError> {
    let available = held::available();
    let unpacked = decompress(head.encoding, kept, most.min(available));
    let unpacked =
        unpacked.map_err(|why| if available < most { malformed(MemoryLimitReached) } else { malformed(why) })?;
    Ok(unpacked.map_or(Cow::Borrowed(kept), Cow::Owned))
}

/// What was kept of a refusal, decompressed if that is possible.
pub fn unpacked_refusal<'a>(head: &Head, kept: &'a [u8]) -> Cow<'a, [u8]> {
    decompressed(head, kept, KEPT_OF_REFUSAL).unwrap_or(Cow::Borrowed(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Compression;
    use crate::wire::coding;

    #[test]
    fn as_much_is_kept_as_is_wanted() {
        let mut kept = Held::default();
        for piece in [&b"abc"[..], b"", b"defg", b"h"] {
            keep(&mut kept, piece, 5).unwrap();
        }
        assert_eq!(&kept[..], b"abcde");
        assert!(check_length(5, 5).is_ok());
        assert!(check_length(6, 5).unwrap_err().message.contains("longer than 5 bytes (--max-reply-bytes)"));
    }

    #[test]
    fn a_refusal_that_cannot_be_decompressed_is_shown_as_it_came() {
        let head = Head { encoding: Encoding::Gzip, ..Head::default() };
        let mut packed = Vec::new();
        coding::compress(Compression::Gzip, [&b"no such model"[..]].into_iter(), &mut packed).unwrap();
        assert_eq!(*unpacked_refusal(&head, &packed), b"no such model"[..]);
        assert_eq!(*unpacked_refusal(&head, b"plain"), b"plain"[..]);
        assert_eq!(*decompressed(&head, &packed, 13).unwrap(), b"no such model"[..]);
        assert!(decompressed(&head, &packed, 12).is_err() && decompressed(&head, b"plain", 13).is_err());
        assert_eq!(*decompressed(&Head::default(), b"plain", 1).unwrap(), b"plain"[..]);
    }
}
