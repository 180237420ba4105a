//! What a language model's answer consisted of.

use crate::clock::Stamp;

/// What a request with generated text brought. A *content event* is one that carries text, reasoning or a tool call;
/// events that only name a role, report usage or end the stream do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// When it was sent.
    pub sent: Stamp,
    /// When it ended: at its last content event, or at the end of an answer that is not streamed.
    pub end: Stamp,
    /// When the first content event came; `None` if the answer is not streamed, or has no content.
    pub first: Option<Stamp>,
    /// When the next one came that did not come together with the first.
    pub second: Option<Stamp>,
    /// Content events; 1 for an answer that has content but is not streamed.
    pub chunks: u32,
    /// Those of them that came together with the first, in one read, and the first itself.
    pub first_chunks: u32,
    /// The length of all content: in tokens where it is known how many each event has, else in bytes.
    pub size: u64,
    /// The length of what came with the first content event.
    pub first_size: u64,
    /// Tokens of the output, as the server counts them, or a tokenizer.
    pub tokens: Option<u64>,
    /// It was a tokenizer: the server says nothing of them.
    pub by_tokenizer: bool,
    /// Tokens of the input, as the server counts them, or a tokenizer.
    pub input: InputTokens,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// The server's counts of tokens cannot be read, or cannot be.
    pub unreadable: bool,
    /// A stream was asked for, and the answer is none.
    pub unstreamed: bool,
    /// Events of any kind.
    pub events: u32,
    /// Network reads in which events ended.
    pub reads: u32,
    /// Whether the stream gave a finish reason but not its end marker (`[DONE]`).
    pub unended: bool,
}

/// Tokens of a request's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputTokens {
    /// All.
    pub all: Option<u64>,
    /// Those that came from the server's cache.
    pub cached: Option<u64>,
    /// A tokenizer counted them: the server says nothing of them.
    pub by_tokenizer: bool,
}

/// What a tokenizer is to count, in a form that the backend can read: empty where the server counts, or nobody does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted<'a> {
    /// What was asked.
    pub request: &'a [u8],
    /// What was answered.
    pub answer: &'a [u8],
}

impl InputTokens {
    /// These, or `earlier` ones where they do not tell.
    #[must_use]
    pub fn or(self, earlier: Self) -> Self {
        Self { all: self.all.or(earlier.all), cached: self.cached.or(earlier.cached), ..self }
    }
}

impl Generation {
    /// Tokens that came after the first content event, where that is known; each content event of which nothing else is
    /// known has one. None of them has no time between tokens.
    ///
    /// Where only their sum is known, they are divided as the text is.
    pub fn later_tokens(&self) -> u64 {
        let later_chunks = u64::from(self.chunks.saturating_sub(self.first_chunks));
        let Some(tokens) = self.tokens.filter(|_| later_chunks > 0) else { return later_chunks };
        let most = tokens.saturating_sub(u64::from(self.first_chunks));
        let part = u128::from(tokens) * u128::from(self.size.saturating_sub(self.first_size));
        let size = u128::from(self.size);
        let share = (part + size / 2).checked_div(size).map_or(most, |share| u64::try_from(share).unwrap_or(most));
        share.clamp(later_chunks.min(most), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_after_the_first_chunk_follow_the_text() {
        let later = |tokens, (chunks, first_chunks), (size, first_size)| {
            Generation { tokens, chunks, first_chunks, size, first_size, ..Generation::default() }.later_tokens()
        };
        assert_eq!(later(None, (5, 1), (0, 0)), 4, "each chunk is one");
        assert_eq!(later(Some(5), (5, 1), (100, 60)), 4, "a token each, however long they are");
        assert_eq!(later(Some(9), (5, 1), (90, 50)), 4, "five came first");
        assert_eq!(later(Some(9), (5, 1), (0, 0)), 8, "nothing is known of the text");
        assert_eq!(later(Some(6), (5, 1), (50, 10)), 5, "the end of the text is a token, too");
        assert_eq!(later(Some(9), (9, 5), (90, 50)), 4, "five came in one read");
        assert_eq!(later(Some(3), (5, 1), (50, 10)), 2, "fewer tokens than chunks");
        for at_once in [later(Some(9), (1, 1), (90, 90)), later(Some(9), (9, 9), (90, 90)), later(None, (3, 3), (9, 9))]
        {
            assert_eq!(at_once, 0);
        }
        assert_eq!((later(Some(1), (2, 1), (20, 10)), later(Some(0), (0, 0), (0, 0))), (0, 0));
        assert_eq!(later(Some(u64::MAX), (2, 1), (u64::MAX, 1)), u64::MAX - 1);
    }
}
