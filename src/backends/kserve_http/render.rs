//! Rendering: payloads to [`Template`]s.

use std::fmt::Write as _;

use crate::backend::{ParameterValue, RequestOptions};
use crate::data::{InputTensor, Payload};
use crate::engine::http1::{Headers, write_field, write_length};
use crate::engine::{Endpoint, escape_path};
use crate::error::{Error, Result};
use crate::json;
use crate::kserve::regions::{InputRegions, OutputPlace, TAG_WIDTH};
use crate::kserve::request_ids;
use crate::kserve_http::template::{SEQUENCE_WIDTH, Template, Tensor, compress};
use crate::model::{ModelId, ModelSpec};
use crate::plan::Compression;
use crate::wire::COPY_LIMIT;
use crate::wire::coding;
use crate::wire::http1::Encoding;

/// The field with the length of the JSON in front of binary tensors.
pub(super) const JSON_LENGTH: &str = "Inference-Header-Content-Length";

/// What all requests of a backend have in common.
#[derive(Clone, Debug)]
pub(super) struct Format {
    pub(super) endpoint: Endpoint,
    pub(super) headers: Headers,
    pub(super) json_inputs: bool,
    pub(super) json_outputs: bool,
    pub(super) compression: Compression,
}

impl Format {
    /// Whether a reply may be compressed with `encoding`.
    pub(super) fn accepts(&self, encoding: Encoding) -> bool {
        encoding == Encoding::Identity || self.headers.accept(encoding, self.compression)
    }
}

/// Outputs that go to the slot's region.
pub(super) struct PlacedOutputs<'a> {
    /// Name of the region before the slot's tag.
    pub(super) prefix: String,
    /// Where each output goes.
    pub(super) places: &'a [OutputPlace],
}

/// What a request needs besides its payload.
pub(super) struct Rendering<'a> {
    pub(super) format: &'a Format,
    pub(super) options: &'a RequestOptions,
    pub(super) inputs: &'a InputRegions,
    /// Outputs that go to the slot's region; `None` if they come in the reply.
    pub(super) outputs: Option<&'a PlacedOutputs<'a>>,
    /// Whether requests carry the ids of their slots, which appear in the server's traces.
    pub(super) ids: bool,
    /// Whether the request is one of a sequence.
    pub(super) sequence: bool,
}

/// The path of a model, or of a resource below it.
pub(super) fn model_path(endpoint: &Endpoint, id: &ModelId, below: &str) -> String {
    let mut path = format!("{}/v2/models/{}", endpoint.prefix, escape_path(&id.name));
    if let Some(version) = id.version {
        let _ = write!(path, "/versions/{version}");
    }
    path + below
}

impl Rendering<'_> {
    /// Renders one payload's request.
    ///
    /// # Errors
    /// If a tensor cannot be represented in JSON, or its memory cannot be read.
    pub(super) fn render(&self, model: &ModelSpec, payload: &Payload) -> Result<Template> {
        let mut template = Template::default();
        let mut start = Vec::new();
        self.write_parameters(&mut start, payload, &mut template)?;
        self.write_outputs(&mut start, &mut template);
        let mut inputs = b"\"inputs\":[".to_vec();
        for (index, tensor) in payload.inputs.iter().enumerate() {
            if index > 0 {
                inputs.push(b',');
            }
            self.write_input(&mut inputs, tensor, &mut template)
                .map_err(|error| error.context(format_args!("input '{}' of model '{}'", tensor.name, model.id)))?;
        }
        inputs.extend_from_slice(b"]}");
        let json_length = start.len() + inputs.len();
        if template.changes() && inputs.len() > COPY_LIMIT {
            template.rest = inputs;
        } else {
            start.extend_from_slice(&inputs);
        }
        self.frame(model, &mut template, start, json_length);
        Ok(template)
    }

    /// Puts the head in front of the body; a body that never changes is compressed, or joined to one piece if it is
    /// short.
    fn frame(&self, model: &ModelSpec, template: &mut Template, mut body: Vec<u8>, json_length: usize) {
        let compression = self.format.compression;
        let mut length = json_length + template.tensors.iter().map(|tensor| tensor.len).sum::<usize>();
        let binary = !template.tensors.is_empty();
        if template.changes() {
            template.compression = compression;
        } else if compression != Compression::None || length - json_length <= COPY_LIMIT {
            let tensors = template.tensors.iter().filter_map(Tensor::borrow);
            body = compress(compression, std::iter::once(body.as_slice()).chain(tensors));
            length = body.len();
            template.tensors.clear();
        }
        let mut front = self.head(model, binary.then_some(json_length));
        template.length_at = front.len();
        write_length(&mut front, length);
        template.body_at = front.len();
        front.extend_from_slice(&body);
        template.front = front;
        let body_at = template.body_at;
        let places = template.sequence_at.iter_mut().chain(&mut template.tags_at);
        places.for_each(|offset| *offset += body_at);
    }

    /// The head without its last field; `json_length` if binary tensors follow the JSON.
    fn head(&self, model: &ModelSpec, json_length: Option<usize>) -> Vec<u8> {
        let Format { endpoint, headers, compression, .. } = self.format;
        let mut out = headers.begin("POST", &model_path(endpoint, &model.id, "/infer"), endpoint);
        let content = if json_length.is_some() { "application/octet-stream" } else { "application/json" };
        headers.write_own(&mut out, "Content-Type", content);
        if let Some(coding) = coding::name(*compression) {
            headers.write_own(&mut out, "Accept-Encoding", coding);
            write_field(&mut out, "Content-Encoding", coding);
        }
        headers.write_given(&mut out);
        if let Some(length) = json_length {
            write_field(&mut out, JSON_LENGTH, &length.to_string());
        }
        out
    }

    fn write_parameters(&self, out: &mut Vec<u8>, payload: &Payload, template: &mut Template) -> Result<()> {
        let mut fields = Vec::new();
        if self.options.priority > 0 {
            fields.push(format!("\"priority\":{}", self.options.priority));
        }
        if self.options.timeout_us > 0 {
            fields.push(format!("\"timeout\":{}", self.options.timeout_us));
        }
        for parameter in self.options.parameters_of(payload) {
            let value = match &parameter.value {
                ParameterValue::Bool(value) => value.to_string(),
                ParameterValue::Int(value) => value.to_string(),
                ParameterValue::Uint(value) => value.to_string(),
                ParameterValue::Double(value) if value.is_finite() => quoted(value),
                ParameterValue::Double(value) => {
                    let name = &parameter.name;
                    return Err(Error::usage(format!(
                        "--request-parameter {name}: {value} cannot be represented in JSON"
                    )));
                }
                ParameterValue::Text(text) => quoted(text),
            };
            fields.push(format!("{}:{value}", quoted(&parameter.name)));
        }
        if !self.format.json_outputs && self.outputs.is_none() {
            fields.push("\"binary_data_output\":true".to_owned());
        }
        out.push(b'{');
        if self.ids {
            out.extend_from_slice(b"\"id\":\"");
            out.extend_from_slice(request_ids::prefix().as_bytes());
            template.tags_at.push(out.len());
            out.extend_from_slice(&[b'0'; TAG_WIDTH]);
            out.extend_from_slice(b"\",");
        }
        if fields.is_empty() && !self.sequence {
            return Ok(());
        }
        out.extend_from_slice(b"\"parameters\":{");
        if self.sequence {
            template.sequence_at = Some(out.len());
            out.resize(out.len() + SEQUENCE_WIDTH, b' ');
            if !fields.is_empty() {
                out.push(b',');
            }
        }
        out.extend_from_slice(fields.join(",").as_bytes());
        out.extend_from_slice(b"},");
        Ok(())
    }

    fn write_outputs(&self, out: &mut Vec<u8>, template: &mut Template) {
        let Some(PlacedOutputs { prefix, places }) = self.outputs else { return };
        out.extend_from_slice(b"\"outputs\":[");
        for (index, place) in places.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let name = quoted(&place.name);
            out.extend_from_slice(
                format!("{comma}{{\"name\":{name},\"parameters\":{{\"shared_memory_region\":\"{prefix}").as_bytes(),
            );
            template.tags_at.push(out.len());
            out.extend_from_slice(&[b'0'; TAG_WIDTH]);
            out.extend_from_slice(format!("\",\"shared_memory_byte_size\":{}", place.capacity).as_bytes());
            if place.offset > 0 {
                out.extend_from_slice(format!(",\"shared_memory_offset\":{}", place.offset).as_bytes());
            }
            out.extend_from_slice(b"}}");
        }
        out.extend_from_slice(b"],");
    }

    fn write_input(&self, out: &mut Vec<u8>, input: &InputTensor, template: &mut Template) -> Result<()> {
        let (name, datatype) = (quoted(&*input.name), input.datatype);
        out.extend_from_slice(
            format!("{{\"name\":{name},\"shape\":{:?},\"datatype\":\"{datatype}\"", input.shape).as_bytes(),
        );
        let tensor = Tensor { region: input.region.clone(), offset: input.offset, len: input.len };
        if let Some(region) = self.inputs.name_of(&input.region) {
            let (len, offset) = (input.len, input.offset);
            out.extend_from_slice(
                format!(",\"parameters\":{{\"shared_memory_region\":\"{region}\",\"shared_memory_byte_size\":{len}")
                    .as_bytes(),
            );
            if offset > 0 {
                out.extend_from_slice(format!(",\"shared_memory_offset\":{offset}").as_bytes());
            }
            out.extend_from_slice(b"}}");
        } else if self.format.json_inputs {
            out.extend_from_slice(b",\"data\":");
            let bytes = input.region.bytes(input.offset, input.len)?;
            json::write_elements(out, datatype, &bytes)
                .map_err(|why| Error::input(format!("{why}; send it with --input-tensor-format binary")))?;
            out.push(b'}');
        } else {
            out.extend_from_slice(format!(",\"parameters\":{{\"binary_data_size\":{}}}}}", input.len).as_bytes());
            template.push(host_tensor(tensor)?);
        }
        Ok(())
    }
}

/// The tensor in host memory that is not written to, copied there if necessary.
fn host_tensor(tensor: Tensor) -> Result<Tensor> {
    if tensor.borrow().is_some() {
        return Ok(tensor);
    }
    let bytes = tensor.region.bytes(tensor.offset, tensor.len)?;
    let region = crate::shm::Region::filled(crate::shm::Placement::Pageable, &bytes)?;
    Ok(Tensor { region: region.into(), offset: 0, len: tensor.len })
}

fn quoted<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings and finite numbers have a form in JSON")
}
