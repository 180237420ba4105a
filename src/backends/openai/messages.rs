//! What a server has answered as messages, in the form in which each API wants them back in the turns that follow. Calls of tools
//! are `tool_calls` of the assistant's message for chat completions, for Anthropic's messages blocks of its content, and for the
//! Responses API items of the input.

use std::collections::BTreeMap;
use std::mem::take;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, Value, json};

use crate::data::Members;
use crate::json::in_legal_form;
use crate::openai::texts::spoken;

/// What is in every event that may have a part of a call.
const MARKS: [&[u8]; 4] =
    [b"\"tool_calls\"", b"\"function_call\"", b"\"content_block", b"\"response.output_item.done\""];

/// Whether an event has a part of a call, or of what such an API wants back beside its calls.
pub(super) fn has_part(event: &[u8]) -> bool {
    // Most events have none, and are not read for it.
    let has_mark = MARKS.iter().any(|mark| event.windows(mark.len()).any(|bytes| bytes == *mark));
    has_mark && serde_json::from_slice::<CallEvent<'_>>(event).is_ok_and(|event| event.has_part())
}

/// The assistant's message that says `text`.
pub(super) fn message(text: &str) -> Vec<u8> {
    json!({ "role": "assistant", "content": text }).to_string().into_bytes()
}

/// The messages of an answer that is not a stream, as the server wrote them, with commas between them.
pub(super) fn messages_of(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Default, Deserialize)]
    struct Body<'a> {
        #[serde(default, borrow)]
        choices: Option<Vec<Choice<'a>>>,
        /// Of Ollama's own chat.
        #[serde(default, borrow)]
        message: Option<&'a RawValue>,
        /// Of Anthropic's messages.
        #[serde(default, borrow)]
        content: Option<&'a RawValue>,
        /// Of the Responses API.
        #[serde(default, borrow)]
        output: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(default, borrow)]
        message: Option<&'a RawValue>,
    }
    // What was taken for an answer is one here, too.
    let text = String::from_utf8_lossy(body);
    let body = &*in_legal_form(text.as_bytes());
    let Body { choices, message: alone, content, output } = serde_json::from_slice(body).unwrap_or_default();
    let choices = choices.unwrap_or_default();
    let mut messages = choices.first().and_then(|choice| choice.message).into_iter().chain(alone);
    let message_of_choice = messages.find(|message| message.get().starts_with('{'));
    let answer = |content: &RawValue| format!("{{\"role\":\"assistant\",\"content\":{}}}", content.get()).into_bytes();
    let written = message_of_choice.map(as_history).or_else(|| content.map(answer));
    let written = written.or_else(|| items_of(&serde_json::from_str::<Vec<&RawValue>>(output?.get()).ok()?));
    written.or_else(|| Some(spoken(body)).filter(|text| !text.is_empty()).as_deref().map(message))
}

/// A message as a request may have it: some servers refuse one of an assistant that neither says anything nor calls a tool.
fn as_history(message: &RawValue) -> Vec<u8> {
    let Ok(mut fields) = Members::read(message.get().as_bytes()) else { return message.get().as_bytes().to_vec() };
    let lacks = |name: &str| fields.get(name).is_none_or(|value| value == "null");
    let calls_nothing = lacks("tool_calls") || fields.list("tool_calls").is_some_and(|calls| calls.trim().is_empty());
    if lacks("content") && calls_nothing && lacks("function_call") {
        fields.set("content", &Value::from(""));
        return fields.text();
    }
    message.get().as_bytes().to_vec()
}

/// The messages of a stream with commas between them, which says `text` and calls the tools that `events` name, one after another.
pub(super) fn streamed_messages(text: &str, events: &[u8]) -> Vec<u8> {
    let mut parts = Parts::default();
    Deserializer::from_slice(events).into_iter().map_while(Result::ok).for_each(|event| parts.add(event));
    let Parts { mut calls, function, blocks, items } = parts;
    let content = if text.is_empty() { Value::Null } else { text.into() };
    if !calls.is_empty() {
        calls.sort_by_key(|call| call.index);
        let calls: Vec<Value> = calls.into_iter().map(Call::whole).collect();
        return json!({ "role": "assistant", "content": content, "tool_calls": calls }).to_string().into_bytes();
    }
    if let Some(function) = function {
        let message = json!({ "role": "assistant", "content": content, "function_call": function.function() });
        return message.to_string().into_bytes();
    }
    let blocks: Vec<Map<String, Value>> = blocks.into_values().filter_map(Block::whole).collect();
    if blocks.iter().any(|block| block.get("type").is_some_and(|kind| kind == "tool_use")) {
        return json!({ "role": "assistant", "content": blocks }).to_string().into_bytes();
    }
    items_of(&items).unwrap_or_else(|| message(text))
}

/// The items of a response with commas between them, if calls are among them. Reasoning belongs to the calls that follow it, so all
/// are sent back.
fn items_of(items: &[&RawValue]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Item {
        #[serde(default, rename = "type")]
        kind: Value,
    }
    let is_call = |item: &&RawValue| {
        let item = serde_json::from_str::<Item>(item.get());
        item.is_ok_and(|item| item.kind.as_str().is_some_and(|kind| kind.ends_with("_call")))
    };
    let texts = || items.iter().map(|item| item.get()).collect::<Vec<_>>();
    items.iter().any(is_call).then(|| texts().join(",").into_bytes())
}

/// What the events of a stream have brought.
#[derive(Default)]
struct Parts<'a> {
    /// Of chat completions.
    calls: Vec<Call>,
    /// The same under its former name, by which there is one.
    function: Option<Call>,
    /// Of Anthropic's messages.
    blocks: BTreeMap<u64, Block>,
    /// Of the Responses API.
    items: Vec<&'a RawValue>,
}

impl<'a> Parts<'a> {
    fn add(&mut self, event: CallEvent<'a>) {
        if event.is_of_block() {
            let block = self.blocks.entry(event.index.as_u64().unwrap_or(0)).or_default();
            match event.content_block {
                Value::Object(content) => block.content = content,
                _ => block.add(&event.delta),
            }
            return;
        }
        self.items.extend(event.item.filter(|_| event.is_whole_item()));
        let Some(CallDelta { tool_calls, function_call }) = event.into_delta() else { return };
        tool_calls.into_iter().flatten().for_each(|part| self.add_call(part));
        if let Some(part) = function_call {
            self.function.get_or_insert_default().add(part);
        }
    }

    /// Adds a part of a call: of the one that has its number, or, where servers leave that out, of the last.
    fn add_call(&mut self, part: CallPart) {
        let CallPart { index, id, function } = part;
        // Some write an empty one into every part but the first.
        let id = id.filter(|id| !id.is_empty());
        let function = function.unwrap_or_default();
        let begun = match index {
            Some(_) => self.calls.iter_mut().rfind(|call| call.index == index),
            None => self.calls.last_mut(),
        };
        match begun.filter(|call| !call.is_another(id.as_deref(), &function)) {
            Some(call) => {
                call.id = take(&mut call.id).or(id);
                call.add(function);
            }
            None => {
                let mut call = Call { index, id, ..Call::default() };
                call.add(function);
                self.calls.push(call);
            }
        }
    }
}

/// A call of chat completions, put together.
#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Call {
    /// Whether a part that has this call's number begins another: some servers give all calls the same number, or none. A
    /// name alone does not tell, which may be repeated, nor does an id, which old ones of vLLM make anew for each part.
    fn is_another(&self, id: Option<&str>, part: &CallFunction) -> bool {
        let are_named = !self.name.is_empty() && part.name.as_ref().is_some_and(|name| !name.is_empty());
        are_named
            && match (&self.id, id) {
                (Some(before), Some(id)) => before != id,
                (None, None) => self.index.is_none() || (self.is_whole() && part.begins()),
                _ => false,
            }
    }

    /// Whether its arguments are all there.
    fn is_whole(&self) -> bool {
        self.arguments.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    fn add(&mut self, part: CallFunction) {
        let name = part.name.unwrap_or_default();
        if self.name != name {
            self.name.push_str(&name);
        }
        match part.arguments {
            Value::String(text) => self.arguments.push_str(&text),
            Value::Null => {}
            // Some servers write what is in the text.
            other => self.arguments.push_str(&other.to_string()),
        }
    }

    fn function(self) -> Value {
        json!({ "name": self.name, "arguments": self.arguments })
    }

    fn whole(mut self) -> Value {
        let id = take(&mut self.id);
        json!({ "id": id, "type": "function", "function": self.function() })
    }
}

/// A block of one of Anthropic's messages, put together.
#[derive(Default)]
struct Block {
    content: Map<String, Value>,
    /// A tool's input, as the text that it comes as.
    input: String,
}

impl Block {
    fn add(&mut self, delta: &Value) {
        for member in ["text", "thinking", "signature"] {
            let Some(more) = delta[member].as_str() else { continue };
            match self.content.entry(member).or_insert(Value::Null) {
                Value::String(text) => text.push_str(more),
                other => *other = more.into(),
            }
        }
        self.input += delta["partial_json"].as_str().unwrap_or_default();
    }

    /// The block, unless it has no kind or is a text without any, which is refused.
    fn whole(mut self) -> Option<Map<String, Value>> {
        let kind = self.content.get("type")?;
        if kind == "text" && self.content.get("text").is_none_or(|text| text == "") {
            return None;
        }
        if !self.input.is_empty() {
            // An answer may be cut off within it.
            let input = serde_json::from_str(&self.input).ok().filter(Value::is_object);
            self.content.insert("input".to_owned(), input.unwrap_or_else(|| json!({})));
        }
        Some(self.content)
    }
}

/// An event, as far as calls of tools are concerned.
#[derive(Deserialize)]
struct CallEvent<'a> {
    /// Of chat completions.
    #[serde(default)]
    choices: Option<Vec<CallChoice>>,
    #[serde(default, rename = "type")]
    kind: Value,
    /// Of Anthropic's messages: which block, how it begins, and what is added to it.
    #[serde(default)]
    index: Value,
    #[serde(default)]
    content_block: Value,
    #[serde(default)]
    delta: Value,
    /// Of the Responses API, whole.
    #[serde(default, borrow)]
    item: Option<&'a RawValue>,
}

impl CallEvent<'_> {
    fn has_part(self) -> bool {
        let is_any =
            |delta: CallDelta| delta.function_call.is_some() || delta.tool_calls.is_some_and(|parts| !parts.is_empty());
        self.is_of_block() || (self.is_whole_item() && self.item.is_some()) || self.into_delta().is_some_and(is_any)
    }

    fn is_whole_item(&self) -> bool {
        self.kind == "response.output_item.done"
    }

    fn is_of_block(&self) -> bool {
        self.kind == "content_block_start" || self.kind == "content_block_delta"
    }

    /// What is added to the first choice.
    fn into_delta(self) -> Option<CallDelta> {
        let first = self.choices.into_iter().flatten().find(|choice| choice.index == 0);
        first.map(|choice| choice.delta)
    }
}

#[derive(Deserialize)]
struct CallChoice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: CallDelta,
}

#[derive(Default, Deserialize)]
struct CallDelta {
    #[serde(default)]
    tool_calls: Option<Vec<CallPart>>,
    #[serde(default)]
    function_call: Option<CallFunction>,
}

/// What an event adds to a call.
#[derive(Deserialize)]
struct CallPart {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<CallFunction>,
}

#[derive(Default, Deserialize)]
struct CallFunction {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

impl CallFunction {
    /// Whether its arguments begin with it.
    fn begins(&self) -> bool {
        match &self.arguments {
            Value::Object(_) => true,
            Value::String(text) => text.trim_start().starts_with('{'),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_calls_of_tools_are_put_together() {
        let part = |parts: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{parts}]}}}}]}}"#);
        let events = [
            part(r#"{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}"#),
            part(r#"{"index":0,"function":{"arguments":"{\"a\":"}},{"index":1,"id":"c2","function":{"name":"g"}}"#),
            part(r#"{"index":0,"id":null,"function":{"arguments":"1}"}}"#),
        ];
        assert!(events.iter().all(|event| has_part(event.as_bytes())));
        let message = |text: &str| -> Value {
            serde_json::from_slice(&streamed_messages(text, events.join("\n").as_bytes())).unwrap()
        };
        let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let calls = json!([call("c1", "f", "{\"a\":1}"), call("c2", "g", "")]);
        assert_eq!(message(""), json!({"role": "assistant", "content": null, "tool_calls": calls}));
        assert_eq!(message("so:")["content"], "so:");
        assert_eq!(streamed_messages("hi", b""), super::message("hi"));
        for other in [
            r#"{"choices":[{"delta":{"tool_calls":null}}]}"#,
            r#"{"choices":[{"delta":{"content":"\"tool_calls\""}}]}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"response.output_text.delta","delta":"a"}"#,
            r#"{"type":"response.output_item.done"}"#,
            "[DONE]",
        ] {
            assert!(!has_part(other.as_bytes()), "{other}");
        }
    }

    /// The calls that a stream of such parts comes to: the id, the name and the arguments of each.
    fn calls(parts: &[Value]) -> Vec<[Value; 3]> {
        let event =
            |part: &Value| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [part] } }] }).to_string();
        let events: String = parts.iter().map(event).collect();
        let message: Value = serde_json::from_slice(&streamed_messages("", events.as_bytes())).unwrap();
        let call =
            |call: &Value| [&call["id"], &call["function"]["name"], &call["function"]["arguments"]].map(Value::clone);
        message["tool_calls"].as_array().unwrap().iter().map(call).collect()
    }

    #[test]
    fn calls_of_tools_are_told_apart_however_servers_number_them() {
        let part = |id: Value, name: Value, arguments: &str| json!({ "index": 0, "id": id, "function": { "name": name, "arguments": arguments } });
        let without = |mut part: Value| {
            part.as_object_mut().unwrap().remove("index");
            part
        };
        let call = |id: &str, name: &str, arguments: &str| [id, name, arguments].map(Value::from);
        // DashScope's have an empty id in every part but the first, old ones of vLLM another.
        for later in [json!(""), Value::Null, json!("another"), json!("c1")] {
            for name in [Value::Null, json!("")] {
                let parts = [part(json!("c1"), json!("f"), ""), part(later.clone(), name, "{\"a\":1}")];
                assert_eq!(calls(&parts), [call("c1", "f", "{\"a\":1}")], "{later}");
                assert_eq!(calls(&parts.map(without)), [call("c1", "f", "{\"a\":1}")], "{later}");
            }
        }
        let repeated = [part(json!("c1"), json!("f"), "{"), part(json!("c1"), json!("f"), "}")];
        assert_eq!(calls(&repeated), [call("c1", "f", "{}")]);
        // Gemini's have the same number, others none.
        let several = [part(json!("c1"), json!("f"), "{}"), part(json!("c2"), json!("f"), "{\"a\":1}")];
        let wanted = [call("c1", "f", "{}"), call("c2", "f", "{\"a\":1}")];
        assert_eq!((calls(&several), calls(&several.map(without))), (wanted.to_vec(), wanted.to_vec()));
        let unnamed = [part(json!(""), json!("f"), "{}"), part(json!(""), json!("g"), "{\"a\":1}")];
        let names: Vec<Value> = calls(&unnamed).into_iter().map(|[_, name, _]| name).collect();
        assert_eq!(names, ["f", "g"], "whole calls that only their names tell apart");
        let closing = ["{\"a\":", "1}", ""].map(|arguments| part(Value::Null, json!("f"), arguments));
        let arguments: Vec<Value> = calls(&closing).into_iter().map(|[.., arguments]| arguments).collect();
        assert_eq!(arguments, ["{\"a\":1}"], "a part without arguments begins no other");
        let read = [json!({ "index": 0, "id": "c1", "function": { "name": "f", "arguments": { "a": 1 } } })];
        assert_eq!(calls(&read), [call("c1", "f", "{\"a\":1}")], "what is in the text");
    }

    #[test]
    fn a_call_under_its_former_name_comes_back_under_it() {
        let delta = |part: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{"function_call":{part}}}}}]}}"#);
        let events = [delta(r#"{"name":"f","arguments":""}"#), delta(r#"{"arguments":"{}"}"#)];
        assert!(events.iter().all(|event| has_part(event.as_bytes())));
        let message: Value = serde_json::from_slice(&streamed_messages("", events.concat().as_bytes())).unwrap();
        let call = json!({ "name": "f", "arguments": "{}" });
        assert_eq!(message, json!({ "role": "assistant", "content": null, "function_call": call }));
        for other in [
            delta("null"),
            r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}"#.to_owned(),
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call"}]}}"#.to_owned(),
        ] {
            assert!(!has_part(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn blocks_of_messages_come_back_as_in_a_body() {
        let events = [
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s="}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"so"}}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" 1}"}}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t3","name":"h","input":{}}}"#,
            r#"{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"cut"}}"#,
        ];
        assert!(events.iter().all(|event| has_part(event.as_bytes())));
        let all = events.concat();
        let message: Value = serde_json::from_slice(&streamed_messages("so", all.as_bytes())).unwrap();
        let use_of =
            |id: &str, name: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": name, "input": input });
        let content = json!([
            { "type": "thinking", "thinking": "hm", "signature": "s=" },
            { "type": "text", "text": "so" },
            use_of("t1", "f", json!({ "a": 1 })),
            use_of("t2", "g", json!({})),
            use_of("t3", "h", json!({})),
        ]);
        assert_eq!(message, json!({ "role": "assistant", "content": content }));
        assert_eq!(streamed_messages("so", events[..6].concat().as_bytes()), super::message("so"), "no tool is used");
    }

    #[test]
    fn items_of_a_response_come_back_as_they_are() {
        let items = [
            r#"{"type":"reasoning","id":"r1","summary":[]}"#,
            r#"{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}"#,
        ];
        let done = |item: &str| format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
        let events = items.map(done);
        assert!(events.iter().all(|event| has_part(event.as_bytes())));
        assert_eq!(streamed_messages("", events.concat().as_bytes()), items.join(",").as_bytes());
        let said = done(r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"so"}]}"#);
        assert_eq!(streamed_messages("so", said.as_bytes()), message("so"));
    }

    #[test]
    fn messages_are_found_in_bodies_and_in_streams() {
        let body = br#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}]}"#;
        assert_eq!(messages_of(body).unwrap(), br#"{"role":"assistant","content":"hi"}"#);
        assert_eq!(messages_of(b"{}"), None);
        assert_eq!(messages_of(br#"{"choices":[{"message":false}]}"#), None, "it is no message");
        let silent = br#"{"choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"r"}}]}"#;
        let sent = br#"{"role":"assistant","content":"","reasoning_content":"r"}"#;
        assert_eq!(messages_of(silent).unwrap(), sent, "servers that want a text refuse none");
        let odd = br#"{"choices":[{"message":{"role":"assistant","content":"hi"},"logprobs":-Infinity}]}"#;
        assert_eq!(messages_of(odd).unwrap(), br#"{"role":"assistant","content":"hi"}"#);
        let body =
            br#"{"model":"m","message":{"role":"assistant","content":"hi","thinking":"h"},"done":true,"eval_count":2}"#;
        assert_eq!(messages_of(body).unwrap(), br#"{"role":"assistant","content":"hi","thinking":"h"}"#);
        assert_eq!(
            messages_of(br#"{"message":"hi","content":"a"}"#).unwrap(),
            br#"{"role":"assistant","content":"a"}"#
        );
        assert_eq!(messages_of(br#"{"choices":[{"text":"hi"}]}"#).unwrap(), message("hi"));
        assert_eq!(spoken(br#"{"choices":[{"text":"hi"}]}"#), "hi");
        assert_eq!(
            spoken(br#"{"choices":[{"index":1,"delta":{"content":"x"}},{"index":0,"delta":{"content":"a\n"}}]}"#),
            "a\n"
        );
        let block = br#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}"#;
        let thought = br#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"t"}}"#;
        assert_eq!((spoken(block), spoken(thought)), ("b".to_owned(), String::new()));
        let body = br#"{"type":"message","content":[{"type":"text","text":"hi"}]}"#;
        assert_eq!(messages_of(body).unwrap(), br#"{"role":"assistant","content":[{"type":"text","text":"hi"}]}"#);
        let body = br#"{"object":"response","output":[{"type":"reasoning","summary":[]},
            {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"r"},
            {"type":"output_text","text":"b"}]}]}"#;
        assert_eq!(messages_of(body).unwrap(), message("ab"));
        let output =
            r#"{"type":"reasoning","id":"r"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#;
        let body = format!(r#"{{"object":"response","output":[{output}]}}"#);
        assert_eq!(messages_of(body.as_bytes()).unwrap(), output.as_bytes(), "the API wants all of them back");
        assert_eq!(messages_of(br#"{"content":"hi","stop":true}"#).unwrap(), br#"{"role":"assistant","content":"hi"}"#);
        assert_eq!(messages_of(br#"{"text_output":"hi"}"#).unwrap(), message("hi"));
        assert_eq!(spoken(br#"{"content":"hi","stop":false}"#), "hi", "llama.cpp's completions go on, too");
        assert_eq!(spoken(br#"{"type":"response.output_text.delta","delta":"hi"}"#), "hi");
        assert_eq!(spoken(br#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#), "");
        assert_eq!(spoken(br#"{"type":"response.output_text.done","text":"hi"}"#), "");
        assert_eq!((spoken(b"[DONE]"), spoken(br#"{"choices":[{"delta":{}}]}"#)), (String::new(), String::new()));
        assert_eq!(message("a\""), br#"{"content":"a\"","role":"assistant"}"#);
    }
}
