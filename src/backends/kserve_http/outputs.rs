//! [`ReplyOutputs`]: the outputs of a reply whose content is read.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use crate::backend::{InferError, OutputView, Outputs};
use crate::backends::json::{self, pack_elements};
use crate::backends::kserve::regions::SlotOutputs;
use crate::backends::kserve_http::body::Kept;
use crate::backends::kserve_http::reply::{OutputJson, parse, sizes_differ, split};
use crate::engine::http1::unpacked;
use crate::model::DataType;
use crate::wire::http1::Head;

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

/// The outputs of a reply whose content is read.
pub(super) struct ReplyOutputs<'b> {
    model: Option<String>,
    tensors: Cow<'b, [u8]>,
    outputs: Vec<Output>,
}

impl<'b> ReplyOutputs<'b> {
    /// Parses a successful reply. Outputs in the slot's region are copied out of it; `placed` is that region and the
    /// index of the request's model.
    ///
    /// # Errors
    /// If the reply is not what was asked for, or is inconsistent.
    pub(super) fn read(head: &Head, kept: &'b Kept, placed: Option<(&SlotOutputs, usize)>) -> Result<Self, InferError> {
        let body = unpacked(head, kept.bytes(), kept.most())?;
        let (json, rest) = split(head, &body)?;
        let (mut outputs, mut at) = (Vec::new(), 0_usize);
        let legal = json::in_legal_form(json);
        let answer = parse::<Value>(&legal)?;
        for output in answer.outputs {
            let datatype = output.datatype()?;
            let place = match (output.binary_bytes()?, &output.data) {
                (Some(bytes), _) => {
                    let from = at;
                    at = at.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
                    Place::Body(from..at)
                }
                (None, Some(data)) => Place::Own(pack(&output, data)?),
                (None, None) => {
                    let read = placed.and_then(|(slot, model)| slot.read(model, &output.name, datatype, &output.shape));
                    let read = read.ok_or_else(|| output.refuse("has neither data nor binary_data_size"))?;
                    Place::Own(read.map_err(|why| output.refuse(why))?)
                }
            };
            outputs.push(Output { name: output.name.into_owned(), datatype, shape: output.shape, place });
        }
        let model = answer.model.map(Cow::into_owned);
        if at != rest.len() {
            return Err(sizes_differ(at as u64, rest.len() as u64));
        }
        let skip = body.len() - at;
        let tensors = match body {
            Cow::Borrowed(body) => Cow::Borrowed(&body[skip..]),
            Cow::Owned(mut body) => Cow::Owned(body.split_off(skip)),
        };
        Ok(Self { model, tensors, outputs })
    }

    /// The model that the reply is from, if it says so.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

fn pack(output: &OutputJson<'_, Value>, data: &Value) -> Result<Vec<u8>, InferError> {
    let mut bytes = Vec::new();
    pack_elements(&mut bytes, output.datatype()?, data)
        .map_err(|why| output.refuse(format_args!("is wrong: {why}")))?;
    match output.bytes()? {
        Some(expected) if expected != bytes.len() as u64 => {
            Err(output.refuse(format_args!("has a different number of elements than its shape {:?}", output.shape)))
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
