//! [`OpenAi`]: encodes requests and interprets answers, for a client's slots.

use std::io::IoSlice;
use std::sync::Arc;

use crate::backend::{InferError, Request, SequencePosition};
use crate::engine::http1::{Headers, HttpService};
use crate::engine::serial::SLICES;
use crate::engine::{Exchanges, malformed};
use crate::error::Result;
use crate::openai::answer::{Answer, is_readable, is_success};
use crate::openai::bodies::Bodies;
use crate::openai::stream::Wanted;
use crate::openai::turns::{Histories, Turn, TurnRequest};
use crate::plan::Compression;
use crate::wire::http1::{Encoding, Head, NOT_ASKED_FOR};

/// The requests of a client.
pub(super) struct OpenAi {
    bodies: Arc<Bodies>,
    headers: Headers,
    wanted: Wanted,
    slots: Vec<Slot>,
    histories: Histories,
}

/// What is kept for one slot.
struct Slot {
    payload: usize,
    head: Head,
    answer: Answer,
    turn: TurnRequest,
    /// The turn that was sent, until its answer is complete.
    under_way: Option<Turn>,
}

impl OpenAi {
    /// No slots yet.
    pub(super) fn new(bodies: Arc<Bodies>, headers: Headers, wanted: Wanted) -> Self {
        Self { bodies, headers, wanted, slots: Vec::new(), histories: Histories::default() }
    }
}

impl HttpService for OpenAi {
    fn grow(&mut self, slots: usize) -> Result<()> {
        let wanted = self.wanted;
        let slot = || Slot {
            payload: 0,
            head: Head::default(),
            answer: Answer::new(wanted),
            turn: TurnRequest::default(),
            under_way: None,
        };
        self.slots.resize_with(slots.max(self.slots.len()), slot);
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        let slot = &mut self.slots[slot];
        slot.payload = request.payload.0 as usize;
        if !self.bodies.are_turns() {
            slot.answer.reset();
            return Ok(self.bodies.total(slot.payload));
        }
        let position = request.sequence.unwrap_or(SequencePosition { id: 0, start: true, end: true });
        // One that was given up, or has lost its connection, was never complete.
        if let Some(earlier) = slot.under_way.take() {
            self.histories.note_end(earlier);
        }
        let turn = self.histories.note_send(position);
        slot.under_way = Some(turn);
        let history = self.histories.of(turn).expect("a turn that is under way has a history");
        let named = self.bodies.session_header(position.id);
        let (payload, whole) = (self.bodies.text(slot.payload), self.bodies.is_whole(slot.payload));
        let total = slot.turn.write(&[self.bodies.head(), &named], payload, whole, history)?;
        slot.answer.reset();
        Ok(total)
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let Slot { payload, turn, .. } = &self.slots[slot];
        if self.bodies.are_turns() {
            slices[0] = IoSlice::new(turn.request().get(skip..).unwrap_or_default());
            return 1;
        }
        self.bodies.gather(*payload, skip, slices)
    }

    fn head(&mut self, slot: usize, head: &Head) -> Result<(), InferError> {
        let Slot { head: slot_head, answer, .. } = &mut self.slots[slot];
        slot_head.clone_from(head);
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
        answer.take(head, piece, total, slot, exchanges)
    }

    fn complete(&mut self, slot: usize, head: &Head, _: u64, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Slot { answer, turn, under_way, payload, .. } = &mut self.slots[slot];
        let request = if self.bodies.are_turns() { turn.body() } else { self.bodies.text(*payload) };
        let completed = answer.complete(head, request, slot, exchanges);
        if !self.bodies.are_turns() {
            return completed;
        }
        if completed.is_ok() {
            exchanges.carried(slot, turn.body());
        }
        let Some(under_way) = under_way.take() else { return completed };
        if completed.is_ok()
            && let Some(message) = answer.message()
            && let Some(history) = self.histories.of(under_way)
        {
            history.receive(self.bodies.turn(*payload), self.bodies.is_whole(*payload), &message);
        }
        self.histories.note_end(under_way);
        completed
    }

    fn has_all(&self, slot: usize) -> bool {
        self.slots[slot].answer.has_all()
    }

    fn is_whole(&self, slot: usize) -> bool {
        self.slots[slot].answer.is_whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::PayloadId;
    use crate::openai::fuzzing::{payload, service, spec};
    use crate::plan::OpenAiPlan;

    #[test]
    fn a_session_whose_last_turn_gets_no_answer_is_forgotten() {
        let spec = spec(vec![payload(r#"{"messages":[{"role":"user","content":"a"}]}"#)]);
        let plan = OpenAiPlan { sessions: true, ..OpenAiPlan::default() };
        let mut service = service(&spec, &plan, false, 1000);
        service.grow(2).unwrap();
        let mut send = |slot, id, end| {
            let sequence = Some(SequencePosition { id, start: true, end });
            service.prepare(slot, Request { payload: PayloadId(0), sequence }).unwrap();
            service.histories.count()
        };
        assert_eq!((send(0, 1, true), send(1, 2, false)), (1, 2));
        assert_eq!((send(0, 3, true), send(0, 4, true)), (2, 2), "sessions 1 and 3 are over");
        assert_eq!(send(1, 5, true), 3, "session 2 has further turns");
    }
}
