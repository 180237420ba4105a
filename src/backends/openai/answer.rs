//! [`Answer`]: the answer to one request, a body or a stream of events, from whatever pieces it arrives in.

use std::cell::RefCell;

use crate::backend::{Generation, InferError, Uncounted};
use crate::clock::Stamp;
use crate::engine::http1::{KEPT_OF_REFUSAL, check_length, keep, unpacked, unpacked_refusal};
use crate::engine::{Exchanges, malformed};
use crate::held::Held;
use crate::openai::parsed_answer::{ParsedAnswer, Typed};
use crate::openai::several::{TextCounts, of_prompts};
use crate::openai::shown::{EventText, Shown};
use crate::openai::texts::spoken;
use crate::openai::usage::Counts;
use crate::openai::{messages, refusal, several};
use crate::wire::http1::{Encoding, Head};
use crate::wire::sse::{Event, EventReader};

/// What ends a stream.
const DONE: &[u8] = b"[DONE]";
/// Bodies without anything in them.
const EMPTY: [&[u8]; 5] = [b"", b"{}", b"[]", b"null", b"\"\""];

/// What is kept of answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Maximum bytes of a body.
    pub(super) limit: u64,
    /// Maximum bytes of one event.
    pub(super) event: usize,
    /// The assistant's message, for the turns that follow.
    pub(super) message: bool,
    /// What has tokens, if the server does not report how many there are.
    pub(super) content: bool,
    /// Answers that are streams.
    pub(super) streams: bool,
}

/// The answer to one request of a slot.
pub(super) struct Answer {
    wanted: Wanted,
    events: EventReader,
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

/// State of a stream.
#[derive(Debug, Default)]
struct Stream {
    generation: Generation,
    /// What its texts count, if it has several.
    counts: TextCounts,
    /// When the last read arrived in which an event ended.
    read_at: Stamp,
    /// Events have the form of OpenAI's completions.
    choices: bool,
    /// Events of other forms have arrived.
    others: bool,
    /// Events of such a stream have arrived, but none of OpenAI's completions.
    typed: Option<Typed>,
    /// Tokens so far, as the server counts them, when the first content event had come, and those together with it.
    first_tokens: Option<u64>,
    /// It has more content than is kept for counting.
    too_long: bool,
    /// The last event had content.
    last_has_content: bool,
    /// A finish reason was received.
    finished: bool,
    /// The end of the stream was received.
    done: bool,
    failed: bool,
}

/// Where parts of an answer are kept.
struct Kept<'a> {
    /// The text of its message.
    text: &'a mut Held,
    /// Its events with parts of calls of tools.
    calls: &'a mut Held,
    /// The content that tokens are counted in.
    content: &'a mut Held,
}

impl Answer {
    /// None yet.
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            events: EventReader::new(wanted.event),
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
        self.kept.clear();
        self.text.clear();
        self.calls.clear();
        self.message = None;
        self.content.clear();
        let counts = std::mem::take(&mut self.stream.counts).cleared();
        self.stream = Stream { counts, ..Stream::default() };
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
        if !head.events {
            self.check(total)?;
            return self.kept.extend(piece).map_err(malformed);
        }
        let mut remaining = piece;
        while !self.stream.done {
            let event = self.events.next(&mut remaining).map_err(malformed)?;
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
        let generation = if head.events {
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
        // Some servers report a usage of 0 along with text.
        let tokens = generation.tokens.filter(|&tokens| tokens > 0 || generation.chunks == 0);
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
            self.message = messages::messages_of(body);
        }
        exchanges.respond(slot, &Shown { parts: &[body], scratch: &self.shown });
        let tokens = parsed.tokens.filter(|&tokens| tokens > 0 || !parsed.content);
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

impl Stream {
    /// Keeps the required parts of the last event.
    ///
    /// # Errors
    /// If all answers together take too much memory.
    #[inline]
    fn keep(&mut self, data: &[u8], wanted: Wanted, kept: Kept<'_>) -> Result<(), InferError> {
        let Kept { text, calls, content } = kept;
        if wanted.message {
            text.extend(spoken(data).as_bytes()).map_err(malformed)?;
            if messages::has_part(data) {
                calls.extend(data).map_err(malformed)?;
            }
        }
        let is_wanted = wanted.content && self.last_has_content && self.generation.tokens.unwrap_or(0) == 0;
        if !is_wanted || self.too_long {
            return Ok(());
        }
        content.extend(data).and_then(|()| content.extend(b"\n")).map_err(malformed)?;
        if content.len() as u64 > wanted.limit {
            self.too_long = true;
            content.clear();
        }
        Ok(())
    }

    /// An event has arrived.
    fn take(
        &mut self,
        event: Event<'_>,
        scratch: &RefCell<Vec<u8>>,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        self.generation.events = self.generation.events.saturating_add(1);
        if self.read_at != exchanges.now {
            self.read_at = exchanges.now;
            self.generation.reads = self.generation.reads.saturating_add(1);
        }
        self.last_has_content = false;
        let text = EventText { event, scratch };
        if event.data == DONE {
            self.done = true;
            exchanges.respond_aside(slot, &text);
            return Ok(());
        }
        let is_error = event.name == b"error";
        let parsed = match several::read(event.data) {
            Ok(parsed) => parsed,
            Err(_) if is_error => ParsedAnswer { error: true, ..ParsedAnswer::default() },
            Err(error) => return Err(malformed(format!("an event's data is not JSON: {error}"))),
        };
        if is_error || parsed.error {
            self.failed = true;
            exchanges.respond_failed(slot, refusal::of_document(event.data));
            return Ok(());
        }
        let parsed = self.counted(parsed)?;
        let typed = parsed.typed.filter(|_| !self.choices);
        if (parsed.choices && !self.choices) || (typed.is_some() && self.typed.is_none()) {
            self.forget_others();
        }
        self.choices |= parsed.choices;
        self.others |= !parsed.choices;
        self.typed = typed.or(self.typed).filter(|_| !self.choices);
        self.finished |= parsed.finished;
        self.generation.tokens = parsed.tokens.or(self.generation.tokens);
        self.generation.input = parsed.input.or(self.generation.input);
        self.generation.unreadable |= parsed.unreadable;
        // Beside events whose form is known, one of another form is none of the output, such as OpenAI's `keepalive`.
        let is_known = self.choices || self.typed.is_some();
        let content = parsed.content && (parsed.choices || typed.is_some() || !(parsed.usage || is_known));
        if !content || self.failed {
            exchanges.respond_aside(slot, &text);
            return Ok(());
        }
        self.add(&parsed, exchanges.now);
        exchanges.respond(slot, &text);
        Ok(())
    }
}

impl Stream {
    /// An event, with the tokens of all texts so far if it counts those of its own.
    #[inline]
    fn counted(&mut self, parsed: ParsedAnswer) -> Result<ParsedAnswer, InferError> {
        let Some(text) = parsed.text else { return Ok(parsed) };
        let tokens = self.counts.note(text, Counts { tokens: parsed.tokens, input: parsed.input })?;
        Ok(ParsedAnswer { tokens, ..parsed })
    }

    /// Its form is known: what came before in another was no content of it.
    fn forget_others(&mut self) {
        let Generation { events, reads, tokens, input, unreadable, .. } = self.generation;
        self.generation = Generation { events, reads, tokens, input, unreadable, ..Generation::default() };
        self.first_tokens = None;
    }

    /// An event with content has arrived at `now`.
    #[inline]
    fn add(&mut self, parsed: &ParsedAnswer, now: Stamp) {
        let (all, size) = (&mut self.generation, parsed.size as u64);
        all.chunks = all.chunks.saturating_add(1);
        all.size += size;
        if *all.first.get_or_insert(now) == now {
            all.first_chunks = all.chunks;
            all.first_size = all.size;
            self.first_tokens = parsed.tokens.filter(|&tokens| tokens > 0).or(self.first_tokens);
        } else {
            all.second.get_or_insert(now);
        }
        self.last_has_content = true;
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
