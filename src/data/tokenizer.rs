//! [`Tokenizer`]: the file of a model's tokenizer, which makes prompts with an exact number of tokens, and counts those of answers.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// Maximum size of a file; the largest vocabularies take a tenth.
const MAX_BYTES: u64 = 256 << 20;
/// How many times as long the replacements of a file may make a text: a blank becomes a mark of three bytes, and some have
/// two or three such rules.
const MAX_GROWTH: usize = 64;
/// Added if a word takes fewer tokens than expected: a single token in most vocabularies.
const FILLER: &str = " a";
/// How often a prompt is cut or filled before it stays as it is.
const TRIES: usize = 8;

mod library;
use library::Library;

/// A tokenizer.
pub struct Tokenizer {
    library: Library,
    flag: String,
}

impl Tokenizer {
    /// Reads a `tokenizer.json` in the format of Hugging Face's library. Its settings for truncation and padding are
    /// ignored.
    ///
    /// # Errors
    /// If there is no such file, or it is not a tokenizer's.
    pub fn read(path: &Path) -> Result<Self> {
        let flag = format!("--tokenizer {}", path.display());
        let fault =
            |reason: String| Error::input(format!("{flag}: {reason}; name the tokenizer.json of the measured model"));
        let bytes = bytes(path).map_err(fault)?;
        check_growth(&bytes).map_err(fault)?;
        let library = Library::read(&bytes).map_err(fault)?;
        Ok(Self { library, flag })
    }

    /// Cuts `text`, whose words take a token or more each, to `tokens` tokens. Returns whether it has exactly that
    /// many.
    ///
    /// # Errors
    /// If the tokenizer rejects the text.
    pub fn fit(&self, mut text: String, tokens: usize) -> Result<(String, bool)> {
        let mut ends = self.ends(&text)?;
        if ends.len() > tokens {
            // When cut within a word, the tokens before the cut stay the same in most vocabularies.
            text.truncate(tokens.checked_sub(1).map_or(0, |last| ends[last]));
        }
        for _ in 0..TRIES {
            ends = self.ends(&text)?;
            match ends.len() {
                count if count == tokens => return Ok((text, true)),
                count if count > tokens => text.truncate(text.rfind(' ').unwrap_or(0)),
                count => text.push_str(&FILLER.repeat(tokens - count)),
            }
        }
        Ok((text, false))
    }

    /// How many tokens a text has; `None` if the tokenizer does not accept it. Tokens that a model adds to every text are not
    /// included.
    pub fn count(&self, text: &str) -> Option<u64> {
        self.library.count(text)
    }

    /// Where each token ends, in bytes. Tokens that a model adds to every text are not included.
    fn ends(&self, text: &str) -> Result<Vec<usize>> {
        let fault = |error| Error::input(format!("{}: it takes no common English words: {error}", self.flag));
        self.library.ends(text).map_err(fault)
    }
}

/// Fails if rules of the file make a text much longer before it is cut into tokens: one after the other they multiply.
fn check_growth(bytes: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Rules {
        #[serde(default)]
        normalizer: Value,
        #[serde(default)]
        pre_tokenizer: Value,
    }
    // What is no JSON is reported when it is read as a whole.
    let Ok(rules) = serde_json::from_slice::<Rules>(bytes) else { return Ok(()) };
    let times = growth(&rules.normalizer).saturating_mul(growth(&rules.pre_tokenizer));
    if times <= MAX_GROWTH {
        return Ok(());
    }
    Err(format!("its rules make a text up to {times} times as long, and no model's more than {MAX_GROWTH} times"))
}

/// How many times as long the replacements in a part of the file make a text at most.
fn growth(part: &Value) -> usize {
    match part {
        Value::Array(parts) => parts.iter().map(growth).fold(1, usize::saturating_mul),
        Value::Object(fields) => {
            let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let factor = if word("type") == "Replace" {
                // An expression may stand for a single byte, or for none, where it puts its content between any two.
                let least = fields.get("pattern").and_then(|pattern| pattern["String"].as_str()).map_or(1, str::len);
                word("content").len().div_ceil(least.max(1)).max(1) + usize::from(least == 0)
            } else {
                1
            };
            fields.values().map(growth).fold(factor, usize::saturating_mul)
        }
        _ => 1,
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let unread = |error| format!("cannot be read: {error}");
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err("it is not a tokenizer file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(unread)?;
    if bytes.len() as u64 > MAX_BYTES { Err("it is larger than 256 MiB".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer(model: &Value, pre: &Value, truncation: &Value) -> Tokenizer {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let whole = json!({
            "version": "1.0", "truncation": truncation, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": pre, "post_processor": null, "decoder": null, "model": model,
        });
        fs::write(&path, whole.to_string()).unwrap();
        Tokenizer::read(&path).unwrap()
    }

    fn pairs() -> Tokenizer {
        // Letters, and some pairs of them.
        let letters: Vec<String> = " abcdefghijklmnopqrstuvwxyz".chars().map(String::from).collect();
        let merges = [["t", "h"], ["i", "s"], [" ", "a"]];
        let words = letters.iter().cloned().chain(merges.iter().map(|pair| pair.concat()));
        let vocabulary: serde_json::Map<String, Value> =
            words.enumerate().map(|(number, word)| (word, number.into())).collect();
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": merges,
        });
        tokenizer(&model, &Value::Null, &Value::Null)
    }

    #[test]
    fn prompts_have_as_many_tokens_as_asked_for() {
        let pairs = pairs();
        for tokens in 1..60 {
            let (text, is_exact) = pairs.fit("this is the way that it was and will be ".repeat(6), tokens).unwrap();
            assert!(is_exact && pairs.ends(&text).unwrap().len() == tokens, "{tokens}: {text}");
        }
    }

    #[test]
    fn words_that_are_tokens_stay_and_no_limit_of_the_file_counts() {
        let model = json!({"type": "WordLevel", "vocab": {"the": 0, "way": 1, "[UNK]": 2}, "unk_token": "[UNK]"});
        let limit = json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
        let words = tokenizer(&model, &json!({"type": "Whitespace"}), &limit);
        assert_eq!(words.fit("the way of it all".to_owned(), 5).unwrap(), ("the way of it all".to_owned(), true));
        assert_eq!(words.fit("the way of it all".to_owned(), 3).unwrap(), ("the way of".to_owned(), true));
        assert_eq!(words.fit("the".to_owned(), 3).unwrap(), ("the a a".to_owned(), true));
    }

    #[test]
    fn rules_that_multiply_a_text_are_refused_before_they_are_applied() {
        let rule = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let config = |rules: Vec<Value>| json!({"normalizer": {"type": "Sequence", "normalizers": rules}}).to_string();
        let letters = |count: usize| config(vec![rule(json!({"String": "a"}), "aaaaaaaaaa"); count]);
        check_growth(letters(1).as_bytes()).unwrap();
        let error = check_growth(letters(9).as_bytes()).unwrap_err();
        assert!(error.contains("1000000000 times"), "{error}");
        assert!(check_growth(config(vec![rule(json!({"Regex": "(?:)"}), &"b".repeat(100))]).as_bytes()).is_err());
        let usual = config(vec![
            rule(json!({"String": " "}), "▁"),
            rule(json!({"Regex": " {2,}"}), "▁"),
            rule(json!({"String": "``"}), "\""),
        ]);
        check_growth(usual.as_bytes()).unwrap();
        check_growth(b"{").unwrap();
    }

    #[test]
    fn what_is_no_tokenizer_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for (text, message) in [("{}", "not a tokenizer file"), ("\u{0}", "not a tokenizer file")] {
            fs::write(&path, text).unwrap();
            let error = Tokenizer::read(&path).err().unwrap().to_string();
            assert!(error.contains("--tokenizer") && error.contains("t.json") && error.contains(message), "{error}");
        }
        for path in [folder.path(), Path::new("/dev/zero"), &folder.path().join("none")] {
            let error = Tokenizer::read(path).err().unwrap().to_string();
            assert!(error.contains("it is not a tokenizer file") || error.contains("cannot be read"), "{error}");
        }
    }
}
