//! Compression of bodies and messages, by the names of `Content-Encoding` and `grpc-encoding`: `deflate` is the zlib format
//! in both.

use std::io::{self, Read, Write};

use flate2::Compression as Level;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};

/// Compression of bodies and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Deflate,
}

/// Name of an encoding in header fields; `None` without compression.
pub fn name(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gzip"),
        Compression::Deflate => Some("deflate"),
    }
}

/// The encoding with that name; `None` if it is unknown.
pub fn by_name(name: &[u8]) -> Option<Compression> {
    match name {
        b"identity" => Some(Compression::None),
        b"gzip" => Some(Compression::Gzip),
        b"deflate" => Some(Compression::Deflate),
        _ => None,
    }
}

/// Appends the compressed form of the concatenated `parts`.
pub fn compress<'a>(encoding: Compression, parts: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> io::Result<()> {
    let write = |writer: &mut dyn Write| parts.into_iter().try_for_each(|part| writer.write_all(part));
    match encoding {
        Compression::None => write(out),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(out, Level::default());
            write(&mut encoder)?;
            encoder.finish().map(|_| ())
        }
        Compression::Deflate => {
            let mut encoder = ZlibEncoder::new(out, Level::default());
            write(&mut encoder)?;
            encoder.finish().map(|_| ())
        }
    }
}

/// The decompressed form of `input`, which may not be longer than `limit` bytes.
///
/// # Errors
/// If the input is damaged or longer than allowed.
pub fn decompress(encoding: Compression, input: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let read = match encoding {
        Compression::None => input.take(limit + 1).read_to_end(&mut out),
        Compression::Gzip => MultiGzDecoder::new(input).take(limit + 1).read_to_end(&mut out),
        Compression::Deflate => ZlibDecoder::new(input).take(limit + 1).read_to_end(&mut out),
    }?;
    if read as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_round_trip_and_keep_the_limit() {
        let parts: [&[u8]; 3] = [b"abc", &[7; 5000], b"end"];
        for encoding in [Compression::None, Compression::Gzip, Compression::Deflate] {
            let mut packed = Vec::new();
            compress(encoding, parts.into_iter(), &mut packed).unwrap();
            assert_eq!(decompress(encoding, &packed, 5006).unwrap(), parts.concat());
            assert!(decompress(encoding, &packed, 5005).is_err());
            if encoding != Compression::None {
                assert!(packed.len() < 100);
                assert!(decompress(encoding, &packed[..packed.len() - 9], 10_000).is_err());
                assert!(decompress(encoding, b"garbage, no header", 10_000).is_err());
            }
        }
    }
}
