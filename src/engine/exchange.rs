//! [`Exchange`]: the state of the request in a slot, for every transport.

use crate::backend::{Completion, InferError, Request};
use crate::clock::Stamp;
use crate::data::PayloadId;

/// Where a slot's request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The slot is free.
    #[default]
    Free,
    /// It waits to be sent.
    Queued,
    /// It is with the server, or on its way.
    Outstanding,
    /// It has failed, and will be over after a pause.
    Failing,
    /// It is over, but not yet reported to the sink.
    Over,
}

/// The state of the request in a slot.
#[derive(Debug)]
pub struct Exchange {
    pub(super) phase: Phase,
    /// Counts the slot's requests in 31 bits, to recognise late answers to earlier ones.
    pub(super) generation: u32,
    pub(super) request: Request,
    responses: u32,
    /// The first error.
    pub(super) error: Option<InferError>,
    sent: Stamp,
    send_end: Option<Stamp>,
    begun: Option<Stamp>,
    first: Option<Stamp>,
    last: Option<Stamp>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            phase: Phase::Free,
            generation: 0,
            request: Request { payload: PayloadId(0), sequence: None },
            responses: 0,
            error: None,
            sent: Stamp::default(),
            send_end: None,
            begun: None,
            first: None,
            last: None,
        }
    }
}

impl Exchange {
    /// Begins a new request. Its transport says when its time starts.
    pub(super) fn begin(&mut self, request: Request) {
        let generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        *self = Self { phase: Phase::Queued, generation, request, ..Self::default() };
    }

    /// Whether the request is under way or queued.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::Queued | Phase::Outstanding)
    }

    /// Its time starts, whether it can leave at once or not.
    #[inline]
    pub(super) fn starts(&mut self, now: Stamp) {
        self.sent = now;
    }

    /// Its last byte has left.
    #[inline]
    pub(super) fn departed(&mut self, now: Stamp) {
        self.send_end.get_or_insert(now);
    }

    /// It is back with its transport, to be sent again.
    pub(super) fn returns(&mut self) {
        (self.phase, self.send_end) = (Phase::Queued, None);
    }

    /// Whether its last byte has left.
    #[inline]
    pub(super) fn has_departed(&self) -> bool {
        self.send_end.is_some()
    }

    /// A response begins to arrive.
    #[inline]
    pub(super) fn response_begins(&mut self, now: Stamp) {
        self.begun.get_or_insert(now);
    }

    /// A response that carries data has arrived.
    #[inline]
    pub(super) fn responded(&mut self, now: Stamp) {
        self.responses = self.responses.saturating_add(1);
        self.first.get_or_insert(self.begun.unwrap_or(now));
        self.last = Some(now);
    }

    /// The server has said that the request is over.
    pub(super) fn ends(&mut self, now: Stamp) {
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// The request failed, or one response of it.
    pub(super) fn failed(&mut self, now: Stamp, error: InferError) {
        if self.sent == Stamp::default() {
            // It was never sent.
            self.sent = now;
        }
        self.error.get_or_insert(error);
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// When it was sent, and when its last response that carries data came.
    pub(super) fn times(&self) -> (Stamp, Option<Stamp>) {
        (self.sent, self.last)
    }

    /// The report to the sink, with the error taken out of the exchange.
    pub(super) fn completion<'a>(&self, now: Stamp, error: Option<&'a InferError>) -> Completion<'a> {
        Completion {
            sent: self.sent,
            send_end: self.send_end,
            first_response: self.first.unwrap_or(now),
            last_response: self.last.unwrap_or(now),
            responses: self.responses,
            error,
        }
    }
}
