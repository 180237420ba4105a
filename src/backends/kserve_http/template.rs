//! [`Template`]: a request that is rendered once and sent many times.
//!
//! What changes between two sends has a fixed width: the sequence's ID and flags, padded with blanks, which JSON
//! allows, and the slot's tag in the names of output regions and in the request's id. So lengths, and with them the
//! head, never change, and a request is patched into a copy of its small front part; tensors are sent from where they
//! are.

use std::borrow::Cow;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use crate::backend::SequencePosition;
use crate::engine::http1::write_length;
use crate::engine::serial::{self, SLICES};
use crate::kserve::regions::TAG_WIDTH;
use crate::kserve_http::body::Longest;
use crate::model::CorrelationForm;
use crate::plan::Compression;
use crate::shm::Region;
use crate::wire::coding;

/// Width of [`write_sequence`]'s text.
pub(super) const SEQUENCE_WIDTH: usize = 80;

/// The part of a region that one tensor takes.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) region: Arc<Region>,
    pub(super) offset: usize,
    pub(super) len: usize,
}

impl Tensor {
    /// The tensor in place, if it is in host memory that is no longer written to.
    pub(super) fn borrow(&self) -> Option<&[u8]> {
        match self.region.bytes(self.offset, self.len) {
            Ok(Cow::Borrowed(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// A request that was rendered once.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    /// The head, and the part of the body that is worth copying.
    pub(super) front: Vec<u8>,
    /// Offset in `front` of the `Content-Length` line, the head's last.
    pub(super) length_at: usize,
    /// Offset in `front` of the body.
    pub(super) body_at: usize,
    /// Offset in `front` of the sequence's parameters.
    pub(super) sequence_at: Option<usize>,
    /// How the sequence's ID is sent.
    pub(super) correlation: CorrelationForm,
    /// Offsets in `front` of slot tags: in names of regions, and in the request's id.
    pub(super) tags_at: Vec<usize>,
    /// The rest of the JSON.
    pub(super) rest: Vec<u8>,
    /// Binary tensors; [`Self::push`] adds one.
    pub(super) tensors: Vec<Tensor>,
    /// Bytes of the tensors up to and including each.
    ends: Vec<usize>,
    /// Compression for each send, because the body changes; unchanging bodies are compressed already.
    pub(super) compression: Compression,
    /// Size limit of the reply.
    pub(super) longest: Longest,
}

impl Template {
    /// Adds a binary tensor.
    pub(super) fn push(&mut self, tensor: Tensor) {
        self.ends.push(self.ends.last().unwrap_or(&0) + tensor.borrow().map_or(0, <[u8]>::len));
        self.tensors.push(tensor);
    }

    /// Whether it must be patched before it is sent.
    pub(super) fn changes(&self) -> bool {
        self.sequence_at.is_some() || !self.tags_at.is_empty()
    }

    /// Puts the patched front into `scratch`; the whole request if the body is compressed.
    pub(super) fn patch(&self, scratch: &mut Vec<u8>, patch: Patch) {
        scratch.clear();
        scratch.extend_from_slice(&self.front);
        if let (Some(at), Some(sequence)) = (self.sequence_at, patch.sequence) {
            write_sequence(&mut scratch[at..at + SEQUENCE_WIDTH], sequence, self.correlation);
        }
        for &at in &self.tags_at {
            scratch[at..at + TAG_WIDTH].copy_from_slice(&patch.tag);
        }
        if self.compression != Compression::None {
            let body = self.compressed_body(&scratch[self.body_at..]);
            scratch.truncate(self.length_at);
            write_length(scratch, body.len());
            scratch.extend_from_slice(&body);
        }
    }

    fn compressed_body(&self, front: &[u8]) -> Vec<u8> {
        let tensors = self.tensors.iter().filter_map(Tensor::borrow);
        let parts = [front, self.rest.as_slice()].into_iter().chain(tensors);
        compress(self.compression, parts)
    }

    /// What is sent as it is: the rest of the JSON and tensors, unless the patched front has them, compressed.
    fn unchanging(&self) -> (&[u8], &[Tensor]) {
        match self.compression {
            Compression::None => (&self.rest, &self.tensors),
            _ => (&[], &[]),
        }
    }

    /// Bytes of the whole request whose front is `front` (patched, if it changes).
    pub(super) fn total(&self, front: &[u8]) -> usize {
        let (json, tensors) = self.unchanging();
        front.len() + json.len() + if tensors.is_empty() { 0 } else { self.ends[tensors.len() - 1] }
    }

    /// Fills `slices` with what follows the first `skip` bytes, as far as there is room. Returns how many are used.
    pub(super) fn gather<'a>(&'a self, front: &'a [u8], skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let (json, tensors) = self.unchanging();
        let before = front.len() + json.len();
        // A request of thousands of tensors is sent a few at a time: those that are sent are not gone through again.
        let sent = self.ends[..tensors.len()].partition_point(|end| before + end <= skip);
        let tensors = tensors[sent..].iter().map(|tensor| tensor.borrow().unwrap_or_default());
        match sent.checked_sub(1) {
            None => serial::gather([front, json].into_iter().chain(tensors), skip, slices),
            Some(last) => serial::gather(tensors, skip - before - self.ends[last], slices),
        }
    }
}

/// What changes between two sends of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    pub(super) sequence: Option<SequencePosition>,
    pub(super) tag: [u8; TAG_WIDTH],
}

/// Writes a sequence's parameters, always [`SEQUENCE_WIDTH`] bytes.
fn write_sequence(out: &mut [u8], sequence: SequencePosition, form: CorrelationForm) {
    let mut cursor = io::Cursor::new(out);
    let quote = if form == CorrelationForm::Text { "\"" } else { "" };
    let digits = sequence.id.checked_ilog10().unwrap_or(0) as usize + 1;
    let padding = 22 - digits - 2 * quote.len();
    let (start, end) = (sequence.start, sequence.end);
    let written = write!(
        cursor,
        "\"sequence_id\":{quote}{}{quote}{:padding$},\"sequence_start\":{start:<5},\"sequence_end\":{end:<5}",
        sequence.id, ""
    );
    debug_assert!(written.is_ok() && cursor.position() == SEQUENCE_WIDTH as u64);
}

/// The concatenated parts as one body, compressed if asked for.
pub(super) fn compress<'a>(compression: Compression, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    coding::compress(compression, parts, &mut body).expect("writing to memory cannot fail");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_parameters_have_one_width() {
        for id in [0, 1, 9, 10, 12345, u64::MAX] {
            for form in [CorrelationForm::Number, CorrelationForm::Text] {
                let mut out = [0; SEQUENCE_WIDTH];
                write_sequence(&mut out, SequencePosition { id, start: true, end: false }, form);
                let text = format!("{{{}}}", std::str::from_utf8(&out).unwrap());
                let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                match form {
                    CorrelationForm::Number => assert_eq!(value["sequence_id"].as_u64(), Some(id)),
                    CorrelationForm::Text => assert_eq!(value["sequence_id"], id.to_string()),
                }
                assert_eq!(
                    (value["sequence_start"].as_bool(), value["sequence_end"].as_bool()),
                    (Some(true), Some(false))
                );
            }
        }
    }

    #[test]
    fn gathering_resumes_anywhere() {
        let region = Arc::new(Region::filled(crate::shm::Placement::Pageable, b"0123456789").unwrap());
        let mut template = Template { front: b"head".to_vec(), rest: b"rest".to_vec(), ..Template::default() };
        for index in 0..20 {
            template.push(Tensor { region: region.clone(), offset: index % 5, len: index % 3 });
        }
        let total = template.total(&template.front);
        let mut whole = Vec::new();
        while whole.len() < total {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = template.gather(&template.front, whole.len(), &mut slices);
            let first = slices[..used].iter().find(|slice| !slice.is_empty()).unwrap();
            whole.push(first[0]);
        }
        let mut expected = b"headrest".to_vec();
        for tensor in &template.tensors {
            expected.extend_from_slice(tensor.borrow().unwrap());
        }
        assert_eq!(whole, expected);
    }
}
