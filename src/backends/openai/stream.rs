//! [`Stream`]: what the events of an answer have said so far.

use std::cell::RefCell;

use crate::backend::{Generation, InferError};
use crate::clock::Stamp;
use crate::engine::{Exchanges, malformed};
use crate::held::Held;
use crate::openai::parsed_answer::{ParsedAnswer, Typed};
use crate::openai::several::TextCounts;
use crate::openai::shown::EventText;
use crate::openai::texts::spoken;
use crate::openai::usage::Counts;
use crate::openai::{messages, refusal, several};
use crate::wire::sse::Event;

/// What ends a stream, and begins its last event.
const DONE: &[u8] = b"[DONE]";

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

/// State of a stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) generation: Generation,
    /// What its texts count, if it has several.
    pub(super) counts: TextCounts,
    /// When the last read arrived in which an event ended.
    read_at: Stamp,
    /// Events have the form of OpenAI's completions.
    pub(super) choices: bool,
    /// Events of other forms have arrived.
    pub(super) others: bool,
    /// Events of such a stream have arrived, but none of OpenAI's completions.
    pub(super) typed: Option<Typed>,
    /// Tokens so far, as the server counts them, when the first content event had come, and those together with it.
    pub(super) first_tokens: Option<u64>,
    /// Tokens that its events have as numbers.
    token_ids: u64,
    /// It has more content than is kept for counting.
    too_long: bool,
    /// The last event had content.
    last_has_content: bool,
    /// A finish reason was received.
    pub(super) finished: bool,
    /// The end of the stream was received.
    pub(super) done: bool,
    pub(super) failed: bool,
}

/// Where parts of an answer are kept.
pub(super) struct Kept<'a> {
    /// The text of its message.
    pub(super) text: &'a mut Held,
    /// Its events with parts of calls of tools.
    pub(super) calls: &'a mut Held,
    /// The content that tokens are counted in.
    pub(super) content: &'a mut Held,
}

impl Stream {
    /// Forgets everything, for the next answer, in the same memory.
    pub(super) fn clear(&mut self) {
        let counts = std::mem::take(&mut self.counts).cleared();
        *self = Self { counts, ..Self::default() };
    }

    /// Keeps the required parts of the last event.
    ///
    /// # Errors
    /// If all answers together take too much memory.
    #[inline]
    pub(super) fn keep(&mut self, data: &[u8], wanted: Wanted, kept: Kept<'_>) -> Result<(), InferError> {
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
    pub(super) fn take(
        &mut self,
        event: Event<'_>,
        scratch: &RefCell<Vec<u8>>,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        self.last_has_content = false;
        let is_error = event.name == b"error";
        // Gateways keep connections alive by events without data, as others do by comments.
        if event.data.trim_ascii().is_empty() && !is_error {
            return Ok(());
        }
        self.generation.events = self.generation.events.saturating_add(1);
        if self.read_at != exchanges.now {
            self.read_at = exchanges.now;
            self.generation.reads = self.generation.reads.saturating_add(1);
        }
        let text = EventText { event, scratch };
        if event.data.trim_ascii_start().starts_with(DONE) {
            self.done = true;
            exchanges.respond_aside(slot, &text);
            return Ok(());
        }
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

    /// Output tokens: those that the server counts, or that its events have as numbers. Some servers report a usage of 0 along
    /// with text.
    pub(super) fn tokens(&self) -> Option<u64> {
        let counted = self.generation.tokens.filter(|&tokens| tokens > 0 || self.generation.chunks == 0);
        counted.or(Some(self.token_ids).filter(|&tokens| tokens > 0))
    }

    /// An event with content has arrived at `now`.
    #[inline]
    fn add(&mut self, parsed: &ParsedAnswer, now: Stamp) {
        let (all, size) = (&mut self.generation, parsed.size as u64);
        all.chunks = all.chunks.saturating_add(1);
        all.size += size;
        self.token_ids = self.token_ids.saturating_add(parsed.token_ids);
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
