//! The messages of ranks, as bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A rank's message.
#[derive(Serialize, Deserialize)]
pub(super) enum Message<T> {
    /// The value of the current step.
    This(T),
    /// It cannot continue.
    Failed(String),
}

/// Longer messages are worth compressing.
const SHORT: usize = 400;
/// The first byte of a compressed message; JSON never begins with it.
const PACKED: u8 = 1;

/// As JSON, compressed if it is long.
pub(super) fn encode<T: Serialize>(message: &Message<T>) -> Result<Vec<u8>> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::machine(format!(
            "cannot encode a message for other ranks: \
        {error}"
        ))
    };
    let text = serde_json::to_vec(message).map_err(|error| failed(&error))?;
    if text.len() <= SHORT {
        return Ok(text);
    }
    let mut packer = DeflateEncoder::new(vec![PACKED], Compression::fast());
    packer.write_all(&text).and_then(|()| packer.finish()).map_err(|error| failed(&error))
}

/// The decompressed text of a message.
fn unpacked(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Some(packed) = bytes.strip_prefix(&[PACKED]) else { return Cow::Borrowed(bytes) };
    let mut text = Vec::new();
    // A damaged message is not JSON either.
    match DeflateDecoder::new(packed).read_to_end(&mut text) {
        Ok(_) => Cow::Owned(text),
        Err(_) => Cow::Borrowed(bytes),
    }
}

/// Everybody's values; if some ranks cannot continue, their reasons, each once.
pub(super) fn decode<T: DeserializeOwned>(messages: &[Vec<u8>], name: impl Fn(usize) -> String) -> Result<Vec<T>> {
    let (mut all, mut failed): (Vec<T>, BTreeMap<String, Vec<usize>>) = (Vec::new(), BTreeMap::new());
    for (rank, bytes) in messages.iter().enumerate() {
        let bytes = &*unpacked(bytes);
        match serde_json::from_slice(bytes) {
            Ok(Message::This(value)) => all.push(value),
            Ok(Message::Failed(reason)) => failed.entry(reason).or_default().push(rank),
            Err(error) => {
                // A failed rank sends its failure whatever the step is.
                let failure =
                    serde_json::from_slice(bytes).ok().and_then(|message: Message<serde_json::Value>| match message {
                        Message::Failed(reason) => Some(reason),
                        Message::This(_) => None,
                    });
                let reason =
                    failure.unwrap_or_else(|| format!("is out of step ({error}); start all ranks with the same flags"));
                failed.entry(reason).or_default().push(rank);
            }
        }
    }
    if failed.is_empty() {
        return Ok(all);
    }
    let reasons = failed.iter().map(|(reason, ranks)| {
        let further = ranks.len() - 1;
        let others = if further > 0 { format!(", and {further} more") } else { String::new() };
        format!("{}{others}: {reason}", name(ranks[0]))
    });
    Err(Error::machine(reasons.collect::<Vec<_>>().join("; ")))
}

/// Rank 0's value; the others send nothing, except those that cannot continue.
pub(super) fn first<T: DeserializeOwned>(messages: &[Vec<u8>], name: impl Fn(usize) -> String) -> Result<T> {
    let nothing = |bytes: &Vec<u8>| if bytes.is_empty() { b"{\"This\":null}".to_vec() } else { bytes.clone() };
    let all: Vec<Vec<u8>> = messages.iter().map(nothing).collect();
    let mut values: Vec<serde_json::Value> = decode(&all, name)?;
    serde_json::from_value(values.swap_remove(0))
        .map_err(|error| Error::machine(format!("rank 0 is out of step ({error})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(rank: usize) -> String {
        format!("rank {rank}")
    }

    #[test]
    fn what_all_say_is_heard_in_order() {
        let messages: Vec<Vec<u8>> = (0..3).map(|rank| encode(&Message::This(rank * 10)).unwrap()).collect();
        assert_eq!(decode::<u64>(&messages, name).unwrap(), [0, 10, 20]);
        assert_eq!(first::<u64>(&[messages[1].clone(), Vec::new()], name).unwrap(), 10);
    }

    #[test]
    fn what_is_long_is_packed_and_what_is_torn_is_told() {
        let long: Vec<u64> = (0..10_000).map(|number| number % 7).collect();
        let message = encode(&Message::This(&long)).unwrap();
        assert!(message.len() < 1_000, "{}", message.len());
        assert_eq!(decode::<Vec<u64>>(std::slice::from_ref(&message), name).unwrap(), [long]);
        let torn = message[..message.len() / 2].to_vec();
        assert!(decode::<Vec<u64>>(&[torn], name).unwrap_err().to_string().contains("is out of step"));
    }

    #[test]
    fn failures_are_told_once_each_whatever_it_is_time_for() {
        let failed = |reason: &str| encode(&Message::<()>::Failed(reason.to_owned())).unwrap();
        let messages =
            [encode(&Message::This(1_u64)).unwrap(), failed("no model"), failed("no model"), failed("no data")];
        let error = decode::<u64>(&messages, name).unwrap_err().to_string();
        assert_eq!(error, "rank 3: no data; rank 1, and 1 more: no model");
        assert!(first::<u64>(&messages, name).unwrap_err().to_string().contains("no model"));
        let other = [encode(&Message::This("a window")).unwrap()];
        assert!(decode::<u64>(&other, name).unwrap_err().to_string().starts_with("rank 0: is out of step"));
    }
}
