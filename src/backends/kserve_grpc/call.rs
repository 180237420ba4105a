//! What is known of the request in a slot.

use crate::backend::{Completion, InferError};
use crate::backends::kserve_grpc::streams::SequenceKey;
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::plan::Compression;
use crate::wire::grpc::MessageReader;

/// Where a slot's request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The slot is free.
    #[default]
    Free,
    /// Waiting for a stream.
    Queued,
    /// With the server.
    Outstanding,
    /// Over; the sink is not told yet.
    Over,
}

/// What is known of the request in a slot.
#[derive(Debug, Default)]
pub struct Call {
    /// Where it is.
    pub phase: Phase,
    /// Counts the slot's requests in 31 bits, so that what comes late for an earlier one is told apart.
    pub generation: u32,
    /// Its HTTP/2 stream, for calls of their own.
    pub stream: u32,
    /// Index of the stream that it shares with requests before and after it, otherwise.
    pub shared: usize,
    /// The sequence that it ends.
    pub ends: Option<SequenceKey>,
    /// What it carries.
    pub payload: PayloadId,
    /// Index of its model.
    pub model: usize,
    /// Whether its model is decoupled.
    pub decoupled: bool,
    /// Response messages so far.
    pub messages: u32,
    /// Responses with data so far.
    pub responses: u32,
    /// The first error.
    pub error: Option<InferError>,
    /// Body of the response, for calls of their own.
    pub reader: MessageReader,
    /// Encoding of compressed messages.
    pub encoding: Compression,
    sent: Stamp,
    send_end: Option<Stamp>,
    begun: Option<Stamp>,
    first: Option<Stamp>,
    last: Option<Stamp>,
}

impl Call {
    /// Begins with a new request to a model, which may be decoupled.
    pub fn begin(&mut self, now: Stamp, payload: PayloadId, (model, decoupled): (usize, bool)) {
        self.phase = Phase::Queued;
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        (self.stream, self.shared, self.ends) = (0, 0, None);
        (self.payload, self.model, self.decoupled) = (payload, model, decoupled);
        (self.messages, self.responses) = (0, 0);
        self.error = None;
        self.reader.reset();
        self.encoding = Compression::None;
        self.sent = now;
        (self.send_end, self.begun, self.first, self.last) = (None, None, None, None);
    }

    /// Whether the request is on its way or waits to be.
    pub fn is_pending(&self) -> bool {
        matches!(self.phase, Phase::Queued | Phase::Outstanding)
    }

    /// Its last byte has left.
    pub fn departed(&mut self, now: Stamp) {
        self.send_end.get_or_insert(now);
    }

    /// A response begins to come.
    pub fn response_begins(&mut self, now: Stamp) {
        self.begun.get_or_insert(now);
    }

    /// A response that carries data has come.
    pub fn responded(&mut self, now: Stamp) {
        self.responses = self.responses.saturating_add(1);
        self.first.get_or_insert(self.begun.unwrap_or(now));
        self.last = Some(now);
    }

    /// The request failed, or one response of it.
    pub fn fail(&mut self, now: Stamp, error: InferError) {
        self.error.get_or_insert(error);
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// What the sink is told, with the error taken out of the call.
    pub fn completion<'a>(&self, now: Stamp, error: Option<&'a InferError>) -> Completion<'a> {
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
