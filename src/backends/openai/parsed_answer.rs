//! [`ParsedAnswer`]: what one JSON document of an answer says, a whole answer or an event. Read without building a tree of
//! values or allocating, because hundreds of thousands of events arrive per second.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::backend::InputTokens;

/// What a document says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedAnswer {
    /// It has the form of OpenAI's completions.
    pub(super) choices: bool,
    /// It reports usage.
    pub(super) usage: bool,
    /// It carries text, reasoning or a tool call; in another form, anything.
    pub(super) content: bool,
    /// The length of that, as it is written.
    pub(super) size: usize,
    /// It has a finish reason.
    pub(super) finished: bool,
    /// Output tokens so far.
    pub(super) tokens: Option<u64>,
    /// Input tokens.
    pub(super) input: InputTokens,
    /// It reports an error.
    pub(super) error: bool,
    /// Streams of its form say that they are at their end.
    pub(super) ends: bool,
}

impl ParsedAnswer {
    /// Reads a document.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(super) fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        let is_object = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        match serde_json::from_slice::<Document<'_>>(text) {
            // Lists would be read as members without names.
            Ok(document) if is_object => Ok(document.parsed(text.len())),
            // A member has an unexpected type: another kind of document.
            _ => serde_json::from_slice::<IgnoredAny>(text).map(|_| Self {
                content: true,
                size: text.len(),
                ..Self::default()
            }),
        }
    }
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    object: Option<&'a RawValue>,
    #[serde(default, borrow)]
    choices: Member<Each<Choice<'a>>>,
    #[serde(default, borrow)]
    usage: Option<Usage<'a>>,
    /// The rest is of the events of OpenAI's Responses API and of Anthropic's messages.
    #[serde(default, borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(default, borrow)]
    delta: Option<&'a RawValue>,
    #[serde(default, borrow)]
    response: Option<&'a RawValue>,
}

impl Document<'_> {
    /// `length` is the document's.
    fn parsed(&self, length: usize) -> ParsedAnswer {
        let kind = self.kind.map_or("", |kind| kind.get().trim_matches('"'));
        if let Some(kind) = kind.strip_prefix("response.") {
            return self.event(kind);
        }
        if matches!(kind, "ping" | "message_start" | "message_delta" | "message_stop")
            || kind.starts_with("content_block_")
        {
            return self.message_event(kind);
        }
        let is_error = |text: &RawValue| text.get() == "\"error\"";
        let error = self.error.is_some() || self.object.is_some_and(is_error);
        let parsed = ParsedAnswer {
            usage: self.usage.is_some(),
            tokens: self.usage.and_then(Usage::generated),
            input: self.usage.map(Usage::input).unwrap_or_default(),
            error,
            ..ParsedAnswer::default()
        };
        match &self.choices {
            Member::There(Each { size, finished, .. }) => {
                let size = if error { 0 } else { *size };
                ParsedAnswer { choices: true, content: size > 0, size, finished: *finished, ..parsed }
            }
            Member::Absent => ParsedAnswer { content: !error, size: if error { 0 } else { length }, ..parsed },
        }
    }

    /// An event of Anthropic's messages: only deltas of content blocks carry output.
    fn message_event(&self, kind: &str) -> ParsedAnswer {
        let delta = self.delta.and_then(|delta| serde_json::from_str::<Delta<'_>>(delta.get()).ok());
        let delta = delta.unwrap_or_default();
        // Others send pings, too.
        let mut parsed = ParsedAnswer { ends: kind != "ping", ..ParsedAnswer::default() };
        match kind {
            "content_block_delta" => {
                parsed.size = [delta.text, delta.thinking, delta.partial_json].into_iter().map(size).sum();
                parsed.content = parsed.size > 0;
            }
            "message_delta" => {
                parsed.finished = size(delta.stop_reason) > 0;
                (parsed.usage, parsed.tokens) = (self.usage.is_some(), self.usage.and_then(Usage::generated));
                parsed.input = self.usage.map(Usage::input).unwrap_or_default();
            }
            "message_stop" => parsed.finished = true,
            // The usage of a beginning says nothing of what is still to come.
            _ => {}
        }
        parsed
    }

    /// An event `response.KIND` of OpenAI's Responses API: only deltas carry output.
    fn event(&self, kind: &str) -> ParsedAnswer {
        let response = self.response.and_then(|response| serde_json::from_str::<Response<'_>>(response.get()).ok());
        let usage = response.and_then(|response| response.usage);
        let size = if kind.ends_with(".delta") { size(self.delta) } else { 0 };
        ParsedAnswer {
            content: size > 0,
            size,
            finished: matches!(kind, "completed" | "incomplete"),
            usage: usage.is_some(),
            tokens: usage.and_then(Usage::generated),
            input: usage.map(Usage::input).unwrap_or_default(),
            error: kind == "failed",
            choices: false,
            ends: false,
        }
    }
}

/// The state of a response that an event tells.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default, borrow)]
    usage: Option<Usage<'a>>,
}

/// What an event of Anthropic's messages adds.
#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    thinking: Option<&'a RawValue>,
    /// Of the input of a tool.
    #[serde(default, borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(default, borrow)]
    stop_reason: Option<&'a RawValue>,
}

/// A member that may be absent; `null` counts as present but empty.
#[derive(Default)]
enum Member<T> {
    #[default]
    Absent,
    There(T),
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Member<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(deserializer).map(|value| Self::There(value.unwrap_or_default()))
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Usage<'a> {
    #[serde(default)]
    completion_tokens: Option<u64>,
    /// The Responses API's name for them.
    #[serde(default)]
    output_tokens: Option<u64>,
    /// Those of the input, under both names. As text: whatever else a server writes here does not make another document of
    /// its answer.
    #[serde(default, borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(default, borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(default, borrow)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(default, borrow)]
    input_tokens_details: Option<&'a RawValue>,
}

/// Of the tokens of an input.
#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl Usage<'_> {
    fn generated(self) -> Option<u64> {
        self.completion_tokens.or(self.output_tokens)
    }

    fn input(self) -> InputTokens {
        let number = |text: &RawValue| text.get().parse().ok();
        let details = self.prompt_tokens_details.or(self.input_tokens_details);
        let details = details.and_then(|details| serde_json::from_str::<Details>(details.get()).ok());
        InputTokens {
            all: self.prompt_tokens.or(self.input_tokens).and_then(number),
            cached: details.and_then(|details| details.cached_tokens),
            by_tokenizer: false,
        }
    }
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Message<'a>>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
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
fn size(value: Option<&RawValue>) -> usize {
    value.map_or(0, |value| match value.get() {
        "\"\"" | "[]" => 0,
        text if text.starts_with('"') => text.len() - 2,
        text => text.len(),
    })
}

/// What an element of a list contributes.
trait Part {
    /// The length of its content, and whether it ends the output.
    fn says(&self) -> (usize, bool);
}

impl Part for Choice<'_> {
    fn says(&self) -> (usize, bool) {
        let messages = [&self.delta, &self.message].into_iter().flatten();
        (messages.map(Message::size).sum::<usize>() + size(self.text), size(self.finish_reason) > 0)
    }
}

impl Message<'_> {
    fn size(&self) -> usize {
        let audio = self.audio.as_ref().map_or([None, None], |audio| [audio.data, audio.transcript]);
        let texts = [self.content, self.reasoning_content, self.reasoning, self.refusal];
        texts.into_iter().chain(audio).map(size).sum::<usize>()
            + self.tool_calls.as_ref().map_or(0, |calls| calls.size)
            + self.function_call.as_ref().map_or(0, Function::size)
    }
}

impl Part for ToolCall<'_> {
    fn says(&self) -> (usize, bool) {
        (self.function.as_ref().map_or(0, Function::size), false)
    }
}

impl Function<'_> {
    fn size(&self) -> usize {
        size(self.name) + size(self.arguments)
    }
}

/// The elements of a list together.
struct Each<T> {
    size: usize,
    finished: bool,
    element: PhantomData<T>,
}

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self { size: 0, finished: false, element: PhantomData }
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
                    let (size, finished) = part.says();
                    all.size += size;
                    all.finished |= finished;
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(List(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ParsedAnswer {
        let parsed = ParsedAnswer::read(text.as_bytes()).unwrap();
        assert_eq!(parsed.size > 0, parsed.content, "{text}");
        ParsedAnswer { size: 0, ..parsed }
    }

    #[test]
    fn the_length_of_content_is_that_of_its_text() {
        let size = |text: &str| ParsedAnswer::read(text.as_bytes()).unwrap().size;
        assert_eq!(
            size(r#"{"choices":[{"delta":{"content":"abc","role":"assistant"}},{"delta":{"content":"d"}}]}"#),
            4
        );
        assert_eq!(size(r#"{"type":"response.output_text.delta","delta":"Hi"}"#), 2);
        assert_eq!(size(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hey"}}"#), 3);
        assert_eq!(size("[1,2]"), 5);
    }

    #[test]
    fn of_messages_only_deltas_of_blocks_are_content() {
        let parsed = |event: &str| parsed(&format!("{{{event}}}"));
        for (event, content) in [
            (r#""type":"message_start","message":{"content":[],"usage":{"input_tokens":9,"output_tokens":1}}"#, false),
            (r#""type":"ping""#, false),
            (r#""type":"content_block_start","content_block":{"type":"text","text":""}"#, false),
            (r#""type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}"#, true),
            (r#""type":"content_block_delta","delta":{"type":"text_delta","text":""}"#, false),
            (r#""type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}"#, true),
            (r#""type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a"}"#, true),
            (r#""type":"content_block_delta","delta":{"type":"signature_delta","signature":"xyz"}"#, false),
            (r#""type":"content_block_stop","index":0"#, false),
        ] {
            let ends = !event.contains("ping");
            assert_eq!(parsed(event), ParsedAnswer { content, ends, ..ParsedAnswer::default() }, "{event}");
        }
        let last = parsed(r#""type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}"#);
        let expected =
            ParsedAnswer { finished: true, usage: true, tokens: Some(15), ends: true, ..ParsedAnswer::default() };
        assert_eq!(last, expected);
        assert!(parsed(r#""type":"message_stop""#).finished);
        assert!(parsed(r#""type":"error","error":{"type":"overloaded_error","message":"later"}"#).error);
        let body = parsed(r#""type":"message","content":[{"type":"text","text":"Hi"}],"usage":{"output_tokens":5}"#);
        assert_eq!((body.content, body.tokens, body.error), (true, Some(5), false));
    }

    #[test]
    fn only_text_reasoning_and_calls_of_tools_are_content() {
        for (choice, content, finished) in [
            (r#"{"delta":{"role":"assistant","content":""}}"#, false, false),
            (r#"{"delta":{"role":"assistant","content":null},"finish_reason":null}"#, false, false),
            (r#"{"delta":{"content":" "}}"#, true, false),
            (r#"{"delta":{"content":"\n\"usage\":"}}"#, true, false),
            (r#"{"delta":{"reasoning_content":"x"}}"#, true, false),
            (r#"{"delta":{"reasoning":"x"}}"#, true, false),
            (r#"{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}"#, true, false),
            (r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}"#, false, false),
            (r#"{"delta":{"tool_calls":[]}}"#, false, false),
            (r#"{"delta":{"content":null,"function_call":{"name":"f","arguments":"{"}}}"#, true, false),
            (r#"{"delta":{"function_call":{"arguments":""}}}"#, false, false),
            (r#"{"delta":{"audio":{"id":"a","transcript":"Hi"}}}"#, true, false),
            (r#"{"delta":{"audio":{"id":"a","expires_at":7}}}"#, false, false),
            (r#"{"delta":{},"finish_reason":"stop"}"#, false, true),
            (r#"{"text":"x","finish_reason":"length"}"#, true, true),
            (r#"{"message":{"content":"whole"},"finish_reason":"stop"}"#, true, true),
        ] {
            let parsed = parsed(&format!(r#"{{"object":"chat.completion.chunk","choices":[{choice}],"usage":null}}"#));
            let expected = ParsedAnswer { choices: true, content, finished, ..ParsedAnswer::default() };
            assert_eq!(parsed, expected, "{choice}");
        }
    }

    #[test]
    fn usage_stands_beside_choices_or_alone() {
        for text in [
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}}"#,
            r#"{"choices":null,"usage":{"completion_tokens":7}}"#,
        ] {
            let input = InputTokens { all: text.contains("prompt").then_some(3), ..InputTokens::default() };
            let expected =
                ParsedAnswer { choices: true, usage: true, tokens: Some(7), input, ..ParsedAnswer::default() };
            assert_eq!(parsed(text), expected, "{text}");
        }
        assert_eq!(parsed(r#"{"usage":{"completion_tokens":7}}"#).tokens, Some(7));
        let cached = |details: &str| {
            parsed(&format!(r#"{{"choices":[],"usage":{{"prompt_tokens":9,"prompt_tokens_details":{details}}}}}"#))
                .input
        };
        let counts = |cached| InputTokens { all: Some(9), cached, by_tokenizer: false };
        assert_eq!(cached(r#"{"audio_tokens":1,"cached_tokens":4}"#), counts(Some(4)));
        assert_eq!([cached("null"), cached("7"), cached(r#"{"cached_tokens":"4"}"#)], [counts(None); 3]);
        let beside = parsed(r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":0}}"#);
        assert_eq!((beside.content, beside.tokens), (true, Some(0)));
        let embedding = parsed(r#"{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":3}}"#);
        assert_eq!((embedding.choices, embedding.content, embedding.tokens), (false, true, None));
    }

    #[test]
    fn of_the_responses_api_only_deltas_are_content() {
        for (event, expected) in [
            (r#"{"type":"response.created","response":{"usage":null}}"#, ParsedAnswer::default()),
            (r#"{"type":"response.output_item.added","item":{"content":[]}}"#, ParsedAnswer::default()),
            (
                r#"{"type":"response.output_text.delta","delta":"Hi"}"#,
                ParsedAnswer { content: true, ..ParsedAnswer::default() },
            ),
            (r#"{"type":"response.output_text.delta","delta":""}"#, ParsedAnswer::default()),
            (r#"{"type":"response.output_text.done","text":"Hi"}"#, ParsedAnswer::default()),
            (
                r#"{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":2}}}"#,
                ParsedAnswer {
                    finished: true,
                    usage: true,
                    tokens: Some(2),
                    input: InputTokens { all: Some(9), ..InputTokens::default() },
                    ..ParsedAnswer::default()
                },
            ),
            (
                r#"{"type":"response.failed","response":{"error":{"message":"no"}}}"#,
                ParsedAnswer { error: true, ..ParsedAnswer::default() },
            ),
        ] {
            assert_eq!(parsed(event), expected, "{event}");
        }
        let body = parsed(r#"{"object":"response","error":null,"output":[{}],"usage":{"output_tokens":5}}"#);
        assert_eq!((body.content, body.tokens, body.error), (true, Some(5), false));
    }

    #[test]
    fn errors_and_other_documents_are_told_apart() {
        for text in [r#"{"error":{"message":"no"}}"#, r#"{"error":"no","choices":[]}"#, r#"{"object":"error"}"#] {
            assert!(parsed(text).error && !parsed(text).content, "{text}");
        }
        assert!(!parsed(r#"{"error":null,"choices":[]}"#).error);
        for text in ["{}", "[1]", "\"x\"", r#"{"choices":"x"}"#, r#"{"usage":{"completion_tokens":-1}}"#] {
            assert_eq!(parsed(text), ParsedAnswer { content: true, ..ParsedAnswer::default() }, "{text}");
        }
        for text in ["", "{", "[DONE]", "{\"a\":1} x", "\u{feff}{}"] {
            assert!(ParsedAnswer::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
