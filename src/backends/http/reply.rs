//! What a complete reply says: the server's error, or outputs that fit the bytes that came.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::backend::{InferError, OutputView, Outputs};
use crate::backends::http::json::pack_elements;
use crate::backends::http::reader::{Encoding, Head};
use crate::backends::net::regions::SlotOutputs;
use crate::model::DataType;

/// Most bytes of a refusal that are kept for its text.
const KEPT_OF_REFUSAL: usize = 64 * 1024;
/// Most characters of a text that is no JSON.
const SHOWN: usize = 300;
/// Longest body that is kept or unpacked: the protocol's own limit on messages elsewhere.
const MAX_BODY: u64 = i32::MAX as u64;
/// Longest JSON that is remembered as known to be good.
const KNOWN_JSON: usize = 64 * 1024;

/// A reply that cannot be taken for what was asked.
pub(super) fn malformed(message: impl Into<String>) -> InferError {
    InferError { code: "Malformed reply".to_owned(), message: message.into() }
}

/// The server's refusal in its own words.
pub(super) fn error_text(status: u16, location: &str, body: &[u8]) -> InferError {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(members)) => members.get("error").map(|error| match error {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }),
        _ => None,
    };
    let mut message = text.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
        text.trim().chars().take(SHOWN).collect()
    });
    if !location.is_empty() && (300..400).contains(&status) {
        message =
            format!("redirected to '{location}', which is not followed; pass the final address with -u. {message}");
    }
    if message.is_empty() {
        message.push_str("the server gave no reason");
    }
    InferError { code: format!("HTTP {status}"), message }
}

/// The body without its compression; `None` where it has none.
///
/// # Errors
/// Where it is damaged, too long, or compressed in an unknown way.
pub(super) fn decompress(encoding: Encoding, body: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if encoding == Encoding::Identity {
        return Ok(None);
    }
    let mut out = Vec::new();
    let read = with_unpacked(encoding, body, |reader| {
        reader.take(MAX_BODY + 1).read_to_end(&mut out).map(|_| out.len() as u64)
    })?;
    if read > MAX_BODY { Err(too_much()) } else { Ok(Some(out)) }
}

fn too_much() -> String {
    format!("its body unpacks to more than {MAX_BODY} bytes")
}

/// What `act` makes of the unpacked bytes of a compressed body.
fn with_unpacked(
    encoding: Encoding,
    body: &[u8],
    act: impl FnOnce(&mut dyn Read) -> io::Result<u64>,
) -> Result<u64, String> {
    let done = match encoding {
        Encoding::Gzip => act(&mut MultiGzDecoder::new(body)),
        Encoding::Deflate => act(&mut ZlibDecoder::new(body)),
        Encoding::Identity | Encoding::Unknown => return Err("compressed in a way that was not asked for".to_owned()),
    };
    done.map_err(|error| format!("its compressed body is damaged: {error}"))
}

/// Reads a body's JSON, which is all of it where no length is given, and counts the bytes that follow.
fn count_unpacked(reader: &mut dyn Read, json_length: Option<u64>, json: &mut Vec<u8>) -> io::Result<u64> {
    json.clear();
    reader.take(json_length.unwrap_or(MAX_BODY + 1)).read_to_end(json)?;
    let mut rest = reader.take(MAX_BODY + 1);
    io::copy(&mut rest, &mut io::sink())
}

/// The part of a body that is kept while it comes in.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    limit: usize,
}

impl Kept {
    /// Decides, when the head has come, how much is worth keeping: all of it for outputs that are looked at, the JSON
    /// otherwise, and all of what is compressed, which can be checked only when it is unpacked.
    pub(super) fn begin(&mut self, head: &Head, watch: bool) {
        self.bytes.clear();
        self.limit = match head.json_length {
            _ if head.status != 200 => KEPT_OF_REFUSAL,
            _ if watch => MAX_BODY as usize + 1,
            _ if head.encoding != Encoding::Identity => MAX_BODY as usize + 1,
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX).min(MAX_BODY as usize),
            None => MAX_BODY as usize + 1,
        };
    }

    /// Keeps a further piece, or as much of it as is wanted.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let wanted = self.limit.saturating_sub(self.bytes.len()).min(piece.len());
        self.bytes.extend_from_slice(&piece[..wanted]);
    }

    /// Everything that was kept.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Deserialize)]
struct ReplyJson<'a, D> {
    #[serde(borrow, default)]
    model_name: Option<Cow<'a, str>>,
    #[serde(borrow, default = "Option::default")]
    outputs: Option<Vec<OutputJson<'a, D>>>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct OutputJson<'a, D> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    shape: Vec<i64>,
    #[serde(default = "Option::default")]
    data: Option<D>,
    #[serde(default)]
    parameters: ParametersJson,
}

#[derive(Default, Deserialize)]
struct ParametersJson {
    #[serde(default)]
    binary_data_size: Option<u64>,
}

impl<D> OutputJson<'_, D> {
    fn refuse(&self, why: impl std::fmt::Display) -> InferError {
        malformed(format!("output '{}' {why}", self.name))
    }

    fn datatype(&self) -> Result<DataType, InferError> {
        DataType::parse(&self.datatype)
            .ok_or_else(|| self.refuse(format_args!("has the unknown datatype '{}'", self.datatype)))
    }

    /// Bytes of a tensor of this shape; `None` for BYTES.
    fn bytes(&self) -> Result<Option<u64>, InferError> {
        let Some(size) = self.datatype()?.size() else { return Ok(None) };
        let product = |product: u64, &dim: &i64| product.checked_mul(u64::try_from(dim).ok()?);
        let bytes = self.shape.iter().try_fold(size as u64, product);
        bytes.map(Some).ok_or_else(|| self.refuse(format_args!("has the impossible shape {:?}", self.shape)))
    }

    /// Bytes of its binary tensor, checked against its shape; `None` where it has none.
    fn binary_bytes(&self) -> Result<Option<u64>, InferError> {
        let Some(size) = self.parameters.binary_data_size else { return Ok(None) };
        match self.bytes()? {
            Some(bytes) if bytes != size => Err(self.refuse(format_args!(
                "has binary_data_size {size}, but {} {:?} takes {bytes} bytes",
                self.datatype, self.shape
            ))),
            _ => Ok(Some(size)),
        }
    }
}

fn parse<'a, D: DeserializeOwned>(json: &'a [u8]) -> Result<Vec<OutputJson<'a, D>>, InferError> {
    let reply: ReplyJson<'a, D> =
        serde_json::from_slice(json).map_err(|error| malformed(format!("its JSON cannot be read: {error}")))?;
    match (reply.error, reply.outputs) {
        (Some(error), _) => {
            let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            Err(InferError { code: "HTTP 200".to_owned(), message })
        }
        (None, None) if reply.model_name.is_none() => Err(malformed("its JSON is no answer to an inference")),
        (None, outputs) => Ok(outputs.unwrap_or_default()),
    }
}

/// Splits a body into JSON and tensors.
fn split<'b>(head: &Head, body: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), InferError> {
    let Some(length) = head.json_length else { return Ok((body, &[])) };
    usize::try_from(length).ok().and_then(|length| body.split_at_checked(length)).ok_or_else(|| {
        malformed(format!("Inference-Header-Content-Length is {length}, but the body has only {} bytes", body.len()))
    })
}

fn sizes_differ(promised: u64, came: u64) -> InferError {
    malformed(format!("its JSON promises {promised} bytes of tensors, but {came} came"))
}

/// Checks replies whose outputs nobody looks at. The JSON of most replies is, byte for byte, that of the one before, so it
/// is read only where it differs.
#[derive(Default)]
pub(super) struct Checker {
    known: Vec<u8>,
    known_tensors: u64,
    /// The JSON of a reply that came compressed.
    unpacked: Vec<u8>,
}

impl Checker {
    /// Checks a successful reply: its JSON, which is the beginning of `kept`, and that as many bytes of tensors came as
    /// it promises. `shared` says whether outputs may be elsewhere. Compressed replies are unpacked, their tensors only to
    /// be counted.
    pub(super) fn check(&mut self, head: &Head, kept: &[u8], body: u64, shared: bool) -> Result<(), InferError> {
        if head.encoding == Encoding::Identity {
            return self.check_parts(kept, body - kept.len() as u64, shared);
        }
        let mut json = std::mem::take(&mut self.unpacked);
        let counted = with_unpacked(head.encoding, kept, |reader| count_unpacked(reader, head.json_length, &mut json));
        let outcome = match counted {
            Ok(tensors) => split(head, &json).and_then(|_| self.check_parts(&json, tensors, shared)),
            Err(why) => Err(malformed(why)),
        };
        self.unpacked = json;
        outcome
    }

    /// Checks the JSON of a reply, and that `came` bytes of tensors are as many as it promises.
    fn check_parts(&mut self, kept: &[u8], came: u64, shared: bool) -> Result<(), InferError> {
        if self.known.is_empty() || kept != self.known {
            let promised = promised_bytes(kept, shared)?;
            self.known.clear();
            if kept.len() <= KNOWN_JSON {
                self.known.extend_from_slice(kept);
            }
            self.known_tensors = promised;
        }
        if self.known_tensors == came { Ok(()) } else { Err(sizes_differ(self.known_tensors, came)) }
    }
}

fn promised_bytes(json: &[u8], shared: bool) -> Result<u64, InferError> {
    let mut sum = 0_u64;
    for output in parse::<IgnoredAny>(json)? {
        output.bytes()?;
        match (output.binary_bytes()?, &output.data) {
            (Some(bytes), _) => sum = sum.saturating_add(bytes),
            (None, None) if !shared => return Err(output.refuse("has neither data nor binary_data_size")),
            _ => {}
        }
    }
    Ok(sum)
}

/// Where the bytes of an output are.
enum Place {
    Body(Range<usize>),
    Own(Vec<u8>),
}

struct Output {
    name: String,
    datatype: DataType,
    shape: Vec<i64>,
    place: Place,
}

/// The outputs of a reply that is looked at.
pub(super) struct ReplyOutputs<'b> {
    tensors: Cow<'b, [u8]>,
    outputs: Vec<Output>,
}

impl<'b> ReplyOutputs<'b> {
    /// Reads a successful reply. Outputs that went to the slot's region are copied out of it; `placed` is that region and
    /// the index of the request's model.
    ///
    /// # Errors
    /// Where the reply is not what was asked for, or does not fit itself.
    pub(super) fn read(head: &Head, body: &'b [u8], placed: Option<(&SlotOutputs, usize)>) -> Result<Self, InferError> {
        let unpacked = decompress(head.encoding, body).map_err(malformed)?;
        let body = unpacked.map_or(Cow::Borrowed(body), Cow::Owned);
        let (json, rest) = split(head, &body)?;
        let (mut outputs, mut at) = (Vec::new(), 0_usize);
        for output in parse::<Value>(json)? {
            let place = match (output.binary_bytes()?, &output.data) {
                (Some(bytes), _) => {
                    let from = at;
                    at = at.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
                    Place::Body(from..at)
                }
                (None, Some(data)) => Place::Own(pack(&output, data)?),
                (None, None) => {
                    let datatype = output.datatype()?;
                    let read = placed.and_then(|(slot, model)| slot.read(model, &output.name, datatype, &output.shape));
                    let read = read.ok_or_else(|| output.refuse("has neither data nor binary_data_size"))?;
                    Place::Own(read.map_err(|why| output.refuse(why))?)
                }
            };
            let datatype = output.datatype()?;
            outputs.push(Output { name: output.name.into_owned(), datatype, shape: output.shape, place });
        }
        if at != rest.len() {
            return Err(sizes_differ(at as u64, rest.len() as u64));
        }
        let skip = body.len() - at;
        let tensors = match body {
            Cow::Borrowed(body) => Cow::Borrowed(&body[skip..]),
            Cow::Owned(mut body) => Cow::Owned(body.split_off(skip)),
        };
        Ok(Self { tensors, outputs })
    }
}

fn pack(output: &OutputJson<'_, Value>, data: &Value) -> Result<Vec<u8>, InferError> {
    let mut bytes = Vec::new();
    pack_elements(&mut bytes, output.datatype()?, data)
        .map_err(|why| output.refuse(format_args!("is wrong: {why}")))?;
    match output.bytes()? {
        Some(expected) if expected != bytes.len() as u64 => {
            Err(output.refuse(format_args!("has other many elements than its shape {:?}", output.shape)))
        }
        _ => Ok(bytes),
    }
}

impl Outputs for ReplyOutputs<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        for output in &self.outputs {
            let bytes = match &output.place {
                Place::Body(range) => &self.tensors[range.clone()],
                Place::Own(bytes) => bytes,
            };
            visitor(OutputView { name: &output.name, datatype: output.datatype, shape: &output.shape, bytes });
        }
    }
}

/// The outputs of a request that failed.
pub(super) struct NoOutputs;

impl Outputs for NoOutputs {
    fn visit(&self, _visitor: &mut dyn FnMut(OutputView<'_>)) {}
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
