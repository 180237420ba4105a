//! Checks of answers: not too long, and from the model that was asked.

use std::sync::Arc;

use crate::backend::{ClientSpec, InferError, Misfit, ReplyChecks, ReplyForm, reply_limit};
use crate::data::{Payload, PayloadId};
use crate::kserve_grpc::proto::InferReply;
use crate::kserve_grpc::regions::PlacedOutputs;
use crate::model::ModelSpec;

/// The rules of one client's answers.
pub struct ReplyRules {
    models: Arc<[ModelSpec]>,
    payloads: Arc<[Payload]>,
    /// Longest answer, by payload.
    limits: Box<[u64]>,
    longest: u64,
    /// What must still be checked against the model, by slot.
    checks: Vec<ReplyChecks>,
}

impl ReplyRules {
    /// For answers to the payloads of `spec`; no slots yet.
    pub fn new(spec: &ClientSpec) -> Self {
        let limit = |payload: &Payload| reply_limit(&spec.models[payload.model], payload.batch, spec.max_reply_bytes);
        let limits: Box<[u64]> = spec.payloads.iter().map(limit).collect();
        Self {
            models: Arc::clone(&spec.models),
            payloads: Arc::clone(&spec.payloads),
            longest: limits.iter().copied().max().unwrap_or(0),
            limits,
            checks: Vec::new(),
        }
    }

    /// Makes room for another slot.
    pub fn add_slot(&mut self, spec: &ClientSpec) {
        self.checks.push(ReplyChecks::new(spec));
    }

    /// Size limit of an answer to a payload, compressed or decompressed.
    #[inline]
    pub fn limit(&self, payload: PayloadId) -> u64 {
        self.limits[payload.0 as usize]
    }

    /// Size limit of an answer to any payload.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Whether a slot's answer to a payload must be checked.
    #[inline]
    pub fn is_due(&self, slot: usize, payload: PayloadId) -> bool {
        self.checks[slot].is_due(payload)
    }

    /// Checks a slot's answer to a payload against the model, if that is due; always checks that it has outputs that can
    /// be decoded. `contents`: the outputs include their bytes.
    ///
    /// # Errors
    /// What does not fit.
    #[inline]
    pub fn check(
        &mut self,
        slot: usize,
        payload: PayloadId,
        reply: &InferReply<'_>,
        outputs: &PlacedOutputs<'_>,
        contents: bool,
    ) -> Result<(), InferError> {
        if reply.has_outputs && outputs.is_readable() && !self.is_due(slot, payload) {
            return Ok(());
        }
        let Payload { model, batch, .. } = self.payloads[payload.0 as usize];
        let model = &self.models[model];
        let form = ReplyForm { model, batch, contents };
        let unknown = reply.unknown_datatype().map(|name| format!("an output has the unknown datatype '{name}'"));
        let datatypes = unknown.map_or(Ok(()), |why| Err(Misfit::undecodable(why)));
        let found = outputs.decoded().and(datatypes).and_then(|()| form.check(reply.source(), outputs));
        self.checks[slot].settle(payload, model, found)
    }
}
