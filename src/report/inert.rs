//! JSON whose texts are inert wherever they are shown: in a page, in a terminal.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Writes `value` as JSON in which no character can end a script element, control a terminal or change the direction of
/// writing: these are escaped, which every JSON reader undoes.
///
/// # Errors
/// If it cannot be written.
pub fn write(to: impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(to, Inert(CompactFormatter))).map_err(io::Error::from)
}

/// The same for finished JSON, whatever its layout: outside texts it has none of these characters.
pub fn escaped(json: &str) -> String {
    let escape = |character: char| match is_active(character) {
        true => format!("\\u{:04x}", u32::from(character)),
        false => character.to_string(),
    };
    json.chars().map(escape).collect()
}

struct Inert(CompactFormatter);

impl Formatter for Inert {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        let mut remaining = fragment;
        while let Some(at) = remaining.find(is_active) {
            let (before, after) = remaining.split_at(at);
            self.0.write_string_fragment(to, before)?;
            let mut after = after.chars();
            // Every one of them is a single UTF-16 unit.
            after.next().map_or(Ok(()), |active| write!(to, "\\u{:04x}", u32::from(active)))?;
            remaining = after.as_str();
        }
        self.0.write_string_fragment(to, remaining)
    }
}

fn is_active(character: char) -> bool {
    matches!(character, '<' | '>' | '&' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200b}'..='\u{200f}')
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_and_are_read_as_they_were() {
        let hostile = "</script><script>alert(1)</script>&\u{1b}[31m\u{202e}\u{9b}\"'\\ é 模型";
        let mut bytes = Vec::new();
        write(&mut bytes, &vec![hostile]).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let dangerous = ['<', '>', '&', '\u{1b}', '\u{202e}', '\u{9b}'];
        assert!(!text.contains(dangerous) && text.contains("模型"), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [hostile]);
        assert_eq!(escaped(&serde_json::to_string(&[hostile]).unwrap()), text);
    }
}
