//! [`CallEvents`]: applies a connection's events to its exchanges.

use crate::backend::InferError;
use crate::calls::Method;
use crate::calls::status::{self, BROKEN, EARLY};
use crate::calls::streams::{InferStreams, SequenceKey, stream_of};
use crate::plan::Compression;
use crate::wire::coding;
use crate::wire::grpc::{Arrived, MessageReader, Wish};
use crate::wire::h2::{ErrorCode, Events, HeaderList, Reset, Token};
use crate::{ExchangeId, Exchanges};

/// The state of a slot's call.
#[derive(Debug, Default)]
pub struct Call {
    /// Its HTTP/2 stream, for calls of their own.
    pub stream: u32,
    /// Index of the stream that it shares with requests before and after it, otherwise.
    pub shared: usize,
    /// The number of the connection that it has left on.
    pub(super) line: u32,
    /// The sequence that it ends.
    pub(super) ends: Option<SequenceKey>,
    /// Response messages so far, for calls of their own.
    messages: u32,
    /// Body of the response, for calls of their own.
    reader: MessageReader,
    /// Encoding of compressed messages.
    encoding: Compression,
    /// Its response headers have come.
    begun: bool,
}

impl Call {
    /// Resets the state for a new call.
    pub(super) fn begin(&mut self) {
        (self.stream, self.shared, self.ends) = (0, 0, None);
        (self.messages, self.encoding, self.begun) = (0, Compression::None, false);
        self.reader.reset();
    }
}

/// The calls of a client.
pub struct CallTable {
    /// By slot.
    pub slots: Vec<Call>,
    /// Streams that stay open for many requests.
    pub streams: InferStreams,
    /// The number of the connection that they are on.
    pub(super) line: u32,
    /// Streams of the connection that are broken and must be reset.
    pub(super) broken: Vec<u32>,
    /// Slots whose requests the server has not looked at, as it says; they are no longer with it.
    pub(super) returned: Vec<usize>,
    /// Whether any call of the connection has been answered.
    pub(super) answered: bool,
    late: Option<InferError>,
}

impl CallTable {
    /// No calls yet. `late` is the error of calls that miss their deadline, whichever side notices first.
    pub fn new(late: Option<InferError>) -> Self {
        let (broken, returned) = (Vec::new(), Vec::new());
        let streams = InferStreams::default();
        Self { slots: Vec::new(), streams, line: 0, broken, returned, answered: false, late }
    }

    /// Makes room for `slots` slots.
    pub fn grow(&mut self, slots: usize) {
        while self.slots.len() < slots {
            self.slots.push(Call::default());
        }
    }

    /// Whether a slot's request is with the server, on this stream.
    fn is_on(&self, slot: usize, stream: usize, exchanges: &Exchanges) -> bool {
        let call = &self.slots[slot];
        exchanges.is_outstanding(slot) && (call.line, call.shared) == (self.line, stream)
    }

    /// Whether any request is with the server, on the connection of this number.
    pub(super) fn any_on(&self, line: u32, exchanges: &Exchanges) -> bool {
        (0..exchanges.slots()).any(|slot| exchanges.is_outstanding(slot) && self.slots[slot].line == line)
    }

    /// Whether a slot's request is the only one on its stream.
    pub(super) fn is_alone(&self, slot: usize, exchanges: &Exchanges) -> bool {
        let stream = |slot: usize| (self.slots[slot].line, self.slots[slot].shared);
        let shares = |other: usize| exchanges.is_outstanding(other) && stream(other) == stream(slot);
        (0..exchanges.slots()).all(|other| other == slot || !shares(other))
    }
}

/// Receives the events of a connection.
pub struct CallEvents<'a, M> {
    /// The client's calls.
    pub calls: &'a mut CallTable,
    /// What its messages mean.
    pub method: &'a mut M,
    /// Its exchanges.
    pub exchanges: &'a mut Exchanges,
}

impl<M: Method> CallEvents<'_, M> {
    /// Ends the requests on a stream with an error, or with a reason why they have no answer. Returns its number if it
    /// was open.
    fn end_stream(&mut self, stream: usize, error: Option<InferError>) -> Option<u32> {
        let ended = || status::error(BROKEN, "the server ended the stream before all its answers");
        let error = error.unwrap_or_else(ended);
        for slot in 0..self.exchanges.slots() {
            if self.calls.is_on(slot, stream, self.exchanges) {
                self.exchanges.fail(slot, error.clone());
            }
        }
        self.calls.streams.close(stream)
    }

    /// The server leaves in peace, and has not looked at a call or at a stream's requests (RFC 9113, 6.8): they go to the next
    /// connection.
    fn give_back(&mut self, token: Token) {
        let Some(stream) = stream_of(token) else {
            return self.slot(token).into_iter().for_each(|slot| self.return_slot(slot));
        };
        for slot in 0..self.exchanges.slots() {
            if self.calls.is_on(slot, stream, self.exchanges) {
                self.return_slot(slot);
            }
        }
        self.calls.streams.close(stream);
    }

    fn return_slot(&mut self, slot: usize) {
        self.exchanges.returns(slot);
        self.calls.returned.push(slot);
    }

    /// Body of a request's own call.
    fn own_data(&mut self, slot: usize, bytes: &[u8]) -> Result<(), InferError> {
        if !bytes.is_empty() {
            self.exchanges.response_begins(slot);
        }
        let wish = self.method.wish(slot, self.exchanges);
        let mut reader = std::mem::take(&mut self.calls.slots[slot].reader);
        let outcome = each_message(&mut reader, bytes, wish, |arrived| self.own_message(slot, arrived, wish.limit));
        self.calls.slots[slot].reader = reader;
        outcome
    }

    fn own_message(&mut self, slot: usize, arrived: &Arrived<'_>, limit: u64) -> Result<(), InferError> {
        let call = &mut self.calls.slots[slot];
        call.messages = call.messages.saturating_add(1);
        if call.messages > 1 && !self.method.streams_answers() {
            return Err(status::error(BROKEN, "the server answered one request with several messages"));
        }
        let unpacked = unpacked(arrived, call.encoding, limit, self.exchanges)?;
        self.method.answer(slot, unpacked.as_deref().or(arrived.bytes), self.exchanges)
    }

    /// The server has ended a request's own call.
    fn own_end(&mut self, slot: usize, trailers: Option<&HeaderList>) {
        let failed = self.exchanges.has_failed(slot);
        let streams = self.method.streams_answers();
        let call = &self.calls.slots[slot];
        let outcome = match trailers.and_then(status::of_trailers) {
            Some(Ok(())) if failed => Ok(()),
            Some(Ok(())) if call.messages == 0 && !streams => Err("the server reports success without an answer"),
            Some(Ok(())) if call.reader.is_inside() => Err("the answer ends inside a message"),
            // A method with any number of messages may be over before it has read them all.
            Some(Ok(())) if !streams && !self.exchanges.has_departed(slot) => Err(EARLY),
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                let late = self.calls.late.clone().filter(|late| late.code == error.code);
                return self.exchanges.fail(slot, late.unwrap_or(error));
            }
            None if failed => Ok(()),
            None => Err("the answer ends without a status"),
        };
        match outcome {
            Ok(()) if streams => self.exchanges.end_now(slot),
            Ok(()) => self.exchanges.end(slot),
            Err(reason) => self.exchanges.fail(slot, status::error(BROKEN, reason)),
        }
    }

    /// Body of a stream that stays open.
    fn stream_data(&mut self, stream: usize, bytes: &[u8]) -> Result<(), InferError> {
        let state = self.calls.streams.get_mut(stream);
        let (mut reader, encoding) = (std::mem::take(&mut state.reader), state.encoding);
        let wish = Wish { keep: true, limit: self.method.longest() };
        let outcome = each_message(&mut reader, bytes, wish, |arrived| {
            let unpacked = unpacked(arrived, encoding, wish.limit, self.exchanges)?;
            let message = unpacked.as_deref().or(arrived.bytes).unwrap_or_default();
            self.method.stream_answer(message, self.exchanges)
        });
        self.calls.streams.get_mut(stream).reader = reader;
        outcome
    }

    /// Headers of an answer have come; whether there were some before.
    fn begin_answer(&mut self, token: Token) -> bool {
        let begun = match (stream_of(token), self.slot(token)) {
            (Some(stream), _) => &mut self.calls.streams.get_mut(stream).begun,
            (None, Some(slot)) => &mut self.calls.slots[slot].begun,
            (None, None) => return false,
        };
        std::mem::replace(begun, true)
    }

    /// The slot whose own call is still with the server.
    fn slot(&self, token: Token) -> Option<usize> {
        self.exchanges.find(ExchangeId(token.0))
    }
}

/// Calls `act` for every message that `bytes` completes.
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

fn headless() -> InferError {
    status::error(BROKEN, "an answer begins without headers")
}

/// Decompresses a message.
fn unpacked(
    arrived: &Arrived<'_>,
    encoding: Compression,
    limit: u64,
    exchanges: &mut Exchanges,
) -> Result<Option<Vec<u8>>, InferError> {
    if !arrived.compressed {
        return Ok(None);
    }
    if encoding == Compression::None {
        return Err(status::error(BROKEN, "an answer is compressed, but its headers name no encoding"));
    }
    let unpacked = coding::decompress(encoding, arrived.bytes.unwrap_or_default(), limit);
    exchanges.unpacked();
    unpacked.map(Some).map_err(|error| status::error(BROKEN, format!("a compressed answer cannot be read: {error}")))
}

/// Reads the response headers: the encoding of compressed messages, or why there will be none. Those that have a message
/// before them are trailers.
fn accepted(headers: &HeaderList, begun: bool) -> Result<Compression, InferError> {
    let content = || status::other_content(headers);
    match headers.get(":status") {
        _ if begun => {}
        Some(b"200") => content().map_or(Ok(()), |content| Err(status::of_content(content)))?,
        None => return Err(status::error(BROKEN, "the headers of an answer have no :status")),
        Some(status) => return Err(status::of_http(status, content())),
    }
    let encoding = headers.get("grpc-encoding").unwrap_or(b"identity");
    coding::by_name(encoding).ok_or_else(|| {
        let name = String::from_utf8_lossy(encoding);
        status::error("Unsupported", format!("the server compresses with '{name}', which was not offered"))
    })
}

/// What headers that do not end a call say against themselves.
fn contradiction(headers: &HeaderList, begun: bool) -> Option<InferError> {
    if begun {
        return Some(status::error(BROKEN, "an answer has headers twice"));
    }
    let refused = status::of_trailers(headers)?.err()?;
    Some(status::error(BROKEN, format!("an answer goes on after its headers have given a status: {refused}")))
}

fn is_informational(headers: &HeaderList) -> bool {
    headers.get(":status").is_some_and(|status| status.first() == Some(&b'1'))
}

impl<M: Method> Events for CallEvents<'_, M> {
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool) {
        self.calls.answered = true;
        if is_informational(headers) && !end {
            return;
        }
        let begun = self.begin_answer(token);
        let has_status = || headers.get("grpc-status").is_some();
        let (encoding, refused) = match accepted(headers, begun) {
            Ok(encoding) => (encoding, None),
            Err(refused) => {
                (Compression::default(), Some(refused).filter(|why| why.code == BROKEN.into() || !has_status()))
            }
        };
        let refused = refused.or_else(|| if end { None } else { contradiction(headers, begun) });
        if let Some(stream) = stream_of(token) {
            if let Some(broken) = refused.as_ref().filter(|why| !end && why.code == BROKEN.into()) {
                let number = self.end_stream(stream, Some(broken.clone()));
                self.calls.broken.extend(number);
                return;
            }
            let state = self.calls.streams.get_mut(stream);
            state.encoding = if end { state.encoding } else { encoding };
            state.rejected = state.rejected.take().or(refused);
            if end {
                let error = status::of_trailers(headers).and_then(Result::err).or_else(|| state.rejected.take());
                self.end_stream(stream, error);
            }
            return;
        }
        let Some(slot) = self.slot(token) else { return };
        if let Some(error) = refused {
            self.exchanges.note_failure(slot, error);
        } else if !end {
            self.calls.slots[slot].encoding = encoding;
        }
        if end {
            self.own_end(slot, Some(headers));
        }
    }

    fn data(&mut self, token: Token, bytes: &[u8], end: bool) {
        if let Some(stream) = stream_of(token) {
            let begun = self.calls.streams.get_mut(stream).begun;
            let broken = if begun { self.stream_data(stream, bytes) } else { Err(headless()) };
            if broken.is_err() || end {
                // A page is no message, which headers that refuse the call have said before.
                let refused = self.calls.streams.get_mut(stream).rejected.take();
                let number = self.end_stream(stream, refused.or(broken.err()));
                self.calls.broken.extend(number.filter(|_| !end));
            }
            return;
        }
        let Some(slot) = self.slot(token) else { return };
        let taken = if self.calls.slots[slot].begun { self.own_data(slot, bytes) } else { Err(headless()) };
        if let Err(error) = taken {
            if !end {
                self.calls.broken.push(self.calls.slots[slot].stream);
            }
            self.exchanges.fail(slot, error);
        } else if end {
            self.own_end(slot, None);
        }
    }

    fn reset(&mut self, token: Token, why: Reset<'_>) {
        if matches!(why, Reset::GoAway(goaway) if goaway.code == ErrorCode::NO_ERROR) {
            return self.give_back(token);
        }
        if let Some(stream) = stream_of(token) {
            self.end_stream(stream, Some(status::of_reset(why)));
            return;
        }
        if let Some(slot) = self.slot(token) {
            self.exchanges.fail(slot, status::of_reset(why));
        }
    }
}
