//! Generated payloads: JSON documents, and which turn of which conversation each is.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::PromptForm;
use crate::error::{Error, Result};
use crate::members::Members;
use crate::model::DataType;
use crate::shm::RegionBuilder;
use crate::steps::{Loaded, Stream, Target, Value};
use crate::strings;

/// Which turn of which conversation a payload is.
pub(super) struct TurnOf<'a> {
    /// The conversation's name.
    pub(super) session: &'a str,
    /// How long it pauses after the answer, in milliseconds.
    pub(super) delay_ms: u64,
    /// The turns that it follows, and how long the conversation pauses before it, in milliseconds; the turn before it if
    /// absent.
    pub(super) after: Option<(&'a [u32], u64)>,
}

/// Payloads as they are made.
pub(super) struct Documents<'a, 'b> {
    target: &'a Target<'b>,
    memory: RegionBuilder,
    stream: Stream,
    /// The field with the limit on output tokens.
    limit: &'static str,
    /// The shape of whatever has one element.
    one: Arc<[i64]>,
}

impl<'a, 'b> Documents<'a, 'b> {
    /// None yet, of chats.
    ///
    /// # Errors
    /// If the model's requests are not JSON documents, or memory is lacking.
    pub(super) fn new(target: &'a Target<'b>) -> Result<Self> {
        Self::of_form(target, PromptForm::Messages)
    }

    /// None yet, of a form.
    ///
    /// # Errors
    /// As [`Documents::new`].
    pub(super) fn of_form(target: &'a Target<'b>, form: PromptForm) -> Result<Self> {
        if target.model.inputs.first().is_none_or(|input| input.datatype != DataType::Json) {
            return Err(Error::input("prompts are payloads for language models, and this model takes tensors"));
        }
        let memory = RegionBuilder::within(target.spec.memory)?;
        Ok(Self { target, memory, stream: Stream::default(), limit: form.limit(), one: [1].into() })
    }

    /// Adds a payload with the prompt in its `fields`.
    pub(super) fn add(&mut self, fields: &str, output: Option<u64>, turn: Option<&TurnOf<'_>>) -> Result<()> {
        let mut text = Vec::new();
        document(&mut text, &self.target.model.id.name, fields, self.limit, output);
        self.add_document(&text, turn)
    }

    /// Adds a whole body, of this model if it names none.
    pub(super) fn add_body(&mut self, mut body: Members, turn: Option<&TurnOf<'_>>) -> Result<()> {
        body.begin_with("model", &Json::from(self.target.model.id.name.as_str()));
        self.add_document(&body.text(), turn)
    }

    /// The model of the run.
    pub(super) fn model(&self) -> &'a String {
        &self.target.model.id.name
    }

    /// The seed of the run.
    pub(super) fn seed(&self) -> u64 {
        self.target.spec.seed
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.stream.len() == 0
    }

    /// Adds a payload.
    pub(super) fn add_document(&mut self, text: &[u8], turn: Option<&TurnOf<'_>>) -> Result<()> {
        self.target.take_steps(1)?;
        let inputs = &self.target.model.inputs;
        let mut values = vec![Some(self.element(text)?)];
        for input in &inputs[1..] {
            let value = match (input.name.as_str(), turn) {
                ("session_id", Some(turn)) => Some(self.element(turn.session.as_bytes())?),
                ("delay", Some(turn)) if turn.delay_ms > 0 => Some(self.bytes(&turn.delay_ms.to_le_bytes(), 1)?),
                ("wait", Some(TurnOf { after: Some((_, wait_ms)), .. })) => {
                    Some(self.bytes(&wait_ms.to_le_bytes(), 1)?)
                }
                ("after", Some(TurnOf { after: Some((turns, _)), .. })) => {
                    let numbers = turns.iter().map(|turn| *turn as i32);
                    let numbers: Vec<i32> = if turns.is_empty() { vec![-1] } else { numbers.collect() };
                    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                    Some(self.bytes(&bytes, numbers.len() as i64)?)
                }
                _ => None,
            };
            values.push(value);
        }
        self.stream.push(values);
        Ok(())
    }

    /// A tensor of one string.
    fn element(&mut self, text: &[u8]) -> Result<Value> {
        let offset = self.memory.align()?;
        strings::append(&mut self.memory, text)?;
        Ok(Value { region: 0, offset, len: self.memory.len() - offset, shape: Arc::clone(&self.one) })
    }

    /// A tensor of so many numbers.
    fn bytes(&mut self, bytes: &[u8], count: i64) -> Result<Value> {
        let offset = self.memory.align()?;
        self.memory.write(bytes)?;
        let shape = if count == 1 { Arc::clone(&self.one) } else { [count].into() };
        Ok(Value { region: 0, offset, len: bytes.len(), shape })
    }

    pub(super) fn loaded(self, warnings: Vec<String>) -> Loaded {
        Loaded { regions: vec![self.memory.finish()], streams: vec![self.stream], warnings }
    }
}

/// The payload around the fields with the prompt; `limit` is the field with the limit on output tokens.
pub(super) fn document(out: &mut Vec<u8>, model: &str, fields: &str, limit: &str, output: Option<u64>) {
    out.extend_from_slice(b"{\"model\":");
    serde_json::to_writer(&mut *out, model).expect("writing to memory cannot fail");
    out.push(b',');
    out.extend_from_slice(fields.as_bytes());
    if let Some(output) = output {
        out.extend_from_slice(format!(",\"{limit}\":{output}").as_bytes());
    }
    out.push(b'}');
}
