//! [`Answer`]: the answer to one request, a body or a stream of events, from whatever pieces it arrives in.

use std::cell::RefCell;

use crate::backend::{Generation, InferError, Uncounted};
use crate::engine::http1::{KEPT_OF_REFUSAL, check_length, keep, unpacked, unpacked_refusal};
use crate::engine::{Exchanges, malformed};
use crate::held::Held;
use crate::openai::parsed_answer::{ParsedAnswer, Typed};
use crate::openai::several::of_prompts;
use crate::openai::shown::Shown;
use crate::openai::stream::{Kept, Stream, Wanted};
use crate::openai::{messages, refusal, several};
use crate::wire::http1::{Encoding, Head};
use crate::wire::sse::EventReader;

/// Bodies without anything in them.
const EMPTY: [&[u8]; 5] = [b"", b"{}", b"[]", b"null", b"\"\""];

/// How streams of events begin, and no JSON: with data, with another field, or with a comment.
const BEGINNINGS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// What a stream may begin with, besides empty lines.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The answer to one request of a slot.
pub(super) struct Answer {
    wanted: Wanted,
    events: EventReader,
    /// Whether it is a stream of events although its head does not say so.
    is_unnamed_stream: bool,
    /// The body, if it is not a stream; for a refusal only as much as is worth keeping.
    kept: Held,
    stream: Stream,
    /// The text of a stream, for the turns that follow.
    text: Held,
    /// Events of it with parts of calls of tools, for them.
    calls: Held,
    /// The message of a body, for them.
    message: Option<Vec<u8>>,
    /// Documents with content.
    content: Held,
    /// What observers are shown, joined.
    shown: RefCell<Vec<u8>>,
}

impl Answer {
    /// None yet.
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            events: EventReader::new(wanted.event),
            is_unnamed_stream: false,
            kept: Held::default(),
            stream: Stream::default(),
            text: Held::default(),
            calls: Held::default(),
            message: None,
            content: Held::default(),
            shown: RefCell::default(),
        }
    }

    /// Forgets everything, for the next request.
    pub(super) fn reset(&mut self) {
        self.events.reset();
        self.is_unnamed_stream = false;
        self.kept.clear();
        self.text.clear();
        self.calls.clear();
        self.message = None;
        self.content.clear();
        self.stream.clear();
    }

    /// A piece of the body has arrived, for `total` bytes so far.
    ///
    /// # Errors
    /// If the answer cannot become valid any more.
    pub(super) fn take(
        &mut self,
        head: &Head,
        piece: &[u8],
        total: u64,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        if !is_success(head) {
            self.check(total)?;
            return keep(&mut self.kept, piece, KEPT_OF_REFUSAL);
        }
        if self.is_stream(head) {
            return self.take_events(piece, slot, exchanges);
        }
        self.check(total)?;
        self.kept.extend(piece).map_err(malformed)?;
        // Servers name another type of content, or none.
        let begun = self.kept.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.kept).trim_ascii_start();
        self.is_unnamed_stream = BEGINNINGS.iter().any(|beginning| begun.starts_with(beginning));
        if !self.is_unnamed_stream {
            return Ok(());
        }
        let begun = std::mem::take(&mut self.kept);
        self.take_events(&begun, slot, exchanges)
    }

    /// Whether the body is a stream of events, as far as it has come.
    fn is_stream(&self, head: &Head) -> bool {
        head.events || self.is_unnamed_stream
    }

    /// A piece of a stream has arrived.
    fn take_events(&mut self, mut piece: &[u8], slot: usize, exchanges: &mut Exchanges) -> Result<(), InferError> {
        while !self.stream.done {
            let event = self.events.next(&mut piece).map_err(malformed)?;
            let Some(event) = event else { break };
            let Self { wanted, stream, text, calls, content, shown, .. } = self;
            stream.take(event, shown, slot, exchanges)?;
            stream.keep(event.data, *wanted, Kept { text, calls, content })?;
        }
        Ok(())
    }

    /// Fails if a body of this many bytes exceeds the limit for an answer.
    pub(super) fn check(&self, bytes: u64) -> Result<(), InferError> {
        check_length(bytes, self.wanted.limit)
    }

    /// The assistant's messages with commas between them, of a complete and successful answer: one, or the items of a response.
    pub(super) fn message(&self) -> Option<Vec<u8>> {
        match self.wanted.message && !self.stream.failed {
            true if self.stream.generation.events > 0 => {
                Some(messages::streamed_messages(&String::from_utf8_lossy(&self.text), &self.calls))
            }
            true => self.message.clone(),
            false => None,
        }
    }

    /// Whether the end of the stream was announced.
    pub(super) fn has_all(&self) -> bool {
        self.stream.done
    }

    /// Whether a stream that was cut off had already announced its end.
    pub(super) fn is_whole(&self) -> bool {
        self.stream.done || self.stream.finished
    }

    /// All of the answer to `request` has arrived.
    ///
    /// # Errors
    /// Why the request failed.
    pub(super) fn complete(
        &mut self,
        head: &Head,
        request: &[u8],
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        if !is_success(head) {
            return Err(refusal::of_status(head.status, &head.location, &unpacked_refusal(head, &self.kept)));
        }
        let generation = if self.is_stream(head) {
            self.end_stream(request, slot, exchanges)?
        } else {
            self.body(head, request, slot, exchanges)?
        };
        if let Some(generation) = generation {
            let answer = if generation.tokens.is_none() { &self.content[..] } else { &[] };
            let is_counted = !self.wanted.content || generation.input.all.is_some();
            let uncounted = Uncounted { request: if is_counted { &[] } else { request }, answer };
            let generation = Generation { request_bytes: request.len() as u64, ..generation };
            exchanges.generated(slot, generation, uncounted);
        }
        Ok(())
    }

    /// The stream has ended; returns what it generated, unless it failed.
    fn end_stream(
        &mut self,
        request: &[u8],
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<Option<Generation>, InferError> {
        if !self.stream.done
            && let Some(event) = self.events.finish()
        {
            let Self { wanted, stream, text, calls, content, shown, .. } = self;
            stream.take(event, shown, slot, exchanges)?;
            stream.keep(event.data, *wanted, Kept { text, calls, content })?;
        }
        let Stream { generation, choices, others, typed, first_tokens, finished, done, failed, .. } = self.stream;
        if failed {
            return Ok(None);
        }
        // Streams of other forms than OpenAI's and Anthropic's need no end marker.
        let whole = done || finished || (others && !choices && typed.is_none());
        if !whole {
            let marks = typed.map_or("[DONE] and before any finish_reason", Typed::end);
            return Err(malformed(format!("the stream ends before {marks}")));
        }
        let tokens = self.stream.tokens();
        let (size, first_size) =
            first_tokens.and_then(|first| Some((tokens?, first))).unwrap_or((generation.size, generation.first_size));
        let counts = &self.stream.counts;
        let input = if counts.is_empty() { generation.input } else { of_prompts(counts.input(), request) };
        Ok(Some(Generation { tokens, size, first_size, input, unended: !done && choices, ..generation }))
    }

    /// A body that is not a stream.
    fn body(
        &mut self,
        head: &Head,
        request: &[u8],
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<Option<Generation>, InferError> {
        let body = &*unpacked(head, &self.kept, self.wanted.limit, exchanges)?;
        let is_empty = EMPTY.contains(&body.trim_ascii());
        let parsed = if is_empty { Ok(ParsedAnswer::default()) } else { several::read(body) };
        let parsed = parsed.map_err(|error| refusal::no_json(body, &error))?;
        if parsed.error {
            return Err(refusal::of_document(body));
        }
        if self.wanted.message {
            // An answer without any text is one, as of a stream: chat templates refuse two questions in a row.
            self.message = messages::messages_of(body).or_else(|| Some(messages::message("")));
        }
        exchanges.respond(slot, &Shown { parts: &[body], scratch: &self.shown });
        let tokens = parsed.tokens.filter(|&tokens| tokens > 0 || !parsed.content);
        let tokens = tokens.or(Some(parsed.token_ids).filter(|&tokens| tokens > 0));
        if self.wanted.content && tokens.is_none() {
            self.content.extend(body).map_err(malformed)?;
        }
        Ok(Some(Generation {
            chunks: parsed.content.into(),
            tokens,
            input: if parsed.several { of_prompts(parsed.input, request) } else { parsed.input },
            unreadable: parsed.unreadable,
            unstreamed: self.wanted.streams,
            ..Generation::default()
        }))
    }
}

/// Whether the status means success.
pub(super) fn is_success(head: &Head) -> bool {
    (200..300).contains(&head.status)
}

/// Whether the events of a stream can be read as they arrive.
pub(super) fn is_readable(head: &Head) -> bool {
    !head.events || head.encoding == Encoding::Identity
}
