//! What the prompt of a line says: its texts, and the pictures, sounds and videos with them.

use serde_json::{Value, from_str};

use crate::attached::{self, Medium};
use crate::lines::NO_PROMPT;
use crate::lines::recorded::is_recorded;
use crate::media::text_part;
use crate::members::Members;
use crate::text::fault_in_line;

/// Members with a prompt's text.
const TEXTS: [&str; 3] = ["text", "text_input", "prompt"];
/// Members with several texts, and with the parts of a message.
const SEVERAL: &str = "texts";
/// The names of texts that are to be ranked.
const RANKED: [&str; 3] = ["query", "queries", "passages"];
const CONTENT: &str = "content";
/// The member with the prompt of a recording of LMCache's, whose answer stands beside it, and of other data.
const INPUT: &str = "input";
/// Members with what the system says before a prompt: data sets', and guidellm's.
const SYSTEM: [&str; 2] = ["system_prompt", "prefix"];
/// Members with what is attached: aiperf's, and vLLM's `image_files`.
const MEDIA: [(&str, Medium); 7] = [
    ("image", Medium::Picture),
    ("images", Medium::Picture),
    ("image_files", Medium::Picture),
    ("audio", Medium::Sound),
    ("audios", Medium::Sound),
    ("video", Medium::Video),
    ("videos", Medium::Video),
];
/// The types of parts that name a file, in a member of the same name.
const KINDS: [(&str, Medium); 6] = [
    ("image", Medium::Picture),
    ("image_url", Medium::Picture),
    ("audio", Medium::Sound),
    ("audio_url", Medium::Sound),
    ("video", Medium::Video),
    ("video_url", Medium::Video),
];
/// Members by which the entries of data sets are known, which may have pictures, too.
const DATA_SETS: [&str; 4] = ["conversations", "conversation", "question", "instruction"];
/// Members by which lines of other tools are known, and what to do with them.
const OTHER_FORMS: [(&str, &str); 2] = [
    ("input_length", "a trace's: use --prompt-tokens trace:FILE or --trace-replay FILE instead of --input-data"),
    ("turns", "a conversation's, which --session-concurrency N plays"),
];

/// What a prompt says.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// Texts, at least one.
    Texts(Vec<String>),
    /// The parts of a message, of which not all are texts.
    Parts(Vec<Value>),
}

/// What an object says, taken out of it.
///
/// # Errors
/// If it says nothing, or a member is not what its name says.
pub(super) fn take(line: &mut Members) -> Result<Said, String> {
    let texts = texts(line)?;
    if texts.is_none() && DATA_SETS.iter().any(|name| line.has(name)) {
        return Err(
            "it is a data set's, such as ShareGPT: use --prompt-tokens dataset:FILE instead of --input-data".to_owned()
        );
    }
    let texts = match texts {
        None if is_in_input(line) => line.take(INPUT).and_then(|text| from_str(&text).ok()).map(|text| vec![text]),
        texts => texts,
    };
    let mut media = Vec::new();
    for (name, medium) in MEDIA {
        // In a chat's body it says how the answer is to sound.
        if line.object(name).is_some_and(|object| object.has("voice")) {
            continue;
        }
        let Some(value) = line.take(name) else { continue };
        let value = from_str(&value).map_err(|error| format!("its {name}: {}", fault_in_line(&error)))?;
        media.extend(attached::parts(medium, &value)?);
    }
    match texts {
        Some(texts) if media.is_empty() => return Ok(Said::Texts(texts)),
        None if media.is_empty() => {}
        texts => {
            let beside = if texts.is_none() { line.string(CONTENT) } else { None };
            if beside.is_some() {
                line.take(CONTENT);
            }
            let texts = texts.or(beside.map(|text| vec![text]));
            let parts = texts.iter().flatten().map(|text| text_part(text));
            return Ok(Said::Parts(parts.chain(media).collect()));
        }
    }
    match line.take(CONTENT).and_then(|content| from_str(&content).ok()) {
        Some(Value::String(text)) => Ok(Said::Texts(vec![text])),
        Some(Value::Array(parts)) if !parts.is_empty() => of_parts(&parts),
        _ => {
            let other_form = OTHER_FORMS.iter().find(|(name, _)| line.has(name));
            Err(other_form.map_or(NO_PROMPT.to_owned(), |(_, form)| format!("it is {form}")))
        }
    }
}

/// Whether an object is recorded, or has its answer, and its prompt is the text of its `input`: nothing else in it is one.
pub(super) fn is_in_input(line: &Members) -> bool {
    let mut others = TEXTS.into_iter().chain([SEVERAL, CONTENT, "context"]);
    let is_alone = !others.any(|name| line.get(name).is_some_and(|value| value != "null"));
    line.has_text(INPUT) && is_alone && (line.has_text("output") || is_recorded(line))
}

/// Whether something is attached to an object's prompt.
fn has_media(line: &Members) -> bool {
    MEDIA.iter().any(|(name, _)| line.get(name).is_some_and(|value| value != "null" && value != "[]"))
}

/// Whether an object has more than the text of its prompt, in members of no endpoint.
pub(super) fn has_more(line: &Members) -> bool {
    has_media(line) || SYSTEM.iter().any(|name| line.has_text(name))
}

/// What the system says before an object's prompt, taken out of it.
pub(super) fn system(line: &mut Members) -> Option<String> {
    let name = SYSTEM.into_iter().find(|name| line.has_text(name))?;
    line.take(name).and_then(|text| from_str::<String>(&text).ok()).filter(|text| !text.is_empty())
}

/// Whether an object says anything.
pub(super) fn is_any(line: &Members) -> bool {
    let mut names = TEXTS.into_iter().chain([SEVERAL, CONTENT]);
    has_media(line) || names.any(|name| line.get(name).is_some_and(|value| value != "null"))
}

/// The texts of an object's prompt, taken out of it: one, or aiperf's list of several; nothing if it has none.
///
/// # Errors
/// If a member is not what its name says.
pub(super) fn texts(line: &mut Members) -> Result<Option<Vec<String>>, String> {
    for name in TEXTS.into_iter().chain([SEVERAL]).filter(|name| line.get(name) == Some("null")).collect::<Vec<_>>() {
        line.take(name);
    }
    if let Some(member) = TEXTS.into_iter().find(|name| line.has_text(name)) {
        if member == "text" && line.has_text("text_input") {
            return Err("it has a text and a text_input, and a line is one prompt: keep one".to_owned());
        }
        let text = line.take(member).unwrap_or_default();
        let text = from_str(&text).map_err(|error| format!("its {member} is no text: {}", fault_in_line(&error)))?;
        return Ok(Some(vec![text]));
    }
    let Some(value) = line.take(SEVERAL) else { return Ok(None) };
    let texts = from_str(&value).ok().and_then(|value| all_texts(&value)).filter(|texts| !texts.is_empty());
    texts
        .map(Some)
        .ok_or_else(|| "its `texts` are no list of texts: write these, or each as `text` in a line".to_owned())
}

/// The texts of a list, of which some may be objects that hold theirs as `contents`.
fn all_texts(value: &Value) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for text in value.as_array()? {
        match text {
            Value::String(text) => all.push(text.clone()),
            Value::Object(named) => all.extend(all_texts(named.get("contents")?)?),
            _ => return None,
        }
    }
    Some(all)
}

/// Whether the texts of an object are a query and passages, as aiperf names those that are to be ranked.
pub(super) fn is_to_be_ranked(line: &Members) -> bool {
    let texts = line.get(SEVERAL).and_then(|texts| from_str::<Vec<Value>>(texts).ok()).unwrap_or_default();
    texts.iter().any(|text| text["name"].as_str().is_some_and(|name| RANKED.contains(&name)))
}

/// What the parts of a message say, which may name a file as vLLM's do.
fn of_parts(parts: &[Value]) -> Result<Said, String> {
    let is_text = |part: &Value| part["type"] == "text" && part["text"].is_string();
    if parts.iter().all(is_text) {
        let text = parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().concat();
        return Ok(Said::Texts(vec![text]));
    }
    let mut all = Vec::new();
    for part in parts {
        let named = KINDS.iter().find_map(|(kind, medium)| {
            let value = part.get(*kind).filter(|_| part["type"] == *kind)?;
            Some((*medium, value))
        });
        match named {
            // It may say more of it than where it is.
            Some((_, value)) if value["url"].as_str().is_some_and(attached::is_url) => all.push(part.clone()),
            Some((medium, value)) => all.extend(attached::parts(medium, value)?),
            None => all.push(part.clone()),
        }
    }
    Ok(Said::Parts(all))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(value: &Value) -> Result<Said, String> {
        take(&mut from_str(&value.to_string()).unwrap())
    }

    #[test]
    fn files_are_attached_to_the_texts() {
        let text = json!({ "type": "text", "text": "what?" });
        let picture = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
        let sound = json!({ "type": "input_audio", "input_audio": { "data": "AA==", "format": "wav" } });
        let detailed = json!({ "type": "image_url", "image_url": { "url": "https://h/c.png", "detail": "low" } });
        for (line, wanted) in [
            (
                json!({ "prompt": "what?", "image_files": ["https://h/a.png"] }),
                vec![&text, &picture("https://h/a.png")],
            ),
            (json!({ "text": "what?", "audio": "wav,AA==" }), vec![&text, &sound]),
            (json!({ "image": "https://h/a.png" }), vec![&picture("https://h/a.png")]),
            (json!({ "content": "what?", "image": "https://h/a.png" }), vec![&text, &picture("https://h/a.png")]),
            (
                json!({ "content": [{ "type": "image", "image": "https://h/a.png" }, text,
                    { "type": "image_url", "image_url": "https://h/b.png" }, detailed] }),
                vec![&picture("https://h/a.png"), &text, &picture("https://h/b.png"), &detailed],
            ),
        ] {
            assert_eq!(said(&line), Ok(Said::Parts(wanted.into_iter().cloned().collect())), "{line}");
        }
        let spoken = json!({ "text": "x", "audio": { "voice": "alloy", "format": "wav" } });
        assert_eq!(said(&spoken), Ok(Said::Texts(vec!["x".to_owned()])), "how the answer is to sound");
    }

    #[test]
    fn texts_may_have_names_or_be_parts() {
        let texts = |all: &[&str]| Ok(Said::Texts(all.iter().map(|text| (*text).to_owned()).collect()));
        let named =
            json!({ "texts": [{ "name": "a", "contents": ["x", "y"] }, { "contents": ["z"] }], "images": null });
        assert_eq!(said(&named), texts(&["x", "y", "z"]));
        assert_eq!(said(&json!({ "content": "x" })), texts(&["x"]));
        let parts = json!({ "content": [{ "type": "text", "text": "x " }, { "type": "text", "text": "y" }] });
        assert_eq!(said(&parts), texts(&["x y"]));
        assert!(said(&json!({ "texts": [5] })).unwrap_err().contains("no list of texts"));
        assert!(said(&json!({ "text": null, "images": [] })).unwrap_err().starts_with("it is no prompt"));
        let arena = json!({ "conversation": [], "images": ["https://h/a.png"] });
        assert!(said(&arena).unwrap_err().contains("use --prompt-tokens dataset:FILE instead"));
        assert!(said(&json!({ "turns": ["x"] })).unwrap_err().contains("--session-concurrency N plays"));
    }
}
