//! [`Calls`]: the calls of a client's slots, and what their answers mean.

use std::sync::Arc;

use bytes::Bytes;

use crate::backend::{ClientSpec, InferError, Misfit, OutputView, Outputs, ReplyChecks, Request};
use crate::data::pack_element;
use crate::dynamic_grpc::bodies::Bodies;
use crate::dynamic_grpc::schema::{Answer, OUTPUT};
use crate::engine::Exchanges;
use crate::engine::calls::Method;
use crate::error::Result;
use crate::model::DataType;
use crate::wire::COPY_LIMIT;
use crate::wire::grpc::Wish;

/// The calls of a client.
pub struct Calls {
    bodies: Arc<Bodies>,
    /// The type of an answer's messages, if known.
    answers: Option<Answer>,
    spec: ClientSpec,
    /// Which answers are checked, by slot.
    checks: Vec<ReplyChecks>,
}

impl Calls {
    /// For clients with this `spec`; no slots yet.
    pub fn new(bodies: Arc<Bodies>, answers: Option<Answer>, spec: &ClientSpec) -> Self {
        Self { bodies, answers, spec: spec.clone(), checks: Vec::new() }
    }
}

impl Method for Calls {
    fn grow(&mut self, slots: usize) -> Result<()> {
        while self.checks.len() < slots {
            self.checks.push(ReplyChecks::new(&self.spec));
        }
        Ok(())
    }

    #[inline]
    fn encode(&mut self, _: usize, request: Request, _: &[u8]) -> Result<(&[u8], &[Bytes])> {
        let body = self.bodies.get(request.payload.0 as usize);
        if body.len() < COPY_LIMIT { Ok((body, &[])) } else { Ok((&[], std::slice::from_ref(body))) }
    }

    #[inline]
    fn model_of(&self, _: Request) -> usize {
        0
    }

    #[inline]
    fn streams_answers(&self) -> bool {
        true
    }

    #[inline]
    fn wish(&self, slot: usize, exchanges: &Exchanges) -> Wish {
        let looks = exchanges.watched() || self.checks[slot].is_due(exchanges.request(slot).payload);
        Wish { keep: self.answers.is_some() && looks, limit: self.spec.max_reply_bytes }
    }

    fn longest(&self) -> u64 {
        self.spec.max_reply_bytes
    }

    fn answer(&mut self, slot: usize, message: Option<&[u8]>, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let (Some(answers), Some(message)) = (&self.answers, message) else {
            exchanges.respond(slot, &Unknown);
            return Ok(());
        };
        let payload = exchanges.request(slot).payload;
        if self.checks[slot].is_due(payload) {
            let found = answers.decode(message).map(drop).map_err(|why| {
                Misfit::undecodable(format_args!("a message of the answer is not a {}: {why}", answers.name()))
            });
            self.checks[slot].settle(payload, &self.spec.models[0], found)?;
        }
        exchanges.respond(slot, &Described { answers, message });
        Ok(())
    }

    fn stream_answer(&mut self, _: &[u8], _: &mut Exchanges) -> Result<(), InferError> {
        // Every call belongs to one request.
        Ok(())
    }
}

/// A message that cannot be parsed.
struct Unknown;

impl Outputs for Unknown {
    fn visit(&self, _: &mut dyn FnMut(OutputView<'_>)) {}
}

/// A message, as JSON for observers.
struct Described<'a> {
    answers: &'a Answer,
    message: &'a [u8],
}

impl Outputs for Described<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        let Ok(json) = self.answers.decode(self.message) else { return };
        let mut bytes = Vec::new();
        pack_element(&mut bytes, &[&json]);
        visitor(OutputView { name: OUTPUT, datatype: DataType::Json, shape: &[1], bytes: &bytes });
    }
}
