//! What the choices of OpenAI's completions say, of a whole answer or of an event.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Message<'a>>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    /// The numbers of its tokens, beside the text or, of vLLM's endpoint for tokens, in its place.
    #[serde(default, borrow)]
    token_ids: Option<&'a RawValue>,
    #[serde(default, borrow)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(default, borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_calls: Option<Each<ToolCall<'a>>>,
    /// The former name of a single call.
    #[serde(default, borrow)]
    function_call: Option<Function<'a>>,
    #[serde(default, borrow)]
    audio: Option<Audio<'a>>,
}

#[derive(Deserialize)]
struct Audio<'a> {
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, borrow)]
    transcript: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(default, borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default, borrow)]
    name: Option<&'a RawValue>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

/// The length of a value's content, as it is written; 0 for null and for an empty string or list.
pub(super) fn size(value: Option<&RawValue>) -> usize {
    value.map_or(0, |value| match value.get() {
        "\"\"" | "[]" => 0,
        text if text.starts_with('"') => text.len() - 2,
        text => text.len(),
    })
}

/// What an element of a list contributes.
pub(super) trait Part {
    /// All of it.
    fn said(&self) -> Said;
}

/// What elements of a list contribute together.
#[derive(Clone, Copy, Default)]
pub(super) struct Said {
    /// The length of their content.
    pub(super) size: usize,
    /// Whether one of them ends the output.
    pub(super) finished: bool,
    /// Tokens that stand there as numbers, where there is no text.
    pub(super) token_ids: u64,
}

impl Part for Choice<'_> {
    fn said(&self) -> Said {
        let messages = [&self.delta, &self.message].into_iter().flatten();
        let has_text = self.delta.is_some() || self.message.is_some() || self.text.is_some();
        let token_ids = if has_text { 0 } else { self.token_ids.map_or(0, elements) };
        let size = messages.map(Message::size).sum::<usize>() + size(self.text) + token_ids as usize;
        Said { size, finished: self::size(self.finish_reason) > 0, token_ids }
    }
}

/// How many elements a list of numbers has.
fn elements(list: &RawValue) -> u64 {
    let inner = list.get().strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default();
    let commas = inner.bytes().filter(|byte| *byte == b',').count() as u64;
    if inner.trim().is_empty() { 0 } else { commas + 1 }
}

impl Message<'_> {
    fn size(&self) -> usize {
        let audio = self.audio.as_ref().map_or([None, None], |audio| [audio.data, audio.transcript]);
        // The same under two names, where a server has both.
        let reasoning = size(self.reasoning_content).max(size(self.reasoning));
        [self.content, self.refusal].into_iter().chain(audio).map(size).sum::<usize>()
            + reasoning
            + self.tool_calls.as_ref().map_or(0, |calls| calls.said.size)
            + self.function_call.as_ref().map_or(0, Function::size)
    }
}

impl Part for ToolCall<'_> {
    fn said(&self) -> Said {
        Said { size: self.function.as_ref().map_or(0, Function::size), ..Said::default() }
    }
}

impl Function<'_> {
    fn size(&self) -> usize {
        size(self.name) + size(self.arguments)
    }
}

/// The elements of a list together.
pub(super) struct Each<T> {
    /// What they say.
    pub(super) said: Said,
    element: PhantomData<T>,
}

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self { said: Said::default(), element: PhantomData }
    }
}

impl<'de, T: Deserialize<'de> + Part> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Part> Visitor<'de> for List<T> {
            type Value = Each<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Each<T>, A::Error> {
                let mut all = Each::default();
                while let Some(part) = list.next_element::<T>()? {
                    let Said { size, finished, token_ids } = part.said();
                    all.said.size += size;
                    all.said.finished |= finished;
                    all.said.token_ids += token_ids;
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(List(PhantomData))
    }
}
