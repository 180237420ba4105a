//! [`ReplyOutputs`]: the outputs of a reply whose content is read.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use crate::backend::{InferError, Misfit, OutputView, Outputs, ReplySource};
use crate::json::{self, pack_elements};
use crate::kserve::regions::SlotOutputs;
use crate::kserve_http::reply::{OutputJson, parse, sizes_differ, split};
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
    version: Option<String>,
    /// Why an output cannot be decoded, if one cannot; it has no bytes here.
    unreadable: Option<Misfit>,
    tensors: Cow<'b, [u8]>,
    outputs: Vec<Output>,
}

impl<'b> ReplyOutputs<'b> {
    /// Parses a successful reply. Outputs in the slot's region are copied out of it; `placed` is that region and the
    /// index of the request's model.
    ///
    /// # Errors
    /// If the reply is not what was asked for, or is inconsistent.
    pub(super) fn read(
        head: &Head,
        body: Cow<'b, [u8]>,
        placed: Option<(&SlotOutputs, usize)>,
    ) -> Result<Self, InferError> {
        let (json, tail) = split(head, &body)?;
        let (mut outputs, mut at, mut unreadable) = (Vec::new(), 0_usize, None);
        let legal = json::in_legal_form(json);
        let answer = parse::<Value>(&legal)?;
        for output in answer.outputs {
            let from = at;
            let announced = output.binary_bytes().map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            at = at.saturating_add(announced);
            let read = output.datatype().and_then(|datatype| Ok((datatype, locate(&output, from..at, placed)?)));
            let (datatype, place) = read.unwrap_or_else(|misfit| {
                unreadable.get_or_insert(misfit);
                (output.datatype().unwrap_or(DataType::Bytes), Place::Own(Vec::new()))
            });
            outputs.push(Output { name: output.name.into_owned(), datatype, shape: output.shape, place });
        }
        let (model, version) = (answer.model.map(Cow::into_owned), answer.version.map(Cow::into_owned));
        if at != tail.len() {
            return Err(sizes_differ(at as u64, tail.len() as u64));
        }
        let skip = body.len() - at;
        let tensors = match body {
            Cow::Borrowed(body) => Cow::Borrowed(&body[skip..]),
            Cow::Owned(mut body) => Cow::Owned(body.split_off(skip)),
        };
        Ok(Self { model, version, unreadable, tensors, outputs })
    }

    /// Where the reply says it is from.
    pub(super) fn source(&self) -> ReplySource<'_> {
        ReplySource { model: self.model.as_deref(), version: self.version.as_deref() }
    }

    /// Whether every output can be decoded.
    ///
    /// # Errors
    /// What is wrong with the first one that cannot.
    pub(super) fn decoded(&self) -> Result<(), Misfit> {
        self.unreadable.clone().map_or(Ok(()), Err)
    }
}

/// Where the bytes of an output are: in `body`, if it has any there.
fn locate(
    output: &OutputJson<'_, Value>,
    body: Range<usize>,
    placed: Option<(&SlotOutputs, usize)>,
) -> Result<Place, Misfit> {
    match (output.binary_bytes(), &output.data) {
        (Some(announced), _) => output.check_binary(announced).map(|()| Place::Body(body)),
        (None, Some(data)) => pack(output, data).map(Place::Own),
        (None, None) => {
            let datatype = output.datatype()?;
            let read = placed.and_then(|(slot, model)| slot.read(model, &output.name, datatype, &output.shape));
            let read = read.ok_or_else(|| output.refuse("has neither data nor binary_data_size"))?;
            read.map(Place::Own).map_err(|why| output.refuse(why))
        }
    }
}

fn pack(output: &OutputJson<'_, Value>, data: &Value) -> Result<Vec<u8>, Misfit> {
    let (mut bytes, datatype) = (Vec::new(), output.datatype()?);
    pack_elements(&mut bytes, datatype, data).map_err(|why| output.refuse(format_args!("is wrong: {why}")))?;
    let elements = output.elements()?;
    match datatype.size() {
        Some(size) if elements.saturating_mul(size as u64) != bytes.len() as u64 => {
            let (count, shape) = (bytes.len() / size, &output.shape);
            Err(output.refuse(format_args!("has {count} elements, which is not what its shape {shape:?} takes")))
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
