//! Lines that are turns of conversations: genai-perf's, one a line with its `session_id`, aiperf's, a list of `turns`, and
//! guidellm's, whose members have the numbers of their turns.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use crate::PromptForm;
use crate::lengths::{BlockCount, MAX_TOKENS, block_size};
use crate::lines::said::{self, is_any};
use crate::lines::{Entry, Line, Lines};
use crate::members::Members;
use crate::prompts::{Draws, size_note};
use crate::seed::Purpose;
use crate::text::whole_number;

/// The member with a conversation's name.
const SESSION: &str = "session_id";
/// The member with a pause, in milliseconds.
const DELAY: &str = "delay";
/// The member with the turns of a conversation.
const TURNS: &str = "turns";
/// Members of a turn that start other sessions, as aiperf's graphs of sessions have them.
const STARTED: [&str; 2] = ["forks", "spawns"];
/// Members of turns that have their turn's number behind their name.
const NUMBERED: [&str; 5] = ["prompt", "output_tokens_count", "prompt_tokens_count", "prefix", "system_prompt"];
/// The member that says whether messages are the whole conversation so far (`history`), or its latest ones (`delta`).
const MODE: &str = "message_mode";
/// The member with the tokens of a prompt that was recorded without its words.
const TOKENS: &str = "input_length";
/// The member with the numbers of its blocks, of which equal ones are equal text, and the tokens of a block.
const BLOCKS: &str = "hash_ids";
pub(super) const BLOCK_TOKENS: u64 = 512;

/// What a line has to send, and which turn of which conversation it is, if of any.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) entry: Entry,
    pub(super) session: Option<String>,
    /// The pause after the answer, in milliseconds.
    pub(super) delay_ms: u64,
    /// The turn before it, if it holds the whole conversation so far: it is sent as it is.
    pub(super) follows: Option<u32>,
}

/// What the lines of a session have said so far.
#[derive(Default)]
pub(super) struct Session {
    turns: u32,
    /// The messages of the last one, each as a number.
    messages: Vec<u64>,
    /// Whether a line holds the whole conversation.
    is_whole: bool,
}

impl Session {
    /// Takes in a turn. Returns the turn before it, if it holds the whole conversation.
    fn add(&mut self, entry: &Entry, mode: Option<&str>) -> Option<u32> {
        let before = self.turns.checked_sub(1);
        self.turns += 1;
        let messages = match entry {
            Entry::Body(body) => messages(body),
            Entry::Prompt(_) => Vec::new(),
        };
        let goes_on = !self.messages.is_empty()
            && messages.get(self.messages.len()).is_some_and(|next| next.is_answer)
            && self.messages.iter().zip(&messages).all(|(earlier, message)| *earlier == message.number);
        self.is_whole = match mode {
            Some("history") => true,
            Some("delta") => false,
            _ => self.is_whole || goes_on,
        };
        self.messages = messages.into_iter().map(|message| message.number).collect();
        before.filter(|_| mode == Some("history") || (self.is_whole && !self.messages.is_empty()))
    }
}

/// A message of a body.
struct Message {
    /// That of its text.
    number: u64,
    /// Whether a model said it, and not its user.
    is_answer: bool,
}

/// The messages of a body; none if it has none.
fn messages(body: &Members) -> Vec<Message> {
    let text = body.get("messages").or_else(|| body.get("input")).unwrap_or_default();
    let message = |raw: &RawValue| {
        let mut hasher = DefaultHasher::new();
        raw.get().hash(&mut hasher);
        let role = from_str::<Members>(raw.get()).ok().and_then(|message| message.string("role"));
        Message { number: hasher.finish(), is_answer: role.is_none_or(|role| role == "assistant") }
    };
    from_str::<Vec<&RawValue>>(text).unwrap_or_default().into_iter().map(message).collect()
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
                false => Err("it is a conversation of several turns: --session-concurrency N plays such".to_owned()),
            },
            Line::Object(mut line) if self.plays_sessions => {
                // Before what it is known by is taken out.
                if self.form.takes_no_input()
                    && said::is_in_input(&line)
                    && let Some(text) = line.take("input")
                {
                    // It is JSON, as it comes from there.
                    let _ = line.set_text("text", &text);
                }
                let session = line.take(SESSION).filter(|name| name != "null").ok_or_else(no_session)?;
                let session = from_str(&session).unwrap_or(session);
                let delay_ms = delay_ms(&mut line)?;
                let mode = line.take(MODE).and_then(|mode| from_str::<String>(&mode).ok());
                // aiperf sends its payloads, and what it calls single turns, one after the other, but as they are.
                let stands_alone = line.has("payload") || line.string("type").is_some_and(|kind| kind == "single_turn");
                let mode = mode.as_deref().or(stands_alone.then_some("history"));
                // Where each line has the whole conversation, each says what the system does.
                if mode != Some("history") && self.sessions.contains_key(&session) {
                    self.say_once(&mut line);
                }
                let entry = self.entry(Line::Object(line))?;
                let follows = self.sessions.entry(session.clone()).or_default().add(&entry, mode);
                Ok(vec![Step { entry, session: Some(session), delay_ms, follows }])
            }
            Line::Text(_) if self.plays_sessions => Err(no_session()),
            line => Ok(vec![Step { entry: self.entry(line)?, session: None, delay_ms: 0, follows: None }]),
        }
    }

    /// Takes out of a later turn what the system says, where the history holds that from the first turn on.
    fn say_once(&self, turn: &mut Members) {
        let is_beside = matches!(self.form, PromptForm::AnthropicMessages | PromptForm::Responses);
        if !is_beside && !turn.has("messages") && !turn.has("input") {
            drop(said::system(turn));
        }
    }

    /// The turns of a conversation. There, each has the pause before it.
    fn conversation(&mut self, mut line: Members, number: usize) -> Result<Vec<Step>, String> {
        let session = line.take(SESSION).filter(|name| name != "null").map(|name| from_str(&name).unwrap_or(name));
        let session: String = session.unwrap_or_else(|| format!("line {number}"));
        let listed = line.take(TURNS);
        let listed = listed.as_deref().map(|turns| from_str::<Vec<&RawValue>>(turns).unwrap_or_default());
        let turns: Option<Vec<Members>> = match listed {
            Some(turns) => turns.into_iter().map(turn).collect(),
            None => Some(numbered(&mut line)),
        };
        let turns = turns
            .filter(|turns| !turns.is_empty())
            .ok_or("its `turns` are no list of objects or texts: write one per turn")?;
        let (mut steps, mut system) = (Vec::<Step>::new(), Vec::from_iter(said::system(&mut line)));
        self.take_type(&mut line);
        self.leave_out_all(&line);
        for (number, mut turn) in (1..).zip(turns) {
            let named = |rule: String| format!("turn {number}: {rule}");
            starts_none(&mut turn).map_err(named)?;
            let pause = delay_ms(&mut turn).map_err(named)?;
            let is_system = steps.is_empty() && turn.string("role").as_deref() == Some("system");
            if is_system
                && self.form.holds_messages()
                && let Some(texts) = said::texts(&mut turn).map_err(named)?
            {
                system.extend(texts);
                continue;
            }
            if !steps.is_empty() {
                self.say_once(&mut turn);
            }
            let mut entry = self.entry(Line::Object(turn)).map_err(named)?;
            if let Entry::Body(body) = &mut entry
                && !system.is_empty()
            {
                self.tell(body, &system.join("\n"), steps.is_empty());
            }
            let (before, delay_ms) = if self.waits_before { (0, pause) } else { (pause, 0) };
            if let Some(step) = steps.last_mut() {
                step.delay_ms += before;
            }
            steps.push(Step { entry, session: Some(session.clone()), delay_ms, follows: None });
        }
        if steps.is_empty() { Err("it has no turn of its user".to_owned()) } else { Ok(steps) }
    }

    /// A prompt of the tokens that were recorded, where the words were not; nothing if there are words, or nothing goes on from
    /// them: other prompts are drawn by --prompt-tokens.
    ///
    /// # Errors
    /// If it is no number of tokens.
    pub(super) fn words_of_length(&mut self, line: &mut Members) -> Result<Option<String>, String> {
        if !self.plays_sessions || is_any(line) {
            return Ok(None);
        }
        let Some(value) = line.take(TOKENS).filter(|value| value != "null") else { return Ok(None) };
        let tokens = whole_number(&value).filter(|tokens| (1..=u64::from(MAX_TOKENS)).contains(tokens));
        let tokens = tokens.ok_or_else(|| {
            format!("its {TOKENS} is {value}, and a prompt has a whole number of tokens from 1 to {MAX_TOKENS}")
        })?;
        let blocks: Vec<u64> = line.take(BLOCKS).and_then(|blocks| from_str(&blocks).ok()).unwrap_or_default();
        self.drawn += 1;
        let draws = Draws::new(self.seed, Purpose::Prompts, self.drawn);
        Ok(Some(draws.words_of_blocks(tokens, &blocks, self.block_tokens, self.seed)))
    }

    /// What is to be said of the sessions.
    pub(super) fn warnings_of_sessions(&self) -> Vec<String> {
        let notes = [
            (
                self.waits_before,
                "pauses (`delay`) are before the turns that they stand with, as aiperf has them: sessions have one with their \
                 last turn and none with their first",
            ),
            (
                self.sessions.values().any(|session| session.is_whole),
                "turns that hold their conversation so far are sent as they are, and answers are not added to the next",
            ),
            (
                self.drawn > 0,
                "lines with an `input_length` and no text have prompts of so many common words; how many tokens that is depends \
                 on the server's tokenizer",
            ),
        ];
        let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| format!("--input-data: {note}"));
        let size = size_note("--input-data", BLOCK_TOKENS, self.block_tokens).filter(|_| self.drawn > 0);
        notes.chain(size).collect()
    }
}

/// Whether pauses stand with the turns that they come before: some session has one with its last turn and none with its first,
/// and none has it the other way round, which is how genai-perf writes them.
pub(super) fn wait_before<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    #[derive(Deserialize)]
    struct Turn {
        session_id: Option<Value>,
        delay: Option<f64>,
    }
    /// Whether the first and the last turn of a session have a pause.
    #[derive(Clone, Copy)]
    struct Ends {
        first: bool,
        last: bool,
    }
    let mut sessions = HashMap::<String, Ends>::new();
    for line in lines {
        let Ok(Turn { session_id: Some(session), delay }) = from_slice(line) else { continue };
        let waits = delay.is_some_and(|delay| delay > 0.0);
        sessions.entry(session.to_string()).or_insert(Ends { first: waits, last: waits }).last = waits;
    }
    sessions.values().any(|ends| ends.last) && !sessions.values().any(|ends| ends.first)
}

/// Tokens of a block of the prompts that were recorded without their words.
pub(super) fn block_tokens<'a>(lines: impl Iterator<Item = &'a [u8]>) -> u64 {
    #[derive(Deserialize)]
    struct Prompt {
        input_length: u64,
        hash_ids: Vec<u64>,
    }
    let prompt = |line| from_slice::<Prompt>(line).ok();
    let counts = lines
        .filter_map(prompt)
        .map(|prompt| BlockCount { tokens: prompt.input_length, blocks: prompt.hash_ids.len() });
    block_size(BLOCK_TOKENS, counts)
}

/// Gives each turn the pause that stands with the next one of its session.
pub(super) fn give_to_turn_before(steps: &mut [Step]) {
    let mut last = HashMap::<String, usize>::new();
    for number in 0..steps.len() {
        let Some(session) = steps[number].session.clone() else { continue };
        let pause = std::mem::take(&mut steps[number].delay_ms);
        if let Some(before) = last.insert(session, number) {
            steps[before].delay_ms = pause;
        }
    }
}

/// A turn of a list, which may be just its text.
fn turn(raw: &RawValue) -> Option<Members> {
    let text = raw.get();
    let is_text = text.starts_with('"');
    from_str(&if is_text { format!("{{\"text\":{text}}}") } else { text.to_owned() }).ok()
}

/// Takes out of a turn which sessions it starts.
///
/// # Errors
/// If it starts any: as sessions that begin by themselves they would be another load.
fn starts_none(turn: &mut Members) -> Result<(), String> {
    let is_any = |list: String| from_str::<Vec<&RawValue>>(&list).is_ok_and(|all| !all.is_empty());
    let started = STARTED.into_iter().filter(|name| turn.take(name).is_some_and(is_any)).collect::<Vec<_>>();
    match started.first() {
        None => Ok(()),
        Some(name) => Err(format!(
            "its `{name}` start other sessions in the midst of this one, which is not played: leave them out, so that every \
             session begins by itself"
        )),
    }
}

/// The turns of a line that numbers its members, taken out of it.
fn numbered(line: &mut Members) -> Vec<Members> {
    let mut turns = BTreeMap::<u32, Members>::new();
    let names: Vec<String> = line.names().map(str::to_owned).collect();
    for name in &names {
        if let Some(Numbered { member, turn }) = Numbered::of(name)
            && let Some(value) = line.take(name).filter(|value| value != "null")
        {
            // It is JSON, as it comes from there.
            let _ = turns.entry(turn).or_default().set_text(member, &value);
        }
    }
    turns.into_values().collect()
}

/// A member of a turn, as guidellm's data sets name it, such as `prompt_0` and `output_tokens_count_0`.
struct Numbered<'a> {
    member: &'a str,
    turn: u32,
}

impl<'a> Numbered<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let (member, turn) = name.rsplit_once('_')?;
        NUMBERED.contains(&member).then_some(())?;
        Some(Self { member, turn: turn.parse().ok()? })
    }
}

/// Whether a line is a list of turns, or numbers them, and has nothing that is sent as it is.
fn is_conversation(line: &Members) -> bool {
    let has = |name: &&str| line.get(name).is_some_and(|value| value != "null");
    let is_whole = ["messages", "text", "text_input", "prompt", "input"].iter().any(has);
    let is_numbered = || line.names().any(|name| Numbered::of(name).is_some_and(|found| found.member == NUMBERED[0]));
    !is_whole && (line.list(TURNS).is_some() || is_numbered())
}

fn no_session() -> String {
    "it has no session_id, by which --session-concurrency knows its conversation".to_owned()
}

/// The pause of a line, taken out of it.
fn delay_ms(line: &mut Members) -> Result<u64, String> {
    let Some(value) = line.take(DELAY).filter(|value| value != "null") else { return Ok(0) };
    let rounded =
        || value.parse::<f64>().ok().filter(|number| (0.0..1e15).contains(number)).map(|number| number.round() as u64);
    whole_number(&value)
        .or_else(rounded)
        .ok_or_else(|| format!("its delay is {value}, and a pause is a number of milliseconds"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::PromptForm;

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
        assert!(refused(true, json!({"turns": [{"text": "a"}, {"user": "b"}]})).starts_with("turn 2: it is no prompt"));
        assert!(refused(true, json!({"turns": []})).contains("no list of objects"));
        let starting = |name: &str, others: Value| json!({"turns": [{"text": "a"}, {"text": "b", name: others}]});
        for (name, others) in [("forks", json!(["x"])), ("spawns", json!([{"children": ["x", "y"], "join_at": 2}]))] {
            let error = refused(true, starting(name, others));
            assert!(error.starts_with(&format!("turn 2: its `{name}` start other sessions")), "{error}");
        }
        let Entry::Body(alone) =
            steps(PromptForm::Prompt, true, &starting("forks", json!([]))).unwrap().remove(1).entry
        else {
            panic!("a text")
        };
        assert_eq!(alone.text(), br#"{"prompt":"b"}"#);
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

    /// The bodies of lines, and the turns that they follow as whole conversations.
    fn all_bodies(form: PromptForm, all: &[Value]) -> (Vec<Value>, Vec<Option<u32>>, Vec<String>) {
        let mut lines = Lines { plays_sessions: true, ..Lines::new(form) };
        let (mut bodies, mut follows) = (Vec::new(), Vec::new());
        for value in all {
            for step in lines.steps(Line::read(value.to_string().as_bytes()).unwrap(), 1).unwrap() {
                let Entry::Body(body) = step.entry else { panic!("a text") };
                bodies.push(serde_json::from_slice(&body.text()).unwrap());
                follows.push(step.follows);
            }
        }
        (bodies, follows, lines.warnings())
    }

    #[test]
    fn what_the_system_says_stands_where_the_endpoint_takes_it() {
        let line = json!({"turns": [{"role": "system", "text": "be brief"}, {"role": "system", "text": "be kind"}, "hi", "so?"]});
        let said = |text: &str| json!([{ "role": "user", "content": text }]);
        let (bodies, ..) = all_bodies(PromptForm::AnthropicMessages, std::slice::from_ref(&line));
        for (body, text) in bodies.iter().zip(["hi", "so?"]) {
            assert_eq!((&body["messages"], &body["system"]), (&said(text), &json!("be brief\nbe kind")));
        }
        let (bodies, ..) = all_bodies(PromptForm::Responses, &[line]);
        for (body, text) in bodies.iter().zip(["hi", "so?"]) {
            assert_eq!((&body["input"], &body["instructions"]), (&said(text), &json!("be brief\nbe kind")));
        }
        assert_eq!(bodies.len(), 2);
    }

    #[test]
    fn what_the_system_says_stands_once_in_a_history() {
        let line = |text: &str| json!({"session_id": "a", "system_prompt": "be brief", "text": text});
        let (bodies, ..) = all_bodies(PromptForm::Messages, &[line("hi"), line("so?")]);
        assert_eq!(bodies[1], json!({"messages": [{"role": "user", "content": "so?"}]}));
        let (bodies, ..) = all_bodies(PromptForm::AnthropicMessages, &[line("hi"), line("so?")]);
        assert_eq!(bodies[1]["system"], "be brief");
        let whole =
            |text: &str| json!({"session_id": "a", "message_mode": "history", "system_prompt": "S", "prompt": text});
        let (bodies, ..) = all_bodies(PromptForm::Prompt, &[whole("hi"), whole("hi so?")]);
        assert_eq!(bodies[1]["prompt"], "S hi so?", "a history of its own");
        let recorded = |text: &str| json!({"session_id": "a", "delay": 9, "input": text, "system_prompt": "S", "input_length": 50});
        let (bodies, ..) = all_bodies(PromptForm::Messages, &[recorded("hi"), recorded("so?")]);
        assert_eq!(bodies[1], json!({"messages": [{"role": "user", "content": "so?"}]}));
    }

    #[test]
    fn turns_may_be_numbered_members() {
        let line = json!({"prefix": "be brief", "prompt_0": "hi", "output_tokens_count_0": 5, "prompt_10": "so?", "prompt_2": "and?", "prompt_11": null});
        let (bodies, ..) = all_bodies(PromptForm::Messages, std::slice::from_ref(&line));
        let user = |text: &str| json!({ "role": "user", "content": text });
        let wanted = [
            json!({ "messages": [{ "role": "system", "content": "be brief" }, user("hi")], "max_tokens": 5 }),
            json!({ "messages": [user("and?")] }),
            json!({ "messages": [user("so?")] }),
        ];
        assert_eq!(bodies, wanted);
        assert!(steps(PromptForm::Messages, false, &line).unwrap_err().contains("--session-concurrency N plays"));
    }

    #[test]
    fn members_beside_turns_are_named() {
        let line = json!({"session_id": "a", "question_id": 81, "type": "multi_turn", "model": null, "turns": ["hi"]});
        let (bodies, _, warnings) = all_bodies(PromptForm::Messages, &[line]);
        assert_eq!(bodies, [json!({"messages": [{"role": "user", "content": "hi"}]})]);
        assert!(warnings.len() == 1 && warnings[0].ends_with("are not sent: question_id"), "{warnings:?}");
    }

    #[test]
    fn turns_that_hold_their_conversation_are_sent_as_they_are() {
        let user = |text: &str| json!({ "role": "user", "content": text });
        let answer = json!({ "role": "assistant", "content": "Hi!" });
        let line =
            |messages: Value| json!({ "session_id": "a", "messages": messages, "output_length": 50, "timestamp": 0 });
        let first = line(json!([user("Hello")]));
        let second = line(json!([user("Hello"), answer, user("How are you?")]));
        let (bodies, follows, warnings) = all_bodies(PromptForm::Messages, &[first.clone(), second.clone()]);
        assert_eq!(bodies[1], json!({ "messages": second["messages"], "max_tokens": 50 }));
        assert_eq!(follows, [None, Some(0)]);
        assert!(
            warnings[0].contains("are sent as they are") && warnings[1].ends_with("not sent: timestamp"),
            "{warnings:?}"
        );
        // A turn of its own, and another one that says the same.
        let (_, follows, _) = all_bodies(PromptForm::Messages, &[first.clone(), line(json!([user("And?")])), first]);
        assert_eq!(follows, [None; 3]);
        let mut delta = second;
        delta["message_mode"] = json!("delta");
        let (bodies, follows, _) = all_bodies(PromptForm::Messages, &[line(json!([user("Hello")])), delta]);
        assert_eq!((follows[1], bodies[1].get("message_mode")), (None, None));
    }

    #[test]
    fn single_turns_of_a_session_are_sent_as_they_are() {
        let line = |text: &str| json!({"type": "single_turn", "session_id": "a", "text": text, "system_prompt": "s"});
        let (bodies, follows, _) = all_bodies(PromptForm::Messages, &[line("x"), line("y")]);
        let messages = json!([{ "role": "system", "content": "s" }, { "role": "user", "content": "y" }]);
        assert_eq!((&bodies[1], follows), (&json!({ "messages": messages }), vec![None, Some(0)]));
    }

    #[test]
    fn pauses_before_their_turns_are_known_by_the_last_of_a_session() {
        let is_before = |text: &str| wait_before(text.split('\n').map(str::as_bytes));
        let (genai, aiperf) = (
            r#"{"session_id":"a","delay":9,"text":"x"}"#.to_owned() + "\n" + r#"{"session_id":"a","text":"y"}"#,
            r#"{"session_id":"a","delay":0,"text":"x"}"#.to_owned()
                + "\n"
                + r#"{"session_id":"a","delay":9,"text":"y"}"#,
        );
        assert!(is_before(&aiperf) && !is_before(&genai));
        assert!(!is_before(&format!("{}\n{aiperf}", genai.replace("\"a\"", "\"b\""))), "both");
        let odd = aiperf.replace("\"a\"", "\"b\"").replace("\"delay\":0", "\"delay\":3");
        assert!(!is_before(&format!("{aiperf}\n{odd}")), "one session may begin without a pause by chance");
        assert!(!is_before(r#"{"session_id":"a","delay":9,"text":"x"}"#) && !is_before("\"x\""));
        let step = |session: &str, delay_ms| Step {
            entry: Entry::Prompt(String::new()),
            session: Some(session.to_owned()),
            delay_ms,
            follows: None,
        };
        let mut steps = [step("a", 0), step("b", 4), step("a", 5), step("b", 6)];
        give_to_turn_before(&mut steps);
        assert_eq!(steps.map(|step| step.delay_ms), [5, 6, 0, 0]);
    }

    #[test]
    fn blocks_of_a_file_have_the_size_that_its_prompts_say() {
        let line =
            |tokens: u64, ids: &[u64]| json!({"session_id": "a", "input_length": tokens, "hash_ids": ids}).to_string();
        let usual = [line(600, &[1, 2]), line(1200, &[1, 2, 3])];
        let small = [line(100, &[1, 2]), line(190, &[1, 2, 3]), json!({"session_id": "a", "text": "x"}).to_string()];
        let size = |lines: &[String]| block_tokens(lines.iter().map(String::as_bytes));
        assert_eq!((size(&usual), size(&small)), (BLOCK_TOKENS, 64));
        let mut lines = Lines { plays_sessions: true, block_tokens: 64, ..Lines::new(PromptForm::Messages) };
        let mut words = |line: &String| {
            let Entry::Body(body) = lines.steps(Line::read(line.as_bytes()).unwrap(), 1).unwrap().remove(0).entry
            else {
                panic!("a text")
            };
            let body: Value = from_slice(&body.text()).unwrap();
            body["messages"][0]["content"].as_str().unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>()
        };
        let (first, second) = (words(&small[0]), words(&small[1]));
        assert_eq!((first.len(), &first[..100]), (100, &second[..100]), "both blocks are shared");
        assert!(lines.warnings().iter().any(|note| note.ends_with("a block is taken to be 64")));
    }

    #[test]
    fn a_turn_may_have_a_recorded_length_and_no_words() {
        let line = json!({"session_id": "a", "delay": 1000, "input_length": 50, "output_length": 10});
        let (bodies, ..) = all_bodies(PromptForm::Messages, &[line.clone(), line.clone()]);
        let text = |body: &Value| body["messages"][0]["content"].as_str().unwrap().to_owned();
        assert_eq!((text(&bodies[0]).split(' ').count(), &bodies[0]["max_tokens"]), (50, &json!(10)));
        assert_eq!(bodies[0].as_object().unwrap().len(), 2);
        assert_ne!(text(&bodies[0]), text(&bodies[1]));
        let blocks = |ids: &[u64]| json!({"session_id": "a", "input_length": 600, "hash_ids": ids});
        let (bodies, _, warnings) = all_bodies(PromptForm::Messages, &[blocks(&[7, 8]), blocks(&[7, 9])]);
        let words = |body: &Value| text(body).split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (one, other) = (words(&bodies[0]), words(&bodies[1]));
        assert_eq!((one.len(), &one[..512]), (600, &other[..512]), "equal blocks are equal text");
        assert_ne!(one[512..], other[512..]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let refused = |line: &Value| steps(PromptForm::Messages, true, line).unwrap_err();
        assert!(refused(&json!({"session_id": "a", "input_length": 0})).contains("from 1 to"));
        assert!(steps(PromptForm::Messages, false, &line).unwrap_err().contains("use --prompt-tokens trace:FILE"));
    }
}
