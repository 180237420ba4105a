//! Lines that were recorded: what they have beside a request, such as when it was sent and how long its answer is to be.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::from_str;

use crate::PromptForm;
use crate::lines::{LIMITS, Limit, Lines};
use crate::members::Members;

/// Members that limit output tokens, and are no field of any endpoint.
const RECORDED_LIMITS: [&str; 5] =
    ["output_tokens", "output_length", "output_len", "output_tokens_count", "completion_tokens_count"];
/// Members that tell a line from others, or when it was sent, or how long it was: servers refuse them.
pub(super) const NO_FIELDS: [&str; 14] = [
    "id",
    "task_id",
    "session_id",
    "timestamp",
    "delay",
    "hash_ids",
    "input_length",
    "prompt_len",
    "prompt_tokens_count",
    "input_tokens_count",
    "image_uuids",
    "message_mode",
    "group_id",
    "is_restart",
];
/// Those by which a line is known that was recorded: it is no body yet, or has more than a body.
const MARKS: [&str; 5] = ["timestamp", "delay", "hash_ids", "input_length", "message_mode"];
/// What aiperf calls its forms of lines, in their `type`.
const TYPES: [&str; 4] = ["single_turn", "multi_turn", "random_pool", "mooncake_trace"];
/// The answers that data sets for training have beside a prompt.
const ANSWERS: [&str; 4] = ["completion", "chosen", "rejected", "label"];
/// Fields to add to a body, as aiperf and SGLang have them.
const EXTRA: [&str; 2] = ["extra", "extra_request_body"];

impl Lines {
    /// The body within a line of a recording (aiperf's `payload`, SageMaker's captures); any other line as it is.
    pub(super) fn of_payload(&mut self, mut line: Members) -> Members {
        let has = |name: &&str| line.get(name).is_some_and(|value| value != "null");
        let is_prompt = ["messages", "input", "prompt", "text", "text_input"].iter().any(has);
        let listed = || line.list("payload").and_then(|only| from_str(only).ok());
        if is_prompt {
            return line;
        }
        if let Some(body) = captured(&line) {
            return body;
        }
        let Some(body) = line.object("payload").or_else(listed) else { return line };
        line.take("payload");
        self.leave_out_all(&line);
        body
    }

    /// A line whose `prompt` is the messages of a chat, as data sets for training and SGLang's have it, with these under the endpoint's
    /// name; any other line as it is.
    pub(super) fn of_chat(&mut self, mut line: Members) -> Members {
        let name = match self.form {
            PromptForm::Messages | PromptForm::AnthropicMessages => "messages",
            PromptForm::Responses => "input",
            PromptForm::Prompt | PromptForm::Input | PromptForm::Unknown => return line,
        };
        let messages = line.get("prompt").and_then(|prompt| from_str::<Vec<Members>>(prompt).ok());
        let is_chat = messages.is_some_and(|all| !all.is_empty() && all.iter().all(|message| message.has("role")));
        if is_chat
            && line.get(name).is_none_or(|value| value == "null")
            && let Some(prompt) = line.take("prompt")
        {
            // It is JSON, as it comes from there.
            let _ = line.set_text(name, &prompt);
            self.leave_out(&mut line, &ANSWERS);
            // What was recorded is still to be known by its marks.
            if !is_recorded(&line) {
                self.leave_out(&mut line, &NO_FIELDS);
                self.take_type(&mut line);
            }
        }
        line
    }

    /// A body without what its recording says of it. What an unknown endpoint takes is not ours to change.
    pub(super) fn whole(&mut self, mut line: Members) -> Result<Members, String> {
        // A recorded request asks something.
        let is_empty = ["messages", "input"].iter().any(|name| line.list(name) == Some(""));
        if self.form == PromptForm::Unknown || is_empty || !is_recorded(&line) {
            return Ok(line);
        }
        let has_limit = LIMITS
            .iter()
            .any(|name| !RECORDED_LIMITS.contains(name) && line.get(name).is_some_and(|value| value != "null"));
        if has_limit {
            self.leave_out(&mut line, &RECORDED_LIMITS);
        } else if let Some(Limit { field, tokens }) = self.limit(&mut line)? {
            line.set(field, &tokens.into());
        }
        self.leave_out(&mut line, &NO_FIELDS);
        self.take_type(&mut line);
        add_extra(&mut line);
        Ok(line)
    }

    /// Takes members out that are not sent.
    pub(super) fn leave_out(&mut self, line: &mut Members, names: &[&str]) {
        let taken = names.iter().filter(|name| line.take(name).is_some_and(|value| value != "null"));
        self.left_out.extend(taken.map(|name| (*name).to_owned()));
    }

    /// Notes that none of these members is sent.
    pub(super) fn leave_out_all(&mut self, line: &Members) {
        self.left_out.extend(line.names().map(str::to_owned));
    }

    /// Takes out what aiperf calls the form of a line.
    pub(super) fn take_type(&self, line: &mut Members) {
        if line.string("type").is_some_and(|name| TYPES.contains(&name.as_str())) {
            line.take("type");
        }
    }
}

/// The body of a request that Amazon SageMaker has captured, which is a text.
fn captured(line: &Members) -> Option<Members> {
    let input = line.object("captureData")?.object("endpointInput")?;
    let data = input.string("data")?;
    let is_encoded = input.string("encoding").is_some_and(|name| name == "BASE64");
    Members::read(&if is_encoded { STANDARD.decode(data).ok()? } else { data.into_bytes() }).ok()
}

/// Whether a line says how it was sent or how long its answer is to be, in words of no endpoint.
pub(super) fn is_recorded(line: &Members) -> bool {
    let has_extra = EXTRA.iter().any(|name| line.get(name).is_some_and(|value| value.starts_with('{')));
    has_extra || MARKS.iter().chain(&RECORDED_LIMITS).any(|name| line.has(name))
}

/// Makes fields of what stands in such members.
pub(super) fn add_extra(line: &mut Members) {
    for name in EXTRA {
        match line.object(name) {
            Some(extra) => {
                line.take(name);
                line.merge(extra);
            }
            None if line.get(name) == Some("null") => drop(line.take(name)),
            None => {}
        }
    }
}
