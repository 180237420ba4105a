//! [`Predictions`]: encodes requests and interprets answers, for a client's slots.

use std::io::IoSlice;
use std::sync::Arc;

use super::body::Bodies;
use super::reply::ReplyOutputs;
use crate::backend::{ClientSpec, InferError, ReplyChecks, ReplyForm, ReplySource, Request};
use crate::data::PayloadId;
use crate::engine::http1::{
    Headers, HttpService, KEPT_OF_REFUSAL, check_length, keep, refusal, unpacked, unpacked_refusal,
};
use crate::engine::serial::SLICES;
use crate::engine::{Exchanges, malformed};
use crate::error::Result;
use crate::held::Held;
use crate::plan::Compression;
use crate::wire::http1::{Head, NOT_ASKED_FOR};

/// What is kept for one slot.
struct Slot {
    request: Request,
    /// Of the answer's body.
    kept: Held,
    /// Bytes of it that are wanted.
    wanted: u64,
    /// Which answers are checked against the model.
    checks: ReplyChecks,
}

/// The requests of a client.
pub struct Predictions {
    bodies: Arc<Bodies>,
    headers: Headers,
    spec: ClientSpec,
    slots: Vec<Slot>,
}

impl Predictions {
    /// For clients as described by `spec`; no slots yet.
    pub fn new(bodies: Arc<Bodies>, headers: Headers, spec: ClientSpec) -> Self {
        Self { bodies, headers, spec, slots: Vec::new() }
    }
}

impl HttpService for Predictions {
    fn grow(&mut self, slots: usize) -> Result<()> {
        let (spec, request) = (&self.spec, Request { payload: PayloadId(0), sequence: None });
        let empty = || Slot { request, kept: Held::default(), wanted: 0, checks: ReplyChecks::new(spec) };
        self.slots.resize_with(slots.max(self.slots.len()), empty);
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        self.slots[slot].request = request;
        Ok(self.bodies.get(request.payload.0).len())
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let left = self.bodies.get(self.slots[slot].request.payload.0).get(skip..).unwrap_or_default();
        slices[0] = IoSlice::new(left);
        usize::from(!left.is_empty())
    }

    fn head(&mut self, slot: usize, head: &Head) -> Result<(), InferError> {
        let watch = self.spec.watch_responses;
        let Slot { request, kept, wanted, checks } = &mut self.slots[slot];
        kept.clear();
        *wanted = match head.status {
            200 if watch || checks.is_due(request.payload) => u64::MAX,
            200 => 0,
            _ => KEPT_OF_REFUSAL,
        };
        // A refusal is told in any case, as well as it can be read.
        if head.status == 200 && !self.headers.accept(head.encoding, Compression::None) {
            return Err(malformed(NOT_ASKED_FOR));
        }
        check_length(head.length.unwrap_or(0), self.spec.max_reply_bytes)
    }

    #[inline]
    fn body(&mut self, slot: usize, piece: &[u8], total: u64, _: &mut Exchanges) -> Result<(), InferError> {
        check_length(total, self.spec.max_reply_bytes)?;
        let Slot { kept, wanted, .. } = &mut self.slots[slot];
        keep(kept, piece, *wanted)
    }

    fn complete(&mut self, slot: usize, head: &Head, _: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Slot { request, kept, wanted, checks } = &mut self.slots[slot];
        if *wanted == 0 {
            exchanges.responded(slot);
            return Ok(());
        }
        if head.status != 200 {
            return Err(refusal(head.status, &head.location, &unpacked_refusal(head, kept)));
        }
        let body = unpacked(head, kept, self.spec.max_reply_bytes, exchanges)?;
        let payload = &self.spec.payloads[request.payload.0 as usize];
        let model = &self.spec.models[payload.model];
        let outputs = ReplyOutputs::read(&body, model)?;
        if checks.is_due(request.payload) {
            let form = ReplyForm { model, batch: payload.batch, contents: true };
            checks.settle(request.payload, model, form.check(ReplySource::default(), &outputs))?;
        }
        exchanges.respond(slot, &outputs);
        Ok(())
    }
}
