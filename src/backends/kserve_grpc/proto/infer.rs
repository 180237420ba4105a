//! `ModelInferResponse` and `ModelStreamInferResponse`, parsed in place: no field is copied before it is needed.

use crate::backend::{OutputView, Outputs, ReplySource};
use crate::kserve_grpc::proto::contents;
use crate::model::DataType;
use crate::wire::protobuf::{self, Fields, Value};

/// The content of a `ModelStreamInferResponse`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamReply<'a> {
    /// Why the request failed; empty if it did not.
    pub error: &'a str,
    /// The response itself.
    pub response: InferReply<'a>,
}

impl<'a> StreamReply<'a> {
    /// Parses a message; `None` if it is malformed. Some servers send the bare response without the message around it:
    /// then it has fields that the outer message does not know.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (mut error, mut response) = (None, None);
        let mut fields = Fields::new(message);
        for (field, value) in fields.by_ref() {
            match field {
                1 => error = Some(value),
                2 => response = Some(value),
                3..=6 => return InferReply::parse(message).map(|response| Self { error: "", response }),
                _ => {}
            }
        }
        if fields.is_broken() {
            return None;
        }
        let error = error.map_or(Some(""), Value::text)?;
        let response = response.map_or(Some(InferReply::default()), |value| InferReply::parse(value.bytes()?))?;
        Some(Self { error, response })
    }
}

/// The content of a `ModelInferResponse`.
#[derive(Clone, Copy, Debug, Default)]
pub struct InferReply<'a> {
    /// The model's name; empty if the server does not say.
    model: &'a str,
    /// Its version, likewise.
    version: &'a str,
    /// The request's id.
    pub id: &'a str,
    /// Whether it is the request's last response, if it says so.
    pub last: Option<bool>,
    /// Whether it has outputs.
    pub has_outputs: bool,
    /// Number of outputs without raw contents; negative if there are more contents than outputs.
    bare: i64,
    message: &'a [u8],
}

impl<'a> InferReply<'a> {
    /// Parses a message; `None` if it is malformed. Outputs are parsed only when they are visited.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let mut reply = Self { message, ..Self::default() };
        let mut fields = Fields::new(message);
        for (field, value) in fields.by_ref() {
            match field {
                1 => reply.model = value.text()?,
                2 => reply.version = value.text()?,
                3 => reply.id = value.text()?,
                4 => {
                    if let Some(last) = final_flag(value.bytes()?) {
                        reply.last = Some(last);
                    }
                }
                5 => {
                    reply.has_outputs = true;
                    reply.bare += 1;
                }
                6 => reply.bare -= 1,
                _ => {}
            }
        }
        (!fields.is_broken()).then_some(reply)
    }

    /// Where it says it is from.
    pub fn source(&self) -> ReplySource<'a> {
        ReplySource { model: (!self.model.is_empty()).then_some(self.model), version: Some(self.version) }
    }

    /// The datatype of the first output whose datatype is not known, if there is one.
    pub fn unknown_datatype(&self) -> Option<&'a str> {
        let outputs = Fields::new(self.message).filter(|field| field.0 == 5);
        let mut named = outputs.filter_map(|(_, output)| {
            let datatype = Fields::new(output.bytes()?).filter(|field| field.0 == 2).last();
            datatype.map_or(Some(""), |(_, name)| name.text())
        });
        named.find(|name| DataType::parse(name).is_none())
    }

    /// Whether the numbers of outputs and raw contents differ, and the outputs have no typed contents instead.
    pub fn lacks_contents(&self) -> bool {
        let typed = |output: &[u8]| Fields::new(output).any(|(field, _)| field == 5);
        let mut outputs = Fields::new(self.message).filter(|field| field.0 == 5);
        self.bare != 0 && !outputs.all(|(_, output)| output.bytes().is_some_and(typed))
    }
}

/// The value of a `triton_final_response` entry of a parameter map.
fn final_flag(entry: &[u8]) -> Option<bool> {
    let mut named = false;
    let mut flag = None;
    for (field, value) in Fields::new(entry) {
        match field {
            1 => named = value.bytes() == Some(b"triton_final_response"),
            2 => {
                let bools = Fields::new(value.bytes()?).filter(|field| field.0 == 1);
                flag = bools.last().map(|field| field.1 == Value::Number(1));
            }
            _ => {}
        }
    }
    flag.filter(|_| named)
}

impl Outputs for InferReply<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        let nth = |wanted: u32| Fields::new(self.message).filter(move |field| field.0 == wanted);
        let mut raw = nth(6);
        for (_, output) in nth(5) {
            let bytes = raw.next().and_then(|field| field.1.bytes());
            let Some(output) = output.bytes() else { continue };
            visit_output(output, bytes, visitor);
        }
    }
}

/// Visits one `InferOutputTensor`; one with an unknown datatype is skipped. Without `raw` contents it may have typed
/// ones.
fn visit_output(output: &[u8], raw: Option<&[u8]>, visitor: &mut dyn FnMut(OutputView<'_>)) {
    let (mut name, mut datatype, mut shape, mut typed) = ("", None, Vec::new(), None);
    for (field, value) in Fields::new(output) {
        match (field, value) {
            (1, value) => name = value.text().unwrap_or_default(),
            (2, value) => datatype = value.text().and_then(DataType::parse),
            (3, Value::Number(dim)) => shape.push(dim as i64),
            (3, Value::Bytes(mut packed)) => {
                while let Some(dim) = protobuf::take_varint(&mut packed) {
                    shape.push(dim as i64);
                }
            }
            (5, value) => typed = value.bytes(),
            _ => {}
        }
    }
    let Some(datatype) = datatype else { return };
    let mut packed = Vec::new();
    if let (None, Some(contents)) = (raw, typed)
        && contents::pack(&mut packed, datatype, contents).is_none()
    {
        packed.clear();
    }
    visitor(OutputView { name, datatype, shape: &shape, bytes: raw.unwrap_or(&packed) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::{put_bytes, put_number};

    fn flag(name: &str, value: u64) -> Vec<u8> {
        let mut parameter = Vec::new();
        put_number(&mut parameter, 1, value);
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, name.as_bytes());
        put_bytes(&mut entry, 2, &parameter);
        entry
    }

    fn response() -> Vec<u8> {
        let mut shape = Vec::new();
        [2_u64, 300].iter().for_each(|&dim| protobuf::put_varint(&mut shape, dim));
        let mut output = Vec::new();
        put_bytes(&mut output, 1, b"OUT");
        put_bytes(&mut output, 2, b"INT8");
        put_bytes(&mut output, 3, &shape);
        let mut message = Vec::new();
        put_bytes(&mut message, 3, b"id-1");
        put_bytes(&mut message, 4, &flag("triton_final_response", 0));
        put_bytes(&mut message, 4, &flag("other", 1));
        put_bytes(&mut message, 5, &output);
        put_bytes(&mut message, 6, &[9; 600]);
        message
    }

    #[test]
    fn ids_flags_and_outputs_are_found() {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, b"sorry");
        put_bytes(&mut message, 2, &response());
        let reply = StreamReply::parse(&message).unwrap();
        assert_eq!((reply.error, reply.response.id, reply.response.last), ("sorry", "id-1", Some(false)));
        assert!(reply.response.has_outputs);
        let mut count = 0;
        reply.response.visit(&mut |output| {
            assert_eq!((output.name, output.datatype, output.shape), ("OUT", DataType::Int8, &[2, 300][..]));
            assert_eq!(output.bytes, [9; 600]);
            count += 1;
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn unknown_datatypes_are_found() {
        let message = response();
        assert_eq!(InferReply::parse(&message).unwrap().unknown_datatype(), None);
        let odd = message.windows(4).position(|four| four == b"INT8").unwrap();
        let mut other = message.clone();
        other[odd..odd + 4].copy_from_slice(b"INT9");
        assert_eq!(InferReply::parse(&other).unwrap().unknown_datatype(), Some("INT9"));
    }

    #[test]
    fn bare_responses_are_told_from_wrapped_ones() {
        let bare = response();
        let reply = StreamReply::parse(&bare).unwrap();
        assert_eq!((reply.error, reply.response.id, reply.response.has_outputs), ("", "id-1", true));
        let mut named = Vec::new();
        put_bytes(&mut named, 1, b"model");
        named.extend_from_slice(&bare);
        assert_eq!(StreamReply::parse(&named).unwrap().response.source().model, Some("model"));
        for end in 0..named.len() {
            let _ = StreamReply::parse(&named[..end]);
        }
    }

    #[test]
    fn typed_contents_take_the_place_of_raw_ones() {
        let (mut contents, mut output, mut message) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut contents, 2, &[1, 2, 3]);
        put_bytes(&mut output, 1, b"OUT");
        put_bytes(&mut output, 2, b"INT8");
        put_number(&mut output, 3, 3);
        put_bytes(&mut output, 5, &contents);
        put_bytes(&mut message, 5, &output);
        let reply = InferReply::parse(&message).unwrap();
        assert!(!reply.lacks_contents());
        let mut outputs = Vec::new();
        reply.visit(&mut |output| outputs.push((output.shape.to_vec(), output.bytes.to_vec())));
        assert_eq!(outputs, [(vec![3], vec![1, 2, 3])]);
    }

    #[test]
    fn a_missing_flag_is_told_from_a_false_one() {
        assert_eq!(InferReply::parse(&[]).unwrap().last, None);
        let mut message = Vec::new();
        put_bytes(&mut message, 4, &flag("triton_final_response", 1));
        assert_eq!(InferReply::parse(&message).unwrap().last, Some(true));
    }

    #[test]
    fn any_cut_is_survived() {
        let message = response();
        for end in 0..message.len() {
            if let Some(reply) = InferReply::parse(&message[..end]) {
                reply.visit(&mut |_| ());
            }
        }
        assert!(StreamReply::parse(&[0x12, 9, 1]).is_none());
    }
}
