//! [`Predict`]: encodes requests and interprets answers, for a client's slots over gRPC.

use std::sync::Arc;

use bytes::Bytes;

use crate::backend::{ClientSpec, InferError, ReplyChecks, ReplyForm, ReplySource, Request};
use crate::data::Payload;
use crate::engine::Exchanges;
use crate::engine::calls::Method;
use crate::engine::calls::status::{self, BROKEN};
use crate::error::Result;
use crate::tfserving::answer::{Answer, glance};
use crate::tfserving::request::Requests;
use crate::wire::grpc::Wish;

/// The requests of a client.
pub struct Predict {
    requests: Arc<Requests>,
    spec: ClientSpec,
    /// What must still be checked against the model, by slot.
    checks: Vec<ReplyChecks>,
    /// Where typed lists are unpacked.
    buffer: Vec<u8>,
}

impl Predict {
    /// For clients as described by `spec`; no slots yet.
    pub fn new(requests: Arc<Requests>, spec: ClientSpec) -> Self {
        Self { requests, spec, checks: Vec::new(), buffer: Vec::new() }
    }
}

impl Method for Predict {
    fn grow(&mut self, slots: usize) -> Result<()> {
        let spec = &self.spec;
        self.checks.resize_with(slots.max(self.checks.len()), || ReplyChecks::new(spec));
        Ok(())
    }

    #[inline]
    fn encode(&mut self, _: usize, request: Request, _: &[u8]) -> Result<(&[u8], &[Bytes])> {
        Ok(self.requests.get(request.payload.0))
    }

    #[inline]
    fn model_of(&self, request: Request) -> usize {
        self.spec.payloads[request.payload.0 as usize].model
    }

    #[inline]
    fn wish(&self, slot: usize, exchanges: &Exchanges) -> Wish {
        let due = self.checks[slot].is_due(exchanges.request(slot).payload);
        Wish { keep: due || exchanges.watched(), limit: self.spec.max_reply_bytes }
    }

    fn longest(&self) -> u64 {
        self.spec.max_reply_bytes
    }

    #[inline]
    fn answer(&mut self, slot: usize, message: Option<&[u8]>, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Some(message) = message else {
            exchanges.responded(slot);
            return Ok(());
        };
        let payload = exchanges.request(slot).payload;
        let Payload { model, batch, .. } = self.spec.payloads[payload.0 as usize];
        let model = &self.spec.models[model];
        let is_due = self.checks[slot].is_due(payload);
        if !is_due && !exchanges.watched() {
            glance(message, model)?;
            exchanges.responded(slot);
            return Ok(());
        }
        let answer = Answer::read(message, model, self.spec.max_reply_bytes, std::mem::take(&mut self.buffer))?;
        if is_due {
            let form = ReplyForm { model, batch, contents: true };
            self.checks[slot].settle(payload, model, form.check(ReplySource::default(), &answer))?;
        }
        exchanges.respond(slot, &answer);
        self.buffer = answer.into_buffer();
        Ok(())
    }

    fn stream_answer(&mut self, _: &[u8], _: &mut Exchanges) -> Result<(), InferError> {
        Err(status::error(BROKEN, "the method has no streams"))
    }
}
