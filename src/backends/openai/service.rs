//! [`OpenAi`]: encodes requests and interprets answers, for a client's slots.

use std::io::IoSlice;
use std::sync::Arc;

use crate::backend::{InferError, Request};
use crate::backends::openai::answer::{Answer, Wanted, is_readable, is_success};
use crate::backends::openai::bodies::Bodies;
use crate::backends::openai::turns::Conversation;
use crate::engine::http1::{Headers, HttpService};
use crate::engine::serial::SLICES;
use crate::engine::{Exchanges, malformed};
use crate::error::Result;
use crate::plan::Compression;
use crate::wire::http1::{Encoding, Head, NOT_ASKED_FOR};

/// The requests of a client.
pub(super) struct OpenAi {
    bodies: Arc<Bodies>,
    headers: Headers,
    wanted: Wanted,
    slots: Vec<Slot>,
}

/// What is kept for one slot.
struct Slot {
    payload: usize,
    head: Head,
    answer: Answer,
    /// Its conversation.
    talk: Conversation,
}

impl OpenAi {
    /// No slots yet.
    pub(super) fn new(bodies: Arc<Bodies>, headers: Headers, wanted: Wanted) -> Self {
        Self { bodies, headers, wanted, slots: Vec::new() }
    }
}

impl HttpService for OpenAi {
    fn grow(&mut self, slots: usize) -> Result<()> {
        let wanted = self.wanted;
        let slot =
            || Slot { payload: 0, head: Head::default(), answer: Answer::new(wanted), talk: Conversation::default() };
        self.slots.resize_with(slots.max(self.slots.len()), slot);
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        let slot = &mut self.slots[slot];
        slot.payload = request.payload.0 as usize;
        slot.answer.reset();
        if !self.bodies.are_turns() {
            return Ok(self.bodies.total(slot.payload));
        }
        if request.sequence.is_none_or(|position| position.start) {
            slot.talk.begin();
        }
        slot.talk.say(self.bodies.head(), self.bodies.text(slot.payload))
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let Slot { payload, talk, .. } = &self.slots[slot];
        if self.bodies.are_turns() {
            slices[0] = IoSlice::new(talk.request().get(skip..).unwrap_or_default());
            return 1;
        }
        self.bodies.gather(*payload, skip, slices)
    }

    fn head(&mut self, slot: usize, head: &Head) -> Result<(), InferError> {
        let Slot { head: known, answer, .. } = &mut self.slots[slot];
        known.clone_from(head);
        if !is_success(head) || head.encoding == Encoding::Identity {
            let promised = if head.events { 0 } else { head.length.unwrap_or(0) };
            return if is_success(head) { answer.check(promised) } else { Ok(()) };
        }
        if !self.headers.accept(head.encoding, Compression::None) {
            return Err(malformed(NOT_ASKED_FOR));
        }
        if !is_readable(head) {
            return Err(malformed("its events are compressed, so they cannot be timed one by one"));
        }
        Ok(())
    }

    fn body(&mut self, slot: usize, piece: &[u8], total: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Slot { head, answer, .. } = &mut self.slots[slot];
        answer.take(head, (piece, total), slot, exchanges)
    }

    fn complete(&mut self, slot: usize, head: &Head, _: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Slot { answer, talk, .. } = &mut self.slots[slot];
        answer.complete(head, slot, exchanges)?;
        if self.bodies.are_turns() {
            exchanges.carried(slot, talk.body());
        }
        if let Some(message) = answer.message() {
            talk.hear(&message);
        }
        Ok(())
    }

    fn has_all(&self, slot: usize) -> bool {
        self.slots[slot].answer.has_all()
    }

    fn is_whole(&self, slot: usize) -> bool {
        self.slots[slot].answer.is_whole()
    }
}
