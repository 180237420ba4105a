//! The texts of a request and of an answer, for whoever counts their tokens.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Deserializer, Value};

/// The text of each choice of an answer, in one piece: reasoning, text, and tool calls. `answer` is its documents, one
/// after another: a body, or the data of events.
pub fn texts(answer: &[u8]) -> Vec<String> {
    let mut texts = BTreeMap::<u64, String>::new();
    for document in Deserializer::from_slice(answer).into_iter::<Document>().map_while(Result::ok) {
        if document.kind.as_str().is_some_and(|kind| kind.starts_with("response.")) {
            // An event of the Responses API.
            *texts.entry(0).or_default() += document.delta.as_str().unwrap_or_default();
        }
        match document.kind.as_str() {
            Some("content_block_delta") => add_block(texts.entry(0).or_default(), &document.delta),
            Some("message") => {
                let text = texts.entry(0).or_default();
                document.content.as_array().into_iter().flatten().for_each(|block| add_block(text, block));
            }
            _ => {}
        }
        for choice in document.choices {
            let text = texts.entry(choice.index).or_default();
            choice.add_to(text);
        }
    }
    texts.into_values().filter(|text| !text.is_empty()).collect()
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
const PROMPTS: [&str; 7] = ["system", "instructions", "messages", "prompt", "input", "inputs", "text_input"];

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
                for call in part.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                    [&call["function"]["name"], &call["function"]["arguments"]]
                        .into_iter()
                        .for_each(|text| self.add(text));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default, rename = "type")]
    kind: Value,
    #[serde(default)]
    delta: Value,
    #[serde(default)]
    content: Value,
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
