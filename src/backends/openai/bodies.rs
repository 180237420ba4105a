//! [`Bodies`]: every payload of a run as a request; shared by all clients that were opened the same way.

use std::io::IoSlice;
use std::sync::Arc;

use serde_json::Value;

use crate::backend::{ClientSpec, Parameter, ParameterValue, RequestOptions};
use crate::data::Members;
use crate::data::{InputTensor, Payload};
use crate::engine::Endpoint;
use crate::engine::http1::{Headers, write_length};
use crate::engine::serial::{self, SLICES};
use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::openai::turns::conversation;
use crate::openai::{AFTER, PAYLOAD};
use crate::plan::OpenAiPlan;
use crate::shm::Region;

/// The version of Anthropic's messages that a request must name (<https://docs.anthropic.com/en/api/versioning>).
const ANTHROPIC_VERSION: &str = "2023-06-01";
/// Bytes of the length prefix of packed documents.
const LENGTH: usize = 4;

/// Every payload of a run as a request.
pub(super) struct Bodies {
    models: Arc<[ModelSpec]>,
    payloads: Arc<[Payload]>,
    options: Arc<RequestOptions>,
    /// The common beginning of the heads of all requests.
    head: Vec<u8>,
    /// By payload.
    bodies: Vec<Body>,
    /// Payloads are turns of conversations.
    sessions: bool,
    /// The header field that names a turn's session.
    session_header: Option<String>,
}

/// One payload's request after the common part of the head.
struct Body {
    /// The rest of the head.
    length: Vec<u8>,
    document: Document,
}

/// Where the body's text is.
enum Document {
    /// As in the data.
    Unchanged { region: Arc<Region>, offset: usize, len: usize },
    /// With fields that were set.
    Changed(Vec<u8>),
}

impl Document {
    fn text(&self) -> &[u8] {
        match self {
            Self::Changed(text) => text,
            Self::Unchanged { region, offset, len } => match region.bytes(*offset, *len) {
                Ok(std::borrow::Cow::Borrowed(text)) => text,
                _ => &[],
            },
        }
    }
}

impl Bodies {
    /// The requests of `spec`; with `mixed`, payloads name their model.
    ///
    /// # Errors
    /// If fields must be set in a payload that is not an object.
    pub(super) fn new(
        endpoint: &Endpoint,
        headers: &Headers,
        plan: &OpenAiPlan,
        mixed: bool,
        spec: &ClientSpec,
    ) -> Result<Self> {
        let body = |payload: &Payload| {
            let model = mixed.then(|| spec.models[payload.model].id.to_string());
            let made = body(plan, model, &spec.options, payload);
            made.and_then(|body| if plan.sessions { check_turn(&body).map(|()| body) } else { Ok(body) })
                .map_err(|error| error.context(format!("stream {}, step {}", payload.stream, payload.step)))
        };
        Ok(Self {
            models: spec.models.clone(),
            payloads: spec.payloads.clone(),
            options: spec.options.clone(),
            head: head(endpoint, headers, &plan.endpoint),
            bodies: spec.payloads.iter().map(body).collect::<Result<_>>()?,
            sessions: plan.sessions,
            session_header: plan.session_header.clone(),
        })
    }

    /// Whether payloads are turns of conversations.
    pub(super) fn are_turns(&self) -> bool {
        self.sessions
    }

    /// The common beginning of the heads of all requests.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The text of a payload.
    pub(super) fn text(&self, payload: usize) -> &[u8] {
        self.bodies[payload].document.text()
    }

    /// The number of a turn within its session.
    pub(super) fn turn(&self, payload: usize) -> u32 {
        self.payloads[payload].step
    }

    /// Whether a turn holds the whole conversation, except for answers.
    pub(super) fn is_whole(&self, payload: usize) -> bool {
        has_whole(&self.payloads[payload])
    }

    /// The header field that names a session, if there is to be one.
    pub(super) fn session_header(&self, session: u64) -> Vec<u8> {
        match &self.session_header {
            Some(name) => format!("{name}: session-{session}\r\n").into_bytes(),
            None => Vec::new(),
        }
    }

    /// Whether these were made for clients as described by `spec`.
    pub(super) fn fit(&self, spec: &ClientSpec) -> bool {
        Arc::ptr_eq(&self.models, &spec.models)
            && Arc::ptr_eq(&self.payloads, &spec.payloads)
            && (Arc::ptr_eq(&self.options, &spec.options) || self.options == spec.options)
    }

    fn parts(&self, payload: usize) -> [&[u8]; 3] {
        let body = &self.bodies[payload];
        [&self.head, &body.length, body.document.text()]
    }

    /// Bytes of a payload's request.
    pub(super) fn total(&self, payload: usize) -> usize {
        self.parts(payload).iter().map(|part| part.len()).sum()
    }

    /// Fills `slices` with a payload's request after its first `skip` bytes. Returns how many are used.
    pub(super) fn gather<'a>(&'a self, payload: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        serial::gather(self.parts(payload), skip, slices)
    }
}

/// Whether a payload is a turn that holds the whole conversation.
fn has_whole(payload: &Payload) -> bool {
    payload.inputs.iter().any(|input| &*input.name == AFTER)
}

/// A turn of a conversation has messages, under either name, or a prompt.
fn check_turn(body: &Body) -> Result<()> {
    let fields = Members::read(body.document.text())?;
    match conversation(&fields).is_some() || fields.string("prompt").is_some() {
        true => Ok(()),
        false => Err(Error::input(
            "a turn of a session has a list of `messages` (of the Responses API its `input`), or a text as its `prompt`",
        )),
    }
}

/// The head of all requests, without its last field.
fn head(endpoint: &Endpoint, headers: &Headers, path: &str) -> Vec<u8> {
    let target = without_dots(&format!("{}/{path}", endpoint.prefix));
    let mut out = headers.begin("POST", &target, endpoint);
    headers.write_own(&mut out, "Accept", "*/*");
    headers.write_own(&mut out, "Content-Type", "application/json");
    if is_messages(path) {
        headers.write_own(&mut out, "anthropic-version", ANTHROPIC_VERSION);
    }
    headers.write_given(&mut out);
    out
}

/// A path without the segments `.` and `..`, as clients send it (RFC 3986, 5.2.4): genai-perf's name of the root, where TGI answers,
/// is `.`.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_dots = false;
    for segment in path.split('/') {
        ends_in_dots = matches!(segment, "." | "..");
        match segment {
            ".." if kept.len() > 1 => drop(kept.pop()),
            "." | ".." => {}
            name => kept.push(name),
        }
    }
    // What such a segment leads to is a folder.
    if ends_in_dots {
        kept.push("");
    }
    kept.join("/") + query
}

/// Whether an endpoint is that of Anthropic's messages.
fn is_messages(endpoint: &str) -> bool {
    path_of(endpoint).ends_with("messages")
}

/// Whether an endpoint takes `stream_options`: Anthropic's messages and OpenAI's Responses API report usage unasked, and refuse the
/// field.
fn takes_stream_options(endpoint: &str) -> bool {
    !is_messages(endpoint) && !path_of(endpoint).ends_with("responses")
}

fn path_of(endpoint: &str) -> &str {
    endpoint.split('?').next().unwrap_or_default().trim_end_matches('/')
}

fn body(plan: &OpenAiPlan, model: Option<String>, options: &RequestOptions, payload: &Payload) -> Result<Body> {
    let input = payload.inputs.first().filter(|input| &*input.name == PAYLOAD);
    let input = input.ok_or_else(|| Error::input(format!("a request has one input, '{PAYLOAD}'")))?;
    let document = document(plan, model, options, payload, input)?;
    let mut length = Vec::new();
    write_length(&mut length, document.text().len());
    Ok(Body { length, document })
}

/// The payload, with fields set as the plan asks.
fn document(
    plan: &OpenAiPlan,
    model: Option<String>,
    options: &RequestOptions,
    payload: &Payload,
    input: &InputTensor,
) -> Result<Document> {
    let len = input.len.checked_sub(LENGTH).ok_or_else(|| Error::input("the payload is empty"))?;
    let unchanged = Document::Unchanged { region: input.region.clone(), offset: input.offset + LENGTH, len };
    let mut parameters = options.parameters_of(payload).peekable();
    let is_unchanged = model.is_none() && !plan.streaming && plan.response_format.is_none();
    if is_unchanged && parameters.peek().is_none() {
        return Ok(unchanged);
    }
    let mut fields = Members::read(unchanged.text())?;
    if let Some(model) = model {
        fields.set("model", &Value::from(model));
    }
    // A recorded call says itself what it needs.
    let is_recorded = has_whole(payload);
    for Parameter { name, value } in parameters {
        if is_recorded { fields.add(name, &json(value)) } else { fields.set(name, &json(value)) }
    }
    if let Some(format) = &plan.response_format {
        fields.set_text("response_format", format)?;
    }
    if plan.streaming {
        fields.add("stream", &Value::from(true));
        if !plan.without_usage && fields.has_true("stream") && takes_stream_options(&plan.endpoint) {
            fields.add("stream_options", &serde_json::json!({ "include_usage": true }));
        }
    }
    Ok(Document::Changed(fields.text()))
}

fn json(value: &ParameterValue) -> Value {
    match value {
        ParameterValue::Bool(value) => Value::from(*value),
        ParameterValue::Int(value) => Value::from(*value),
        ParameterValue::Uint(value) => Value::from(*value),
        ParameterValue::Double(value) => Value::from(*value),
        ParameterValue::Text(value) => Value::from(value.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::without_dots;

    #[test]
    fn paths_are_sent_without_dots() {
        for (path, sent) in [
            ("/.", "/"),
            ("/api/.", "/api/"),
            ("/v1/./chat/completions", "/v1/chat/completions"),
            ("/v1/../generate", "/generate"),
            ("/../..", "/"),
            ("/v1/..?a=./b/..", "/?a=./b/.."),
            ("/v1//chat/completions/", "/v1//chat/completions/"),
            ("/v1/.well/a..b", "/v1/.well/a..b"),
        ] {
            assert_eq!(without_dots(path), sent);
        }
    }
}
