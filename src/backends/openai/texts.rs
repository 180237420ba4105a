//! The texts of a request and of an answer, for whoever counts their tokens, or goes on with them: the one place that knows where each
//! kind of endpoint has them.
//!
//! ```text
//! chat completions, completions   choices: deltas or messages with content, reasoning, calls; text
//! Responses API                   deltas of events; of a body the items of its output
//! Anthropic's messages            deltas of blocks; of a body its content
//! llama.cpp's completion          content
//! TGI's generate, generate_stream token.text; of a body, or a list of one, generated_text
//! Triton's generate               text_output
//! SGLang's generate               text, from the beginning in each event; of several texts, a list or events with their index
//! Ollama's chat                   message.content, thinking
//! others                          response
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Deserializer, Value};

/// The text of each choice of an answer, in one piece: reasoning, text, and tool calls. `answer` is its documents, one
/// after another: a body, or the data of events.
pub fn texts(answer: &[u8]) -> Vec<String> {
    let mut texts = BTreeMap::<u64, String>::new();
    read(answer, |number, document| document.add_to(&mut texts, number));
    texts.into_values().filter(|text| !text.is_empty()).collect()
}

/// What a document of an answer adds to the message of its first choice: text, and neither reasoning nor calls of tools.
pub(super) fn spoken(document: &[u8]) -> String {
    let mut text = String::new();
    read(document, |number, document| text += &if number == 0 { document.spoken() } else { String::new() });
    text
}

/// Documents one after another, as far as they are of a form that is known; those of a list are its elements, with their numbers.
fn read(answer: &[u8], mut take: impl FnMut(u64, Document)) {
    if answer.trim_ascii_start().starts_with(b"[") {
        // What is no list of objects has no texts.
        let list: Vec<Document> = serde_json::from_slice(answer).unwrap_or_default();
        return (0..).zip(list).for_each(|(number, document)| take(number, document));
    }
    let documents = Deserializer::from_slice(answer).into_iter::<Document>();
    documents.map_while(Result::ok).for_each(|document| take(0, document));
}

/// What a request asks, as text and as tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Texts, of messages and their parts.
    pub texts: Vec<String>,
    /// Tokens that the request has as numbers.
    pub tokens: u64,
}

/// The members of a request that hold its prompt, in the services that have them: system and user messages, a text or several, or the
/// tokens themselves.
const PROMPTS: [&str; 18] = [
    "system",
    "instructions",
    "messages",
    "prompt",
    "input",
    "inputs",
    "text_input",
    "text",
    "input_ids",
    "token_ids",
    // Of those that rank and score.
    "query",
    "queries",
    "documents",
    "passages",
    "texts",
    "items",
    "text_1",
    "text_2",
];

/// What a request asks; none if nothing of that kind is in it.
pub fn prompt(request: &[u8]) -> Option<Prompt> {
    let document: Value = serde_json::from_slice(request).ok()?;
    let mut prompt = Prompt::default();
    PROMPTS.iter().for_each(|member| prompt.add(&document[member]));
    (prompt != Prompt::default()).then_some(prompt)
}

impl Prompt {
    /// Adds a text, a list of texts or tokens, a message or a part of one. What a model is given besides, an image or the marks of a
    /// chat template, is not known here.
    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.texts.push(text.clone()),
            Value::Number(_) => self.tokens += 1,
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(part) => {
                ["text", "thinking", "content", "output"]
                    .into_iter()
                    .filter_map(|name| part.get(name))
                    .for_each(|text| self.add(text));
                let calls = part.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
                calls.for_each(|call| self.add_call(&call["function"]));
                match part.get("type").and_then(Value::as_str) {
                    Some("function_call") => self.add_call(value),
                    Some("tool_use") => {
                        self.add(&value["name"]);
                        self.texts.push(value["input"].to_string());
                    }
                    _ => {}
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds the name and the arguments of a call.
    fn add_call(&mut self, function: &Value) {
        [&function["name"], &function["arguments"]].into_iter().for_each(|text| self.add(text));
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default, rename = "type")]
    kind: Value,
    /// Of Anthropic's messages an object, of the Responses API a text.
    #[serde(default)]
    delta: Value,
    /// Of Anthropic's messages blocks, of llama.cpp a text.
    #[serde(default)]
    content: Value,
    /// Items of the Responses API.
    #[serde(default)]
    output: Value,
    #[serde(default)]
    token: Value,
    #[serde(default)]
    generated_text: Value,
    #[serde(default)]
    text_output: Value,
    #[serde(default)]
    text: Value,
    /// SGLang's, and which text of several it is about.
    #[serde(default)]
    meta_info: Value,
    #[serde(default)]
    index: Value,
    /// Ollama's.
    #[serde(default)]
    message: Value,
    #[serde(default)]
    thinking: Value,
    #[serde(default)]
    response: Value,
}

impl Document {
    /// Adds all that it says to the texts of its choices. Where it has none, its text is that of `number`, unless it names another.
    fn add_to(&self, texts: &mut BTreeMap<u64, String>, number: u64) {
        for choice in self.choices.iter().flatten() {
            choice.add_to(texts.entry(choice.index).or_default());
        }
        if self.choices.is_some() {
            return;
        }
        let named = self.index.as_u64().filter(|_| self.meta_info.is_object());
        let text = texts.entry(named.unwrap_or(number)).or_default();
        match self.kind.as_str() {
            Some(kind) if kind.starts_with("response.") => *text += self.delta.as_str().unwrap_or_default(),
            _ => {
                [&self.delta].into_iter().chain(items(&self.content)).for_each(|block| add_block(text, block));
                items(&self.output).for_each(|item| add_item(text, item));
                [&self.thinking, &self.message["thinking"]]
                    .iter()
                    .for_each(|thought| *text += thought.as_str().unwrap_or_default());
                match self.other() {
                    Some(all) if self.meta_info.is_object() && all.starts_with(text.as_str()) => all.clone_into(text),
                    other => *text += other.unwrap_or_default(),
                }
            }
        }
    }

    /// What it adds to the message of the first choice.
    fn spoken(&self) -> String {
        if let Some(choices) = &self.choices {
            return choices.iter().find(|choice| choice.index == 0).map(Choice::spoken).unwrap_or_default();
        }
        match self.kind.as_str() {
            // Deltas of other kinds are reasoning, or arguments of calls.
            Some("response.output_text.delta") => self.delta.as_str().unwrap_or_default().to_owned(),
            Some(kind) if kind.starts_with("response.") => String::new(),
            _ => {
                let messages = items(&self.output).filter(|item| item["type"] == "message");
                let parts = messages.flat_map(|message| items(&message["content"]));
                let parts = parts.filter(|part| part["type"] == "output_text");
                let parts = parts.chain([&self.delta]).chain(items(&self.content));
                parts.filter_map(|part| part["text"].as_str()).chain(self.other()).collect()
            }
        }
    }

    /// The text of a form of which there is one text in a document.
    fn other(&self) -> Option<&str> {
        // TGI's last event has all of the text beside its last token.
        let first = [&self.token["text"], &self.generated_text, &self.content, &self.text_output, &self.text];
        first.into_iter().chain([&self.message["content"], &self.response]).find_map(Value::as_str)
    }
}

/// The elements of a list; none of anything else.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// An item of the output of OpenAI's Responses API: what its events have as deltas.
fn add_item(text: &mut String, item: &Value) {
    for part in items(&item["summary"]).chain(items(&item["content"])) {
        for member in ["text", "refusal"] {
            *text += part[member].as_str().unwrap_or_default();
        }
    }
    *text += item["arguments"].as_str().unwrap_or_default();
}

/// A block of Anthropic's messages, or what an event adds to one.
fn add_block(text: &mut String, block: &Value) {
    for member in ["text", "thinking", "partial_json"] {
        *text += block[member].as_str().unwrap_or_default();
    }
    if block["input"].is_object() {
        *text += &block["input"].to_string();
    }
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Message>,
    #[serde(default)]
    message: Option<Message>,
    #[serde(default)]
    text: Value,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    reasoning_content: Value,
    #[serde(default)]
    reasoning: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
    #[serde(default)]
    function_call: Option<Function>,
    #[serde(default)]
    audio: Value,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    arguments: Value,
}

impl Choice {
    /// Its text alone.
    fn spoken(&self) -> String {
        let content = [&self.delta, &self.message].into_iter().flatten().map(|message| &message.content);
        content.chain([&self.text]).find_map(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Adds all that it says.
    fn add_to(&self, text: &mut String) {
        let mut add = |value: &Value| *text += value.as_str().unwrap_or_default();
        for message in [&self.delta, &self.message].into_iter().flatten() {
            // The same under two names, where a server has both.
            add(if message.reasoning_content.is_string() { &message.reasoning_content } else { &message.reasoning });
            add(&message.content);
            add(&message.refusal);
            add(&message.audio["transcript"]);
            let calls = message.tool_calls.iter().flatten().filter_map(|call| call.function.as_ref());
            for function in calls.chain(&message.function_call) {
                add(&function.name);
                add(&function.arguments);
            }
        }
        add(&self.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_choice_are_put_together() {
        let events = concat!(
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm ","reasoning":"hm "}}]}"#,
            "\n",
            r#"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"he\u00e9"}}]}"#,
            "\n{\"choices\":[{\"delta\":{\"content\":\"llo\",\"tool_calls\":null}}]}\n",
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}"#,
        );
        assert_eq!(texts(events.as_bytes()), ["hm he\u{e9}llof{}", "b"]);
    }

    #[test]
    fn every_form_that_has_content_has_a_text() {
        for (documents, text) in [
            (r#"{"content":"a","stop":false}{"content":"b","tokens":[7],"stop":true}"#, "ab"),
            (r#"{"token":{"text":"a"},"generated_text":null}{"token":{"text":"b"},"generated_text":"ab"}"#, "ab"),
            (r#"{"generated_text":"ab","details":null}"#, "ab"),
            (r#"[{"generated_text":"ab"}]"#, "ab"),
            (r#"{"model_name":"m","text_output":"a"}{"model_name":"m","text_output":"a"}"#, "aa"),
            (r#"{"text":"a","meta_info":{}}{"text":"ab","meta_info":{}}"#, "ab"),
            (r#"{"text":"a","meta_info":{}}{"text":"b","meta_info":{}}"#, "ab"),
            (r#"{"text":"a"}{"text":"ab"}"#, "aab"),
            (r#"{"response":"ab","done":true}"#, "ab"),
            (r#"{"message":{"role":"assistant","content":"ab"},"done":true}"#, "ab"),
            (r#"{"choices":[{"delta":{"content":"ab"}}],"content":"x"}"#, "ab"),
        ] {
            assert_eq!(texts(documents.as_bytes()), [text], "{documents}");
            assert!(documents.starts_with('[') || spoken(documents.as_bytes()).starts_with('a'), "{documents}");
            for document in Deserializer::from_str(documents).into_iter::<&serde_json::value::RawValue>() {
                let document = document.unwrap().get().as_bytes();
                let parsed = crate::openai::parsed_answer::ParsedAnswer::read(document).unwrap();
                assert!(parsed.content && !texts(document).is_empty(), "{documents}");
            }
        }
        let thought = r#"{"message":{"content":"b","thinking":"a"},"done":true}"#.as_bytes();
        assert_eq!((texts(thought), spoken(thought)), (vec!["ab".to_owned()], "b".to_owned()));
        let body = br#"{"object":"response","output":[
            {"type":"reasoning","summary":[{"type":"summary_text","text":"r"}]},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},
            {"type":"function_call","name":"f","arguments":"{}"}]}"#;
        assert_eq!((texts(body), spoken(body)), (vec!["ra{}".to_owned()], "a".to_owned()));
        let calls = br#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#;
        assert_eq!((texts(calls), spoken(calls)), (vec!["{}".to_owned()], String::new()));
    }

    /// SGLang's answers to batches, and to prompts of which several samples are wanted.
    #[test]
    fn several_texts_of_an_answer_are_kept_apart() {
        let list = br#"[{"text":"a","meta_info":{}},{"text":"ab","meta_info":{}},{"text":"x","meta_info":{}}]"#;
        assert_eq!(
            (texts(list), spoken(list)),
            (vec!["a".to_owned(), "ab".to_owned(), "x".to_owned()], "a".to_owned())
        );
        let event = |index: u64, text: &str| format!(r#"{{"text":"{text}","meta_info":{{}},"index":{index}}}"#);
        let events = [event(1, "b"), event(0, "a"), event(1, "bb"), event(0, "aa"), event(0, "aaa")].concat();
        assert_eq!(texts(events.as_bytes()), ["aaa", "bb"]);
        let tokens = br#"{"index":1,"token":{"text":"a"}}{"index":2,"token":{"text":"b"}}"#;
        assert_eq!(texts(tokens), ["ab"], "numbers of tokens");
    }

    #[test]
    fn prompts_are_texts_and_tokens() {
        let of = |request: &str| prompt(request.as_bytes()).map(|prompt| (prompt.texts.join("|"), prompt.tokens));
        let found = |texts: &str, tokens| Some((texts.to_owned(), tokens));
        let chat = r#"{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":[
            {"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:x"}}]},
            {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}],"content":null}]}"#;
        assert_eq!(of(chat), found("a|b|f|{}", 0));
        assert_eq!(of(r#"{"prompt":"x y","max_tokens":3}"#), found("x y", 0));
        assert_eq!(of(r#"{"prompt":["x","y"]}"#), found("x|y", 0));
        assert_eq!(of(r#"{"prompt":[1,2,3]}"#), found("", 3));
        assert_eq!(of(r#"{"input":[[1,2],[3]]}"#), found("", 3));
        assert_eq!(
            of(r#"{"instructions":"i","input":[{"role":"user","content":[{"type":"input_text","text":"t"}]}]}"#),
            found("i|t", 0)
        );
        assert_eq!(
            of(r#"{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"u"}]}"#),
            found("s|u", 0)
        );
        assert_eq!(of(r#"{"text_input":"t","parameters":{"stream":true}}"#), found("t", 0));
        assert_eq!(of(r#"{"text":"t","sampling_params":{}}"#), found("t", 0));
        assert_eq!(of(r#"{"input_ids":[1,2]}"#), found("", 2));
        assert_eq!(of(r#"{"token_ids":[1,2],"sampling_params":{}}"#), found("", 2));
        assert_eq!(of(r#"{"query":{"text":"q"},"passages":[{"text":"x"},{"text":"y"}]}"#), found("q|x|y", 0));
        assert_eq!(of(r#"{"query":"q","documents":["x","y"],"top_n":1}"#), found("q|x|y", 0));
        assert_eq!(
            of(
                r#"{"text":{"format":{"type":"text"}},"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"c","output":"o"}]}"#
            ),
            found("f|{}|o", 0)
        );
        assert_eq!(
            of(
                r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":1}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"o"}]}]}"#
            ),
            found("f|{\"a\":1}|o", 0)
        );
        for none in [r#"{"model":"m"}"#, "{", "", "[1]"] {
            assert_eq!(of(none), None);
        }
    }

    #[test]
    fn bodies_have_texts_and_other_documents_none() {
        let chat =
            br#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}]}"#;
        assert_eq!(texts(chat), ["a b"]);
        assert_eq!(texts(br#"{"choices":[{"text":"x"},{"index":1,"text":"y"}]}"#), ["x", "y"]);
        let events = br#"{"type":"response.created","response":{}}
            {"type":"response.output_text.delta","delta":"a"}{"type":"response.output_text.delta","delta":"b"}"#;
        assert_eq!(texts(events), ["ab"]);
        let blocks = br#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}
            {"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}"#;
        assert_eq!(texts(blocks), ["ab"]);
        let message =
            br#"{"type":"message","content":[{"type":"text","text":"x"},{"type":"tool_use","input":{"a":1}}]}"#;
        assert_eq!(texts(message), ["x{\"a\":1}"]);
        let former =
            br#"{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{}"},"audio":{"transcript":"t"}}}]}"#;
        assert_eq!(texts(former), ["tf{}"]);
        for other in [&br#"{"data":[{"embedding":[0.5]}]}"#[..], b"[1]", b"", b"{", br#"{"choices":[{"text":null}]}"#] {
            assert!(texts(other).is_empty(), "{}", String::from_utf8_lossy(other));
        }
    }
}
