//! Parses a complete reply: the server's error, or outputs that fit the received bytes and the model that was asked.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::backend::{ErrorCode, InferError, OutputView, Outputs, ReplyForm};
use crate::backends::json;
use crate::backends::kserve_http::body::Kept;
use crate::engine::malformed;
use crate::model::DataType;
use crate::wire::http1::{Encoding, Head, count_unpacked, with_unpacked};

/// Longest JSON that is cached as known to be good.
const KNOWN_JSON: usize = 64 * 1024;

#[derive(Deserialize)]
struct ReplyJson<'a, D> {
    #[serde(borrow, default)]
    model_name: Option<Cow<'a, str>>,
    #[serde(borrow, default = "Option::default")]
    outputs: Option<Vec<OutputJson<'a, D>>>,
    #[serde(default)]
    error: Option<Value>,
}

/// A reply's JSON description of an output; `D` is the type of inline elements.
#[derive(Deserialize)]
pub(super) struct OutputJson<'a, D> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    pub(super) shape: Vec<i64>,
    #[serde(default = "Option::default")]
    pub(super) data: Option<D>,
    #[serde(default)]
    parameters: Option<ParametersJson>,
}

#[derive(Deserialize)]
struct ParametersJson {
    #[serde(default)]
    binary_data_size: Option<u64>,
}

impl<D> OutputJson<'_, D> {
    pub(super) fn refuse(&self, why: impl Display) -> InferError {
        malformed(format!("output '{}' {why}", self.name))
    }

    pub(super) fn datatype(&self) -> Result<DataType, InferError> {
        DataType::parse(&self.datatype)
            .ok_or_else(|| self.refuse(format_args!("has the unknown datatype '{}'", self.datatype)))
    }

    /// Bytes of a tensor of this shape; `None` for BYTES.
    pub(super) fn bytes(&self) -> Result<Option<u64>, InferError> {
        let Some(size) = self.datatype()?.size() else { return Ok(None) };
        let product = |product: u64, &dim: &i64| product.checked_mul(u64::try_from(dim).ok()?);
        let bytes = self.shape.iter().try_fold(size as u64, product);
        bytes.map(Some).ok_or_else(|| self.refuse(format_args!("has the impossible shape {:?}", self.shape)))
    }

    /// Bytes of its binary tensor, checked against its shape; `None` if it has none.
    pub(super) fn binary_bytes(&self) -> Result<Option<u64>, InferError> {
        let Some(size) = self.parameters.as_ref().and_then(|parameters| parameters.binary_data_size) else {
            return Ok(None);
        };
        match self.bytes()? {
            Some(bytes) if bytes != size => Err(self.refuse(format_args!(
                "has binary_data_size {size}, but {} {:?} takes {bytes} bytes",
                self.datatype, self.shape
            ))),
            _ => Ok(Some(size)),
        }
    }
}

/// A reply's JSON that is an answer.
pub(super) struct Answer<'a, D> {
    /// The model that it is from, if it says so.
    pub(super) model: Option<Cow<'a, str>>,
    /// Its outputs.
    pub(super) outputs: Vec<OutputJson<'a, D>>,
}

/// Parses a reply's JSON.
///
/// # Errors
/// If it cannot be parsed, is the server's error, or is not an answer.
pub(super) fn parse<'a, D: DeserializeOwned>(json: &'a [u8]) -> Result<Answer<'a, D>, InferError> {
    let reply: ReplyJson<'a, D> = serde_json::from_slice(json)
        .map_err(|error| malformed(format!("its JSON cannot be read: {error}{}", json::why_unreadable(json))))?;
    match (reply.error, reply.outputs) {
        (Some(error), _) => {
            let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            Err(InferError::new(ErrorCode::Http(200), message))
        }
        (None, None) if reply.model_name.is_none() => Err(malformed("its JSON is not an inference response")),
        (None, outputs) => Ok(Answer { model: reply.model_name, outputs: outputs.unwrap_or_default() }),
    }
}

/// Splits a body into JSON and tensors.
pub(super) fn split<'b>(head: &Head, body: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), InferError> {
    let Some(length) = head.part_length else { return Ok((body, &[])) };
    usize::try_from(length).ok().and_then(|length| body.split_at_checked(length)).ok_or_else(|| {
        malformed(format!("Inference-Header-Content-Length is {length}, but the body has only {} bytes", body.len()))
    })
}

pub(super) fn sizes_differ(promised: u64, came: u64) -> InferError {
    malformed(format!("its JSON promises {promised} bytes of tensors, but {came} came"))
}

/// What a reply is checked against.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// Whether outputs may be elsewhere than in the reply.
    pub(super) shared: bool,
    /// The model's outputs, if this reply must be checked against them.
    pub(super) form: Option<ReplyForm<'a>>,
}

/// Checks replies whose outputs are not read. The JSON of most replies is identical to that of the previous one, so it
/// is parsed only if it differs, or must be checked against the model.
#[derive(Default)]
pub(super) struct Checker {
    known: Vec<u8>,
    known_tensors: u64,
    /// The JSON of a compressed reply.
    unpacked: Vec<u8>,
}

impl Checker {
    /// Checks a successful reply: its JSON, which is the beginning of what was kept, and that as many bytes of tensors
    /// arrived as it announces; `body` have arrived in all. Compressed replies are decompressed, and their tensors only
    /// counted.
    pub(super) fn check(&mut self, head: &Head, kept: &Kept, body: u64, wanted: Wanted<'_>) -> Result<(), InferError> {
        let bytes = kept.bytes();
        if head.encoding == Encoding::Identity {
            return self.check_parts(bytes, body - bytes.len() as u64, wanted);
        }
        let mut json = std::mem::take(&mut self.unpacked);
        let count = |reader: &mut dyn std::io::Read| count_unpacked(reader, head.part_length, kept.most(), &mut json);
        let outcome = match with_unpacked(head.encoding, bytes, count) {
            Ok(tensors) => kept
                .check_unpacked(json.len() as u64, tensors)
                .and_then(|()| split(head, &json))
                .and_then(|_| self.check_parts(&json, tensors, wanted)),
            Err(why) => Err(malformed(why)),
        };
        self.unpacked = json;
        outcome
    }

    /// Checks the JSON of a reply, and that it announces exactly `came` bytes of tensors.
    fn check_parts(&mut self, kept: &[u8], came: u64, wanted: Wanted<'_>) -> Result<(), InferError> {
        if self.known.is_empty() || wanted.form.is_some() || kept != self.known {
            let promised = promised_bytes(kept, wanted)?;
            self.known.clear();
            if kept.len() <= KNOWN_JSON {
                self.known.extend_from_slice(kept);
            }
            self.known_tensors = promised;
        }
        if self.known_tensors == came { Ok(()) } else { Err(sizes_differ(self.known_tensors, came)) }
    }
}

fn promised_bytes(json: &[u8], wanted: Wanted<'_>) -> Result<u64, InferError> {
    let mut sum = 0_u64;
    let legal = json::in_legal_form(json);
    let answer = parse::<IgnoredAny>(&legal)?;
    for output in &answer.outputs {
        output.bytes()?;
        match (output.binary_bytes()?, &output.data) {
            (Some(bytes), _) => sum = sum.saturating_add(bytes),
            (None, None) if !wanted.shared => return Err(output.refuse("has neither data nor binary_data_size")),
            _ => {}
        }
    }
    if let Some(form) = wanted.form {
        let described = Described(&answer.outputs);
        ReplyForm { contents: false, ..form }.check(answer.model.as_deref(), &described)?;
    }
    Ok(sum)
}

/// Outputs of which only the description was parsed.
struct Described<'a>(&'a [OutputJson<'a, IgnoredAny>]);

impl Outputs for Described<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        for output in self.0 {
            if let Ok(datatype) = output.datatype() {
                visitor(OutputView { name: &output.name, datatype, shape: &output.shape, bytes: &[] });
            }
        }
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
