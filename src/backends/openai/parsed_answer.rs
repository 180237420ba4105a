//! [`ParsedAnswer`]: what one JSON document of an answer says, a whole answer or an event. Read without building a tree of
//! values or allocating, because hundreds of thousands of events arrive per second.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::backend::InputTokens;
use crate::openai::choices::{Choice, Each, Said, size};
use crate::openai::usage::{Counts, Usage, members, number};

/// What a document says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedAnswer {
    /// It has the form of OpenAI's completions.
    pub(super) choices: bool,
    /// It reports usage.
    pub(super) usage: bool,
    /// Its usage has a count that cannot be read, or cannot be.
    pub(super) unreadable: bool,
    /// It carries text, reasoning or a tool call; in another form, anything.
    pub(super) content: bool,
    /// The length of that, as it is written.
    pub(super) size: usize,
    /// Tokens of it that stand there as numbers, and not as text.
    pub(super) token_ids: u64,
    /// It has a finish reason.
    pub(super) finished: bool,
    /// Output tokens so far.
    pub(super) tokens: Option<u64>,
    /// Input tokens.
    pub(super) input: InputTokens,
    /// It reports an error.
    pub(super) error: bool,
    /// It is an event of such a stream.
    pub(super) typed: Option<Typed>,
    /// Its counts are those of this one of several texts.
    pub(super) text: Option<u64>,
    /// Its counts are those of several texts together.
    pub(super) several: bool,
}

/// Streams whose events name their types, of which each kind of output has its own, as has the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's messages.
    Messages,
}

impl Typed {
    /// What a stream that is whole has had.
    pub(super) fn end(self) -> &'static str {
        match self {
            Self::Responses => "response.completed",
            Self::Messages => "message_stop and before any stop_reason",
        }
    }
}

/// What events of OpenAI's streams call themselves, as written.
const CHUNKS: [&str; 2] = ["\"chat.completion.chunk\"", "\"text_completion\""];

impl ParsedAnswer {
    /// What only a usage says.
    fn of_usage(text: Option<&RawValue>) -> Self {
        let Some(text) = text else { return Self::default() };
        let Some(usage) = Usage::read(text) else { return Self { usage: true, unreadable: true, ..Self::default() } };
        let (tokens, input, unreadable) = (usage.generated(), usage.input(), usage.is_unreadable());
        Self { usage: true, unreadable, tokens, input, ..Self::default() }
    }

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
    usage: Option<&'a RawValue>,
    /// The rest is of the events of OpenAI's Responses API and of Anthropic's messages.
    #[serde(default, borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(default, borrow)]
    delta: Option<&'a RawValue>,
    /// Also the text of some services of other forms.
    #[serde(default, borrow)]
    response: Option<&'a RawValue>,
    /// The beginning of Anthropic's messages.
    #[serde(default, borrow)]
    message: Option<&'a RawValue>,
    /// Texts of other forms: llama.cpp's, Triton's, SGLang's and TGI's.
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    text_output: Option<&'a RawValue>,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    generated_text: Option<&'a RawValue>,
    /// Counts of tokens: llama.cpp's, Ollama's, TGI's details, SGLang's, and which text of several these are about.
    #[serde(default, borrow)]
    tokens_predicted: Option<&'a RawValue>,
    #[serde(default, borrow)]
    eval_count: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tokens_evaluated: Option<&'a RawValue>,
    #[serde(default, borrow)]
    prompt_eval_count: Option<&'a RawValue>,
    #[serde(default, borrow)]
    details: Option<&'a RawValue>,
    #[serde(default, borrow)]
    meta_info: Option<&'a RawValue>,
    #[serde(default, borrow)]
    index: Option<&'a RawValue>,
}

impl Document<'_> {
    /// `length` is the document's.
    fn parsed(&self, length: usize) -> ParsedAnswer {
        let kind = self.kind.map_or("", |kind| kind.get().trim_matches('"'));
        if let Some(kind) = kind.strip_prefix("response.") {
            return self.event(kind);
        }
        let is_message = matches!(kind, "ping" | "keepalive" | "message_start" | "message_delta" | "message_stop");
        if is_message || kind.starts_with("content_block_") {
            return self.message_event(kind);
        }
        let is_error = |text: &RawValue| text.get() == "\"error\"";
        // The Responses API has the members of an error in the event itself.
        let error = kind == "error" || self.error.is_some_and(says_any) || self.object.is_some_and(is_error);
        let parsed = ParsedAnswer { error, ..ParsedAnswer::of_usage(self.usage) };
        match &self.choices {
            Member::There(Each { said: summary, .. }) => {
                let Said { size, finished, token_ids } = if error { Said::default() } else { *summary };
                let finished = finished || summary.finished;
                ParsedAnswer { choices: true, content: size > 0, size, token_ids, finished, ..parsed }
            }
            Member::Absent => {
                let is_chunk = self.object.is_some_and(|text| CHUNKS.contains(&text.get()));
                let size = if error || is_chunk || self.has_empty_text() { 0 } else { length };
                let Counts { tokens, input } = self.other_counts();
                let sum = if is_chunk || self.has_text() { None } else { self.usage.and_then(Usage::read) };
                let input = parsed.input.or(input).or(sum.map_or_else(InputTokens::default, Usage::input_alone));
                let tokens = parsed.tokens.or(tokens);
                let text = self.meta_info.and(self.index).and_then(number);
                ParsedAnswer { content: size > 0, size, tokens, input, text, ..parsed }
            }
        }
    }

    /// Whether the document has texts of which none says anything, as closing events of llama.cpp and Triton do. A document of
    /// another form without any text may hold anything.
    fn has_empty_text(&self) -> bool {
        let is_empty = |text: &RawValue| text.get() == "\"\"";
        self.has_text() && self.texts().into_iter().flatten().all(is_empty)
    }

    fn has_text(&self) -> bool {
        self.texts().iter().any(Option::is_some)
    }

    /// Its texts, by which services of other forms name them.
    fn texts(&self) -> [Option<&RawValue>; 5] {
        [self.content, self.text_output, self.text, self.response, self.generated_text]
    }

    /// Tokens under the names of services of other forms.
    fn other_counts(&self) -> Counts {
        let (tokens, input) =
            (self.tokens_predicted.or(self.eval_count), self.tokens_evaluated.or(self.prompt_eval_count));
        let counts = Counts::plain(tokens, input);
        let counts = counts.or(self.details.map_or_else(Counts::default, Counts::of_details));
        counts.or(self.meta_info.map_or_else(Counts::default, Counts::of_meta_info))
    }

    /// An event of Anthropic's messages: only deltas of content blocks carry output.
    fn message_event(&self, kind: &str) -> ParsedAnswer {
        let delta = self.delta.and_then(members::<Delta<'_>>).unwrap_or_default();
        // Others send pings, too.
        let typed = (!matches!(kind, "ping" | "keepalive")).then_some(Typed::Messages);
        let mut parsed = ParsedAnswer { typed, ..ParsedAnswer::default() };
        match kind {
            "content_block_delta" => {
                parsed.size = [delta.text, delta.thinking, delta.partial_json].into_iter().map(size).sum();
                parsed.content = parsed.size > 0;
            }
            "message_delta" => {
                parsed.finished = size(delta.stop_reason) > 0;
                let input = self.usage.and_then(|usage| Usage::read(usage)?.known_input()).unwrap_or_default();
                parsed = ParsedAnswer { finished: parsed.finished, typed, input, ..ParsedAnswer::of_usage(self.usage) };
            }
            // What it says of the output, is before all of it.
            "message_start" => {
                let message = self.message.and_then(members::<Response<'_>>);
                parsed.input =
                    message.and_then(|message| Usage::read(message.usage?)?.known_input()).unwrap_or_default();
            }
            "message_stop" => parsed.finished = true,
            _ => {}
        }
        parsed
    }

    /// An event `response.KIND` of OpenAI's Responses API: only deltas carry output.
    fn event(&self, kind: &str) -> ParsedAnswer {
        let response = self.response.and_then(members::<Response<'_>>);
        let usage = response.and_then(|response| response.usage);
        let size = if kind.ends_with(".delta") { size(self.delta) } else { 0 };
        ParsedAnswer {
            content: size > 0,
            size,
            finished: matches!(kind, "completed" | "incomplete"),
            error: kind == "failed",
            typed: Some(Typed::Responses),
            ..ParsedAnswer::of_usage(usage)
        }
    }
}

/// Whether an error is one: clients take a member that is there and empty for none.
fn says_any(error: &RawValue) -> bool {
    !["\"\"", "{}", "[]", "false"].contains(&error.get())
}

/// The state of a response that an event tells, or of a message of Anthropic's.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
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
            (r#""type":"message_start","message":{"content":[],"usage":{"input_tokens":0,"output_tokens":1}}"#, false),
            (r#""type":"ping""#, false),
            (r#""type":"content_block_start","content_block":{"type":"text","text":""}"#, false),
            (r#""type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}"#, true),
            (r#""type":"content_block_delta","delta":{"type":"text_delta","text":""}"#, false),
            (r#""type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}"#, true),
            (r#""type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a"}"#, true),
            (r#""type":"content_block_delta","delta":{"type":"signature_delta","signature":"xyz"}"#, false),
            (r#""type":"content_block_stop","index":0"#, false),
        ] {
            let typed = (!event.contains("ping")).then_some(Typed::Messages);
            assert_eq!(parsed(event), ParsedAnswer { content, typed, ..ParsedAnswer::default() }, "{event}");
        }
        let last = parsed(r#""type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}"#);
        let typed = Some(Typed::Messages);
        let expected = ParsedAnswer { finished: true, usage: true, tokens: Some(15), typed, ..ParsedAnswer::default() };
        assert_eq!(last, expected);
        let none = r#""type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":15}"#;
        assert_eq!(parsed(none), expected, "which leaves the beginning's");
        assert!(parsed(r#""type":"message_stop""#).finished);
        assert!(parsed(r#""type":"error","error":{"type":"overloaded_error","message":"later"}"#).error);
        let body = parsed(r#""type":"message","content":[{"type":"text","text":"Hi"}],"usage":{"output_tokens":5}"#);
        assert_eq!((body.content, body.tokens, body.error), (true, Some(5), false));
    }

    #[test]
    fn input_tokens_of_messages_are_with_those_of_the_cache() {
        let counts = |all, cached| InputTokens { all: Some(all), cached, by_tokenizer: false };
        let start = |usage: &str| {
            parsed(&format!(r#"{{"type":"message_start","message":{{"content":[],"usage":{usage}}}}}"#)).input
        };
        assert_eq!(start(r#"{"input_tokens":9,"output_tokens":1}"#), counts(9, None));
        let cached =
            r#"{"input_tokens":9,"cache_read_input_tokens":30,"cache_creation_input_tokens":4,"output_tokens":1}"#;
        assert_eq!(start(cached), counts(43, Some(30)));
        assert_eq!(start(&cached.replace("30", "null").replace('4', "null")), counts(9, None));
        assert_eq!(parsed(r#"{"type":"message_start","message":"x"}"#).input, InputTokens::default());
        let body = format!(r#"{{"type":"message","content":[{{"type":"text","text":"Hi"}}],"usage":{cached}}}"#);
        assert_eq!((parsed(&body).input, parsed(&body).tokens), (counts(43, Some(30)), Some(1)));
        // As proxies write it, with OpenAI's count of all beside Anthropic's.
        let proxy = parsed(r#"{"choices":[],"usage":{"prompt_tokens":43,"cache_read_input_tokens":30}}"#);
        assert_eq!(proxy.input, counts(43, Some(30)));
    }

    #[test]
    fn other_forms_have_content_unless_all_of_their_texts_are_empty() {
        for (text, content, tokens, input) in [
            (r#"{"content":"a","stop":false}"#, true, None, None),
            (r#"{"content":"","stop":true,"tokens_predicted":5,"tokens_evaluated":9}"#, false, Some(5), Some(9)),
            (r#"{"text_output":"a","model_name":"m"}"#, true, None, None),
            (r#"{"text_output":"","model_name":"m"}"#, false, None, None),
            (r#"{"text":"","meta_info":{}}"#, false, None, None),
            (r#"{"response":"","done":true}"#, false, None, None),
            (r#"{"token":{"text":"a"},"generated_text":null,"details":null}"#, true, None, None),
            (r#"{"token":{"text":"b"},"generated_text":"ab","details":{"generated_tokens":2}}"#, true, Some(2), None),
            (r#"{"generated_text":"","details":{"generated_tokens":"2"}}"#, false, None, None),
            (r#"{"details":{"generated_tokens":2,"input_length":9}}"#, true, Some(2), Some(9)),
            (r#"{"response":"a","done":true,"prompt_eval_count":9,"eval_count":5}"#, true, Some(5), Some(9)),
            (r#"{"text":"a","meta_info":{"prompt_tokens":9,"completion_tokens":1}}"#, true, Some(1), Some(9)),
            (r#"{"text":"a","tokens_predicted":5,"eval_count":6,"tokens_evaluated":9}"#, true, Some(5), Some(9)),
            (r#"{"text":"a","eval_count":6,"tokens_evaluated":9,"prompt_eval_count":8}"#, true, Some(6), Some(9)),
            (r#"{"text":"a","meta_info":"none"}"#, true, None, None),
            (r#"{"text":"a","meta_info":[1,9]}"#, true, None, None),
            (r#"{"text":"a","details":[2,9]}"#, true, None, None),
            (r#"{"content":"","text":"a"}"#, true, None, None),
            (r#"{"content":[],"details":"none"}"#, true, None, None),
            (r#"{"content":{"parts":[]},"tokens_predicted":-1}"#, true, None, None),
        ] {
            let input = InputTokens { all: input, ..InputTokens::default() };
            assert_eq!(parsed(text), ParsedAnswer { content, tokens, input, ..ParsedAnswer::default() }, "{text}");
        }
        let part = parsed(r#"{"text":"a","meta_info":{"completion_tokens":1},"index":1}"#);
        assert_eq!((part.tokens, part.text, part.several), (Some(1), Some(1), false));
        assert_eq!(parsed(r#"{"index":1,"token":{"text":"a"}}"#).text, None, "the number of a token");
        let chat = parsed(r#"{"choices":[{"delta":{"content":"a"}}],"content":"","tokens_predicted":7}"#);
        assert_eq!((chat.content, chat.tokens), (true, None), "what the choices say is what counts");
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
        assert_eq!([cached("null"), cached("[7]"), cached(r#"{"cached_tokens":"4"}"#)], [counts(None); 3]);
        for name in ["prompt_cache_hit_tokens", "cached_tokens"] {
            let input = parsed(&format!(r#"{{"choices":[],"usage":{{"prompt_tokens":9,"{name}":4}}}}"#)).input;
            assert_eq!(input, counts(Some(4)), "{name}");
        }
        let beside = parsed(r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":0}}"#);
        assert_eq!((beside.content, beside.tokens), (true, Some(0)));
        let embedding = parsed(r#"{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":3}}"#);
        assert_eq!((embedding.choices, embedding.content, embedding.tokens), (false, true, None));
        let uncounted = parsed(r#"{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}"#);
        assert_eq!((uncounted.input.all, uncounted.unreadable), (None, false), "no prompt has no tokens");
        let ranking = parsed(r#"{"results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":7}}"#);
        assert_eq!((ranking.content, ranking.tokens, ranking.input.all), (true, None, Some(7)));
        for output in [
            r#"{"choices":[],"usage":{"total_tokens":7}}"#,
            r#"{"usage":{"total_tokens":7,"completion_tokens":2}}"#,
            r#"{"text":"an output","usage":{"total_tokens":7}}"#,
        ] {
            assert_eq!(parsed(output).input.all, None, "{output}");
        }
    }

    #[test]
    fn a_usage_that_cannot_be_read_is_no_content_and_has_no_counts() {
        let parsed = |count: &str| parsed(&format!(r#"{{"choices":[],"usage":{{"completion_tokens":{count}}}}}"#));
        let expected = ParsedAnswer { choices: true, usage: true, ..ParsedAnswer::default() };
        for (count, tokens) in [("9.0", 9), ("9e0", 9), ("1099511627776", 1 << 40)] {
            assert_eq!(parsed(count), ParsedAnswer { tokens: Some(tokens), ..expected }, "{count}");
        }
        for count in ["\"9\"", "-4", "9.5", "[]", "1099511627777", "18446744073709551615", "1e300"] {
            assert_eq!(parsed(count), ParsedAnswer { unreadable: true, ..expected }, "{count}");
        }
        assert_eq!(parsed("null"), expected);
        for usage in ["\"none\"", "[9]", "7"] {
            let text = format!(r#"{{"choices":[],"usage":{usage}}}"#);
            let parsed = ParsedAnswer::read(text.as_bytes()).unwrap();
            assert_eq!(parsed, ParsedAnswer { unreadable: true, ..expected }, "{usage}");
        }
        let input = ParsedAnswer::read(br#"{"choices":[],"usage":{"prompt_tokens":9223372036854775808}}"#).unwrap();
        assert!(input.unreadable && input.input == InputTokens::default(), "{input:?}");
        for name in ["chat.completion.chunk", "text_completion"] {
            let text = format!(r#"{{"id":"x","object":"{name}"}}"#);
            assert!(!ParsedAnswer::read(text.as_bytes()).unwrap().content, "{name}");
        }
    }

    #[test]
    fn of_the_responses_api_only_deltas_are_content() {
        let none = ParsedAnswer { typed: Some(Typed::Responses), ..ParsedAnswer::default() };
        for (event, expected) in [
            (r#"{"type":"response.created","response":{"usage":null}}"#, none),
            (r#"{"type":"response.output_item.added","item":{"content":[]}}"#, none),
            (r#"{"type":"response.output_text.delta","delta":"Hi"}"#, ParsedAnswer { content: true, ..none }),
            (r#"{"type":"response.output_text.delta","delta":""}"#, none),
            (r#"{"type":"response.output_text.done","text":"Hi"}"#, none),
            (
                r#"{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":2}}}"#,
                ParsedAnswer {
                    finished: true,
                    usage: true,
                    tokens: Some(2),
                    input: InputTokens { all: Some(9), ..InputTokens::default() },
                    ..none
                },
            ),
            (
                r#"{"type":"response.failed","response":{"error":{"message":"no"}}}"#,
                ParsedAnswer { error: true, ..none },
            ),
        ] {
            assert_eq!(parsed(event), expected, "{event}");
        }
        let body = parsed(r#"{"object":"response","error":null,"output":[{}],"usage":{"output_tokens":5}}"#);
        assert_eq!((body.content, body.tokens, body.error), (true, Some(5), false));
    }

    #[test]
    fn errors_and_other_documents_are_told_apart() {
        for text in [
            r#"{"error":{"message":"no"}}"#,
            r#"{"error":"no","choices":[]}"#,
            r#"{"object":"error"}"#,
            r#"{"type":"error","code":null,"message":"no","param":null,"sequence_number":3}"#,
        ] {
            assert!(parsed(text).error && !parsed(text).content, "{text}");
        }
        for nothing in ["null", r#""""#, "{}", "false"] {
            assert!(!parsed(&format!(r#"{{"error":{nothing},"choices":[]}}"#)).error, "{nothing}");
        }
        for text in ["{}", "[1]", "\"x\"", r#"{"choices":"x"}"#] {
            assert_eq!(parsed(text), ParsedAnswer { content: true, ..ParsedAnswer::default() }, "{text}");
        }
        for text in ["", "{", "[DONE]", "{\"a\":1} x", "\u{feff}{}"] {
            assert!(ParsedAnswer::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
