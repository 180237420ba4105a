//! Parses a complete reply: the server's error, or outputs that fit the received bytes and the model that was asked.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::backend::{ErrorCode, InferError, Misfit, OutputView, Outputs, ReplyChecks, ReplyForm, ReplySource};
use crate::data::PayloadId;
use crate::engine::malformed;
use crate::json;
use crate::kserve_http::body::Kept;
use crate::kserve_http::inline::{Elements, Inline};
use crate::model::DataType;
use crate::wire::http1::{Encoding, Head, count_unpacked, with_unpacked};

/// Longest JSON that is cached as known to be good.
const KNOWN_JSON: usize = 64 * 1024;

#[derive(Deserialize)]
struct ReplyJson<'a, D> {
    #[serde(borrow, default)]
    model_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    model_version: Option<Cow<'a, str>>,
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
    /// It cannot be decoded.
    pub(super) fn refuse(&self, why: impl Display) -> Misfit {
        Misfit::undecodable(format_args!("output '{}' {why}", self.name))
    }

    pub(super) fn datatype(&self) -> Result<DataType, Misfit> {
        DataType::parse(&self.datatype)
            .ok_or_else(|| self.refuse(format_args!("has the unknown datatype '{}'", self.datatype)))
    }

    /// Elements of a tensor of this shape.
    pub(super) fn elements(&self) -> Result<u64, Misfit> {
        let product = |product: u64, &dim: &i64| product.checked_mul(u64::try_from(dim).ok()?);
        let elements = self.shape.iter().try_fold(1, product);
        elements.ok_or_else(|| self.refuse(format_args!("has the impossible shape {:?}", self.shape)))
    }

    /// Bytes of its binary tensor in the body, as announced; `None` if it has none.
    pub(super) fn binary_bytes(&self) -> Option<u64> {
        self.parameters.as_ref().and_then(|parameters| parameters.binary_data_size)
    }

    /// Checks that the binary tensor is as long as its shape says.
    pub(super) fn check_binary(&self, announced: u64) -> Result<(), Misfit> {
        let elements = self.elements()?;
        match self.datatype()?.size().map(|size| elements.saturating_mul(size as u64)) {
            Some(bytes) if bytes != announced => Err(self.refuse(format_args!(
                "has binary_data_size {announced}, but {} {:?} takes {bytes} bytes",
                self.datatype, self.shape
            ))),
            _ => Ok(()),
        }
    }
}

impl<D: Inline> OutputJson<'_, D> {
    /// Checks its content as far as it is known; outputs may be elsewhere if they are `shared`.
    fn check(&self, shared: bool) -> Result<(), Misfit> {
        match (self.binary_bytes(), &self.data) {
            (Some(announced), _) => self.check_binary(announced),
            (None, Some(data)) => {
                let (datatype, elements) = (self.datatype()?, self.elements()?);
                data.check(datatype, Some(elements)).map_err(|why| self.refuse(why))
            }
            (None, None) if shared => self.datatype().and(self.elements()).map(drop),
            (None, None) => Err(self.refuse("has neither data nor binary_data_size")),
        }
    }
}

/// A reply's JSON that is an answer.
pub(super) struct Answer<'a, D> {
    /// The model that it is from, if it says so.
    pub(super) model: Option<Cow<'a, str>>,
    /// Its version.
    pub(super) version: Option<Cow<'a, str>>,
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
        (None, outputs) => {
            Ok(Answer { model: reply.model_name, version: reply.model_version, outputs: outputs.unwrap_or_default() })
        }
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
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Whether outputs may be elsewhere than in the reply.
    pub(super) shared: bool,
    /// The request's payload.
    pub(super) payload: PayloadId,
    /// What the model's outputs are.
    pub(super) form: &'a dyn Fn() -> ReplyForm<'a>,
    /// Which replies are checked against it, and count.
    pub(super) checks: &'a ReplyChecks,
}

impl Wanted<'_> {
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.checks.is_due(self.payload)
    }

    /// Decides about a reply in which `found` is all that is wrong with it.
    pub(super) fn settle(&self, found: Result<(), Misfit>) -> Result<(), InferError> {
        if found.is_ok() && !self.is_due() {
            return Ok(());
        }
        self.checks.settle(self.payload, (self.form)().model, found)
    }
}

/// Checks replies whose outputs are not read. The JSON of most replies is identical to that of the previous one, so it
/// is parsed only if it differs, or must be checked against the model.
#[derive(Default)]
pub(super) struct Checker {
    last_json: Vec<u8>,
    last_tensors: u64,
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
        let is_due = wanted.is_due();
        if self.last_json.is_empty() || is_due || kept != self.last_json {
            let (promised, found) =
                if is_due { examine::<Elements>(kept, wanted)? } else { examine::<IgnoredAny>(kept, wanted)? };
            wanted.settle(found)?;
            self.last_json.clear();
            if kept.len() <= KNOWN_JSON {
                self.last_json.extend_from_slice(kept);
            }
            self.last_tensors = promised;
        }
        if self.last_tensors == came { Ok(()) } else { Err(sizes_differ(self.last_tensors, came)) }
    }
}

/// How many bytes of tensors a reply's JSON announces, and whether it is as it should be.
fn examine<D: Inline + DeserializeOwned>(
    json: &[u8],
    wanted: Wanted<'_>,
) -> Result<(u64, Result<(), Misfit>), InferError> {
    let legal = json::in_legal_form(json);
    // Triton writes the bytes of BYTES outputs as they are: whoever does not look need not know whether they are text.
    let text = wanted.is_due().then(|| String::from_utf8_lossy(&legal));
    let answer = parse::<D>(text.as_ref().map_or(&legal[..], |text| text.as_bytes()))?;
    let announced = |sum: u64, output: &OutputJson<'_, D>| sum.saturating_add(output.binary_bytes().unwrap_or(0));
    let sum = answer.outputs.iter().fold(0, announced);
    let mut found = answer.outputs.iter().try_for_each(|output| output.check(wanted.shared));
    if found.is_ok() && wanted.is_due() {
        let form = ReplyForm { contents: false, ..(wanted.form)() };
        let source = ReplySource { model: answer.model.as_deref(), version: answer.version.as_deref() };
        found = form.check(source, &Described(&answer.outputs));
    }
    Ok((sum, found))
}

/// Outputs of which only the description was parsed.
struct Described<'a, D>(&'a [OutputJson<'a, D>]);

impl<D> Outputs for Described<'_, D> {
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
