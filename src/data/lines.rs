//! Prompts from JSON Lines: one object or string a line. An object with `messages`, `prompt` or `input` is a request's
//! body, one with `text` alone and a string are prompts.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::PromptForm;
use crate::dataset::Prompt;
use crate::documents::Documents;
use crate::error::{Error, Result};
use crate::shm::map_text;
use crate::steps::{Loaded, Target};

/// Whether a file is one of lines, by its name.
pub fn is_lines(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("jsonl") || end.eq_ignore_ascii_case("ndjson"))
}

/// Reads files one after the other into one stream.
///
/// # Errors
/// If the model's requests are not JSON documents, or a line is no prompt; the message names file, line and rule.
pub(crate) fn load(target: &Target<'_>, files: &[PathBuf], form: PromptForm) -> Result<Loaded> {
    let mut payloads = Documents::new(target)?;
    for path in files {
        let text = map_text(path)?;
        let refuse = |number: usize, rule: &str| {
            let remedy = "each line is a JSON string or an object with messages, prompt, input or text";
            Error::input(format!("{}, line {}: {rule}; {remedy}", path.display(), number + 1))
        };
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let value = serde_json::from_slice(line).map_err(|error| refuse(number, &format!("no JSON: {error}")))?;
            match entry(value) {
                Some(Entry::Prompt(text)) => {
                    payloads.add(&Prompt::Text(text).fields(form), form.least_output(), None)?
                }
                Some(Entry::Body(body)) => payloads.add_body(body)?,
                None => return Err(refuse(number, "it is no prompt")),
            }
        }
    }
    if payloads.is_empty() {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::input(format!("{}: there is no prompt; write one a line", names.join(", "))));
    }
    Ok(payloads.loaded(Vec::new()))
}

/// What a line is.
#[derive(Debug, PartialEq)]
enum Entry {
    Prompt(String),
    Body(Map<String, Value>),
}

fn entry(value: Value) -> Option<Entry> {
    match value {
        Value::String(text) => Some(Entry::Prompt(text)),
        Value::Object(body) if ["messages", "prompt", "input"].iter().any(|key| body.contains_key(*key)) => {
            Some(Entry::Body(body))
        }
        Value::Object(body) => body.get("text").and_then(Value::as_str).map(|text| Entry::Prompt(text.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_a_prompt_or_a_body() {
        assert_eq!(entry(json!("hi")), Some(Entry::Prompt("hi".to_owned())));
        assert_eq!(entry(json!({"text": "hi", "id": 3})), Some(Entry::Prompt("hi".to_owned())));
        let body = json!({"messages": [], "max_tokens": 5});
        assert_eq!(entry(body.clone()), body.as_object().cloned().map(Entry::Body));
        for other in [json!(5), json!(["hi"]), json!({"text": 5}), json!({})] {
            assert_eq!(entry(other), None);
        }
    }
}
