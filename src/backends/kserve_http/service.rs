//! [`KserveHttp`]: requests and answers of a client's slots.

use std::io::IoSlice;
use std::sync::Arc;

use crate::backend::{ClientSpec, InferError, ReplyChecks, Request};
use crate::data::PayloadId;
use crate::engine::http1::{HttpService, refusal, unpacked, unpacked_refusal};
use crate::engine::serial::SLICES;
use crate::engine::{Exchanges, malformed};
use crate::error::Result;
use crate::kserve::regions::{SlotOutputs, slot_tag};
use crate::kserve_http::body::{Kept, Longest};
use crate::kserve_http::outputs::ReplyOutputs;
use crate::kserve_http::render::JSON_LENGTH;
use crate::kserve_http::reply::{Checker, Wanted};
use crate::kserve_http::template::Patch;
use crate::kserve_http::templates::Templates;
use crate::wire::http1::{Encoding, Head, NOT_ASKED_FOR};

/// State of one slot.
struct Slot {
    request: Request,
    /// The front of a patched request.
    scratch: Vec<u8>,
    kept: Kept,
    longest: Longest,
    /// Which replies are checked against the model.
    checks: ReplyChecks,
    /// Where outputs go; `None` if they come in replies.
    outputs: Option<SlotOutputs>,
}

/// The requests of a client in KServe v2 over HTTP.
pub(super) struct KserveHttp {
    templates: Arc<Templates>,
    spec: ClientSpec,
    /// Part of the names of its slots' regions, and of their ids.
    number: u32,
    slots: Vec<Slot>,
    checker: Checker,
}

impl KserveHttp {
    /// For clients with this `spec`; no slots yet.
    pub(super) fn new(templates: Arc<Templates>, spec: ClientSpec) -> Self {
        let number = templates.client_number();
        Self { templates, spec, number, slots: Vec::new(), checker: Checker::default() }
    }

    /// Its number among the clients of its backend.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Why the server refused the slot's request.
    fn refusal(&self, slot: usize, head: &Head) -> InferError {
        refusal(head.status, &head.location, &unpacked_refusal(head, self.slots[slot].kept.bytes()))
    }
}

impl HttpService for KserveHttp {
    const PART_LENGTH: &'static str = JSON_LENGTH;

    fn grow(&mut self, slots: usize) -> Result<()> {
        while self.slots.len() < slots {
            let outputs = self.templates.slot_outputs(slot_tag(self.number, self.slots.len()))?;
            self.slots.push(Slot {
                request: Request { payload: PayloadId(0), sequence: None },
                scratch: Vec::new(),
                kept: Kept::default(),
                longest: Longest::default(),
                checks: ReplyChecks::new(&self.spec),
                outputs,
            });
        }
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        let Slot { request: current, scratch, longest, .. } = &mut self.slots[slot];
        *current = request;
        let template = self.templates.get(request)?;
        *longest = template.longest;
        if !template.changes() {
            return Ok(template.total(&template.front));
        }
        let tag = if template.tags_at.is_empty() { Default::default() } else { slot_tag(self.number, slot) };
        template.patch(scratch, Patch { sequence: request.sequence, tag });
        Ok(template.total(scratch))
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let Slot { request, scratch, .. } = &self.slots[slot];
        let Ok(template) = self.templates.get(*request) else { return 0 };
        template.gather(if template.changes() { scratch } else { &template.front }, skip, slices)
    }

    fn head(&mut self, slot: usize, head: &Head) -> Result<(), InferError> {
        // A refusal is told in any case, as well as it can be read.
        if head.status == 200 && !self.templates.format().accepts(head.encoding) {
            return Err(malformed(NOT_ASKED_FOR));
        }
        let Slot { kept, longest, .. } = &mut self.slots[slot];
        kept.begin(head, self.spec.watch_responses, *longest)
    }

    #[inline]
    fn body(&mut self, slot: usize, piece: &[u8], total: u64, _: &mut Exchanges) -> Result<(), InferError> {
        self.slots[slot].kept.push(piece, total)
    }

    fn complete(&mut self, slot: usize, head: &Head, total: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        if head.status != 200 {
            return Err(self.refusal(slot, head));
        }
        let Slot { request, kept, checks, outputs, .. } = &mut self.slots[slot];
        let form = || self.templates.form(*request);
        let wanted = Wanted { shared: outputs.is_some(), payload: request.payload, form: &form, checks };
        if !exchanges.watched() {
            self.checker.check(head, kept, total, wanted)?;
            if head.encoding != Encoding::Identity {
                exchanges.unpacked();
            }
            exchanges.responded(slot);
            return Ok(());
        }
        let placed = outputs.as_ref().map(|placed| (placed, self.templates.model_of(*request)));
        let body = unpacked(head, kept.bytes(), kept.most(), exchanges)?;
        let outputs = ReplyOutputs::read(head, body, placed)?;
        let fits = || if wanted.is_due() { form().check(outputs.source(), &outputs) } else { Ok(()) };
        wanted.settle(outputs.decoded().and_then(|()| fits()))?;
        exchanges.respond(slot, &outputs);
        Ok(())
    }
}
