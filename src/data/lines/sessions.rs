//! Lines that are turns of conversations: genai-perf's, one a line with its `session_id`, and aiperf's, a list of `turns`.

use serde_json::{Value, from_str};

use crate::PromptForm;
use crate::lines::{Entry, Line, Lines, texts, whole};
use crate::members::Members;

/// The member with a conversation's name.
const SESSION: &str = "session_id";
/// The member with a pause, in milliseconds.
const DELAY: &str = "delay";
/// The member with the turns of a conversation.
const TURNS: &str = "turns";

/// What a line has to send, and which turn of which conversation it is, if of any.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) entry: Entry,
    pub(super) session: Option<String>,
    /// The pause after the answer, in milliseconds.
    pub(super) delay_ms: u64,
}

impl Lines {
    /// The requests of a line, which is that one of all files.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(super) fn steps(&mut self, line: Line, number: usize) -> Result<Vec<Step>, String> {
        match line {
            Line::Object(line) if is_conversation(&line) => match self.plays_sessions {
                true => self.conversation(line, number),
                false => Err("it is a conversation of aiperf's: --session-concurrency N plays such".to_owned()),
            },
            Line::Object(mut line) if self.plays_sessions => {
                let session = line.take(SESSION).filter(|name| name != "null").ok_or_else(no_session)?;
                let session = from_str(&session).unwrap_or(session);
                let delay_ms = delay_ms(&mut line)?;
                Ok(vec![Step { entry: self.entry(Line::Object(line))?, session: Some(session), delay_ms }])
            }
            Line::Text(_) if self.plays_sessions => Err(no_session()),
            line => Ok(vec![Step { entry: self.entry(line)?, session: None, delay_ms: 0 }]),
        }
    }

    /// The turns of a conversation. There, each has the pause before it.
    fn conversation(&mut self, mut line: Members, number: usize) -> Result<Vec<Step>, String> {
        let session = line.take(SESSION).filter(|name| name != "null").map(|name| from_str(&name).unwrap_or(name));
        let session: String = session.unwrap_or_else(|| format!("line {number}"));
        let turns = line.take(TURNS).and_then(|turns| from_str::<Vec<Members>>(&turns).ok());
        let turns =
            turns.filter(|turns| !turns.is_empty()).ok_or("its `turns` are no list of objects: write one per turn")?;
        let mut steps = Vec::<Step>::new();
        let mut system = None;
        for (number, mut turn) in (1..).zip(turns) {
            let named = |rule: String| format!("turn {number}: {rule}");
            let pause = delay_ms(&mut turn).map_err(named)?;
            let is_system = steps.is_empty() && turn.string("role").as_deref() == Some("system");
            if is_system && matches!(self.form, PromptForm::Messages | PromptForm::Unknown) && system.is_none() {
                system = Some(texts(&mut turn).map_err(named)?.join("\n"));
                continue;
            }
            let mut entry = self.entry(Line::Object(turn)).map_err(named)?;
            if let Entry::Body(body) = &mut entry
                && let Some(text) = system.take()
            {
                let messages = body.list("messages").and_then(|list| from_str::<Vec<Value>>(&format!("[{list}]")).ok());
                let first = serde_json::json!({ "role": "system", "content": text });
                let all: Vec<Value> = std::iter::once(first).chain(messages.unwrap_or_default()).collect();
                body.set("messages", &all.into());
            }
            if let Some(before) = steps.last_mut() {
                before.delay_ms = pause;
            }
            steps.push(Step { entry, session: Some(session.clone()), delay_ms: 0 });
        }
        if steps.is_empty() { Err("it has no turn of its user".to_owned()) } else { Ok(steps) }
    }
}

/// Whether a line is a list of turns, and has nothing that is sent as it is.
fn is_conversation(line: &Members) -> bool {
    let is_whole = ["messages", "text", "text_input", "prompt", "input"].iter().any(|name| line.has(name));
    line.list(TURNS).is_some() && !is_whole
}

fn no_session() -> String {
    "it has no session_id, by which --session-concurrency knows its conversation".to_owned()
}

/// The pause of a line, taken out of it.
fn delay_ms(line: &mut Members) -> Result<u64, String> {
    let Some(value) = line.take(DELAY).filter(|value| value != "null") else { return Ok(0) };
    let rounded =
        || value.parse::<f64>().ok().filter(|number| (0.0..1e15).contains(number)).map(|number| number.round() as u64);
    whole(&value)
        .or_else(rounded)
        .ok_or_else(|| format!("its delay is {value}, and a pause is a number of milliseconds"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(form: PromptForm, plays: bool, value: &Value) -> Result<Vec<Step>, String> {
        let mut lines = Lines { plays_sessions: plays, ..Lines::new(form) };
        lines.steps(Line::read(value.to_string().as_bytes()).unwrap(), 4)
    }

    /// The messages of each turn, its conversation, and the pause after it.
    fn turns(value: &Value) -> Vec<(Value, String, u64)> {
        let turn = |step: Step| {
            let Entry::Body(body) = step.entry else { panic!("a text") };
            let body: Value = serde_json::from_slice(&body.text()).unwrap();
            (body["messages"].clone(), step.session.unwrap(), step.delay_ms)
        };
        steps(PromptForm::Messages, true, value).unwrap().into_iter().map(turn).collect()
    }

    #[test]
    fn a_line_is_a_turn_of_its_session() {
        let said = |text: &str| json!([{ "role": "user", "content": text }]);
        let line = json!({"session_id": "a", "delay": 5, "text": "hi"});
        assert_eq!(turns(&line), [(said("hi"), "a".to_owned(), 5)]);
        assert_eq!(turns(&json!({"session_id": 7, "text": "hi"})), [(said("hi"), "7".to_owned(), 0)]);
        for value in [json!({"text": "hi"}), json!("hi")] {
            assert!(steps(PromptForm::Messages, true, &value).unwrap_err().contains("it has no session_id"), "{value}");
            assert!(steps(PromptForm::Messages, false, &value).unwrap()[0].session.is_none());
        }
        let error = steps(PromptForm::Messages, true, &json!({"session_id": "a", "text": "x", "delay": "soon"}));
        assert!(error.unwrap_err().contains("its delay is \"soon\""));
    }

    #[test]
    fn a_line_may_be_a_whole_conversation() {
        let line = json!({"session_id": "a", "turns": [
            {"role": "system", "text": "be brief"}, {"text": "hi", "delay": 900}, {"text": "and?", "delay": 20.4}, {"text": "so"}]});
        let said = |text: &str| json!({ "role": "user", "content": text });
        let first = json!([{ "role": "system", "content": "be brief" }, said("hi")]);
        let name = "a".to_owned();
        assert_eq!(
            turns(&line),
            [(first, name.clone(), 20), (json!([said("and?")]), name.clone(), 0), (json!([said("so")]), name, 0)]
        );
        assert_eq!(turns(&json!({"turns": [{"text": "hi"}]}))[0].1, "line 4");
        let refused = |plays, value: Value| steps(PromptForm::Messages, plays, &value).unwrap_err();
        assert!(refused(false, line).contains("--session-concurrency N plays such"));
        assert!(
            refused(true, json!({"turns": [{"text": "a"}, {"image": "b"}]})).starts_with("turn 2: it is no prompt")
        );
        assert!(refused(true, json!({"turns": []})).contains("no list of objects"));
        let of_parts =
            json!({"session_id": null, "turns": [{"role": "system", "texts": ["be", "brief"]}, {"text": "hi"}]});
        let first = json!([{ "role": "system", "content": "be\nbrief" }, said("hi")]);
        assert_eq!(turns(&of_parts), [(first, "line 4".to_owned(), 0)]);
    }

    #[test]
    fn a_body_with_a_number_of_turns_is_sent_as_it_is() {
        let body = json!({"prompt": "hi", "turns": 1});
        assert_eq!(steps(PromptForm::Prompt, false, &body).unwrap().len(), 1);
        let unnamed = json!({"session_id": null, "text": "hi"});
        assert!(steps(PromptForm::Messages, true, &unnamed).unwrap_err().contains("it has no session_id"));
    }
}
