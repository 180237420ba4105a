//! Decodes the content coding of a body.

use std::io::{self, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::http1::reader::Encoding;

/// The error for a body that is compressed although that was not asked for.
pub const NOT_ASKED_FOR: &str = "its body is compressed in a way that was not asked for";

/// The decompressed body; `None` if it is not compressed.
///
/// # Errors
/// If it is damaged, unpacks to more than `most` bytes, or is compressed in an unknown way.
pub fn decompress(encoding: Encoding, body: &[u8], most: u64) -> Result<Option<Vec<u8>>, String> {
    if encoding == Encoding::Identity {
        return Ok(None);
    }
    let mut out = Vec::new();
    let read = with_unpacked(encoding, body, |reader| {
        reader.take(most.saturating_add(1)).read_to_end(&mut out).map(|_| out.len() as u64)
    })?;
    if read > most { Err(format!("its body decompresses to more than {most} bytes")) } else { Ok(Some(out)) }
}

/// Calls `act` with the decompressed bytes of a body and returns its result.
pub fn with_unpacked(
    encoding: Encoding,
    body: &[u8],
    act: impl FnOnce(&mut dyn Read) -> io::Result<u64>,
) -> Result<u64, String> {
    let done = match encoding {
        Encoding::Gzip => act(&mut MultiGzDecoder::new(body)),
        Encoding::Deflate => act(&mut ZlibDecoder::new(body)),
        Encoding::Identity | Encoding::Unknown => return Err(NOT_ASKED_FOR.to_owned()),
    };
    done.map_err(|error| format!("its compressed body is damaged: {error}"))
}

/// Reads a body's JSON, which is the whole body if no length is given, and counts the bytes that follow; at most `most`
/// and one of either.
pub fn count_unpacked(
    reader: &mut dyn Read,
    json_length: Option<u64>,
    most: u64,
    json: &mut Vec<u8>,
) -> io::Result<u64> {
    json.clear();
    let most = most.saturating_add(1);
    reader.take(json_length.unwrap_or(most).min(most)).read_to_end(json)?;
    let mut tail = reader.take(most);
    io::copy(&mut tail, &mut io::sink())
}
