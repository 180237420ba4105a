//! Bodies of gRPC requests: bytes to copy, and tensors by reference.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::data::InputTensor;
use crate::error::{Error, Result};
use crate::plan::Compression;
use crate::shm::Region;
use crate::wire::COPY_LIMIT;
use crate::wire::coding;
use crate::wire::grpc::{self, PREFIX_LEN};

/// A tensor's bytes in place.
struct TensorBytes {
    region: Arc<Region>,
    offset: usize,
    len: usize,
}

impl TensorBytes {
    fn slice(&self) -> Result<Cow<'_, [u8]>> {
        self.region.bytes(self.offset, self.len)
    }
}

/// Borrowed from host memory, which does not change once a payload exists.
struct Borrowed(TensorBytes);

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        match self.0.slice() {
            Ok(Cow::Borrowed(slice)) => slice,
            _ => &[],
        }
    }
}

/// The bytes of an input: by reference from host memory, copied from a device.
///
/// # Errors
/// If reading from the device fails.
pub fn tensor_bytes(input: &InputTensor) -> Result<Bytes> {
    let tensor = TensorBytes { region: Arc::clone(&input.region), offset: input.offset, len: input.len };
    let copied = match tensor.slice()? {
        Cow::Borrowed(_) => None,
        Cow::Owned(copy) => Some(copy),
    };
    Ok(copied.map_or_else(|| Bytes::from_owner(Borrowed(tensor)), Bytes::from))
}

/// Appends a message with its prefix, compressed unless `encoding` is none.
///
/// # Errors
/// If compression fails.
pub fn put_message<'a>(out: &mut Vec<u8>, encoding: Compression, parts: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    let at = out.len();
    out.extend_from_slice(&[0; PREFIX_LEN]);
    coding::compress(encoding, parts, out)
        .map_err(|error| Error::machine(format!("a request cannot be compressed: {error}")))?;
    let length = out.len() - at - PREFIX_LEN;
    out[at..at + PREFIX_LEN].copy_from_slice(&grpc::prefix(encoding != Compression::None, length));
    Ok(())
}

/// A message that is assembled once, piece by piece: small tensors are copied, large ones sent from where they are.
#[derive(Debug, Default)]
pub struct MessageBody {
    head: Vec<u8>,
    rest: Vec<Bytes>,
    /// The bytes after the last of `rest`.
    tail: Vec<u8>,
}

impl MessageBody {
    /// Where bytes to copy are appended.
    pub fn copied(&mut self) -> &mut Vec<u8> {
        if self.rest.is_empty() { &mut self.head } else { &mut self.tail }
    }

    /// Appends a tensor.
    pub fn put_tensor(&mut self, tensor: &Bytes) {
        if tensor.len() < COPY_LIMIT {
            self.copied().extend_from_slice(tensor);
            return;
        }
        if !self.tail.is_empty() {
            self.rest.push(Bytes::from(std::mem::take(&mut self.tail)));
        }
        self.rest.push(tensor.clone());
    }

    /// Bytes of the message.
    pub fn length(&self) -> usize {
        self.head.len() + self.rest.iter().map(Bytes::len).sum::<usize>() + self.tail.len()
    }

    /// The whole body, prefix included: bytes to copy, then the parts that follow.
    ///
    /// # Errors
    /// If compression fails.
    pub fn finish(mut self, encoding: Compression) -> Result<(Vec<u8>, Vec<Bytes>)> {
        let prefix = grpc::prefix(false, self.length());
        if !self.tail.is_empty() {
            self.rest.push(Bytes::from(self.tail));
        }
        if encoding != Compression::None {
            let parts = [&self.head[..]].into_iter().chain(self.rest.iter().map(|part| &part[..]));
            let mut body = Vec::new();
            put_message(&mut body, encoding, parts)?;
            return Ok((body, Vec::new()));
        }
        self.head.splice(..0, prefix);
        Ok((self.head, self.rest))
    }
}
