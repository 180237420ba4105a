//! Answers with several texts, as SGLang's own endpoint gives to a batch of prompts, or to a prompt of which several samples are
//! wanted: a list of answers, or a stream whose events tell which text they are about. Each text counts its own tokens, and those of
//! its prompt.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::backend::{InferError, InputTokens};
use crate::engine::malformed;
use crate::json::in_legal_form;
use crate::openai::parsed_answer::ParsedAnswer;
use crate::openai::usage::Counts;

/// The most texts of an answer: each takes memory.
const MOST: u64 = 1 << 12;

/// Reads a document, which may be a list of answers.
///
/// # Errors
/// If it is not JSON.
#[inline]
pub(super) fn read(text: &[u8]) -> Result<ParsedAnswer, serde_json::Error> {
    match read_strictly(text) {
        Ok(parsed) if parsed.choices || parsed.usage || parsed.typed.is_some() => Ok(parsed),
        Ok(parsed) if std::str::from_utf8(text).is_ok() => Ok(parsed),
        // Servers that send tokens as they are have characters that are cut in two.
        Ok(_) => read_strictly(String::from_utf8_lossy(text).as_bytes()),
        Err(error) => read_leniently(text, error),
    }
}

/// The same of a document with numbers that JSON does not have, as Python's library writes them. `error` is the reason why it cannot
/// be read otherwise.
#[cold]
fn read_leniently(text: &[u8], error: serde_json::Error) -> Result<ParsedAnswer, serde_json::Error> {
    match in_legal_form(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(legal) => read_strictly(&legal).map_err(|_| error),
    }
}

fn read_strictly(text: &[u8]) -> Result<ParsedAnswer, serde_json::Error> {
    let parsed = ParsedAnswer::read(text)?;
    let is_list = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    Ok(if is_list { of_list(text).unwrap_or(parsed) } else { parsed })
}

/// What a list of answers says all together; `None` if it is a list of anything else.
fn of_list(text: &[u8]) -> Option<ParsedAnswer> {
    let Total { texts, counts: Counts { tokens, input } } = serde_json::from_slice(text).ok()?;
    Some(ParsedAnswer { content: true, size: text.len(), tokens, input, several: texts > 1, ..ParsedAnswer::default() })
}

/// What several texts count together, as far as all of them tell.
#[derive(Default)]
struct Total {
    texts: u64,
    counts: Counts,
}

impl Total {
    fn add(&mut self, counts: Counts) {
        let sum = |count: Option<u64>, other: Option<u64>| Some(count?.saturating_add(other?));
        let (before, more) = (self.counts.input, counts.input);
        self.counts = match self.texts {
            0 => counts,
            _ => Counts {
                tokens: sum(self.counts.tokens, counts.tokens),
                input: InputTokens {
                    all: sum(before.all, more.all),
                    cached: sum(before.cached, more.cached),
                    by_tokenizer: false,
                },
            },
        };
        self.texts += 1;
    }
}

/// That of a list of answers. None of them is kept: a list has as many as its server likes.
impl<'de> Deserialize<'de> for Total {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Answers;
        impl<'de> Visitor<'de> for Answers {
            type Value = Total;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of answers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Total, A::Error> {
                let mut total = Total::default();
                while let Some(item) = list.next_element::<&RawValue>()? {
                    if !item.get().starts_with('{') {
                        return Err(A::Error::custom("it is none"));
                    }
                    let ParsedAnswer { tokens, input, .. } =
                        ParsedAnswer::read(item.get().as_bytes()).map_err(A::Error::custom)?;
                    total.add(Counts { tokens, input });
                }
                Ok(total)
            }
        }
        deserializer.deserialize_seq(Answers)
    }
}

/// What the texts of a stream have counted so far.
#[derive(Clone, Debug, Default)]
pub(super) struct TextCounts {
    texts: Vec<Counts>,
    /// Output tokens of all.
    tokens: u64,
}

impl TextCounts {
    /// Whether no event has told which text it is about.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// None, for the next answer, in the same memory.
    pub(super) fn cleared(mut self) -> Self {
        self.texts.clear();
        Self { texts: self.texts, tokens: 0 }
    }

    /// An event is about the text of that number. Returns the output tokens of all texts so far, if this one counts.
    ///
    /// # Errors
    /// If there are too many texts.
    pub(super) fn note(&mut self, number: u64, counts: Counts) -> Result<Option<u64>, InferError> {
        if number >= MOST {
            return Err(malformed(format!("an event is about text {number} of its answer")));
        }
        let index = number as usize;
        self.texts.resize(self.texts.len().max(index + 1), Counts::default());
        let before = self.texts[index];
        self.texts[index] = counts.or(before);
        let Some(tokens) = counts.tokens else { return Ok(None) };
        self.tokens = self.tokens.saturating_add(tokens).saturating_sub(before.tokens.unwrap_or(0));
        Ok(Some(self.tokens))
    }

    /// The input tokens of all texts.
    pub(super) fn input(&self) -> InputTokens {
        let mut total = Total::default();
        self.texts.iter().for_each(|counts| total.add(*counts));
        total.counts.input
    }
}

/// The input tokens of a request whose several texts have counted `input`: the samples of a prompt each count the same prompt.
pub(super) fn of_prompts(input: InputTokens, request: &[u8]) -> InputTokens {
    if input.all.or(input.cached).is_none() {
        return input;
    }
    let samples = samples(request);
    InputTokens {
        all: input.all.map(|all| all / samples),
        cached: input.cached.map(|cached| cached / samples),
        ..input
    }
}

/// How many samples of each prompt a request wants.
fn samples(request: &[u8]) -> u64 {
    #[derive(Deserialize)]
    struct Request {
        #[serde(default)]
        sampling_params: Value,
    }
    let parameters = serde_json::from_slice::<Request>(request).map(|request| request.sampling_params);
    let parameters = parameters.unwrap_or_default();
    // A batch may have those of each prompt, which agree on the number.
    let first = if parameters.is_array() { &parameters[0] } else { &parameters };
    first["n"].as_u64().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(all: impl Into<Option<u64>>, cached: impl Into<Option<u64>>) -> InputTokens {
        InputTokens { all: all.into(), cached: cached.into(), by_tokenizer: false }
    }

    #[test]
    fn what_only_strict_readers_refuse_is_read() {
        let content = |text: &[u8]| read(text).map(|answer| (answer.choices, answer.content, answer.tokens)).ok();
        let odd =
            br#"{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":-Infinity}]}}],"usage":null}"#;
        assert_eq!(content(odd), Some((true, true, None)));
        let cut = b"{\"choices\":[{\"delta\":{\"content\":\"\xe4\xbd\"}}],\"usage\":{\"completion_tokens\":3}}";
        assert_eq!(content(cut), Some((true, true, Some(3))));
        for wrong in [&b"NaN {"[..], b"{\"a\":\"\xff\"", b"\xff", b"[DONE"] {
            assert_eq!(content(wrong), None);
        }
        assert!(
            read(b"[{NaN").unwrap_err().to_string().contains("key must be a string"),
            "what is wrong with the server's text"
        );
    }

    #[test]
    fn a_list_of_answers_has_what_all_of_them_count() {
        let of = |list: &str| of_list(list.as_bytes()).map(|all| (all.tokens, all.input, all.several));
        let text = |counts: &str| format!(r#"{{"text":"a","meta_info":{{{counts}}}}}"#);
        let (first, second) = (
            r#""prompt_tokens":9,"completion_tokens":3,"cached_tokens":1"#,
            r#""prompt_tokens":4,"completion_tokens":2"#,
        );
        let batch = format!("[{}, {}]", text(first), text(second));
        assert_eq!(of(&batch), Some((Some(5), input(13, None), true)));
        assert_eq!(of(&format!("[{}]", text(first))), Some((Some(3), input(9, 1), false)));
        assert_eq!(of(&format!("[{},{{}}]", text(first))), Some((None, input(None, None), true)), "not all are known");
        assert_eq!(of(r#"[{"generated_text":"ab","details":{"generated_tokens":2}}]"#).unwrap().0, Some(2));
        assert_eq!(of("[]"), Some((None, input(None, None), false)));
        let mut total = Total::default();
        (0..3).for_each(|_| total.add(Counts { tokens: Some(u64::MAX / 2), input: input(u64::MAX, 1) }));
        assert_eq!((total.counts.tokens, total.counts.input), (Some(u64::MAX), input(u64::MAX, 3)));
        for other in ["[1]", "[[{}]]", "{}", "[{}"] {
            assert_eq!(of(other), None, "{other}");
        }
        let read = |text: &str| read(text.as_bytes()).map(|answer| (answer.content, answer.tokens)).ok();
        assert_eq!((read(&format!(" {batch}")), read(&text(first))), (Some((true, Some(5))), Some((true, Some(3)))));
        assert_eq!((read("[1]"), read("[{}")), (Some((true, None)), None));
    }

    #[test]
    fn texts_of_a_stream_count_for_themselves() {
        let mut all = TextCounts::default();
        let counts = |tokens, prompt| Counts { tokens: Some(tokens), input: input(prompt, None) };
        assert!(all.is_empty());
        assert_eq!(all.note(1, counts(2, 9)), Ok(Some(2)));
        assert_eq!(all.input(), input(None, None), "the other has not begun");
        assert_eq!(all.note(0, counts(3, 7)), Ok(Some(5)));
        assert_eq!(all.note(1, counts(6, 9)), Ok(Some(9)));
        assert_eq!(all.note(1, Counts::default()), Ok(None));
        assert!(all.input() == input(16, None) && !all.is_empty());
        assert!(all.note(MOST, counts(1, 1)).is_err() && all.note(u64::MAX, counts(1, 1)).is_err());
        let room = all.texts.capacity();
        let mut all = all.cleared();
        assert!(all.is_empty() && all.texts.capacity() == room);
        assert_eq!(all.note(0, counts(3, 7)), Ok(Some(3)));
    }

    #[test]
    fn samples_of_a_prompt_count_it_once() {
        let of = |request: &str| of_prompts(input(18, 6), request.as_bytes());
        assert_eq!(of(r#"{"text":"a","sampling_params":{"n":3}}"#), input(6, 2));
        assert_eq!(of(r#"{"text":["a","b"],"sampling_params":[{"n":2},{"n":2}]}"#), input(9, 3));
        for plain in [r#"{"text":["a","b"]}"#, r#"{"sampling_params":{"n":0}}"#, r#"{"sampling_params":[]}"#, "x"] {
            assert_eq!(of(plain), input(18, 6), "{plain}");
        }
    }
}
