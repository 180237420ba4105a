//! Custom parameters of requests.

use parking_lot::Mutex;

/// A custom request parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Key.
    pub name: String,
    /// Typed value.
    pub value: ParameterValue,
}

/// Words of names that only credentials have.
const SECRET: &[&str] = &[
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "secret",
];
/// What stands before `key` or `token` where that is a credential: models have `max_tokens` and a `pad_token`, too.
const BEFORE: &[&str] = &["access", "api", "auth", "id", "private", "refresh", "session", "signing"];

/// Names that the user has called secret (`--secret`).
static HIDDEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Shows no value of these names anywhere.
pub fn hide_values(names: impl Iterator<Item = String>) {
    HIDDEN.lock().extend(names);
}

/// Whether a parameter's value is shown nowhere: it looks like a credential, or is called one.
pub fn is_hidden(name: &str) -> bool {
    looks_secret(name) || HIDDEN.lock().iter().any(|hidden| hidden.eq_ignore_ascii_case(name))
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let ends = |word: &str| matches!(word, "key" | "token");
    words.iter().any(|word| SECRET.contains(word))
        || words.windows(2).any(|pair| BEFORE.contains(&pair[0]) && ends(pair[1]))
        || matches!(words[..], [only] if ends(only))
}

/// Value of a request parameter.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ParameterValue {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::looks_secret;

    #[test]
    fn credentials_are_known_by_their_names() {
        for name in
            ["api_key", "API-Key", "token", "access_token", "password", "client.secret", "Authorization", "x-auth-user"]
        {
            assert!(looks_secret(name), "{name}");
        }
        for name in ["max_tokens", "pad_token", "tokenizer", "ignore_eos", "cache_key_seed", "keys", "author", ""] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
