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
    /// When the second one came.
    pub second: Option<Stamp>,
    /// Content events; 1 for an answer that has content but is not streamed.
    pub chunks: u32,
    /// Tokens of the output, as the server counts them, or a tokenizer.
    pub tokens: Option<u64>,
    /// It was a tokenizer: the server says nothing of them.
    pub by_tokenizer: bool,
    /// Events of any kind.
    pub events: u32,
    /// Network reads in which events ended.
    pub reads: u32,
    /// Whether the stream gave a finish reason but not its end marker (`[DONE]`).
    pub unended: bool,
}
