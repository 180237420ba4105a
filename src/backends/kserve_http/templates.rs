//! [`Templates`]: every payload of a client, rendered; shared by all clients with the same specification.

use std::sync::{Arc, OnceLock};

use crate::backend::{ClientSpec, InferError, OutputPlan, ReplyForm, Request, RequestOptions, reply_limit};
use crate::data::Payload;
use crate::error::Result;
use crate::kserve::regions::{InputRegions, OutputLayout, Registry, SlotOutputs, TAG_WIDTH};
use crate::kserve_http::body::Longest;
use crate::kserve_http::render::{Format, PlacedOutputs, Rendering};
use crate::kserve_http::template::Template;
use crate::model::ModelSpec;

/// Maximum number of JSON characters per byte of a tensor, as in `-128,` and `-3.4028234663852886e+38,`.
const JSON_PER_BYTE: u64 = 8;

/// A payload's requests: alone, and as one of a sequence. A form that is not expected is rendered on first use.
#[derive(Default)]
struct Forms {
    alone: OnceLock<Result<Template, InferError>>,
    in_sequence: OnceLock<Result<Template, InferError>>,
}

/// Every payload of a client, rendered.
pub(super) struct Templates {
    format: Arc<Format>,
    models: Arc<[ModelSpec]>,
    payloads: Arc<[Payload]>,
    options: Arc<RequestOptions>,
    outputs: OutputPlan,
    max_reply_bytes: u64,
    /// Whether requests have ids.
    ids: bool,
    registry: Arc<Registry>,
    inputs: InputRegions,
    /// The layout of outputs in a slot's region; `None` if they come in replies.
    layout: Option<Arc<OutputLayout>>,
    forms: Vec<Forms>,
}

impl Templates {
    /// Renders every payload in the form that its model's scheduler expects.
    ///
    /// # Errors
    /// If a payload cannot be rendered or the server refuses a region.
    pub(super) fn new(format: Arc<Format>, registry: Arc<Registry>, spec: &ClientSpec) -> Result<Self> {
        let templates = Self {
            inputs: registry.inputs(&spec.payloads)?,
            layout: OutputLayout::for_client(spec).map(Arc::new),
            forms: spec.payloads.iter().map(|_| Forms::default()).collect(),
            models: spec.models.clone(),
            payloads: spec.payloads.clone(),
            options: spec.options.clone(),
            outputs: spec.outputs.clone(),
            max_reply_bytes: spec.max_reply_bytes,
            ids: spec.traces.is_some(),
            format,
            registry,
        };
        for (forms, payload) in templates.forms.iter().zip(&*spec.payloads) {
            let sequence = spec.models[payload.model].sequences;
            let form = if sequence { &forms.in_sequence } else { &forms.alone };
            let template = templates.render(payload, sequence)?;
            form.get_or_init(|| Ok(template));
        }
        Ok(templates)
    }

    /// Whether these were made for clients with this `spec`.
    pub(super) fn fit(&self, spec: &ClientSpec) -> bool {
        Arc::ptr_eq(&self.models, &spec.models)
            && Arc::ptr_eq(&self.payloads, &spec.payloads)
            && Arc::ptr_eq(&self.options, &spec.options)
            && self.outputs == spec.outputs
            && self.max_reply_bytes == spec.max_reply_bytes
            && self.ids == spec.traces.is_some()
    }

    fn render(&self, payload: &Payload, sequence: bool) -> Result<Template> {
        let placed = self.layout.as_ref().map(|layout| PlacedOutputs {
            prefix: self.registry.output_prefix(),
            places: layout.places(payload.model),
        });
        let rendering = Rendering {
            format: &self.format,
            options: &self.options,
            inputs: &self.inputs,
            outputs: placed.as_ref().filter(|placed| !placed.places.is_empty()),
            ids: self.ids,
            sequence,
        };
        let mut template = rendering.render(&self.models[payload.model], payload)?;
        template.longest = self.longest(payload);
        template.correlation = self.options.correlation_of(&self.models[payload.model]);
        Ok(template)
    }

    /// Size limit of the reply to a request with `payload`.
    fn longest(&self, payload: &Payload) -> Longest {
        match reply_limit(&self.models[payload.model], payload.batch, u64::MAX) {
            u64::MAX => Longest::Allowed(self.max_reply_bytes),
            bytes if self.format.json_outputs => Longest::Outputs(bytes.saturating_mul(JSON_PER_BYTE)),
            bytes => Longest::Outputs(bytes),
        }
    }

    /// What the reply to a request must fit.
    pub(super) fn form(&self, request: Request) -> ReplyForm<'_> {
        let payload = &self.payloads[request.payload.0 as usize];
        ReplyForm { model: &self.models[payload.model], batch: payload.batch, contents: true }
    }

    /// What all requests have in common.
    pub(super) fn format(&self) -> &Arc<Format> {
        &self.format
    }

    /// The template of a request.
    pub(super) fn get(&self, request: Request) -> Result<&Template, InferError> {
        let index = request.payload.0 as usize;
        let unusable = |message: String| InferError::new("Request", message);
        let forms = self.forms.get(index).ok_or_else(|| unusable(format!("there is no payload {index}")))?;
        let sequence = request.sequence.is_some();
        let form = if sequence { &forms.in_sequence } else { &forms.alone };
        let render = || self.render(&self.payloads[index], sequence).map_err(|error| unusable(error.to_string()));
        form.get_or_init(render).as_ref().map_err(Clone::clone)
    }

    /// Index of the model that a request is for.
    pub(super) fn model_of(&self, request: Request) -> usize {
        self.payloads[request.payload.0 as usize].model
    }

    /// A number for a client that uses these.
    pub(super) fn client_number(&self) -> u32 {
        self.registry.client_number()
    }

    /// A region for the outputs of the slot with that tag; `None` if outputs come in the reply.
    ///
    /// # Errors
    /// If memory is lacking or the server refuses.
    pub(super) fn slot_outputs(&self, tag: [u8; TAG_WIDTH]) -> Result<Option<SlotOutputs>> {
        self.layout.as_ref().map(|layout| self.registry.outputs(layout, tag)).transpose()
    }
}
