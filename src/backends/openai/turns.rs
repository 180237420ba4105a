//! [`Conversation`]: the turns of a session, each of which sends the whole conversation so far.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backend::InferError;
use crate::backends::openai::fields::Fields;
use crate::engine::http1::write_length;

/// The field with the messages.
const MESSAGES: &str = "messages";

/// The conversation so far in a slot's session.
#[derive(Default)]
pub(super) struct Conversation {
    /// Messages, with commas between them.
    history: Vec<u8>,
    /// The body of the request.
    body: Vec<u8>,
    /// The request of the turn, with its head.
    request: Vec<u8>,
}

impl Conversation {
    /// Clears the conversation, for another session.
    pub(super) fn begin(&mut self) {
        self.history.clear();
    }

    /// Makes the request of a turn, after the common `head`: the payload's messages follow the earlier ones. Returns
    /// its length.
    ///
    /// # Errors
    /// If the payload has no messages.
    pub(super) fn say(&mut self, head: &[u8], payload: &[u8]) -> Result<usize, InferError> {
        let unusable = |what: &str| InferError::new("Request", what.to_owned());
        let fields = Fields::of(payload).map_err(|error| unusable(&error.to_string()))?;
        let messages = fields.list(MESSAGES).ok_or_else(|| unusable("it has no messages"))?;
        self.hear(messages.as_bytes());
        self.body.clear();
        fields.write_with_list(&mut self.body, MESSAGES, &self.history);
        self.request.clear();
        self.request.extend_from_slice(head);
        write_length(&mut self.request, self.body.len());
        self.request.extend_from_slice(&self.body);
        Ok(self.request.len())
    }

    /// Adds messages.
    pub(super) fn hear(&mut self, messages: &[u8]) {
        if !self.history.is_empty() && !messages.is_empty() {
            self.history.push(b',');
        }
        self.history.extend_from_slice(messages);
    }

    /// The body of the request that was made last.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The request that was made last.
    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }
}

/// The assistant's message that says `text`.
pub(super) fn message(text: &str) -> Vec<u8> {
    serde_json::json!({ "role": "assistant", "content": text }).to_string().into_bytes()
}

/// The message of an answer that is not a stream, as the server wrote it.
pub(super) fn message_of(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(default, borrow)]
        choices: Vec<Choice<'a>>,
        /// Of Anthropic's messages.
        #[serde(default, borrow)]
        content: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let body: Body<'_> = serde_json::from_slice(body).ok()?;
    let said = |content: &RawValue| format!("{{\"role\":\"assistant\",\"content\":{}}}", content.get()).into_bytes();
    let choice = body.choices.first().map(|choice| choice.message.get().as_bytes().to_vec());
    choice.or_else(|| body.content.map(said))
}

/// What an event adds to the text of the first choice.
pub(super) fn delta(event: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Event {
        #[serde(default)]
        choices: Vec<Choice>,
        /// Of Anthropic's messages.
        #[serde(default)]
        delta: Option<Text>,
    }
    #[derive(Deserialize)]
    struct Text {
        #[serde(default)]
        text: Option<String>,
    }
    #[derive(Deserialize)]
    struct Choice {
        #[serde(default)]
        index: u64,
        delta: Delta,
    }
    #[derive(Deserialize)]
    struct Delta {
        #[serde(default)]
        content: Option<String>,
    }
    let Ok(event) = serde_json::from_slice::<Event>(event) else { return String::new() };
    let first = event.choices.into_iter().find(|choice| choice.index == 0);
    first.and_then(|choice| choice.delta.content).or(event.delta.and_then(|delta| delta.text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_sends_all_that_was_said_before() {
        let mut talk = Conversation::default();
        let mut say = |payload: &str, answer: &[u8], begins: bool| {
            if begins {
                talk.begin();
            }
            assert_eq!(talk.say(b"HEAD\r\n", payload.as_bytes()), Ok(talk.request().len()));
            let request = String::from_utf8(talk.request().to_vec()).unwrap();
            talk.hear(answer);
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(head, format!("HEAD\r\nContent-Length: {}", body.len()));
            body.to_owned()
        };
        let first = r#"{"model":"m","messages":[{"a":1}],"n":1}"#;
        assert_eq!(say(first, b"{\"b\":2}", true), first);
        let second = say(r#"{"messages":[ {"c":3} ]}"#, b"", false);
        assert_eq!(second, r#"{"messages":[{"a":1},{"b":2},{"c":3}]}"#);
        assert_eq!(say(first, b"", true), first, "another session");
        assert!(Conversation::default().say(b"", b"{}").is_err());
    }

    #[test]
    fn messages_are_found_in_bodies_and_in_streams() {
        let body = br#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}]}"#;
        assert_eq!(message_of(body).unwrap(), br#"{"role":"assistant","content":"hi"}"#);
        assert_eq!(message_of(b"{}"), None);
        assert_eq!(
            delta(br#"{"choices":[{"index":1,"delta":{"content":"x"}},{"index":0,"delta":{"content":"a\n"}}]}"#),
            "a\n"
        );
        let block = br#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}"#;
        let thought = br#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"t"}}"#;
        assert_eq!((delta(block), delta(thought)), ("b".to_owned(), String::new()));
        let body = br#"{"type":"message","content":[{"type":"text","text":"hi"}]}"#;
        assert_eq!(message_of(body).unwrap(), br#"{"role":"assistant","content":[{"type":"text","text":"hi"}]}"#);
        assert_eq!((delta(b"[DONE]"), delta(br#"{"choices":[{"delta":{}}]}"#)), (String::new(), String::new()));
        assert_eq!(message("a\""), br#"{"content":"a\"","role":"assistant"}"#);
    }
}
