//! What a request brought that a language model answered.

use crate::clock::Stamp;

/// What a request brought whose answer is generated text. A *content event* is one that carries text, reasoning or the call of a
/// tool; events that only name a role, tell usage or end the stream are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// When it was sent.
    pub sent: Stamp,
    /// When it ended: with its last content event, with all of it where it is no stream.
    pub end: Stamp,
    /// When the first content event came; none where the answer is no stream, or has no content.
    pub first: Option<Stamp>,
    /// When the second one came.
    pub second: Option<Stamp>,
    /// Content events; 1 where the answer is no stream and has content.
    pub chunks: u32,
    /// Tokens of the output, as the server counts them, or a tokenizer.
    pub tokens: Option<u64>,
    /// It was a tokenizer: the server says nothing of them.
    pub by_tokenizer: bool,
    /// Events of whatever kind.
    pub events: u32,
    /// Reads from the network that events ended in.
    pub reads: u32,
    /// A stream that said why it ends, but not that it does (`[DONE]`).
    pub unended: bool,
}
