//! Data sets of prompts and answers, as files of JSON: a list of entries, or one in each line. The lines of a plain text
//! (`.txt`) are prompts.
//!
//! An entry is known by its keys: `conversations`, `messages` or `conversation` (turns with `from` and `value`, or `role` and
//! `content`, as in ShareGPT, Infinity-Instruct and BillSum; VisionArena has each in a list of its own, and `images`), `article` and
//! `highlights` (CNN/DailyMail), `prompt` with perhaps `completion`, and others of [`PAIRS`].

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::PromptForm;
use crate::attached::{self, Medium};
use crate::error::{Error, Result};
use crate::lengths::Dataset;
use crate::media::text_part;
use crate::text::plain_text;
use crate::tokenizer::Tokenizer;

/// Keys of a list of turns.
const TURNS: [&str; 3] = ["conversations", "messages", "conversation"];
/// The one of them whose turns may be what a model is asked, and no conversation that was recorded.
const ASKED: &str = "messages";
/// Keys that hold a prompt, what belongs to it, and its answer.
const PAIRS: &[Pair] = &[
    Pair { prompt: "article", context: "", answer: "highlights" },
    Pair { prompt: "prompt", context: "", answer: "completion" },
    Pair { prompt: "prompt", context: "", answer: "response" },
    Pair { prompt: "prompt", context: "", answer: "canonical_solution" },
    Pair { prompt: "prompt", context: "input", answer: "output" },
    Pair { prompt: "instruction", context: "input", answer: "output" },
    Pair { prompt: "instruction", context: "context", answer: "response" },
    Pair { prompt: "question", context: "", answer: "answer" },
    Pair { prompt: "question", context: "", answer: "response" },
    Pair { prompt: "question", context: "input", answer: "output" },
    Pair { prompt: "problem", context: "", answer: "solution" },
    Pair { prompt: "text", context: "", answer: "summary" },
    Pair { prompt: "turns", context: "", answer: "" },
];
/// The same where there is none of these: elsewhere `input` belongs to a prompt.
const IN_INPUT: Pair = Pair { prompt: "input", context: "", answer: "output" };
/// Keys with what the system says before a prompt.
const SYSTEM: [&str; 2] = ["system_prompt", "system"];
/// Keys with the pictures of a prompt.
const PICTURES: [&str; 2] = ["images", "image"];
/// What stands for a picture in a text.
const PICTURE_MARK: &str = "<image>";

struct Pair {
    prompt: &'static str,
    context: &'static str,
    answer: &'static str,
}

/// Limit on the bytes of a file: they are read at once.
const MAX_BYTES: u64 = 4 << 30;

/// What is wanted of a data set.
pub struct Wanted<'a> {
    /// Where it is, and which prompts are taken.
    pub dataset: &'a Dataset,
    /// What payloads hold.
    pub form: PromptForm,
    /// Counts tokens; without it each word is one.
    pub tokenizer: Option<&'a Tokenizer>,
    /// Limit on the entries.
    pub count: Option<u32>,
}

/// An entry.
pub struct Entry {
    /// What is sent.
    pub prompt: Prompt,
    /// Tokens of the recorded answer, if it is to be as long.
    pub output: Option<u64>,
}

/// What is sent.
pub enum Prompt {
    /// A text.
    Text(String),
    /// Messages of a chat.
    Messages(Vec<Value>),
}

impl Prompt {
    /// The fields of a payload, without braces.
    pub fn fields(self, form: PromptForm) -> String {
        let field = if form == PromptForm::Responses { "input" } else { "messages" };
        let messages = |messages: Vec<Value>| format!("\"{field}\":{}", Value::from(messages));
        match (self, form) {
            (Self::Messages(all), PromptForm::AnthropicMessages) => {
                let is_system = |message: &Value| message["role"] == "system";
                let (system, turns): (Vec<Value>, Vec<Value>) = all.into_iter().partition(is_system);
                let texts: Vec<&str> = system.iter().filter_map(|message| message["content"].as_str()).collect();
                with_system(&texts.join("\n\n"), messages(turns))
            }
            (Self::Messages(all), _) => messages(all),
            (Self::Text(text), PromptForm::Messages | PromptForm::AnthropicMessages | PromptForm::Unknown) => {
                messages(vec![json!({"role": "user", "content": text})])
            }
            (Self::Text(text), PromptForm::Prompt) => format!("\"prompt\":{}", Value::from(text)),
            (Self::Text(text), PromptForm::Input | PromptForm::Responses) => {
                format!("\"input\":{}", Value::from(text))
            }
        }
    }
}

/// The fields of a payload of Anthropic's messages: what the system says is no message there.
pub fn with_system(system: &str, fields: String) -> String {
    if system.is_empty() { fields } else { format!("\"system\":{},{fields}", Value::from(system)) }
}

/// The entries of a data set.
pub struct Found {
    /// Those within the bounds, in its order.
    pub entries: Vec<Entry>,
    /// How many were of no known form.
    pub unknown: usize,
    /// How many have pictures that are not sent.
    pub without_pictures: usize,
}

/// What an entry is found to be.
enum Judged {
    Taken(Entry),
    /// It is beyond the bounds, or a conversation that nobody answers.
    Beyond,
    Unknown,
}

/// The entries of a data set.
///
/// # Errors
/// If a file cannot be read, or no entry is of a known form and within the bounds.
pub fn read(wanted: &Wanted<'_>) -> Result<Found> {
    let path = &wanted.dataset.path;
    let failed = |rule: String| Error::input(format!("--prompt-tokens dataset:{}: {rule}", path.display()));
    let most = wanted.count.map_or(usize::MAX, |count| count as usize);
    let mut found = Found { entries: Vec::new(), unknown: 0, without_pictures: 0 };
    let mut total = 0_usize;
    for file in files(path).map_err(failed)? {
        for value in values(&file).map_err(failed)? {
            if found.entries.len() == most {
                return Ok(found);
            }
            total += 1;
            let is_bare =
                has_pictures(&value) && (!wanted.takes_pictures() || pictures(&value).is_some_and(are_elsewhere));
            match wanted.entry(&value).map_err(|rule| failed(format!("entry {total}: {rule}")))? {
                Judged::Taken(entry) => {
                    found.without_pictures += usize::from(is_bare);
                    found.entries.push(entry);
                }
                Judged::Beyond => {}
                Judged::Unknown => found.unknown += 1,
            }
        }
    }
    match found.entries.is_empty() {
        true => Err(failed(format!(
            "none of its {total} entries is of a known form and within the bounds: an entry has conversations or messages, \
             article and highlights, or prompt (docs/input-data.md)"
        ))),
        false => Ok(found),
    }
}

impl Wanted<'_> {
    /// What an entry is.
    ///
    /// # Errors
    /// If it has pictures that cannot be sent.
    fn entry(&self, value: &Value) -> Result<Judged, String> {
        if let Some(text) = value.as_str() {
            return Ok(self.pair(None, text, None));
        }
        if let Some((key, turns)) = TURNS.iter().find_map(|key| Some((*key, value.get(key)?.as_array()?))) {
            let turns: Vec<Turn> = turns.iter().filter_map(turn).collect();
            let pictures = pictures(value).filter(|pictures| self.takes_pictures() && !are_elsewhere(pictures));
            let parts = pictures.map_or(Ok(Vec::new()), |pictures| attached::parts(Medium::Picture, pictures))?;
            return Ok(match parts.is_empty() {
                true => self.of_turns(&turns, key == ASKED),
                false => self.with_pictures(&turns, parts),
            });
        }
        // Of several texts, the first is the prompt.
        let first = |value: &'_ Value| value.as_array().and_then(|texts| texts.first()).cloned();
        let text = |key: &str| {
            let value = value.get(key)?;
            let text = first(value).as_ref().unwrap_or(value).as_str()?.to_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let is_answered = |pair: &&Pair| text(pair.prompt).is_some() && text(pair.answer).is_some();
        let is_asked = |pair: &&Pair| text(pair.prompt).is_some();
        let in_input = || Some(&IN_INPUT).filter(is_answered);
        let asked = || PAIRS.iter().chain([&IN_INPUT]).find(is_asked);
        let Some(pair) = PAIRS.iter().find(is_answered).or_else(in_input).or_else(asked) else {
            return Ok(Judged::Unknown);
        };
        let parts = [text(pair.prompt), text(pair.context)].into_iter().flatten().collect::<Vec<_>>();
        let system = SYSTEM.iter().find_map(|key| text(key));
        Ok(self.pair(system, &parts.join("\n\n"), text(pair.answer).as_deref()))
    }

    /// Whether messages hold pictures.
    fn takes_pictures(&self) -> bool {
        matches!(self.form, PromptForm::Messages | PromptForm::Unknown)
    }

    /// Its first turn is the prompt, and bounds are for that and its answer, which it may lack if it is `asked`. Chats are sent as
    /// they are.
    fn of_turns(&self, turns: &[Turn], asked: bool) -> Judged {
        let begin = turns.iter().position(|turn| turn.role != "system").unwrap_or(0);
        let (question, answered) = match &turns[begin..] {
            [question, answered, ..] => (question, Some(answered.text.as_str())),
            // What is asked after what the system says needs no answer to be a chat.
            [question] if begin > 0 || (asked && !["assistant", "gpt"].contains(&question.role)) => (question, None),
            _ => return Judged::Beyond,
        };
        // Where nobody is named, as in SGLang's own data sets, they are a prompt and its answer, and no chat.
        if let Some(answered) = answered
            && turns.iter().all(|turn| !turn.has_role)
        {
            return self.pair(None, &question.text, Some(answered));
        }
        let system: Vec<&str> = turns[..begin].iter().map(|turn| turn.text.as_str()).collect();
        let system = Some(system.join("\n\n")).filter(|text| !text.is_empty());
        let pair = || self.pair(system, &question.text, answered);
        if !self.form.holds_messages() {
            return pair();
        }
        // Nothing is counted without need: answers are long.
        let is_bounded = self.dataset.prompt.is_some() || self.dataset.answer.is_some();
        if is_bounded && !matches!(pair(), Judged::Taken(_)) {
            return Judged::Beyond;
        }
        let messages = turns.iter().map(|turn| turn.message.clone()).collect();
        Judged::Taken(Entry { prompt: Prompt::Messages(messages), output: None })
    }

    /// What a user first says of pictures, as vLLM, aiperf and inference-perf ask it.
    fn with_pictures(&self, turns: &[Turn], pictures: Vec<Value>) -> Judged {
        let Some(asked) = turns.iter().find(|turn| turn.role == "user") else { return Judged::Beyond };
        let text = asked.text.replace(PICTURE_MARK, "").trim().to_owned();
        let answered = turns.iter().find(|turn| turn.role == "assistant").map(|turn| turn.text.as_str());
        if !matches!(self.pair(None, &text, answered), Judged::Taken(_)) {
            return Judged::Beyond;
        }
        let content: Vec<Value> = std::iter::once(text_part(&text)).chain(pictures).collect();
        let message = json!({ "role": "user", "content": content });
        Judged::Taken(Entry { prompt: Prompt::Messages(vec![message]), output: None })
    }

    fn pair(&self, system: Option<String>, prompt: &str, answer: Option<&str>) -> Judged {
        let within = |bounds: Option<(u32, u32)>, tokens: u64| {
            bounds.is_none_or(|(least, most)| (u64::from(least)..=u64::from(most)).contains(&tokens))
        };
        let answered = answer.map(|answer| self.count(answer));
        let fits = !prompt.is_empty()
            && (self.dataset.prompt.is_none() || within(self.dataset.prompt, self.count(prompt)))
            && within(self.dataset.answer, answered.unwrap_or(0));
        if !fits {
            return Judged::Beyond;
        }
        let message = |role: &str, text: &str| json!({ "role": role, "content": text });
        let prompt = match system {
            None => Prompt::Text(prompt.to_owned()),
            Some(system) if self.form.holds_messages() => {
                Prompt::Messages(vec![message("system", &system), message("user", prompt)])
            }
            Some(system) => Prompt::Text(format!("{system}\n\n{prompt}")),
        };
        Judged::Taken(Entry { prompt, output: answered.filter(|tokens| *tokens > 0) })
    }

    fn count(&self, text: &str) -> u64 {
        let words = || text.split_whitespace().count() as u64;
        self.tokenizer.and_then(|tokenizer| tokenizer.count(text)).unwrap_or_else(words)
    }
}

/// Whether pictures are files that are not here, as LLaVA's, which are downloaded apart.
fn are_elsewhere(pictures: &Value) -> bool {
    match pictures {
        Value::String(name) => !attached::is_url(name) && !Path::new(name).is_file(),
        Value::Array(all) => all.iter().any(are_elsewhere),
        _ => false,
    }
}

/// The pictures of an entry.
fn pictures(value: &Value) -> Option<&Value> {
    let is_any = |found: &&Value| !found.is_null() && found.as_array().is_none_or(|all| !all.is_empty());
    PICTURES.iter().filter_map(|key| value.get(key)).find(is_any)
}

/// Whether an entry is a conversation about pictures.
fn has_pictures(value: &Value) -> bool {
    pictures(value).is_some() && TURNS.iter().any(|key| value.get(key).is_some_and(Value::is_array))
}

/// A turn of a conversation.
struct Turn {
    role: &'static str,
    /// Whether it says whose it is.
    has_role: bool,
    text: String,
    /// As it is sent.
    message: Value,
}

/// A turn, which may itself be JSON in a text, or stand alone in a list; nothing if it says nothing.
fn turn(value: &Value) -> Option<Turn> {
    let value = value.as_array().and_then(|alone| alone.first()).unwrap_or(value);
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let value = parsed.as_ref().unwrap_or(value);
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| value.get(key)?.as_str());
    let named = text(["from", "role"]);
    let role = match named.unwrap_or_default() {
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" => "assistant",
        "system" => "system",
        "tool" if value.get("tool_call_id").is_some() => "tool",
        _ => "user",
    };
    let parts = value.get("content").and_then(Value::as_array);
    let texts_of = |parts: &Vec<Value>| parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>();
    let text = text(["value", "content"]).map_or_else(|| parts.map(texts_of).unwrap_or_default(), str::to_owned);
    let calls = value.get("tool_calls").filter(|calls| calls.as_array().is_some_and(|calls| !calls.is_empty()));
    if text.is_empty() && calls.is_none() && parts.is_none_or(Vec::is_empty) {
        return None;
    }
    let content = match parts {
        Some(parts) => json!(parts),
        None if text.is_empty() => Value::Null,
        None => json!(text),
    };
    let mut message = json!({ "role": role, "content": content });
    for key in ["tool_calls", "tool_call_id", "name"] {
        if let Some(member) = value.get(key).filter(|member| !member.is_null() && value.get("role").is_some()) {
            message[key] = member.clone();
        }
    }
    Some(Turn { role, has_role: named.is_some(), text, message })
}

/// The file, or those of the folder.
fn files(path: &Path) -> std::result::Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let entries = std::fs::read_dir(path).map_err(failed)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json" || end == "jsonl");
    files.retain(is_json);
    files.sort();
    if files.is_empty() { Err("the folder holds no .json and no .jsonl file".to_owned()) } else { Ok(files) }
}

/// The values of a list, or of lines; the lines of a plain text are prompts.
fn values(path: &Path) -> std::result::Result<Vec<Value>, String> {
    let failed = |error: std::io::Error| format!("'{}' cannot be read: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    BufReader::new(file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("'{}' is larger than 4 GiB: split it into several files in a folder", path.display()));
    }
    let broken = |error: serde_json::Error| format!("'{}' is no JSON: {error}", path.display());
    let text = plain_text(&bytes).map_err(|rule| format!("'{}': {rule}", path.display()))?;
    if path.extension().is_some_and(|end| end == "txt" || end == "text") && !begins_with_an_object(text) {
        let text = std::str::from_utf8(text).map_err(|error| format!("'{}' is not UTF-8: {error}", path.display()))?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        return Ok(lines.map(|line| json!({ "prompt": line })).collect());
    }
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        return serde_json::from_slice(text).map_err(broken);
    }
    serde_json::Deserializer::from_slice(text).into_iter().collect::<std::result::Result<_, _>>().map_err(broken)
}

/// Whether a text is JSON with an object, or a list of them, at its beginning.
fn begins_with_an_object(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let first = serde_json::Deserializer::from_slice(text).into_iter::<Value>().next();
    first.is_some_and(|value| value.is_ok_and(|value| value.is_object()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str, form: PromptForm, bounds: Option<(u32, u32)>) -> Result<Vec<(String, Option<u64>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.json");
        std::fs::write(&path, text).unwrap();
        let dataset = Dataset { path, prompt: bounds, answer: None };
        let wanted = Wanted { dataset: &dataset, form, tokenizer: None, count: Some(9) };
        Ok(read(&wanted)?.entries.into_iter().map(|entry| (entry.prompt.fields(form), entry.output)).collect())
    }

    const TALK: &str = r#"[{"id": "a", "conversations": [{"from": "human", "value": "how are you"}, {"from": "gpt", "value": "fine \"so\""},
        {"from": "human", "value": "good"}]}, {"conversations": []}, {"conversations": ["{\"from\": \"human\", \"value\": \"hi\"}",
        {"from": "gpt", "value": "hello there you"}]}]"#;

    #[test]
    fn conversations_are_prompts_with_their_answers_or_chats() {
        let prompts = entries(TALK, PromptForm::Prompt, None).unwrap();
        let entry = |text: &str, tokens| (format!("\"prompt\":\"{text}\""), Some(tokens));
        assert_eq!(prompts, [entry("how are you", 2), entry("hi", 3)]);
        assert_eq!(entries(TALK, PromptForm::Prompt, Some((2, 9))).unwrap().len(), 1);
        let chats = entries(TALK, PromptForm::Messages, None).unwrap();
        assert_eq!((chats.len(), chats[0].1), (2, None));
        let long = entries(TALK, PromptForm::Messages, Some((2, 9))).unwrap();
        assert_eq!((long.len(), &long[0]), (1, &chats[0]), "bounds are of a chat's first turn");
        let none = entries(TALK, PromptForm::Messages, Some((20, 90))).unwrap_err().to_string();
        assert!(none.contains("none of its 3 entries is of a known form and within the bounds"), "{none}");
        assert!(
            chats[0].0.starts_with(r#""messages":[{"content":"how are you","role":"user"},{"content":"fine \"so\"","#),
            "{}",
            chats[0].0
        );
        let inputs = entries(TALK, PromptForm::Responses, None).unwrap();
        assert_eq!(inputs[0].0, chats[0].0.replacen("messages", "input", 1), "the Responses API takes messages, too");
        let pair = entries("{\"prompt\": \"say it\"}", PromptForm::Responses, None).unwrap();
        assert_eq!(pair[0].0, r#""input":"say it""#);
    }

    #[test]
    fn an_input_belongs_to_the_prompt_beside_it() {
        let lines = r#"{"text": "Human: 1 2 Assistant: 3", "input": "1 2", "output": "3"}
            {"prompt": "Sum up:", "input": "DOC", "output": "S T"}"#;
        let found = entries(lines, PromptForm::Prompt, None).unwrap();
        let prompt = |text: &str| format!("\"prompt\":{}", Value::from(text));
        assert_eq!(found, [(prompt("1 2"), Some(1)), (prompt("Sum up:\n\nDOC"), Some(2))]);
    }

    #[test]
    fn turns_of_nobody_are_a_prompt_and_its_answer() {
        let lines = r#"{"conversations": [{"content": "how are you"}, {"content": "fine so far"}]}
            {"conversation": [{"value": "hi"}, {"value": "hello there"}, {"value": "so"}]}"#;
        let found = entries(lines, PromptForm::Messages, None).unwrap();
        assert_eq!(
            entries(r#"["a b", ""]"#, PromptForm::Prompt, None).unwrap(),
            [(r#""prompt":"a b""#.to_owned(), None)]
        );
        let asked = |text: &str| format!("\"messages\":[{{\"content\":\"{text}\",\"role\":\"user\"}}]");
        assert_eq!(found, [(asked("how are you"), Some(3)), (asked("hi"), Some(2))]);
    }

    #[test]
    fn other_forms_are_known_by_their_keys() {
        let lines = "{\"article\": \"one two three\", \"highlights\": \"one\", \"id\": 5}\n{\"prompt\": \"say it\"}\n\n{\"other\": 1}\n";
        let found = entries(lines, PromptForm::Prompt, None).unwrap();
        let wanted = [("\"prompt\":\"one two three\"".to_owned(), Some(1)), ("\"prompt\":\"say it\"".to_owned(), None)];
        assert_eq!(found, wanted);
        let chat = entries(lines, PromptForm::Messages, None).unwrap();
        assert_eq!(chat[1].0, r#""messages":[{"content":"say it","role":"user"}]"#);
    }

    #[test]
    fn what_is_no_data_set_is_told_by_name() {
        for (text, message) in [
            ("[{\"a\": 1}]", "none of its 1 entries is of a known form"),
            ("[1, ", "is no JSON"),
            ("", "none of its 0 entries"),
            ("\u{feff}[{\"a\": 1}]", "none of its 1 entries is of a known form"),
        ] {
            let error = entries(text, PromptForm::Prompt, None).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("data.json"), "{text}: {error}");
        }
        let dataset = Dataset { path: "/none/x.json".into(), prompt: None, answer: None };
        let wanted = Wanted { dataset: &dataset, form: PromptForm::Prompt, tokenizer: None, count: None };
        assert!(read(&wanted).map(drop).unwrap_err().to_string().contains("/none/x.json"));
    }

    #[test]
    fn conversations_with_pictures_are_what_is_first_asked_of_them() {
        let arena = r#"{"conversation": [[{"role": "user", "content": "what is <image> this?"}], [{"role": "assistant", "content": "a"}]],
            "images": [{"bytes": "iVBORw=="}], "language": "English"}"#;
        let chats = entries(arena, PromptForm::Messages, None).unwrap();
        let content = r#"[{"text":"what is  this?","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBORw=="},"type":"image_url"}]"#;
        assert_eq!(chats, [(format!(r#""messages":[{{"content":{content},"role":"user"}}]"#), None)]);
        assert_eq!(
            entries(arena, PromptForm::Messages, Some((4, 9)))
                .unwrap_err()
                .to_string()
                .matches("of its 1 entries")
                .count(),
            1
        );
        let broken = arena.replace("iVBORw==", "AAAA");
        let error = entries(&broken, PromptForm::Messages, None).unwrap_err().to_string();
        assert!(error.contains("entry 1: the bytes of its image are no PNG"), "{error}");
        assert_eq!(entries(&broken, PromptForm::Prompt, None).unwrap().len(), 1, "completions take no pictures");
    }

    #[test]
    fn what_belongs_to_a_prompt_is_a_part_of_it() {
        let prompts = |text: &str| entries(text, PromptForm::Prompt, None).unwrap();
        let prompt = |text: &str, output| vec![(format!("\"prompt\":{}", json!(text)), output)];
        let alpaca = r#"{"instruction": "Add.", "input": "1 2", "output": "it is 3"}"#;
        assert_eq!(prompts(alpaca), prompt("Add.\n\n1 2", Some(3)));
        assert_eq!(prompts(&alpaca.replace("1 2", "")), prompt("Add.", Some(3)));
        let dolly = r#"{"instruction": "Sum.", "context": "a b", "response": "c"}"#;
        assert_eq!(prompts(dolly), prompt("Sum.\n\na b", Some(1)));
        assert_eq!(prompts(r#"{"question": "why?", "answer": "so it is"}"#), prompt("why?", Some(3)));
        assert_eq!(prompts(r#"{"question_id": 81, "turns": ["one", "two"]}"#), prompt("one", None));
        let orca = r#"{"system_prompt": "be brief", "question": "why?", "response": "so"}"#;
        assert_eq!(prompts(orca), prompt("be brief\n\nwhy?", Some(1)));
        let chat = entries(orca, PromptForm::Messages, None).unwrap();
        let messages = r#""messages":[{"content":"be brief","role":"system"},{"content":"why?","role":"user"}]"#;
        assert_eq!(chat, [(messages.to_owned(), Some(1))]);
        let tuning = r#"{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why is it?"},
            {"role": "assistant", "content": "so"}]}"#;
        assert_eq!(prompts(tuning), prompt("be brief\n\nwhy is it?", Some(1)), "what the system says is no question");
        let asked = r#"{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why?"}]}"#;
        assert_eq!(entries(asked, PromptForm::Messages, None).unwrap().len(), 1);
        assert_eq!(prompts(asked), prompt("be brief\n\nwhy?", None));
        let alone = r#"{"question_id": "a", "category": "coding", "messages": [{"role": "user", "content": "why?"}]}"#;
        assert_eq!(prompts(alone), prompt("why?", None));
        let unanswered = alone.replace("messages", "conversations");
        assert!(entries(&unanswered, PromptForm::Prompt, None).is_err(), "a recorded conversation that broke off");
    }

    #[test]
    fn calls_of_tools_and_parts_stay_in_a_chat() {
        let calls = json!([{ "id": "t", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
        let parts = json!([{ "type": "text", "text": "see" }, { "type": "image_url", "image_url": { "url": "https://h/a.png" } }]);
        let messages = json!([{ "role": "user", "content": parts }, { "role": "assistant", "content": null, "tool_calls": calls },
            { "role": "tool", "content": "5", "tool_call_id": "t" }, { "role": "assistant", "content": "it is 5" }]);
        let found = entries(&json!({ "messages": messages }).to_string(), PromptForm::Messages, None).unwrap();
        let sent: Value = serde_json::from_str(&format!("{{{}}}", found[0].0)).unwrap();
        assert_eq!(sent["messages"], messages);
    }

    #[test]
    fn lines_of_a_plain_text_are_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sonnet.txt");
        std::fs::write(&path, "[FROM fairest creatures\n\nThat thereby\r\n").unwrap();
        let dataset = Dataset { path, prompt: None, answer: None };
        let wanted = Wanted { dataset: &dataset, form: PromptForm::Prompt, tokenizer: None, count: None };
        let prompts = read(&wanted).unwrap().entries.into_iter().map(|entry| entry.prompt.fields(PromptForm::Prompt));
        let wanted = [r#""prompt":"[FROM fairest creatures""#, r#""prompt":"That thereby""#];
        assert_eq!(prompts.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn entries_of_no_known_form_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.jsonl");
        std::fs::write(&path, "{\"a\": 1}\n{\"prompt\": \"x\"}\n{\"conversations\": []}\n{\"b\": \"y\"}\n").unwrap();
        let dataset = Dataset { path, prompt: None, answer: None };
        let wanted = Wanted { dataset: &dataset, form: PromptForm::Prompt, tokenizer: None, count: None };
        let found = read(&wanted).unwrap();
        assert_eq!((found.entries.len(), found.unknown), (1, 2));
    }
}
