//! [`Predictions`]: encodes requests and interprets answers, for a client's slots.

use std::io::IoSlice;
use std::sync::Arc;

use crate::backend::{ClientSpec, ErrorCode, InferError, OutputView, Outputs, Request};
use crate::data::PayloadId;
use crate::engine::http1::{Headers, HttpService, KEPT_OF_REFUSAL, check_length, keep, refusal, unpacked_refusal};
use crate::engine::serial::SLICES;
use crate::engine::{Exchanges, malformed};
use crate::error::Result;
use crate::held::Held;
use crate::plan::Compression;
use crate::torchserve::reply::reason;
use crate::torchserve::upload::Uploads;
use crate::wire::http1::{Head, NOT_ASKED_FOR};

/// What is kept for one slot.
struct Slot {
    request: Request,
    /// Whether the answer is a refusal, whose body is kept.
    is_refused: bool,
    refusal: Held,
}

/// The requests of a client.
pub struct Predictions {
    uploads: Arc<Uploads>,
    headers: Headers,
    max_reply_bytes: u64,
    slots: Vec<Slot>,
}

impl Predictions {
    /// For clients as described by `spec`; no slots yet.
    pub fn new(uploads: Arc<Uploads>, headers: Headers, spec: &ClientSpec) -> Self {
        Self { uploads, headers, max_reply_bytes: spec.max_reply_bytes, slots: Vec::new() }
    }
}

impl HttpService for Predictions {
    fn grow(&mut self, slots: usize) -> Result<()> {
        let request = Request { payload: PayloadId(0), sequence: None };
        let empty = || Slot { request, is_refused: false, refusal: Held::default() };
        self.slots.resize_with(slots.max(self.slots.len()), empty);
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        self.slots[slot].request = request;
        Ok(self.uploads.len(request))
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        self.uploads.gather(self.slots[slot].request, skip, slices)
    }

    fn head(&mut self, slot: usize, head: &Head) -> Result<(), InferError> {
        let Slot { is_refused, refusal, .. } = &mut self.slots[slot];
        *is_refused = head.status != 200;
        refusal.clear();
        // A refusal is told in any case, as well as it can be read.
        if !*is_refused && !self.headers.accept(head.encoding, Compression::None) {
            return Err(malformed(NOT_ASKED_FOR));
        }
        check_length(head.length.unwrap_or(0), self.max_reply_bytes)
    }

    #[inline]
    fn body(&mut self, slot: usize, piece: &[u8], total: u64, _: &mut Exchanges) -> Result<(), InferError> {
        check_length(total, self.max_reply_bytes)?;
        let Slot { is_refused, refusal, .. } = &mut self.slots[slot];
        if *is_refused {
            keep(refusal, piece, KEPT_OF_REFUSAL)?;
        }
        Ok(())
    }

    fn complete(&mut self, slot: usize, head: &Head, _: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        if head.status == 200 {
            exchanges.respond(slot, &Nothing);
            return Ok(());
        }
        let body = unpacked_refusal(head, &self.slots[slot].refusal);
        let server_error = reason(&body).map(|text| InferError::new(ErrorCode::Http(head.status), text));
        Err(server_error.unwrap_or_else(|| refusal(head.status, &head.location, &body)))
    }
}

/// The outputs of an answer: none, because the server does not describe its bytes.
struct Nothing;

impl Outputs for Nothing {
    fn visit(&self, _: &mut dyn FnMut(OutputView<'_>)) {}
}
