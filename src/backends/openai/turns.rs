//! [`History`]: what was said in a session, which its turns send, too; [`Histories`]: those of all sessions that are under way;
//! [`TurnRequest`]: the request of a turn.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::backend::{InferError, SequencePosition};
use crate::data::Members;
use crate::engine::http1::write_length;

/// The field with the messages.
const MESSAGES: &str = "messages";
/// The same of OpenAI's Responses API.
const INPUT: &str = "input";
/// The field with the text that a completion continues.
const PROMPT: &str = "prompt";
/// The member of a message that stands for the answer to an earlier turn.
const ANSWER_OF: &str = "answer_of";

/// The histories of the sessions that are under way.
#[derive(Default)]
pub(super) struct Histories {
    by_session: HashMap<u64, History>,
    /// How many have begun.
    begun: u64,
}

/// A turn that is under way. A session may be played again, and is then another.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    session: u64,
    /// The number of its history.
    history: u64,
}

impl Histories {
    /// A turn at that place of its session is sent. The first begins the session anew.
    pub(super) fn note_send(&mut self, position: SequencePosition) -> Turn {
        let session = position.id;
        if position.start || !self.by_session.contains_key(&session) {
            self.begun += 1;
            self.by_session.insert(session, History { number: self.begun, ..History::default() });
        }
        let history = self.by_session.entry(session).or_default();
        history.under_way += 1;
        history.ended |= position.end;
        Turn { session, history: history.number }
    }

    /// The history that a turn continues.
    pub(super) fn of(&mut self, turn: Turn) -> Option<&mut History> {
        self.by_session.get_mut(&turn.session).filter(|history| history.number == turn.history)
    }

    /// How many sessions are under way.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.by_session.len()
    }

    /// A turn is over. A session's history is forgotten with its last.
    pub(super) fn note_end(&mut self, turn: Turn) {
        let Some(history) = self.of(turn) else { return };
        history.under_way -= 1;
        if history.ended && history.under_way == 0 {
            self.by_session.remove(&turn.session);
        }
    }
}

/// What was said in a session so far.
#[derive(Default)]
pub(super) struct History {
    /// Tells it from that of the same session before.
    number: u64,
    /// Messages, with commas between them.
    messages: Vec<u8>,
    /// The text that completions continue.
    text: String,
    /// The same with the turn that is under way.
    asked: String,
    /// Answers by turn, of sessions whose turns hold the whole conversation.
    answers: HashMap<u32, Vec<u8>>,
    /// Turns under way.
    under_way: u32,
    /// Whether its last turn has been sent.
    ended: bool,
}

impl History {
    /// Adds messages.
    fn add(&mut self, messages: &[u8]) {
        if !self.messages.is_empty() && !messages.is_empty() {
            self.messages.push(b',');
        }
        self.messages.extend_from_slice(messages);
    }

    /// The answer to a turn, as messages with commas between them; `whole` where turns hold the whole conversation.
    pub(super) fn receive(&mut self, turn: u32, whole: bool, message: &[u8]) {
        if whole {
            self.answers.insert(turn, message.to_vec());
        } else if self.asked.is_empty() {
            self.add(message);
        } else {
            self.text = std::mem::take(&mut self.asked);
            if let Some(content) = Members::read(message).ok().and_then(|message| message.string("content")) {
                self.text.push(' ');
                self.text.push_str(&content);
            }
        }
    }

    /// Messages, those that stand for an answer replaced by what the server has answered. What it has not stays as recorded.
    fn with_answers(&self, messages: &str) -> Result<Vec<u8>, serde_json::Error> {
        let list = format!("[{messages}]");
        let mut out = Vec::with_capacity(messages.len());
        for message in serde_json::from_str::<Vec<&RawValue>>(&list)? {
            if !out.is_empty() {
                out.push(b',');
            }
            if !message.get().contains(ANSWER_OF) {
                out.extend_from_slice(message.get().as_bytes());
                continue;
            }
            let mut fields = Members::read(message.get().as_bytes()).unwrap_or_default();
            let turn = fields.take(ANSWER_OF).and_then(|turn| turn.parse().ok());
            match turn.and_then(|turn| self.answers.get(&turn)) {
                Some(answer) => out.extend_from_slice(answer),
                None => out.extend_from_slice(&fields.text()),
            }
        }
        Ok(out)
    }
}

/// The request of a turn.
#[derive(Default)]
pub(super) struct TurnRequest {
    body: Vec<u8>,
    /// All of it, with its head.
    request: Vec<u8>,
}

impl TurnRequest {
    /// Makes the request after the common `head`. The payload's messages, or its prompt, follow what was said before; with
    /// `whole` it holds all of that itself, except for answers. Returns the request's length.
    ///
    /// # Errors
    /// If the payload has neither messages nor a prompt.
    pub(super) fn write(
        &mut self,
        head: &[&[u8]],
        payload: &[u8],
        whole: bool,
        history: &mut History,
    ) -> Result<usize, InferError> {
        let unusable = |problem: &str| InferError::new("Request", problem.to_owned());
        let fields = Members::read(payload).map_err(|error| unusable(&error.to_string()))?;
        self.body.clear();
        match (conversation(&fields), fields.string(PROMPT)) {
            (Some(Conversation { field, messages }), _) if whole => {
                let all = history.with_answers(messages).map_err(|error| unusable(&error.to_string()))?;
                fields.write_with(&mut self.body, field, &[b"[", &all, b"]"]);
            }
            (Some(Conversation { field, messages }), _) => {
                history.add(messages.as_bytes());
                fields.write_with(&mut self.body, field, &[b"[", &history.messages, b"]"]);
            }
            (None, Some(prompt)) => {
                let before = if whole { "" } else { history.text.as_str() };
                let parts = [before, &prompt];
                history.asked = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
                let text = serde_json::to_vec(&history.asked).expect("a text has a form in JSON");
                fields.write_with(&mut self.body, PROMPT, &[&text]);
            }
            (None, None) => return Err(unusable("it has neither messages nor a prompt")),
        }
        self.request.clear();
        head.iter().for_each(|part| self.request.extend_from_slice(part));
        write_length(&mut self.request, self.body.len());
        self.request.extend_from_slice(&self.body);
        Ok(self.request.len())
    }

    /// The body of the request.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// All of it.
    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }
}

/// The messages of a turn, with commas between them, and the field that holds them.
pub(super) struct Conversation<'a> {
    field: &'static str,
    messages: &'a str,
}

/// The messages of a turn, if it has some.
pub(super) fn conversation(fields: &Members) -> Option<Conversation<'_>> {
    let of_field = |field| fields.list(field).map(|messages| Conversation { field, messages });
    // The input of embeddings may be a list of texts, which is no conversation.
    of_field(MESSAGES).or_else(|| of_field(INPUT).filter(|input| input.messages.starts_with('{')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::messages::message;

    /// The body of a turn, whose answer is received.
    fn say(history: &mut History, payload: &str, turn: u32, whole: bool, answer: &[u8]) -> String {
        let mut turn_request = TurnRequest::default();
        let length = turn_request.write(&[b"HEAD\r\n", b"X: 1\r\n"], payload.as_bytes(), whole, history);
        assert_eq!(length, Ok(turn_request.request().len()));
        let request = String::from_utf8(turn_request.request().to_vec()).unwrap();
        if !answer.is_empty() {
            history.receive(turn, whole, answer);
        }
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(head, format!("HEAD\r\nX: 1\r\nContent-Length: {}", body.len()));
        body.to_owned()
    }

    #[test]
    fn each_turn_sends_all_that_was_said_before() {
        let mut history = History::default();
        let first = r#"{"model":"m","messages":[{"a":1}],"n":1}"#;
        assert_eq!(say(&mut history, first, 0, false, b"{\"b\":2}"), first);
        let second = say(&mut history, r#"{"messages":[ {"c":3} ]}"#, 1, false, b"");
        assert_eq!(second, r#"{"messages":[{"a":1},{"b":2},{"c":3}]}"#);
        assert_eq!(say(&mut History::default(), first, 0, false, b""), first, "another session");
        assert!(TurnRequest::default().write(&[b""], b"{}", false, &mut History::default()).is_err());
    }

    #[test]
    fn the_input_of_the_responses_api_goes_on_as_messages_do() {
        let mut history = History::default();
        let first = r#"{"model":"m","input":[{"a":1}],"max_output_tokens":5}"#;
        assert_eq!(say(&mut history, first, 0, false, b"{\"b\":2}"), first);
        let second = say(&mut history, r#"{"input":[{"c":3}]}"#, 1, false, b"");
        assert_eq!(second, r#"{"input":[{"a":1},{"b":2},{"c":3}]}"#);
        let mut history = History::default();
        say(&mut history, r#"{"input":[{"a":1}]}"#, 0, true, br#"{"live":1}"#);
        let whole = say(&mut history, r#"{"input":[{"a":1},{"answer_of":0}]}"#, 1, true, b"");
        assert_eq!(whole, r#"{"input":[{"a":1},{"live":1}]}"#);
        for other in [&br#"{"input":"a"}"#[..], br#"{"input":["a"]}"#, br#"{"input":[]}"#] {
            assert!(TurnRequest::default().write(&[b""], other, false, &mut History::default()).is_err());
        }
    }

    #[test]
    fn a_session_is_forgotten_with_its_last_turn_and_is_another_when_it_begins_again() {
        let at = |start, end| SequencePosition { id: 7, start, end };
        let mut histories = Histories::default();
        let (first, second) = (histories.note_send(at(true, false)), histories.note_send(at(false, true)));
        histories.of(second).unwrap().receive(0, true, b"{}");
        histories.note_end(second);
        assert!(histories.of(first).is_some(), "a turn is under way");
        let again = histories.note_send(at(true, true));
        histories.note_end(first);
        assert!(histories.of(first).is_none() && histories.of(again).unwrap().answers.is_empty());
        histories.note_end(again);
        assert_eq!(histories.count(), 0);
    }

    #[test]
    fn completions_continue_the_text() {
        let mut history = History::default();
        assert_eq!(say(&mut history, r#"{"prompt":"a b"}"#, 0, false, &message("c")), r#"{"prompt":"a b"}"#);
        assert_eq!(say(&mut history, r#"{"prompt":"d"}"#, 1, false, b""), r#"{"prompt":"a b c d"}"#, "not answered");
        assert_eq!(say(&mut history, r#"{"prompt":"e"}"#, 2, false, b""), r#"{"prompt":"a b c e"}"#);
    }

    #[test]
    fn answers_stand_where_a_turn_refers_to_them() {
        let mut history = History::default();
        say(&mut history, r#"{"messages":[{"a":1}]}"#, 0, true, br#"{"live":1}"#);
        let payload =
            r#"{"messages":[{"a":1},{"role":"assistant","content":"r","answer_of":0},{"answer_of":7,"x":2}],"n":1}"#;
        let sent = say(&mut history, payload, 1, true, b"");
        assert_eq!(sent, r#"{"messages":[{"a":1},{"live":1},{"x":2}],"n":1}"#);
    }
}
