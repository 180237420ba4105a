//! The calls of a recorded session: what each sent, what it got, and when.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::{Timestamp, civil, tz::TimeZone};
use serde_json::{Value, json};

/// Attributes with the text of an answer.
const OUTPUTS: [&str; 3] = ["gen_ai.output.text", "gen_ai.completion", "gen_ai.output"];
/// Characters of a token, about.
const TOKEN_CHARS: usize = 4;

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// As it is sent.
    pub(super) wire: Value,
    /// Its role.
    pub(super) role: String,
    /// All that it says, by which it is compared.
    pub(super) text: String,
    /// The calls of tools in it.
    pub(super) tool_ids: HashSet<String>,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// When it began, in milliseconds.
    pub(super) start_ms: i64,
    /// When it ended.
    pub(super) end_ms: i64,
    /// How long it waited for its client, in milliseconds; what the times tell if absent.
    pub(super) wait_ms: Option<u64>,
    /// The model that it asked.
    pub(super) model: String,
    /// What it sent.
    pub(super) messages: Vec<Arc<Message>>,
    /// The calls whose answers it sends.
    pub(super) sends: Sends,
    /// What it got.
    pub(super) answer: Option<Arc<Message>>,
    /// Tokens of that; 0 if unknown.
    pub(super) tokens: u64,
    /// Tokens of all that it sent and got, as far as they were counted.
    pub(super) all_tokens: u64,
    /// Tools that it offered.
    pub(super) tools: Option<Value>,
    /// The tools that its answer called.
    pub(super) called: Vec<String>,
}

/// How it is known whose answers a call sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// It has their texts among its messages.
    ByText,
    /// It goes on from that call, by its number, if from any: it sends its answer, and what that call has sent.
    GoesOnFrom(Option<usize>),
}

impl Call {
    /// Which tools the model must call, so that the session goes on as recorded.
    pub(super) fn tool_choice(&self) -> Value {
        match &self.called[..] {
            [] => json!("none"),
            [name] if self.has_tool(name) => json!({ "type": "function", "function": { "name": name } }),
            _ => json!("required"),
        }
    }

    fn has_tool(&self, name: &str) -> bool {
        let tools = self.tools.as_ref().and_then(Value::as_array).into_iter().flatten();
        tools.into_iter().any(|tool| tool["function"]["name"] == name)
    }
}

/// How many parts of messages are not sent, by their types: pictures, files, what a model thought.
pub(super) type UnsentParts = BTreeMap<String, u64>;

/// The calls among spans, in the order in which they began; `errors` keeps those that failed. Adds to `unsent`.
///
/// # Errors
/// What is wrong with a span.
pub(super) fn of_spans(spans: &[Value], errors: bool, unsent: &mut UnsentParts) -> Result<Vec<Call>, String> {
    let mut spans: Vec<&Value> = spans.iter().filter(|span| is_call(span, errors)).collect();
    let id = |span: &Value| span["span_id"].as_str().unwrap_or_default().to_owned();
    spans.sort_by_key(|span| id(span));
    let mut signatures = HashSet::new();
    spans.retain(|span| {
        signatures.insert(format!("{}|{}|{}", span["start_time"], span["end_time"], span["attributes"]))
    });
    let mut calls = spans
        .into_iter()
        .map(|span| call(span, unsent).map_err(|rule| format!("the span '{}': {rule}", id(span))))
        .collect::<Result<Vec<_>, String>>()?;
    calls.sort_by_key(|call| call.start_ms);
    Ok(calls)
}

fn is_call(span: &Value, errors: bool) -> bool {
    let attributes = &span["attributes"];
    let is_chat = attributes["gen_ai.operation.name"] == "chat"
        || span["name"].as_str().is_some_and(|name| name.starts_with("chat "));
    let has_failed = span["status"]["code"] == 2;
    is_chat && !is_empty(&attributes["gen_ai.input.messages"]) && (errors || !has_failed)
}

/// Whether a list of messages has none: tables have a column for it, which spans of other kinds leave empty.
fn is_empty(messages: &Value) -> bool {
    match messages {
        Value::Null => true,
        Value::String(text) => matches!(text.trim(), "" | "[]"),
        other => other.as_array().is_some_and(Vec::is_empty),
    }
}

fn call(span: &Value, unsent: &mut UnsentParts) -> Result<Call, String> {
    let attributes = &span["attributes"];
    let time = |key: &str| moment(&span[key]).ok_or_else(|| format!("'{key}' is no time"));
    let start_ms = time("start_time")?;
    let end_ms = if span["end_time"].is_null() { start_ms } else { time("end_time")? };
    let list = list(&attributes["gen_ai.input.messages"]).ok_or("gen_ai.input.messages is no list of messages")?;
    let read = |recorded| message(recorded, unsent).map(Arc::new);
    let messages = list.iter().map(read).collect::<Result<Vec<_>, String>>()?;
    let answer = answer(attributes, unsent)?.map(Arc::new);
    let number = |keys: [&str; 2]| keys.iter().find_map(|key| tokens(&attributes[*key]));
    let counted = number(["gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"]);
    let estimated = || answer.as_ref().map_or(0, |answer| (answer.text.chars().count() / TOKEN_CHARS).max(1) as u64);
    let tools = self::list(&attributes["gen_ai.tool.definitions"]).filter(|tools| !tools.is_empty());
    let called = answer.as_ref().and_then(|answer| answer.wire["tool_calls"].as_array()).into_iter().flatten();
    let called = called.filter_map(|call| Some(call["function"]["name"].as_str()?.to_owned()));
    Ok(Call {
        start_ms,
        end_ms,
        wait_ms: None,
        sends: Sends::ByText,
        model: attributes["gen_ai.request.model"].as_str().unwrap_or_default().to_owned(),
        tokens: counted.unwrap_or_else(estimated),
        all_tokens: number(["gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"]).unwrap_or(0)
            + counted.unwrap_or(0),
        called: if tools.is_some() { called.collect() } else { Vec::new() },
        tools: tools.map(|tools| tools.iter().map(tool).collect()),
        messages,
        answer,
    })
}

/// A number of tokens, which exporters also write with decimals or as a text.
fn tokens(value: &Value) -> Option<u64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    (number >= 0.0).then_some(number as u64)
}

/// Milliseconds since 1970, of an ISO 8601 time, in UTC if it names no zone, or of a number of nanoseconds.
fn moment(value: &Value) -> Option<i64> {
    if let Some(nanoseconds) = value.as_i64() {
        return Some(nanoseconds / 1_000_000);
    }
    let text = value.as_str()?;
    let zoned = text.parse::<Timestamp>().ok();
    let local = || text.parse::<civil::DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    zoned.or_else(local).map(|moment| moment.as_millisecond())
}

/// A list, which may be written as a text.
fn list(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Array(list) => Some(list.clone()),
        _ => None,
    }
}

/// A tool as OpenAI's requests define it.
fn tool(definition: &Value) -> Value {
    match definition.get("function") {
        Some(_) => definition.clone(),
        None => json!({ "type": "function", "function": {
            "name": definition["name"],
            "description": definition["description"].as_str().unwrap_or_default(),
            "parameters": definition.get("parameters").or(definition.get("input_schema")).unwrap_or(&json!({})),
        } }),
    }
}

fn answer(attributes: &Value, unsent: &mut UnsentParts) -> Result<Option<Message>, String> {
    let text = OUTPUTS.iter().find_map(|key| attributes[*key].as_str());
    if let Some(text) = text {
        return message(&json!({ "role": "assistant", "content": text }), unsent).map(Some);
    }
    match list(&attributes["gen_ai.output.messages"]).unwrap_or_default().as_slice() {
        [] => Ok(None),
        [recorded] => message(recorded, unsent).map(Some),
        several => Err(format!("gen_ai.output.messages has {} messages, and an answer is one", several.len())),
    }
}

/// A message in any of the forms in which they are recorded, in OpenAI's.
fn message(recorded: &Value, unsent: &mut UnsentParts) -> Result<Message, String> {
    let role = recorded["role"].as_str().unwrap_or("assistant");
    let role = if role == "developer" { "system" } else { role };
    let parts = recorded["parts"].as_array().or(recorded["content"].as_array());
    let mut wire = json!({ "role": role });
    let mut content = recorded["content"].as_str().map(str::to_owned).into_iter().collect::<Vec<_>>();
    let mut calls =
        recorded["tool_calls"].as_array().into_iter().flatten().map(tool_call).collect::<Result<Vec<_>, _>>()?;
    let mut tool_id = recorded["tool_call_id"].as_str();
    for part in parts.into_iter().flatten() {
        match part["type"].as_str() {
            Some("tool_call" | "tool_use") => calls.push(tool_call(part)?),
            Some("tool_call_response" | "tool_result") => {
                wire["role"] = json!("tool");
                tool_id = tool_id.or(part["id"].as_str()).or(part["tool_use_id"].as_str());
                let results = ["result", "response", "content"].iter().find_map(|key| part.get(*key));
                content.push(flat(results.unwrap_or(&Value::Null)));
            }
            None | Some("text" | "input_text" | "output_text") => content.push(said(part)),
            Some(other) => *unsent.entry(other.to_owned()).or_default() += 1,
        }
    }
    let content = content.concat();
    let tool_ids = calls.iter().filter_map(|call| call["id"].as_str().map(str::to_owned)).collect();
    let text = if calls.is_empty() { content.clone() } else { format!("{content}\n{}", Value::from(calls.clone())) };
    if !content.is_empty() || calls.is_empty() {
        wire["content"] = json!(content);
    }
    if !calls.is_empty() {
        wire["tool_calls"] = Value::from(calls);
    }
    if let (Some(id), "tool") = (tool_id, wire["role"].as_str().unwrap_or_default()) {
        wire["tool_call_id"] = json!(id);
    }
    Ok(Message { role: wire["role"].as_str().unwrap_or(role).to_owned(), wire, text, tool_ids })
}

/// A call of a tool; without an id, its result could not be told.
fn tool_call(recorded: &Value) -> Result<Value, String> {
    let function = recorded.get("function").unwrap_or(recorded);
    let id = recorded["id"].as_str().ok_or("a tool call has no id")?;
    let arguments = match function.get("arguments").or(function.get("input")) {
        Some(Value::String(text)) => text.clone(),
        Some(other) if !other.is_null() => other.to_string(),
        _ => String::new(),
    };
    Ok(json!({ "id": id, "type": "function", "function": { "name": function["name"], "arguments": arguments } }))
}

/// The text of a text, or of a list of parts.
fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(said).collect(),
        other => other.to_string(),
    }
}

/// The text of a part; none of one that holds something else, such as a picture, whose data are no words.
fn said(part: &Value) -> String {
    match part {
        Value::Object(members) => members.get("text").or(members.get("content")).map(flat).unwrap_or_default(),
        other => flat(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with these attributes besides.
    fn calls(attributes: Value) -> (Vec<Call>, UnsentParts) {
        let mut span = json!({ "span_id": "s", "name": "chat m", "start_time": 0, "attributes": attributes });
        let messages = &mut span["attributes"]["gen_ai.input.messages"];
        if messages.is_null() {
            *messages = json!([{ "role": "user", "content": "q" }]);
        }
        let mut unsent = UnsentParts::new();
        (of_spans(&[span], true, &mut unsent).unwrap(), unsent)
    }

    #[test]
    fn only_what_was_said_becomes_text() {
        let parts = json!([
            { "type": "reasoning", "content": "hmm" },
            { "type": "text", "content": "see " },
            { "type": "blob", "modality": "image", "content": "AAAA" },
            { "type": "uri", "uri": "https://x/y.png" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,BBBB" } },
            { "type": "text", "content": [{ "text": "this" }, { "image": "AAAA" }] },
        ]);
        for key in ["parts", "content"] {
            let (calls, unsent) = calls(json!({ "gen_ai.input.messages": [{ "role": "user", key: parts }] }));
            let message = &calls[0].messages[0];
            assert_eq!((message.text.as_str(), &message.wire["content"]), ("see this", &json!("see this")), "{key}");
            let found: Vec<(&str, u64)> = unsent.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
            assert_eq!(found, [("blob", 1), ("image_url", 2), ("reasoning", 1), ("uri", 1)]);
        }
    }

    #[test]
    fn results_of_tools_are_the_text_in_them() {
        let result = json!([{ "type": "text", "text": "12 files" }, { "type": "image", "source": { "data": "AAAA" } }]);
        for key in ["result", "response", "content"] {
            let part = json!({ "type": "tool_call_response", "id": "t", key: result });
            let (calls, unsent) = calls(json!({ "gen_ai.input.messages": [{ "role": "user", "parts": [part] }] }));
            let wanted = json!({ "role": "tool", "content": "12 files", "tool_call_id": "t" });
            assert_eq!((&calls[0].messages[0].wire, unsent.len()), (&wanted, 0), "{key}");
        }
    }

    #[test]
    fn token_counts_may_have_decimals_or_be_texts() {
        for (value, wanted) in [(json!(128), 128), (json!(128.0), 128), (json!("128"), 128), (json!(" 128.0"), 128)] {
            let (calls, _) = calls(json!({ "gen_ai.usage.output_tokens": value, "gen_ai.usage.input_tokens": value }));
            assert_eq!((calls[0].tokens, calls[0].all_tokens), (wanted, 2 * wanted), "{value}");
        }
        let (calls, _) = calls(json!({ "gen_ai.usage.output_tokens": "many", "gen_ai.output.text": "8 letters" }));
        assert_eq!(calls[0].tokens, 2, "estimated");
    }

    #[test]
    fn spans_without_messages_are_no_calls() {
        for empty in [json!(""), json!([]), json!("[]"), json!(" ")] {
            assert!(calls(json!({ "gen_ai.input.messages": empty })).0.is_empty(), "{empty}");
        }
    }
}
