//! [`Predictions`]: encodes requests and interprets answers, for a client's slots.

use std::io::IoSlice;
use std::sync::Arc;

use super::body::Bodies;
use super::reply::ReplyOutputs;
use crate::backend::{ClientSpec, InferError, ReplyChecks, ReplyForm, Request};
use crate::data::PayloadId;
use crate::engine::http1::{Headers, HttpService, KEPT_OF_REFUSAL, refusal};
use crate::engine::serial::SLICES;
use crate::engine::{Exchanges, malformed};
use crate::error::Result;
use crate::plan::Compression;
use crate::wire::http1::{Head, NOT_ASKED_FOR, decompress};

/// What is kept for one slot.
struct Slot {
    request: Request,
    /// Of the answer's body.
    kept: Vec<u8>,
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

    fn check(&self, length: u64) -> Result<(), InferError> {
        let most = self.spec.max_reply_bytes;
        let long = || malformed(format!("it is longer than {most} bytes (--max-reply-bytes)"));
        if length <= most { Ok(()) } else { Err(long()) }
    }
}

impl HttpService for Predictions {
    fn grow(&mut self, slots: usize) -> Result<()> {
        let (spec, request) = (&self.spec, Request { payload: PayloadId(0), sequence: None });
        let empty = || Slot { request, kept: Vec::new(), wanted: 0, checks: ReplyChecks::new(spec) };
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
        if !self.headers.accept(head.encoding, Compression::None) {
            return Err(malformed(NOT_ASKED_FOR));
        }
        self.check(head.length.unwrap_or(0))
    }

    #[inline]
    fn body(&mut self, slot: usize, piece: &[u8], total: u64, _: &mut Exchanges) -> Result<(), InferError> {
        self.check(total)?;
        let Slot { kept, wanted, .. } = &mut self.slots[slot];
        let room = wanted.saturating_sub(kept.len() as u64).min(piece.len() as u64);
        kept.extend_from_slice(&piece[..room as usize]);
        Ok(())
    }

    fn complete(&mut self, slot: usize, head: &Head, _: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Slot { request, kept, wanted, checks } = &mut self.slots[slot];
        if *wanted == 0 {
            exchanges.responded(slot);
            return Ok(());
        }
        let most = if head.status == 200 { self.spec.max_reply_bytes } else { KEPT_OF_REFUSAL };
        let unpacked = match decompress(head.encoding, kept, most) {
            Ok(unpacked) => unpacked,
            Err(_) if head.status != 200 => None,
            Err(why) => return Err(malformed(why)),
        };
        let body = unpacked.as_deref().unwrap_or(kept);
        if head.status != 200 {
            return Err(refusal(head.status, &head.location, body));
        }
        let payload = &self.spec.payloads[request.payload.0 as usize];
        let model = &self.spec.models[payload.model];
        let outputs = ReplyOutputs::read(body, model)?;
        if checks.is_due(request.payload) {
            ReplyForm { model, batch: payload.batch, contents: true }.check(None, &outputs)?;
            checks.pass(request.payload);
        }
        exchanges.respond(slot, &outputs);
        Ok(())
    }
}
