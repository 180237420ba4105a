//! `ModelInferRequest`s, encoded once per payload: only the id and the place in a sequence change from request to
//! request. Protocol buffers allow any field order, so these two stand between the fixed fields and the tensors.

use bytes::Bytes;

use crate::backend::{ClientSpec, Parameter, ParameterValue, Request, RequestOptions, SequencePosition};
use crate::data::{InputTensor, Payload};
use crate::engine::calls::{put_message, tensor_bytes};
use crate::error::{Error, Result};
use crate::kserve::regions::{InputRegions, is_shared};
use crate::kserve_grpc::proto::put_parameter;
use crate::kserve_grpc::regions::put_place;
use crate::model::{CorrelationForm, ModelSpec};
use crate::plan::Compression;
use crate::wire::COPY_LIMIT;
use crate::wire::grpc::{self, MAX_MESSAGE};
use crate::wire::protobuf::{put_bytes, put_prefix, put_varint};

/// Space for an id and sequence parameters, in the check of the message limit.
const VARIABLE_MOST: usize = 512;

/// Fields of `ModelInferRequest`.
mod field {
    pub const MODEL_NAME: u32 = 1;
    pub const MODEL_VERSION: u32 = 2;
    pub const ID: u32 = 3;
    pub const PARAMETERS: u32 = 4;
    pub const INPUTS: u32 = 5;
    pub const RAW_INPUTS: u32 = 7;
}

/// The fixed part of a payload's requests.
#[derive(Clone, Debug)]
struct Template {
    /// Fixed fields, and tensors up to the first large one.
    head: Vec<u8>,
    /// The other tensors, each after its prefix.
    tensors: Vec<Bytes>,
    tensors_len: usize,
    /// How the sequence's ID is sent.
    correlation: CorrelationForm,
    /// The whole body, including its prefix, if nothing changes and it is compressed.
    packed: Option<Vec<u8>>,
}

impl Template {
    fn new(head: Vec<u8>, tensors: &[Bytes], correlation: CorrelationForm) -> Self {
        let mut template = Self { head, tensors: Vec::new(), tensors_len: 0, correlation, packed: None };
        for tensor in tensors {
            if tensor.len() < COPY_LIMIT && template.tensors.is_empty() {
                put_bytes(&mut template.head, field::RAW_INPUTS, tensor);
                continue;
            }
            let mut prefix = Vec::with_capacity(8);
            put_prefix(&mut prefix, field::RAW_INPUTS, tensor.len());
            template.tensors_len += prefix.len() + tensor.len();
            template.tensors.extend([Bytes::from(prefix), tensor.clone()]);
        }
        template
    }

    /// All bytes of the message around `variable`, and `variable`.
    fn parts<'a>(&'a self, variable: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        [&self.head[..], variable].into_iter().chain(self.tensors.iter().map(|part| &part[..]))
    }
}

/// How requests use streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// No streams: each request is a call with one answer.
    #[default]
    None,
    /// Long-lived streams, as Triton supports them; such requests ask for empty final responses.
    Shared,
    /// The same with Triton before 23.06, which marks no response as final, and refuses to be asked for it.
    Unmarked,
    /// One stream per request, which ends with its last response: where each request makes a connection, and because other
    /// servers do not say which request an answer is for, or read all requests of a stream before they answer any.
    Own,
}

impl Streams {
    /// Whether requests share long-lived streams.
    pub fn are_shared(self) -> bool {
        matches!(self, Self::Shared | Self::Unmarked)
    }
}

/// What a client's requests have in common on the wire.
#[derive(Clone, Copy, Debug)]
pub struct RequestForm {
    /// Compression of each message.
    pub encoding: Compression,
    /// How they use streams.
    pub streams: Streams,
}

/// Encodes the requests of one client.
#[derive(Debug)]
pub struct RequestEncoder {
    templates: Vec<Template>,
    encoding: Compression,
    variable: Vec<u8>,
    body: Vec<u8>,
}

impl RequestEncoder {
    /// Prepares every payload of `spec`; inputs in `regions` are referred to by name and not sent.
    ///
    /// # Errors
    /// If a tensor cannot be read or a request is longer than gRPC allows.
    pub fn new(spec: &ClientSpec, regions: &InputRegions, form: RequestForm) -> Result<Self> {
        let (encoding, streaming) = (form.encoding, form.streams.are_shared());
        let template = |payload| template(spec, regions, payload, form.streams == Streams::Shared);
        let mut templates = spec.payloads.iter().map(template).collect::<Result<Vec<_>>>()?;
        let changes = spec.traces.is_some() || is_shared(spec.outputs.placements.first());
        if encoding != Compression::None && !streaming && !changes {
            for template in &mut templates {
                let mut packed = Vec::new();
                put_message(&mut packed, encoding, template.parts(&[]))?;
                template.packed = Some(packed);
            }
        }
        Ok(Self { templates, encoding, variable: Vec::new(), body: Vec::new() })
    }

    /// The body of a request, including its prefix: bytes to copy, then tensors by reference. An empty `id` means none.
    /// `outputs` are the encoded fields that ask for outputs in shared memory.
    ///
    /// # Errors
    /// If compression fails.
    #[inline]
    pub fn encode(&mut self, request: Request, id: &[u8], outputs: &[u8]) -> Result<(&[u8], &[Bytes])> {
        let template = &self.templates[request.payload.0 as usize];
        if let (Some(packed), None) = (&template.packed, request.sequence) {
            return Ok((packed, &[]));
        }
        self.variable.clear();
        self.variable.extend_from_slice(outputs);
        if !id.is_empty() {
            put_bytes(&mut self.variable, field::ID, id);
        }
        if let Some(position) = request.sequence {
            put_sequence(&mut self.variable, position, template.correlation);
        }
        if self.encoding != Compression::None {
            self.body.clear();
            put_message(&mut self.body, self.encoding, template.parts(&self.variable))?;
            return Ok((&self.body, &[]));
        }
        self.body.clear();
        let length = template.head.len() + self.variable.len() + template.tensors_len;
        self.body.extend_from_slice(&grpc::prefix(false, length));
        self.body.extend_from_slice(&template.head);
        self.body.extend_from_slice(&self.variable);
        Ok((&self.body, &template.tensors))
    }
}

fn template(spec: &ClientSpec, regions: &InputRegions, payload: &Payload, asks_final: bool) -> Result<Template> {
    let model = spec
        .models
        .get(payload.model)
        .ok_or_else(|| Error::input(format!("a payload is for model {} of {}", payload.model, spec.models.len())))?;
    let mut head = Vec::new();
    put_model(&mut head, model);
    put_options(&mut head, &spec.options, payload, asks_final);
    let mut tensors = Vec::new();
    for input in &payload.inputs {
        let region = regions.name_of(&input.region);
        put_input(&mut head, input, region);
        if region.is_none() {
            tensors.push(tensor_bytes(input)?);
        }
    }
    let total = head.len() + VARIABLE_MOST + tensors.iter().map(|tensor| tensor.len() + 16).sum::<usize>();
    if total > MAX_MESSAGE {
        return Err(Error::input(format!(
            "a request to model '{}' takes {total} bytes, but a gRPC message holds at most {MAX_MESSAGE}; \
             use a smaller batch or shared memory",
            model.id
        )));
    }
    Ok(Template::new(head, &tensors, spec.options.correlation_of(model)))
}

fn put_model(head: &mut Vec<u8>, model: &ModelSpec) {
    put_bytes(head, field::MODEL_NAME, model.id.name.as_bytes());
    if let Some(version) = model.id.version {
        put_bytes(head, field::MODEL_VERSION, version.to_string().as_bytes());
    }
}

fn put_options(head: &mut Vec<u8>, options: &RequestOptions, payload: &Payload, asks_final: bool) {
    if asks_final {
        put_parameter(head, field::PARAMETERS, "triton_enable_empty_final_response", &ParameterValue::Bool(true));
    }
    if options.priority != 0 {
        put_parameter(head, field::PARAMETERS, "priority", &ParameterValue::Uint(options.priority));
    }
    if options.timeout_us != 0 {
        put_parameter(head, field::PARAMETERS, "timeout", &ParameterValue::Int(options.timeout_us as i64));
    }
    for Parameter { name, value } in options.parameters_of(payload) {
        put_parameter(head, field::PARAMETERS, name, &understood(value));
    }
}

/// Triton refuses `uint64_param` in custom parameters, and passes every integer to the model as a signed one: so an
/// unsigned integer travels as a signed one wherever it fits, as over HTTP and in process.
fn understood(value: &ParameterValue) -> ParameterValue {
    match value {
        ParameterValue::Uint(number) => {
            i64::try_from(*number).map_or(ParameterValue::Uint(*number), ParameterValue::Int)
        }
        value => value.clone(),
    }
}

/// Sequence IDs are unsigned 64-bit numbers, carried in a signed field.
fn put_sequence(out: &mut Vec<u8>, position: SequencePosition, form: CorrelationForm) {
    let id = match form {
        CorrelationForm::Number => ParameterValue::Int(position.id as i64),
        CorrelationForm::Text => ParameterValue::Text(position.id.to_string()),
    };
    put_parameter(out, field::PARAMETERS, "sequence_id", &id);
    put_parameter(out, field::PARAMETERS, "sequence_start", &ParameterValue::Bool(position.start));
    put_parameter(out, field::PARAMETERS, "sequence_end", &ParameterValue::Bool(position.end));
}

fn put_input(head: &mut Vec<u8>, input: &InputTensor, region: Option<&str>) {
    let mut message = Vec::new();
    put_bytes(&mut message, 1, input.name.as_bytes());
    put_bytes(&mut message, 2, input.datatype.name().as_bytes());
    let mut shape = Vec::new();
    input.shape.iter().for_each(|&dim| put_varint(&mut shape, dim as u64));
    put_bytes(&mut message, 3, &shape);
    if let Some(region) = region {
        put_place(&mut message, 4, region, input.offset, input.len);
    }
    put_bytes(head, field::INPUTS, &message);
}
