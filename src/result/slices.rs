//! The slices of a timeline in a file: JSON, compressed (zlib), in base64, because they would be most of a level's bytes.
//! A plain array, as earlier files have it, is read as well.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use crate::timeline::Slice;

/// Limit on what a file's slices may unpack to; 64 of them with every class in use are below a tenth of it.
const MAX_BYTES: u64 = 1 << 20;

/// Either form.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Packed(String),
    Plain(Vec<Slice>),
}

pub(super) fn serialize<S: Serializer>(slices: &[Slice], serializer: S) -> Result<S::Ok, S::Error> {
    let packed = serde_json::to_vec(slices).map_err(std::io::Error::from).and_then(|json| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&json)?;
        encoder.finish()
    });
    serializer.serialize_str(&STANDARD.encode(packed.map_err(S::Error::custom)?))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slice>, D::Error> {
    let packed = match Stored::deserialize(deserializer)? {
        Stored::Plain(slices) => return Ok(slices),
        Stored::Packed(packed) => packed,
    };
    let bytes = STANDARD.decode(packed).map_err(|error| D::Error::custom(format!("slices: not base64: {error}")))?;
    let mut json = Vec::new();
    let unpacked = ZlibDecoder::new(bytes.as_slice()).take(MAX_BYTES).read_to_end(&mut json);
    unpacked.map_err(|error| D::Error::custom(format!("slices: not compressed by zlib: {error}")))?;
    serde_json::from_slice(&json).map_err(|error| D::Error::custom(format!("slices: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::timeline::{Slice, Timeline};

    fn timeline() -> Timeline {
        let slice = |first| Slice { duration_s: 0.05, first, counts: vec![1, 0, 0, 7], ..Slice::default() };
        Timeline { slices: (100..164).map(slice).collect(), ..Timeline::default() }
    }

    #[test]
    fn what_was_written_is_read_again() {
        for timeline in [timeline(), Timeline::default()] {
            let text = serde_json::to_string(&timeline).unwrap();
            assert_eq!(serde_json::from_str::<Timeline>(&text).unwrap(), timeline);
        }
        assert!(serde_json::to_string(&timeline()).unwrap().len() < 800);
    }

    #[test]
    fn plain_slices_of_earlier_files_are_read() {
        let text = r#"{"began_ns":0,"slices":[{"duration_s":0.05,"max_ns":0,"first":100,"counts":[1,0,0,7]}]}"#;
        assert_eq!(serde_json::from_str::<Timeline>(text).unwrap().slices, timeline().slices[..1]);
    }

    #[test]
    fn damaged_slices_are_refused() {
        for slices in ["%", "AAAA", "eJyLjgUAARUAuQ=="] {
            let text = format!(r#"{{"began_ns":0,"slices":"{slices}"}}"#);
            let read = serde_json::from_str::<Timeline>(&text);
            assert_eq!(read.is_ok(), slices.starts_with("eJ"), "{read:?}");
        }
    }
}
