//! What was said in a conversation of an agent.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::session_trace::call::Message;

/// All messages so far.
#[derive(Clone, Default)]
pub(super) struct Transcript {
    pub(super) messages: Vec<Arc<Message>>,
    /// Those that are answers, and the calls that these answer.
    pub(super) answers: Vec<(usize, u32)>,
    /// Tokens of what they say.
    pub(super) tokens: u64,
}

/// A text, and how many tokens it has.
#[derive(Clone)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) tokens: u64,
}

impl Transcript {
    /// Somebody says something.
    pub(super) fn say(&mut self, role: &str, text: &Text) {
        self.tokens += text.tokens;
        self.add(role, json!({ "role": role, "content": text.text }), &text.text);
    }

    /// The agent has answered a call.
    pub(super) fn answer(&mut self, call: u32, text: &Text) {
        self.answers.push((self.messages.len(), call));
        self.say("assistant", text);
    }

    /// The agent has called tools, which have answered.
    pub(super) fn use_tools(&mut self, calls: &ToolCalls) {
        let text = calls.wire.to_string();
        self.add("assistant", json!({ "role": "assistant", "tool_calls": calls.wire }), &text);
        for (call, result) in calls.wire.as_array().into_iter().flatten().zip(&calls.results) {
            self.tokens += result.tokens;
            let wire = json!({ "role": "tool", "tool_call_id": call["id"], "content": result.text });
            self.add("tool", wire, &result.text);
        }
    }

    fn add(&mut self, role: &str, wire: Value, text: &str) {
        let message = Message { wire, role: role.to_owned(), text: text.to_owned(), tool_ids: HashSet::new() };
        self.messages.push(Arc::new(message));
    }
}

/// Tools that are called at once.
#[derive(Clone)]
pub(super) struct ToolCalls {
    /// As a message has them.
    pub(super) wire: Value,
    /// Tokens of that.
    pub(super) tokens: u64,
    pub(super) names: Vec<String>,
    /// What each answers.
    pub(super) results: Vec<Text>,
}
