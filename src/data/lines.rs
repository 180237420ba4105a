//! Prompts from JSON Lines: one object or string a line. A string, and an object with a `text`, a `text_input` (genai-perf's
//! other name of it), a `prompt` alone or `content` (vLLM's), become what the endpoint takes; an object that is a request's body is
//! sent as it is, but for what tools record beside it.

mod recorded;
mod said;
mod sessions;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde_json::{Value, from_slice, from_str, json};

use crate::PromptForm;
use crate::dataset::Prompt;
use crate::documents::{Documents, TurnOf};
use crate::error::{Error, Result};
use crate::media::text_part;
use crate::members::Members;
use crate::shm::map_text;
use crate::steps::{Loaded, Target};
use crate::text::{fault_in_line, plain_text, whole_number};

use recorded::{NO_FIELDS, add_extra, is_recorded};
use said::{Said, has_more};
use sessions::{Session, Step};

/// Members that limit the output tokens of a prompt, as different tools write them.
const LIMITS: [&str; 8] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "output_tokens",
    "output_length",
    "output_len",
    "output_tokens_count",
    "completion_tokens_count",
];
/// Members of bodies of other endpoints: TGI's and those of embeddings, those that rank and score, and vLLM's and SGLang's own.
const BODIES: [&str; 8] =
    ["inputs", "query", "queries", "text_1", "items", "token_ids", "input_ids", "sampling_params"];
/// What a line is, for messages.
const NO_PROMPT: &str = "it is no prompt; each line is a JSON string or an object with messages, prompt, input or text";

/// What is wrong with texts that are to be ranked, which every endpoint takes under other names.
const TO_BE_RANKED: &str = "its `texts` are a query and the passages to be ranked for it, and how --endpoint takes these is not \
    known: write its body in a line, such as {\"query\": \"a\", \"documents\": [\"b\", \"c\"]}";

/// Whether a file is one of lines, by its name.
pub fn is_lines(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("jsonl") || end.eq_ignore_ascii_case("ndjson"))
}

/// Reads files one after the other into one stream.
///
/// # Errors
/// If the model's requests are not JSON documents, or a line is no prompt; the message names file, line and rule.
pub(crate) fn load(target: &Target<'_>, files: &[PathBuf], form: PromptForm) -> Result<Loaded> {
    let mut payloads = Documents::of_form(target, form)?;
    let plays_sessions = target.model.inputs.iter().any(|input| input.name == "session_id");
    let mapped = files.iter().map(|path| map_text(path)).collect::<Result<Vec<_>>>()?;
    let named = |path: &Path, rule: String| Error::input(format!("{}: {rule}", path.display()));
    let texts = files.iter().zip(&mapped).map(|(path, text)| plain_text(text).map_err(|rule| named(path, rule)));
    let texts = texts.collect::<Result<Vec<&[u8]>>>()?;
    let mut lines = Lines { plays_sessions, seed: target.spec.seed, ..Lines::new(form) };
    let all = || texts.iter().flat_map(|text| filled(text)).map(|(_, line)| line);
    if plays_sessions {
        (lines.waits_before, lines.block_tokens) = (sessions::wait_before(all()), sessions::block_tokens(all()));
    }
    // Where a pause stands with the turn that it comes before, it belongs to a turn that was read earlier.
    let mut held = Vec::new();
    let mut earlier = 0;
    for (path, text) in files.iter().zip(texts) {
        let refuse =
            |number: usize, rule: &str| Error::input(format!("{}, line {}: {rule}", path.display(), number + 1));
        for (number, line) in filled(text) {
            let line =
                Line::read(line).map_err(|error| refuse(number, &format!("no JSON: {}", fault_in_line(&error))))?;
            for step in lines.steps(line, earlier + number + 1).map_err(|rule| refuse(number, &rule))? {
                match lines.waits_before {
                    true => held.push(step),
                    false => add(&mut payloads, step, form)?,
                }
            }
        }
        earlier += text.split(|byte| *byte == b'\n').count();
    }
    sessions::give_to_turn_before(&mut held);
    held.into_iter().try_for_each(|step| add(&mut payloads, step, form))?;
    if payloads.is_empty() {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::input(format!("{}: there is no prompt; write one a line", names.join(", "))));
    }
    Ok(payloads.loaded(lines.warnings()))
}

/// The lines of a text that are not empty, and their numbers from 0 on.
fn filled(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines.filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
}

/// Adds the payload of a line, or of a turn in it.
fn add(payloads: &mut Documents<'_, '_>, step: Step, form: PromptForm) -> Result<()> {
    let Step { entry, session, delay_ms, follows } = step;
    let after = follows.as_ref().map(|before| (std::slice::from_ref(before), 0));
    let turn = session.as_deref().map(|session| TurnOf { session, delay_ms, after });
    match entry {
        Entry::Prompt(text) => payloads.add(&Prompt::Text(text).fields(form), form.least_output(), turn.as_ref()),
        Entry::Body(body) => payloads.add_body(body, turn.as_ref()),
    }
}

/// A line as JSON.
enum Line {
    Text(String),
    Object(Members),
    Other,
}

impl Line {
    fn read(line: &[u8]) -> serde_json::Result<Self> {
        match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'"') => from_slice(line).map(Self::Text),
            Some(b'{') => from_slice(line).map(Self::Object),
            _ => from_slice::<IgnoredAny>(line).map(|_| Self::Other),
        }
    }
}

/// What a line is.
#[derive(Debug)]
enum Entry {
    Prompt(String),
    Body(Members),
}

/// Reads lines, for an endpoint that takes prompts in a form.
struct Lines {
    form: PromptForm,
    /// Whether requests are turns of conversations.
    plays_sessions: bool,
    /// Whether a pause stands with the turn that it comes before.
    waits_before: bool,
    /// What the sessions of earlier lines have said.
    sessions: HashMap<String, Session>,
    /// By which prompts of recorded lengths are drawn, how many were, and the tokens of their blocks.
    seed: u64,
    drawn: u64,
    block_tokens: u64,
    /// A line was a prompt, and not a body.
    has_prompts: bool,
    /// Members that are not sent.
    left_out: BTreeSet<String>,
}

impl Lines {
    fn new(form: PromptForm) -> Self {
        Self {
            form,
            plays_sessions: false,
            waits_before: false,
            sessions: HashMap::new(),
            seed: 0,
            drawn: 0,
            block_tokens: sessions::BLOCK_TOKENS,
            has_prompts: false,
            left_out: BTreeSet::new(),
        }
    }

    /// What a line is.
    ///
    /// # Errors
    /// The rule that it breaks.
    fn entry(&mut self, line: Line) -> Result<Entry, String> {
        match line {
            Line::Text(text) => {
                self.has_prompts = true;
                Ok(Entry::Prompt(text))
            }
            Line::Object(line) => {
                let line = self.of_batch(line)?;
                let line = self.of_payload(line);
                let line = self.of_chat(line);
                let body = if self.is_whole(&line) { self.whole(line) } else { self.body(line) };
                body.map(Entry::Body)
            }
            Line::Other => Err(NO_PROMPT.to_owned()),
        }
    }

    /// The body within a line of a batch file of OpenAI's, which vLLM's run-batch reads, too; any other line as it is.
    ///
    /// # Errors
    /// If it is for another endpoint, which would refuse it, or answer something else.
    fn of_batch(&self, line: Members) -> Result<Members, String> {
        let is_request = ["custom_id", "method", "url"].iter().any(|name| line.has(name));
        let Some(body) = line.object("body").filter(|_| is_request) else { return Ok(line) };
        let Some(url) = line.string("url") else { return Ok(body) };
        let form = PromptForm::of_endpoint(&url);
        let is_another = form != self.form && form != PromptForm::Unknown && self.form != PromptForm::Unknown;
        match is_another {
            true => Err(format!(
                "it is for '{url}', and all requests go to --endpoint, which takes others: name that endpoint, and keep requests \
                 for others in a file of their own"
            )),
            false => Ok(body),
        }
    }

    /// Whether an object is a body of the endpoint, as far as can be told.
    fn is_whole(&self, line: &Members) -> bool {
        // Tables have every column in every line.
        let has = |name: &str| line.get(name).is_some_and(|value| value != "null");
        let is_body = || !(self.form.takes_no_input() && said::is_in_input(line));
        if has("messages") || has("input") && is_body() {
            return true;
        }
        let is_text = line.has_text("prompt");
        let is_more = || has_more(line) || is_recorded(line);
        match (has("prompt"), self.form) {
            // Triton's generate endpoint takes it by this name.
            (false, PromptForm::Unknown) => {
                line.has_text("text_input") && !line.has_text("text") || BODIES.into_iter().any(has)
            }
            (false, _) => false,
            (true, PromptForm::Prompt) if is_text => {
                !line.has_text("text") && !line.has_text("text_input") && !is_more()
            }
            // Tokens, or several prompts, are of no other form; what an unknown endpoint takes is not ours to change.
            (true, form) => !is_text || form == PromptForm::Unknown,
        }
    }

    /// The body of an object whose prompt is a text: all other members are fields of it.
    fn body(&mut self, mut line: Members) -> Result<Members, String> {
        if self.form == PromptForm::Unknown && said::is_to_be_ranked(&line) {
            return Err(TO_BE_RANKED.to_owned());
        }
        let prompt = match self.words_of_length(&mut line)? {
            Some(text) => Said::Texts(vec![text]),
            None => said::take(&mut line)?,
        };
        let limit = self.limit(&mut line)?;
        let content = self.content(prompt)?;
        let system = said::system(&mut line);
        let role = line.string("role");
        if role.is_some() || line.get("role") == Some("null") {
            line.take("role");
        }
        self.leave_out(&mut line, &NO_FIELDS);
        self.leave_out(&mut line, &["prompt", "output"]);
        self.take_type(&mut line);
        let has_messages = self.form.holds_messages() && (self.form != PromptForm::Responses || self.plays_sessions);
        if role.is_some() && !has_messages {
            self.left_out.insert("role".to_owned());
        }
        self.has_prompts = true;
        let role = role.as_deref().unwrap_or("user");
        let message = || json!([{ "role": role, "content": content }]);
        match self.form {
            PromptForm::Messages | PromptForm::AnthropicMessages | PromptForm::Unknown => {
                line.set("messages", &message());
            }
            PromptForm::Prompt => line.set("prompt", &content),
            // Turns go on from each other's messages.
            PromptForm::Responses if has_messages => line.set("input", &message()),
            PromptForm::Input | PromptForm::Responses => line.set("input", &content),
        }
        if let Some(system) = system {
            self.tell(&mut line, &system, true);
        }
        if let Some(Limit { field, tokens }) = limit {
            line.set(field, &tokens.into());
        }
        add_extra(&mut line);
        Ok(line)
    }

    /// Adds what the system says to the body of a turn. Where it stands beside the messages, it is no part of what later turns go
    /// on from.
    fn tell(&mut self, body: &mut Members, system: &str, is_first: bool) {
        match self.form {
            PromptForm::AnthropicMessages => body.add("system", &system.into()),
            PromptForm::Responses => body.add("instructions", &system.into()),
            PromptForm::Input => drop(self.left_out.insert("system_prompt".to_owned())),
            // An endpoint of unknown form may take a prompt, too.
            PromptForm::Prompt | PromptForm::Unknown if is_first && body.has("prompt") && !body.has("messages") => {
                let after = |prompt: &str| Value::from(format!("{system} {prompt}"));
                match body.get("prompt").and_then(|prompt| from_str::<Value>(prompt).ok()) {
                    Some(Value::String(prompt)) => body.set("prompt", &after(&prompt)),
                    Some(Value::Array(all)) if all.iter().all(Value::is_string) => {
                        let all: Vec<Value> = all.iter().filter_map(Value::as_str).map(after).collect();
                        body.set("prompt", &all.into());
                    }
                    // No words go before tokens.
                    _ => drop(self.left_out.insert("system_prompt".to_owned())),
                }
            }
            PromptForm::Messages | PromptForm::Unknown if is_first => {
                let messages = body.get("messages").and_then(|list| from_str::<Vec<Value>>(list).ok());
                let first = json!({ "role": "system", "content": system });
                let all: Vec<Value> = std::iter::once(first).chain(messages.unwrap_or_default()).collect();
                body.set("messages", &all.into());
            }
            _ => {}
        }
    }

    /// The limit on output tokens, taken out of a line.
    fn limit(&self, line: &mut Members) -> Result<Option<Limit>, String> {
        let mut found: Option<(&'static str, u64)> = None;
        for name in LIMITS {
            let Some(value) = line.take(name).filter(|value| value != "null") else { continue };
            let tokens = whole_number(&value).ok_or_else(|| {
                format!("its {name} is {value}, and a limit on output tokens is a whole number of up to 64 bits: write one, or none")
            })?;
            match found {
                Some((earlier, limit)) if limit != tokens => {
                    return Err(format!(
                        "its {earlier} is {limit} and its {name} {tokens}, but a request has one limit: keep one"
                    ));
                }
                _ => found = found.or(Some((name, tokens))),
            }
        }
        let is_chat = matches!(self.form, PromptForm::Messages | PromptForm::Unknown);
        let field = |name: &'static str| {
            // Of chats it is a field itself, and some of OpenAI's models take no other.
            if is_chat && name == "max_completion_tokens" { name } else { self.form.limit() }
        };
        let found = found.map(|(name, tokens)| Limit { field: field(name), tokens });
        let least = || self.form.least_output().map(|tokens| Limit { field: self.form.limit(), tokens });
        Ok(found.or_else(least))
    }

    /// What the prompt says: a text, or with several texts, pictures or sounds a list.
    fn content(&self, prompt: Said) -> Result<Value, String> {
        match prompt {
            Said::Texts(mut texts) if texts.len() == 1 => Ok(texts.remove(0).into()),
            Said::Texts(texts) => match self.form {
                PromptForm::Prompt | PromptForm::Input => Ok(texts.into()),
                PromptForm::Responses => {
                    Err("it has several texts, and a response is to one: keep one".to_owned())
                }
                _ => Ok(texts.iter().map(|text| text_part(text)).collect()),
            },
            Said::Parts(parts) => match self.form {
                PromptForm::Messages | PromptForm::Unknown => Ok(parts.into()),
                _ => Err("it has an image, audio or a video, and only the messages of chats hold pictures, sounds and videos: use \
                     --endpoint v1/chat/completions, or write whole bodies"
                    .to_owned()),
            },
        }
    }

    /// What is to be said of the lines.
    fn warnings(self) -> Vec<String> {
        let mut warnings = self.warnings_of_sessions();
        if !self.left_out.is_empty() {
            let names: Vec<String> = self.left_out.into_iter().collect();
            warnings.push(format!(
                "--input-data: members of lines that are no fields of a request are not sent: {}",
                names.join(", ")
            ));
        }
        if self.has_prompts && self.form == PromptForm::Unknown {
            warnings.push(
                "--input-data: prompts of lines are sent as chats (`messages`), because the form of --endpoint is not \
                 known; a JSON file holds whole payloads of another form (docs/services.md)"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// The limit on output tokens, and the field that holds it.
struct Limit {
    field: &'static str,
    tokens: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
    use crate::shm::Allowance;
    use crate::{Corpus, CorpusSpec, DataSource, OptionalInputs};

    /// How many payloads a file has, for the Responses API.
    fn load_file(bytes: &[u8]) -> crate::error::Result<usize> {
        load_corpus(bytes, Vec::new()).map(|corpus| corpus.stream_lengths()[0])
    }

    /// What a file has, for a model with `further` inputs.
    fn load_corpus(bytes: &[u8], further: Vec<TensorSpec>) -> crate::error::Result<Corpus> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let payload = TensorSpec::plain("payload", DataType::Json, vec![1]);
        let inputs = [payload].into_iter().chain(further).collect();
        let model = ModelSpec::plain(&ModelId::latest("m"), inputs, Vec::new());
        let spec = CorpusSpec {
            source: &DataSource::Lines(vec![path], PromptForm::Responses),
            shapes: &[],
            optional: &OptionalInputs::None,
            string_length: 0,
            string_data: None,
            random_ranges: &[],
            lengths: &[],
            blocks: None,
            requests: None,
            stages: 1,
            seed: 1,
            memory: &Allowance::unbounded(),
        };
        Corpus::load(&spec, &model)
    }

    #[test]
    fn lines_are_turns_where_sessions_are_played() {
        let session = TensorSpec::plain("session_id", DataType::Bytes, vec![1]);
        let delay = TensorSpec { optional: true, ..TensorSpec::plain("delay", DataType::Uint64, vec![1]) };
        let sessions = || vec![session.clone(), delay.clone()];
        let text = r#"{"session_id":"a","delay":7,"text":"x"}
            {"session_id":"a","text":"y"}
            {"turns":[{"text":"z"},{"text":"w","delay":9}]}"#;
        let corpus = load_corpus(text.as_bytes(), sessions()).unwrap();
        let given = |step: usize| {
            let inputs = corpus.streams[0].inputs(step);
            let text = |index: usize| {
                let value = inputs[index].as_ref()?;
                Some(corpus.regions[value.region].bytes(value.offset, value.len).unwrap().into_owned())
            };
            // A text follows its length.
            let name = text(1).map(|bytes| String::from_utf8(bytes[4..].to_vec()).unwrap());
            (name.unwrap(), text(2).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())))
        };
        let turns: Vec<_> = (0..corpus.stream_lengths()[0]).map(given).collect();
        let wanted = [("a", Some(7)), ("a", None), ("line 3", Some(9)), ("line 3", None)];
        assert_eq!(turns, wanted.map(|(name, delay)| (name.to_owned(), delay)));
        let error = load_corpus(b"\n\"x\"", sessions()).err().unwrap().to_string();
        assert!(error.contains("p.jsonl, line 2: it has no session_id"), "{error}");
    }

    #[test]
    fn a_byte_order_mark_begins_a_file_and_nothing_else() {
        assert_eq!(load_file(b"\xef\xbb\xbf\"one\"\r\n\n{\"text\":\"two\"}").unwrap(), 2);
        let error = load_file(b"\"one\"\n\xef\xbb\xbf\"two\"").unwrap_err().to_string();
        assert!(error.contains("p.jsonl, line 2: no JSON: expected value (column 1)"), "{error}");
        let error = load_file(b"\xff\xfe\"\0").unwrap_err().to_string();
        assert!(error.contains("p.jsonl: it is UTF-16: save it as UTF-8"), "{error}");
    }

    fn line(value: &Value) -> Line {
        Line::read(value.to_string().as_bytes()).unwrap()
    }

    fn read(form: PromptForm, value: Value) -> Result<Entry, String> {
        Lines::new(form).entry(line(&value))
    }

    /// The body that a line becomes.
    fn body(form: PromptForm, value: Value) -> Value {
        match read(form, value).unwrap() {
            Entry::Body(body) => from_slice(&body.text()).unwrap(),
            Entry::Prompt(text) => panic!("a text: {text}"),
        }
    }

    #[test]
    fn a_line_is_a_prompt_or_a_body() {
        let form = PromptForm::Messages;
        assert!(matches!(read(form, json!("hi")), Ok(Entry::Prompt(text)) if text == "hi"));
        let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
        assert_eq!(body(form, json!({"text": "hi", "id": 3})), chat);
        for whole in [
            json!({"messages": [], "max_tokens": 5, "output_length": 7, "id": 1}),
            json!({"input": "x", "text": "y"}),
            json!({"prompt": [1, 2]}),
        ] {
            assert_eq!(body(form, whole.clone()), whole, "as it is");
        }
        let listed = json!({"prompt": [{"role": "user", "content": "hi"}], "output_len": 5, "seed": 1});
        assert_eq!(body(form, listed.clone()), json!({"messages": listed["prompt"], "max_tokens": 5, "seed": 1}));
        let recorded = json!({"prompt": listed["prompt"], "timestamp": 0, "type": "mooncake_trace"});
        let whole = body(PromptForm::AnthropicMessages, recorded.clone());
        assert!(whole["messages"] == listed["prompt"] && whole["max_tokens"].is_u64(), "{whole}");
        assert_eq!(body(form, recorded), json!({"messages": listed["prompt"]}));
        let response = json!({"input": listed["prompt"], "max_output_tokens": 5, "seed": 1});
        assert_eq!(body(PromptForm::Responses, listed), response);
        for whole in [
            json!({"inputs": "hi", "parameters": {"max_new_tokens": 5}}),
            json!({"query": "q", "documents": ["a", "b"]}),
            json!({"query": "q", "texts": ["a"]}),
        ] {
            assert_eq!(body(PromptForm::Unknown, whole.clone()), whole, "what no other endpoint takes");
        }
        for other in [json!(5), json!(["hi"]), json!({"text": 5}), json!({})] {
            assert!(read(form, other).unwrap_err().contains("messages, prompt, input or text"));
        }
    }

    /// The text of the body that a line becomes.
    fn sent(form: PromptForm, text: &str) -> String {
        match Lines::new(form).entry(Line::read(text.as_bytes()).unwrap()).unwrap() {
            Entry::Body(body) => String::from_utf8(body.text()).unwrap(),
            Entry::Prompt(text) => panic!("a text: {text}"),
        }
    }

    #[test]
    fn what_is_written_is_sent_in_its_order_and_with_all_digits() {
        let whole =
            r#"{"messages":[{"role":"user","content":"é"}],"seed":99999999999999999999999,"tools":[{"z":1.50,"a":2}]}"#;
        assert_eq!(sent(PromptForm::Messages, whole), whole);
        assert_eq!(
            sent(PromptForm::Prompt, r#"{"text":"hi","seed":18446744073709551616,"guided_json":{"z":1,"a":2}}"#),
            r#"{"seed":18446744073709551616,"guided_json":{"z":1,"a":2},"prompt":"hi"}"#
        );
    }

    #[test]
    fn bodies_of_other_endpoints_are_sent_as_they_are() {
        for whole in [
            json!({"token_ids": [1, 2], "sampling_params": {"max_tokens": 5}}),
            json!({"text": "a", "sampling_params": {"max_new_tokens": 5}}),
            json!({"input_ids": [1, 2]}),
            json!({"text_1": "a", "text_2": ["b", "c"]}),
            json!({"queries": "a", "documents": ["b"]}),
            json!({"query": "a", "items": ["b"]}),
        ] {
            assert_eq!(body(PromptForm::Unknown, whole.clone()), whole);
        }
        let texts = json!([{"name": "query", "contents": ["a"]}, {"name": "passages", "contents": ["b", "c"]}]);
        let error = read(PromptForm::Unknown, json!({"texts": texts})).unwrap_err();
        assert!(error.starts_with("its `texts` are a query and the passages to be ranked"), "{error}");
        let named = json!({"texts": [{"name": "text_field", "contents": ["a"]}]});
        assert_eq!(body(PromptForm::Unknown, named)["messages"][0]["content"], "a");
    }

    #[test]
    fn an_input_is_a_prompt_where_the_endpoint_has_no_such_field() {
        let line = || json!({"timestamp": 0, "input": "hi", "output": "hello", "session_id": 0});
        let user = json!([{"role": "user", "content": "hi"}]);
        assert_eq!(body(PromptForm::Messages, line()), json!({"messages": user}));
        assert_eq!(body(PromptForm::Prompt, line()), json!({"prompt": "hi"}));
        for form in [PromptForm::Responses, PromptForm::Input] {
            assert_eq!(body(form, json!({"input": "hi"})), json!({"input": "hi"}));
        }
        let error = read(PromptForm::Messages, json!({"instruction": "do", "input": "", "output": "x"})).unwrap_err();
        assert!(error.contains("use --prompt-tokens dataset:FILE instead"), "{error}");
    }

    #[test]
    fn several_texts_are_a_list() {
        let line = || json!({"texts": ["a", "b"], "output_length": 3});
        let part = |text: &str| json!({"type": "text", "text": text});
        let user = json!([{"role": "user", "content": [part("a"), part("b")]}]);
        assert_eq!(body(PromptForm::Messages, line()), json!({"messages": user, "max_tokens": 3}));
        assert_eq!(body(PromptForm::Prompt, line()), json!({"prompt": ["a", "b"], "max_tokens": 3}));
        assert_eq!(body(PromptForm::Input, json!({"texts": ["a"]})), json!({"input": "a"}));
        assert!(read(PromptForm::Responses, line()).unwrap_err().contains("several texts"));
        let picture = json!({"texts": ["a"], "images": ["https://h/a.png"]});
        assert_eq!(body(PromptForm::Messages, picture)["messages"][0]["content"][1]["type"], "image_url");
    }

    #[test]
    fn a_role_is_that_of_the_message() {
        let line = || json!({"text": "hi", "role": "system"});
        assert_eq!(body(PromptForm::Messages, line()), json!({"messages": [{"role": "system", "content": "hi"}]}));
        assert_eq!(body(PromptForm::Prompt, line()), json!({"prompt": "hi"}));
    }

    #[test]
    fn of_a_text_and_a_prompt_the_text_is_sent() {
        let both = || json!({"prompt": "a", "text": "b"});
        assert_eq!(body(PromptForm::Messages, both()), json!({"messages": [{"role": "user", "content": "b"}]}));
        assert_eq!(body(PromptForm::Prompt, both()), json!({"prompt": "b"}));
        assert_eq!(body(PromptForm::Unknown, both()), both(), "as it is");
        let mut lines = Lines::new(PromptForm::Prompt);
        lines.entry(line(&both())).unwrap();
        assert!(lines.warnings()[0].ends_with("not sent: prompt"));
    }

    #[test]
    fn a_text_has_two_names_of_which_a_line_has_one() {
        let line = || json!({"text_input": "hi", "output_tokens": 5});
        let user = json!([{"role": "user", "content": "hi"}]);
        assert_eq!(body(PromptForm::Messages, line()), json!({"messages": user, "max_tokens": 5}));
        assert_eq!(body(PromptForm::Prompt, line()), json!({"prompt": "hi", "max_tokens": 5}));
        assert_eq!(body(PromptForm::Unknown, line()), line(), "as Triton's generate endpoint takes it");
        let both = json!({"prompt": "a", "text_input": "b"});
        assert_eq!(body(PromptForm::Prompt, both), json!({"prompt": "b"}), "a text is sent, and not a prompt");
        for form in [PromptForm::Messages, PromptForm::Unknown] {
            let error = read(form, json!({"text_input": "a", "text": "b"})).unwrap_err();
            assert!(error.contains("it has a text and a text_input"), "{error}");
        }
    }

    #[test]
    fn lines_of_other_tools_are_read_or_named() {
        let request = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5}"#;
        let line = format!(r#"{{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{request}}}"#);
        assert_eq!(sent(PromptForm::Messages, &line), request);
        let batch = |url: &str| json!({"custom_id": "1", "url": url, "body": {"input": "a"}});
        for url in ["/v1/embeddings", "https://api.openai.com/v1/completions"] {
            let error = read(PromptForm::Messages, batch(url)).unwrap_err();
            assert!(error.starts_with(&format!("it is for '{url}'")), "{error}");
        }
        assert_eq!(body(PromptForm::Input, batch("/v1/embeddings")), json!({"input": "a"}));
        for (form, url) in [(PromptForm::Unknown, "/v1/embeddings"), (PromptForm::Messages, "/v1/score")] {
            assert_eq!(body(form, batch(url)), json!({"input": "a"}), "what is not known is not judged");
        }
        for (line, form) in [
            (json!({"texts": [{"name": "a"}]}), "its `texts` are no list of texts"),
            (json!({"conversations": []}), "use --prompt-tokens dataset:FILE instead"),
            (json!({"timestamp": 1, "input_length": 5, "output_length": 2}), "use --prompt-tokens trace:FILE"),
        ] {
            let error = read(PromptForm::Messages, line).unwrap_err();
            assert!(error.contains(form), "{error}");
        }
    }

    #[test]
    fn what_the_system_says_goes_before_each_text_and_before_no_tokens() {
        let sent = |form: PromptForm, value: Value| {
            let mut lines = Lines::new(form);
            let Entry::Body(body) = lines.entry(line(&value)).unwrap() else { panic!("a text") };
            (from_slice::<Value>(&body.text()).unwrap(), lines.warnings().len())
        };
        let several = json!({"texts": ["a", "b"], "system_prompt": "s"});
        assert_eq!(sent(PromptForm::Prompt, several), (json!({"prompt": ["s a", "s b"]}), 0));
        let nulls = json!({"messages": null, "text": "hi", "system_prompt": null});
        assert_eq!(sent(PromptForm::Prompt, nulls).0["prompt"], "hi");
    }

    #[test]
    fn what_a_recording_says_of_a_body_is_no_field_of_it() {
        let messages = json!([{"role": "user", "content": "hi"}]);
        let mut lines = Lines::new(PromptForm::Messages);
        let mut sent = |value: Value| match lines.entry(line(&value)).unwrap() {
            Entry::Body(body) => from_slice::<Value>(&body.text()).unwrap(),
            Entry::Prompt(text) => panic!("a text: {text}"),
        };
        let recorded = json!({"messages": messages, "output_length": 4, "timestamp": 1000, "session_id": "a", "tools": [],
            "extra": {"routing": "fast"}});
        let wanted = json!({"messages": messages, "tools": [], "max_tokens": 4, "routing": "fast"});
        assert_eq!(sent(recorded), wanted);
        let limited = json!({"messages": messages, "max_tokens": 9, "output_length": 4});
        assert_eq!(sent(limited), json!({"messages": messages, "max_tokens": 9}));
        let open = json!({"messages": messages, "max_tokens": null, "output_length": 4});
        assert_eq!(sent(open), json!({"messages": messages, "max_tokens": 4}));
        let whole = json!({"messages": messages, "session_id": "a", "id": 4, "extra": 5});
        assert_eq!(sent(whole.clone()), whole, "nothing tells that it was recorded");
        let payload = json!({"payload": {"messages": messages, "max_tokens": 50}, "timestamp": 5});
        assert_eq!(sent(payload), json!({"messages": messages, "max_tokens": 50}));
        let listed = json!({"payload": [{"messages": messages}]});
        assert_eq!(sent(listed), json!({"messages": messages}));
        let captured = |data: &str, encoding: &str| {
            let input = json!({"mode": "INPUT", "data": data, "encoding": encoding});
            json!({"captureData": {"endpointInput": input}, "eventMetadata": {"eventId": "e"}})
        };
        for (data, encoding) in [(r#"{"prompt":[1],"seed":4}"#, "JSON"), ("eyJwcm9tcHQiOlsxXSwic2VlZCI6NH0=", "BASE64")]
        {
            assert_eq!(sent(captured(data, encoding)), json!({"prompt": [1], "seed": 4}), "{encoding}");
        }
        assert!(lines.warnings()[0].ends_with("not sent: output_length, session_id, timestamp"));
        let unknown = json!({"messages": messages, "timestamp": 1});
        assert_eq!(body(PromptForm::Unknown, unknown.clone()), unknown, "what it takes is not known");
    }

    #[test]
    fn lines_of_other_tools_keep_their_limits_and_fields() {
        let user = json!([{"role": "user", "content": "hi"}]);
        for (line, wanted) in [
            (json!({"prompt": "hi", "output_tokens_count": 5, "prompt_tokens_count": 9}), json!({"max_tokens": 5})),
            (
                json!({"prompt": "hi", "output_len": 5, "prompt_len": 9, "extra_request_body": {"seed": 4}}),
                json!({"max_tokens": 5, "seed": 4}),
            ),
            (json!({"task_id": 1, "prompt": "hi", "output_tokens": 5}), json!({"max_tokens": 5})),
            (
                json!({"text": "hi", "extra": {"seed": 4, "max_tokens": 3}, "output_length": 9}),
                json!({"max_tokens": 3, "seed": 4}),
            ),
            (
                json!({"text": "hi", "type": "single_turn", "texts": null, "images": null, "audio": null, "extra": null,
                    "role": null, "output_length": null, "timestamp": null}),
                json!({}),
            ),
            (json!({"text": "hi", "type": "other"}), json!({"type": "other"})),
        ] {
            let mut wanted = wanted;
            wanted["messages"] = user.clone();
            assert_eq!(body(PromptForm::Messages, line.clone()), wanted, "{line}");
        }
        let told = || json!({"prompt": "hi", "system_prompt": "be brief"});
        let system = json!({"role": "system", "content": "be brief"});
        assert_eq!(body(PromptForm::Messages, told()), json!({"messages": [system, user[0]]}));
        assert_eq!(body(PromptForm::Prompt, told()), json!({"prompt": "be brief hi"}));
        assert_eq!(body(PromptForm::Responses, told()), json!({"input": "hi", "instructions": "be brief"}));
        assert_eq!(body(PromptForm::AnthropicMessages, told())["system"], "be brief");
        let prompt = json!({"prompt": "hi", "timestamp": 5});
        assert_eq!(body(PromptForm::Prompt, prompt), json!({"prompt": "hi"}), "no body of completions has a time");
    }

    #[test]
    fn prompts_become_what_the_endpoint_takes() {
        let line = || json!({"prompt": "hi", "output_length": 7, "temperature": 0.5});
        let user = json!([{"role": "user", "content": "hi"}]);
        for (form, expected) in [
            (PromptForm::Messages, json!({"messages": user, "max_tokens": 7, "temperature": 0.5})),
            (PromptForm::AnthropicMessages, json!({"messages": user, "max_tokens": 7, "temperature": 0.5})),
            (PromptForm::Responses, json!({"input": "hi", "max_output_tokens": 7, "temperature": 0.5})),
            (PromptForm::Input, json!({"input": "hi", "max_tokens": 7, "temperature": 0.5})),
            (PromptForm::Prompt, json!({"prompt": "hi", "max_tokens": 7, "temperature": 0.5})),
            (PromptForm::Unknown, line()),
        ] {
            assert_eq!(body(form, line()), expected, "{form:?}");
        }
        let whole = json!({"prompt": "hi", "id": 3, "max_completion_tokens": 4});
        assert_eq!(body(PromptForm::Prompt, whole.clone()), whole, "a body of completions");
        let least = body(PromptForm::AnthropicMessages, json!({"text": "hi"}));
        assert_eq!(least["max_tokens"], 1024);
    }

    #[test]
    fn limits_are_of_every_name_and_contradict_each_other_never() {
        let limited = |form, name: &str, value: Value| body(form, json!({"text": "hi", name: value}));
        for name in LIMITS.into_iter().filter(|name| *name != "max_completion_tokens") {
            assert_eq!(limited(PromptForm::Messages, name, json!(9))["max_tokens"], 9, "{name}");
            assert_eq!(limited(PromptForm::Responses, name, json!(9.0))["max_output_tokens"], 9, "{name}");
        }
        let chat = limited(PromptForm::Messages, "max_completion_tokens", json!(9));
        assert_eq!((&chat["max_completion_tokens"], &chat["max_tokens"]), (&json!(9), &Value::Null));
        assert_eq!(limited(PromptForm::Prompt, "max_completion_tokens", json!(9))["max_tokens"], 9);
        let same = body(PromptForm::Prompt, json!({"text": "hi", "max_tokens": 9, "output_length": 9}));
        assert_eq!(same, json!({"prompt": "hi", "max_tokens": 9}));
        let two = read(PromptForm::Prompt, json!({"text": "hi", "max_tokens": 9, "output_length": 8})).unwrap_err();
        assert!(two.contains("its max_tokens is 9 and its output_length 8"), "{two}");
        let text = read(PromptForm::Prompt, json!({"text": "hi", "output_tokens": "many"})).unwrap_err();
        assert!(text.contains("its output_tokens is \"many\""), "{text}");
        for value in ["99999999999999999999999", "-5", "1e300", "0.5"] {
            let text = format!("{{\"text\": \"hi\", \"max_tokens\": {value}}}");
            let line = Line::read(text.as_bytes()).unwrap();
            let error = Lines::new(PromptForm::Prompt).entry(line).unwrap_err();
            assert!(error.contains(&format!("its max_tokens is {value}, and")), "{error}");
        }
    }

    #[test]
    fn pictures_are_parts_of_a_chats_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        std::fs::write(&path, b"\x89PNG").unwrap();
        let part = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let line = json!({"text": "what?", "image": ["https://h/a.png", path]});
        let content =
            json!([{"type": "text", "text": "what?"}, part("https://h/a.png"), part("data:image/png;base64,iVBORw==")]);
        assert_eq!(body(PromptForm::Messages, line)["messages"][0]["content"], content);
        let one = body(PromptForm::Messages, json!({"text": "what?", "image": "data:image/png;base64,AA=="}));
        assert_eq!(one["messages"][0]["content"][1], part("data:image/png;base64,AA=="));
        assert_eq!(one.get("image"), None);
        std::fs::write(&path, b"text").unwrap();
        for (form, image, rule) in [
            (PromptForm::Prompt, json!("https://h/a.png"), "only the messages of chats hold pictures"),
            (PromptForm::Messages, json!(5), "its image is 5"),
            (PromptForm::Messages, json!("/none/a.png"), "'/none/a.png' cannot be read"),
            (PromptForm::Messages, json!(path), "is no PNG, JPEG, GIF or WebP"),
        ] {
            let error = read(form, json!({"text": "hi", "image": image})).unwrap_err();
            assert!(error.contains(rule), "{error}");
        }
    }

    #[test]
    fn what_is_not_sent_is_named() {
        let mut lines = Lines::new(PromptForm::Messages);
        lines.entry(line(&json!({"text": "a", "timestamp": 5, "user": "u"}))).unwrap();
        lines.entry(line(&json!({"text": "b", "id": 1, "delay": 2, "session_id": "s"}))).unwrap();
        let warnings = lines.warnings();
        assert!(
            warnings.len() == 1 && warnings[0].ends_with("not sent: delay, id, session_id, timestamp"),
            "{warnings:?}"
        );
        let mut lines = Lines::new(PromptForm::Unknown);
        lines.entry(line(&json!({"prompt": "whole"}))).unwrap();
        assert_eq!(lines.warnings(), Vec::<String>::new(), "bodies are sent as they are");
        let mut lines = Lines::new(PromptForm::Unknown);
        lines.entry(line(&json!("a"))).unwrap();
        assert!(lines.warnings()[0].contains("sent as chats (`messages`)"));
    }
}
