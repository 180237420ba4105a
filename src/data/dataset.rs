//! Data sets of prompts and answers, as files of JSON: a list of entries, or one in each line.
//!
//! An entry is known by its keys: `conversations` or `messages` (turns with `from` and `value`, or `role` and `content`, as in
//! ShareGPT, Infinity-Instruct and BillSum), `article` and `highlights` (CNN/DailyMail), `prompt` with perhaps `completion`.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::PromptForm;
use crate::error::{Error, Result};
use crate::lengths::Dataset;
use crate::text::plain_text;
use crate::tokenizer::Tokenizer;

/// Pairs of keys that hold a prompt and its answer.
const PAIRS: &[(&str, &str)] =
    &[("article", "highlights"), ("prompt", "completion"), ("instruction", "output"), ("text", "summary")];
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

/// The entries of a data set, in its order.
///
/// # Errors
/// If a file cannot be read, or no entry is of a known form and within the bounds.
pub fn read(wanted: &Wanted<'_>) -> Result<Vec<Entry>> {
    let path = &wanted.dataset.path;
    let failed = |rule: String| Error::input(format!("--prompt-tokens dataset:{}: {rule}", path.display()));
    let most = wanted.count.map_or(usize::MAX, |count| count as usize);
    let (mut entries, mut total) = (Vec::new(), 0_usize);
    for file in files(path).map_err(failed)? {
        for value in values(&file).map_err(failed)? {
            if entries.len() == most {
                return Ok(entries);
            }
            total += 1;
            entries.extend(wanted.entry(&value));
        }
    }
    match entries.is_empty() {
        true => Err(failed(format!(
            "none of its {total} entries is of a known form and within the bounds: an entry has conversations or messages, \
             article and highlights, or prompt (docs/input-data.md)"
        ))),
        false => Ok(entries),
    }
}

impl Wanted<'_> {
    /// An entry, unless it is of no known form, or beyond the bounds.
    fn entry(&self, value: &Value) -> Option<Entry> {
        let turns = ["conversations", "messages"].iter().find_map(|key| value.get(key)?.as_array());
        if let Some(turns) = turns {
            return self.of_turns(&turns.iter().filter_map(turn).collect::<Vec<_>>());
        }
        let text = |key: &str| value.get(key)?.as_str().filter(|text| !text.is_empty());
        let (prompt, answer) = PAIRS.iter().find_map(|(prompt, answer)| Some((text(prompt)?, text(answer))))?;
        self.pair(prompt, answer)
    }

    /// Its first turn is the prompt, and bounds are for that and its answer. Chats are sent as they are.
    fn of_turns(&self, turns: &[(&str, String)]) -> Option<Entry> {
        if turns.len() < 2 {
            return None;
        }
        let pair = || self.pair(&turns[0].1, Some(&turns[1].1));
        if !self.form.holds_messages() {
            return pair();
        }
        // Nothing is counted without need: answers are long.
        let is_bounded = self.dataset.prompt.is_some() || self.dataset.answer.is_some();
        let message = |(role, content): &(&str, String)| json!({"role": role, "content": content});
        let chat = || Entry { prompt: Prompt::Messages(turns.iter().map(message).collect()), output: None };
        (!is_bounded || pair().is_some()).then(chat)
    }

    fn pair(&self, prompt: &str, answer: Option<&str>) -> Option<Entry> {
        let within = |bounds: Option<(u32, u32)>, tokens: u64| {
            bounds.is_none_or(|(least, most)| (u64::from(least)..=u64::from(most)).contains(&tokens))
        };
        let answered = answer.map(|answer| self.count(answer));
        let fits = !prompt.is_empty()
            && (self.dataset.prompt.is_none() || within(self.dataset.prompt, self.count(prompt)))
            && within(self.dataset.answer, answered.unwrap_or(0));
        fits.then(|| Entry { prompt: Prompt::Text(prompt.to_owned()), output: answered.filter(|tokens| *tokens > 0) })
    }

    fn count(&self, text: &str) -> u64 {
        let words = || text.split_whitespace().count() as u64;
        self.tokenizer.and_then(|tokenizer| tokenizer.count(text)).unwrap_or_else(words)
    }
}

/// The role and text of a turn, which may itself be JSON in a text.
fn turn(value: &Value) -> Option<(&'static str, String)> {
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let value = parsed.as_ref().unwrap_or(value);
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| value.get(key)?.as_str());
    let role = match text(["from", "role"]).unwrap_or_default() {
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" => "assistant",
        "system" => "system",
        _ => "user",
    };
    Some((role, text(["value", "content"]).filter(|text| !text.is_empty())?.to_owned()))
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

/// The values of a list, or of lines.
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
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'[') {
        return serde_json::from_slice(text).map_err(broken);
    }
    serde_json::Deserializer::from_slice(text).into_iter().collect::<std::result::Result<_, _>>().map_err(broken)
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
        Ok(read(&wanted)?.into_iter().map(|entry| (entry.prompt.fields(form), entry.output)).collect())
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
}
