//! The requests of a client as events of its connection tell of them.
//!
//! Requests are calls of their own, each a stream of HTTP/2, or messages on streams that stay open, where ids tell them apart.

use std::sync::Arc;

use crate::backend::{ClientSpec, CompletionSink, InferError, OutputView, Outputs, Response, SlotId};
use crate::backends::kserve_grpc::call::{Call, Phase};
use crate::backends::kserve_grpc::proto::{InferReply, StreamReply};
use crate::backends::kserve_grpc::regions::{PlacedOutputs, PlacedSlot};
use crate::backends::kserve_grpc::rules::ReplyRules;
use crate::backends::kserve_grpc::status::{self, BROKEN};
use crate::backends::kserve_grpc::streams::{InferStreams, parse_id, stream_of};
use crate::clock::Stamp;
use crate::plan::Compression;
use crate::wire::coding;
use crate::wire::grpc::{Arrived, MessageReader, Wish};
use crate::wire::h2::{Events, HeaderList, Reset, Token};

/// The requests of a client.
pub struct Calls {
    /// When the bytes that are being looked at had come.
    pub now: Stamp,
    /// By slot.
    pub slots: Vec<Call>,
    /// Where outputs go, by slot, if not into replies.
    pub outputs: Vec<Option<PlacedSlot>>,
    /// Slots whose requests are over, for the sink to be told.
    pub over: Vec<u32>,
    /// Streams that are broken and must be reset.
    pub broken: Vec<u32>,
    /// Those that stay open for many requests.
    pub streams: InferStreams,
    rules: ReplyRules,
    sink: Arc<dyn CompletionSink>,
    watch: bool,
    late: Option<InferError>,
}

impl Calls {
    /// No requests yet. `late` is said of those that meet their deadline, whoever notices it first.
    pub fn new(sink: Arc<dyn CompletionSink>, spec: &ClientSpec, late: Option<InferError>) -> Self {
        Self {
            now: Stamp::now(),
            slots: Vec::new(),
            outputs: Vec::new(),
            over: Vec::new(),
            broken: Vec::new(),
            streams: InferStreams::default(),
            rules: ReplyRules::new(spec),
            sink,
            watch: spec.watch_responses,
            late,
        }
    }

    /// Makes place for the requests of another slot.
    pub fn add_slot(&mut self, spec: &ClientSpec) {
        self.slots.push(Call::default());
        self.rules.add_slot(spec);
    }

    /// What a slot's current request is called in events.
    pub fn token(&self, slot: usize) -> Token {
        Token(u64::from(self.slots[slot].generation) << 32 | slot as u64)
    }

    /// The slot of a request that is still with the server.
    fn slot(&self, token: Token) -> Option<usize> {
        let slot = token.0 as u32 as usize;
        let call = self.slots.get(slot)?;
        (call.phase == Phase::Outstanding && u64::from(call.generation) == token.0 >> 32).then_some(slot)
    }

    /// A request's last byte has left.
    pub fn departed(&mut self, token: Token, now: Stamp) {
        if let Some(slot) = self.slot(token) {
            self.slots[slot].departed(now);
        }
    }

    /// Ends the request in a slot, whatever still comes for it.
    pub fn end(&mut self, slot: usize) {
        self.slots[slot].phase = Phase::Over;
        self.over.push(slot as u32);
    }

    /// Ends the request in a slot with an error.
    pub fn fail(&mut self, slot: usize, error: InferError) {
        self.tell_error(slot, &error);
        self.slots[slot].fail(self.now, error);
        self.end(slot);
    }

    /// Ends all requests with an error.
    pub fn fail_all(&mut self, error: &InferError) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_pending() {
                self.fail(slot, error.clone());
            }
        }
        self.streams.close_all();
    }

    /// Whether a slot's request is with the server, on this stream.
    fn is_on(&self, slot: usize, stream: usize) -> bool {
        self.slots[slot].phase == Phase::Outstanding && self.slots[slot].shared == stream
    }

    /// Whether a slot's request is the only one on its stream.
    pub fn is_alone(&self, slot: usize) -> bool {
        let stream = self.slots[slot].shared;
        (0..self.slots.len()).all(|other| other == slot || !self.is_on(other, stream))
    }

    /// Ends the requests on a stream with an error, or with a word for why they have no answer. Its number, if it was open.
    fn end_stream(&mut self, stream: usize, error: Option<InferError>) -> Option<u32> {
        let ended = || status::error(BROKEN, "the server ended the stream before all its answers");
        let error = error.unwrap_or_else(ended);
        for slot in 0..self.slots.len() {
            if self.is_on(slot, stream) {
                self.fail(slot, error.clone());
            }
        }
        self.streams.close(stream)
    }

    fn tell_error(&self, slot: usize, error: &InferError) {
        if self.watch {
            let response = Response { at: self.now, empty: false, outputs: &NoOutputs, error: Some(error) };
            self.sink.response(SlotId(slot as u32), &response);
        }
    }

    /// Body of a call of its own.
    fn own_data(&mut self, slot: usize, bytes: &[u8]) -> Result<(), InferError> {
        if !bytes.is_empty() {
            self.slots[slot].response_begins(self.now);
        }
        let payload = self.slots[slot].payload;
        let mut reader = std::mem::take(&mut self.slots[slot].reader);
        let keep = self.watch || self.rules.is_due(slot, payload);
        let wish = Wish { keep, limit: self.rules.limit(payload) };
        let outcome = each_message(&mut reader, bytes, wish, |arrived| self.own_message(slot, arrived));
        self.slots[slot].reader = reader;
        outcome
    }

    fn own_message(&mut self, slot: usize, arrived: &Arrived<'_>) -> Result<(), InferError> {
        let call = &mut self.slots[slot];
        call.messages += 1;
        if call.messages > 1 {
            return Err(status::error(BROKEN, "the server answered one request with several messages"));
        }
        let unpacked = unpacked(arrived, call.encoding, self.rules.limit(call.payload))?;
        call.responded(self.now);
        if let Some(message) = unpacked.as_deref().or(arrived.bytes) {
            let (model, payload) = (call.model, call.payload);
            let reply = InferReply::parse(message).ok_or_else(unreadable)?;
            let contents = self.watch || self.outputs[slot].is_none();
            let outputs = PlacedOutputs::read(&reply, self.outputs[slot].as_ref(), (model, self.watch))?;
            self.rules.check((slot, payload), &reply, (&outputs, contents))?;
            if !self.watch {
                return Ok(());
            }
            let response = Response { at: self.now, empty: false, outputs: &outputs, error: None };
            self.sink.response(SlotId(slot as u32), &response);
        }
        Ok(())
    }

    /// The server has said all about a call of its own.
    fn own_end(&mut self, slot: usize, trailers: Option<&HeaderList>) {
        let call = &self.slots[slot];
        let outcome = match trailers.and_then(status::of_trailers) {
            Some(Ok(())) if call.error.is_some() => Ok(()),
            Some(Ok(())) if call.messages == 0 => Err("the server reports success without an answer"),
            Some(Ok(())) if call.reader.is_inside() => Err("the answer ends inside a message"),
            Some(Ok(())) => return self.end(slot),
            Some(Err(error)) => {
                let late = self.late.clone().filter(|late| late.code == error.code);
                return self.fail(slot, late.unwrap_or(error));
            }
            None if call.error.is_some() => Ok(()),
            None => Err("the answer ends without a status"),
        };
        match outcome {
            Ok(()) => self.end(slot),
            Err(reason) => self.fail(slot, status::error(BROKEN, reason)),
        }
    }

    /// Body of a stream that stays open.
    fn stream_data(&mut self, stream: usize, bytes: &[u8]) -> Result<(), InferError> {
        let state = self.streams.get_mut(stream);
        let (mut reader, encoding) = (std::mem::take(&mut state.reader), state.encoding);
        let wish = Wish { keep: true, limit: self.rules.longest() };
        let outcome = each_message(&mut reader, bytes, wish, |arrived| self.stream_message(arrived, encoding));
        self.streams.get_mut(stream).reader = reader;
        outcome
    }

    fn stream_message(&mut self, arrived: &Arrived<'_>, encoding: Compression) -> Result<(), InferError> {
        let unpacked = unpacked(arrived, encoding, self.rules.longest())?;
        let message = unpacked.as_deref().or(arrived.bytes).unwrap_or_default();
        let reply = StreamReply::parse(message).ok_or_else(unreadable)?;
        let Some(slot) = self.named(reply.response.id) else {
            // Answers to a request that was given up, or has failed, are nobody's; others cannot be matched.
            return match parse_id(reply.response.id) {
                Some((slot, _)) if slot < self.slots.len() => Ok(()),
                _ if !reply.error.is_empty() => Err(status::error(FAILED, reply.error)),
                _ => Err(status::error(BROKEN, "an answer names no request")),
            };
        };
        self.reply(slot, &reply);
        Ok(())
    }

    /// What a message on a stream means for its request.
    fn reply(&mut self, slot: usize, reply: &StreamReply<'_>) {
        let call = &mut self.slots[slot];
        call.messages += 1;
        call.response_begins(self.now);
        let failed = !reply.error.is_empty();
        let last = reply.response.last.unwrap_or(failed || !call.decoupled);
        // Decoupled models end requests with answers that are none.
        let empty = call.decoupled && last && !failed && !reply.response.has_outputs;
        let (of, named) = ((call.model, self.watch), (slot, call.payload));
        let contents = self.watch || self.outputs[slot].is_none();
        let placed = PlacedOutputs::read(&reply.response, self.outputs[slot].as_ref(), of);
        let misfit = match &placed {
            Ok(placed) if !failed && !empty => self.rules.check(named, &reply.response, (placed, contents)).err(),
            Ok(_) => None,
            Err(error) => Some(error.clone()),
        };
        let error = if failed { Some(status::error(FAILED, reply.error)) } else { misfit };
        let call = &mut self.slots[slot];
        match &error {
            Some(error) => call.fail(self.now, error.clone()),
            None if !empty => call.responded(self.now),
            None => {}
        }
        if self.watch {
            let outputs = match &placed {
                Ok(placed) if error.is_none() => placed as &dyn Outputs,
                _ => &NoOutputs,
            };
            let response = Response { at: self.now, empty, outputs, error: error.as_ref() };
            self.sink.response(SlotId(slot as u32), &response);
        }
        if last {
            self.end(slot);
        }
    }

    /// The slot of the request that an id names.
    fn named(&self, id: &str) -> Option<usize> {
        let (slot, generation) = parse_id(id)?;
        self.slot(Token(u64::from(generation) << 32 | slot as u64))
    }
}

/// Calls `act` for every message that is complete with `bytes`.
fn each_message(
    reader: &mut MessageReader,
    mut bytes: &[u8],
    wish: Wish,
    mut act: impl FnMut(&Arrived<'_>) -> Result<(), InferError>,
) -> Result<(), InferError> {
    while let Some(arrived) = reader.next(&mut bytes, wish).map_err(|reason| status::error(BROKEN, reason))? {
        act(&arrived)?;
    }
    Ok(())
}

/// Word for failures that come without a code, as all do on streams that stay open.
const FAILED: &str = "Inference failed";

fn unreadable() -> InferError {
    status::error(BROKEN, "an answer is no message of the protocol")
}

/// The decompressed form of a message that is compressed.
fn unpacked(arrived: &Arrived<'_>, encoding: Compression, limit: u64) -> Result<Option<Vec<u8>>, InferError> {
    if !arrived.compressed {
        return Ok(None);
    }
    if encoding == Compression::None {
        return Err(status::error(BROKEN, "an answer is compressed, but its headers name no encoding"));
    }
    coding::decompress(encoding, arrived.bytes.unwrap_or_default(), limit)
        .map(Some)
        .map_err(|error| status::error(BROKEN, format!("a compressed answer cannot be read: {error}")))
}

/// What response headers say: the encoding of compressed messages, or why there will be none.
fn accepted(headers: &HeaderList) -> Result<Compression, InferError> {
    match headers.get(":status") {
        Some(b"200") | None => {}
        Some(status) => return Err(status::of_http(status)),
    }
    let encoding = headers.get("grpc-encoding").unwrap_or(b"identity");
    coding::by_name(encoding).ok_or_else(|| {
        let name = String::from_utf8_lossy(encoding);
        status::error("Unsupported", format!("the server compresses with '{name}', which was not offered"))
    })
}

fn is_informational(headers: &HeaderList) -> bool {
    headers.get(":status").is_some_and(|status| status.first() == Some(&b'1'))
}

impl Events for Calls {
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool) {
        if is_informational(headers) && !end {
            return;
        }
        let has_status = headers.get("grpc-status").is_some();
        let refused = accepted(headers).err().filter(|_| !has_status);
        let encoding = accepted(headers).unwrap_or_default();
        if let Some(stream) = stream_of(token) {
            let state = self.streams.get_mut(stream);
            state.encoding = if end { state.encoding } else { encoding };
            state.rejected = state.rejected.take().or(refused);
            if end {
                let error = status::of_trailers(headers).and_then(Result::err).or(state.rejected.take());
                self.end_stream(stream, error);
            }
            return;
        }
        let Some(slot) = self.slot(token) else { return };
        if let Some(error) = refused {
            let now = self.now;
            self.slots[slot].fail(now, error);
        } else if !end {
            self.slots[slot].encoding = encoding;
        }
        if end {
            self.own_end(slot, Some(headers));
        }
    }

    fn data(&mut self, token: Token, bytes: &[u8], end: bool) {
        if let Some(stream) = stream_of(token) {
            let broken = self.stream_data(stream, bytes);
            if broken.is_err() || end {
                let number = self.end_stream(stream, broken.err());
                self.broken.extend(number.filter(|_| !end));
            }
            return;
        }
        let Some(slot) = self.slot(token) else { return };
        if let Err(error) = self.own_data(slot, bytes) {
            if !end {
                self.broken.push(self.slots[slot].stream);
            }
            self.fail(slot, error);
        } else if end {
            self.own_end(slot, None);
        }
    }

    fn reset(&mut self, token: Token, why: Reset<'_>) {
        if let Some(stream) = stream_of(token) {
            self.end_stream(stream, Some(status::of_reset(why)));
            return;
        }
        if let Some(slot) = self.slot(token) {
            self.fail(slot, status::of_reset(why));
        }
    }
}

/// The outputs of an error.
struct NoOutputs;

impl Outputs for NoOutputs {
    fn visit(&self, _: &mut dyn FnMut(OutputView<'_>)) {}
}
