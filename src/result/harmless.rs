//! Texts of a file, made as harmless as a server's: whoever has written it, nothing of it controls a terminal or turns the
//! direction of writing, wherever it is shown.

use std::borrow::Cow;
use std::str::Chars;

use crate::stdio::acts;

/// JSON with every character escaped that acts on a terminal: what is read from it has the escape in its place. Line ends and
/// tabs stay.
pub fn harmless(json: &str) -> Cow<'_, str> {
    // Between values there are none, but line ends.
    let is_suspect =
        |character: char| character == '\\' || (acts(character) && !matches!(character, '\n' | '\r' | '\t'));
    if !json.contains(is_suspect) {
        return Cow::Borrowed(json);
    }
    let (mut clean, mut is_within, mut characters) = (String::with_capacity(json.len()), false, json.chars());
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                is_within = !is_within;
                clean.push(character);
            }
            '\\' if is_within => escape(&mut characters, &mut clean),
            _ if is_within => put(character, &mut clean),
            _ => clean.push(character),
        }
    }
    Cow::Owned(clean)
}

/// What a backslash stands before.
fn escape(characters: &mut Chars<'_>, clean: &mut String) {
    let whole = characters.as_str();
    let (meant, length) = match characters.next() {
        Some('u') => {
            let unit = whole.get(1..5).and_then(|digits| u32::from_str_radix(digits, 16).ok());
            // Half of a pair stands for nothing that acts.
            (unit.and_then(char::from_u32), unit.map_or(1, |_| 5))
        }
        Some('b') => (Some('\u{8}'), 1),
        Some('f') => (Some('\u{c}'), 1),
        Some('r') => (Some('\r'), 1),
        Some(other) => (None, other.len_utf8()),
        None => (None, 0),
    };
    *characters = whole[length..].chars();
    match meant {
        Some(meant) if acts(meant) && !matches!(meant, '\n' | '\t') => put(meant, clean),
        _ => {
            clean.push('\\');
            clean.push_str(&whole[..length]);
        }
    }
}

/// Adds a character of a text, escaped if it acts; as `escape_default` does, with the backslash that JSON wants before it.
fn put(character: char, clean: &mut String) {
    if acts(character) && !matches!(character, '\n' | '\t') {
        clean.push('\\');
        clean.extend(character.escape_default());
    } else {
        clean.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> String {
        serde_json::from_str(&harmless(json)).unwrap()
    }

    #[test]
    fn what_acts_on_a_terminal_is_read_as_its_escape_however_it_is_written() {
        for (json, text) in [
            (r#""a\u001b[31mb""#, "a\\u{1b}[31mb"),
            (r#""\u202Ex\u009b\b\r""#, "\\u{202e}x\\u{9b}\\u{8}\\r"),
            ("\"\u{202e}\u{7f}\"", "\\u{202e}\\u{7f}"),
            (r#""line\n\ttab \" \\ \/ \u00e9 \ud83d\ude00""#, "line\n\ttab \" \\ / é 😀"),
            (r#""\\u001b""#, "\\u001b"),
        ] {
            assert_eq!(read(json), text, "{json}");
        }
    }

    #[test]
    fn what_is_plain_stays_as_it_is() {
        let plain = "{\"a\": [1,\r\n 2], \"模型\": \"é\"}\n";
        assert!(matches!(harmless(plain), Cow::Borrowed(text) if text == plain));
        for broken in ["\"\\", "\"\\u12", "\"\\u00é", "\\", "{\"a\\"] {
            assert!(serde_json::from_str::<String>(&harmless(broken)).is_err(), "{broken}");
        }
    }
}
