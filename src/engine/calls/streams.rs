//! Long-lived streams for many requests: one per slot, opened at its first request.
//!
//! Triton answers the requests of one stream in the order in which they came, and promises no order between streams. So
//! independent requests go on separate streams, and all requests of a sequence on one.

use std::collections::HashMap;

use crate::ExchangeId;
use crate::backend::{InferError, SequencePosition};
use crate::plan::Compression;
use crate::wire::grpc::MessageReader;
use crate::wire::h2::Token;

/// Characters of a request's id on a stream: slot and generation in hexadecimal.
pub const ID_LEN: usize = 17;
/// Distinguishes tokens of streams from those of requests, whose generations leave this bit free.
const STREAM: u64 = 1 << 63;

/// What tells a sequence from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceKey {
    /// The index of its model.
    pub model: usize,
    /// Its correlation ID.
    pub id: u64,
}

/// One stream.
#[derive(Debug, Default)]
pub struct InferStream {
    /// Assembles its messages.
    pub reader: MessageReader,
    /// Encoding of compressed messages.
    pub encoding: Compression,
    /// Its response headers have come.
    pub begun: bool,
    /// The reason, if its headers say that there will be no messages.
    pub rejected: Option<InferError>,
    /// Its number on the connection while it is open.
    number: Option<u32>,
    /// The stream used in its place if the server allows no more streams.
    via: Option<usize>,
    /// Sequences that it carries.
    sequences: u32,
    /// Whether it is in `free`.
    listed: bool,
}

/// A sequence that is active, or whose end has no answer yet: the same id may begin again, and must not overtake it.
#[derive(Debug)]
struct Live {
    stream: usize,
    open: bool,
    ends: u32,
}

/// The streams of a client, by slot.
#[derive(Debug, Default)]
pub struct InferStreams {
    list: Vec<InferStream>,
    /// The open ones.
    open: Vec<usize>,
    /// Streams without a sequence, and some that have received one since.
    free: Vec<usize>,
    live: HashMap<SequenceKey, Live>,
}

impl InferStreams {
    /// Makes room for the streams of `slots` slots.
    pub fn grow(&mut self, slots: usize) {
        while self.list.len() < slots {
            self.free.push(self.list.len());
            self.list.push(InferStream { listed: true, ..InferStream::default() });
        }
        let more = |held: usize| slots.saturating_sub(held);
        self.open.reserve(more(self.open.len()));
        self.free.reserve(more(self.free.len()));
        self.live.reserve(more(self.live.len()));
    }

    /// The stream for a slot's request: the slot's own, or that of its sequence. A new sequence gets a stream that no
    /// other sequence uses, if possible the slot's own; the slot's own if there is none.
    pub fn assign(&mut self, slot: usize, model: usize, position: Option<SequencePosition>) -> usize {
        let Some(position) = position else { return slot };
        let key = SequenceKey { model, id: position.id };
        if !self.live.contains_key(&key) {
            let stream = self.unused(slot);
            self.list[stream].sequences += 1;
            self.live.insert(key, Live { stream, open: true, ends: 0 });
        }
        let Some(live) = self.live.get_mut(&key) else { return slot };
        live.open = !position.end;
        live.ends += u32::from(position.end);
        live.stream
    }

    fn unused(&mut self, slot: usize) -> usize {
        if self.list[slot].sequences == 0 {
            return slot;
        }
        while let Some(stream) = self.free.pop() {
            self.list[stream].listed = false;
            if self.list[stream].sequences == 0 {
                return stream;
            }
        }
        slot
    }

    /// The last request of a sequence is over: its stream is free for another.
    pub fn ended(&mut self, key: SequenceKey) {
        let Some(live) = self.live.get_mut(&key) else { return };
        live.ends = live.ends.saturating_sub(1);
        if live.open || live.ends > 0 {
            return;
        }
        let index = live.stream;
        self.live.remove(&key);
        let stream = &mut self.list[index];
        stream.sequences -= 1;
        if stream.sequences == 0 && !std::mem::replace(&mut stream.listed, true) {
            self.free.push(index);
        }
    }

    /// The open stream for what was assigned to `stream`, and its number: itself, or the one that carries its sequences
    /// in its place. `None` if it must be opened.
    pub fn find(&self, stream: usize) -> Option<(usize, u32)> {
        let at = |index: usize| self.list[index].number.map(|number| (index, number));
        let via = self.list[stream].via.filter(|_| self.list[stream].sequences > 0);
        at(stream).or_else(|| at(via?))
    }

    /// An open stream to use in place of one that cannot be opened.
    pub fn share(&mut self, stream: usize) -> Option<(usize, u32)> {
        let via = *self.open.get(stream % self.open.len().max(1))?;
        self.list[stream].via = Some(via);
        self.list[via].number.map(|number| (via, number))
    }

    /// A stream was opened with this number.
    pub fn opened(&mut self, stream: usize, number: u32) {
        self.open.push(stream);
        let stream = &mut self.list[stream];
        (stream.number, stream.via) = (Some(number), None);
        stream.reader.reset();
        (stream.encoding, stream.begun) = (Compression::None, false);
        stream.rejected = None;
    }

    /// A stream is over. Returns its number if it was open.
    pub fn close(&mut self, stream: usize) -> Option<u32> {
        let number = self.list[stream].number.take()?;
        self.open.retain(|&other| other != stream);
        self.list[stream].reader.reset();
        Some(number)
    }

    /// All streams are over, because their connection is.
    pub fn close_all(&mut self) {
        for stream in self.open.drain(..) {
            self.list[stream].number = None;
        }
    }

    /// Whether sequences are under way, each of which has one stream that keeps its order.
    pub fn any_sequence(&self) -> bool {
        !self.live.is_empty()
    }

    /// Whether any stream is open.
    pub fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Numbers of the open streams.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.open.iter().filter_map(|&stream| self.list[stream].number)
    }

    /// A stream by its index.
    pub fn get_mut(&mut self, stream: usize) -> &mut InferStream {
        &mut self.list[stream]
    }
}

/// A stream's token in events.
pub fn stream_token(stream: usize) -> Token {
    Token(STREAM | stream as u64)
}

/// The stream of a token, if it is one of a stream.
#[inline]
pub fn stream_of(token: Token) -> Option<usize> {
    (token.0 & STREAM != 0).then_some((token.0 & !STREAM) as usize)
}

/// A request's id on a stream.
pub fn request_id(id: ExchangeId) -> [u8; ID_LEN] {
    let ExchangeId(exchange) = id;
    let mut id = [b'-'; ID_LEN];
    let digit = |value: u64, index: usize| b"0123456789abcdef"[(value >> (4 * (7 - index)) & 15) as usize];
    for index in 0..8 {
        id[index] = digit(exchange & 0xffff_ffff, index);
        id[9 + index] = digit(exchange >> 32, index);
    }
    id
}

/// The request that an id of [`Method::encode`](crate::calls::Method::encode) names.
pub fn parse_id(id: &str) -> Option<ExchangeId> {
    let (slot, generation) = id.split_once('-').filter(|_| id.len() == ID_LEN)?;
    Some(ExchangeId::new(u32::from_str_radix(slot, 16).ok()? as usize, u32::from_str_radix(generation, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(slots: usize) -> InferStreams {
        let mut streams = InferStreams::default();
        streams.grow(slots);
        streams
    }

    fn at(id: u64, flags: &str) -> Option<SequencePosition> {
        Some(SequencePosition { id, start: flags.contains('s'), end: flags.contains('e') })
    }

    #[test]
    fn ids_name_slot_and_generation() {
        let request = ExchangeId::new(0x102, 0xdead_beef);
        let id = String::from_utf8(request_id(request).to_vec()).unwrap();
        assert_eq!(id, "00000102-deadbeef");
        assert_eq!(parse_id(&id), Some(request));
        for bad in ["", "1-2", "0000000g-00000000", "00000000000000000"] {
            assert_eq!(parse_id(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_sequence_stays_on_the_stream_that_only_it_has() {
        let mut streams = streams(3);
        assert_eq!(streams.assign(1, 0, None), 1);
        assert_eq!(streams.assign(0, 0, at(7, "s")), 0);
        // The same number is another sequence where it is another model's.
        let other = streams.assign(0, 1, at(7, "s"));
        assert_ne!(other, 0);
        assert_eq!(streams.assign(2, 0, at(7, "")), 0);
        assert_eq!(streams.assign(1, 1, at(7, "")), other);
        let third = streams.assign(0, 0, at(8, "s"));
        assert!(third != 0 && third != other);
        assert_eq!(streams.assign(2, 0, at(9, "s")), 2, "none is free");
    }

    #[test]
    fn a_stream_is_free_when_the_end_of_its_sequence_is_over() {
        let mut streams = streams(2);
        assert_eq!(streams.assign(0, 0, at(1, "s")), 0);
        assert_eq!(streams.assign(1, 0, at(1, "e")), 0);
        // The same id begins again before the answer: it must not overtake the end.
        assert_eq!(streams.assign(1, 0, at(1, "se")), 0);
        streams.ended(SequenceKey { model: 0, id: 1 });
        assert_eq!(streams.assign(0, 0, at(2, "s")), 1);
        streams.ended(SequenceKey { model: 0, id: 1 });
        assert_eq!(streams.assign(1, 0, at(3, "s")), 0);
        streams.ended(SequenceKey { model: 0, id: 4 });
    }

    #[test]
    fn an_open_stream_takes_the_place_of_one_that_cannot_be_opened() {
        let mut streams = streams(3);
        assert_eq!((streams.find(2), streams.share(2)), (None, None));
        streams.opened(0, 1);
        assert_eq!(streams.share(2), Some((0, 1)));
        assert_eq!(streams.find(2), None, "no sequence keeps it there");
        assert_eq!(streams.assign(2, 0, at(1, "s")), 2);
        assert_eq!(streams.find(2), Some((0, 1)));
        assert_eq!(streams.close(0), Some(1));
        assert_eq!((streams.find(2), streams.close(0)), (None, None));
        streams.opened(2, 3);
        assert_eq!(streams.numbers().collect::<Vec<_>>(), [3]);
        streams.close_all();
        assert!(!streams.any_open() && streams.find(2).is_none());
    }
}
