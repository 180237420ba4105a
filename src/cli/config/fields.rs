//! A mapping of another program's configuration, read key by key; keys that are left are errors.

use std::borrow::Cow;

use crate::config::yaml::{Fault, Key, Node, Place, Value};

/// The keys of a section that have not been read yet. A key with the value `null` counts as absent.
pub struct Fields<'a> {
    section: String,
    entries: Vec<&'a (Key, Node)>,
    whole: &'a Node,
}

impl<'a> Fields<'a> {
    /// The keys of a mapping; `section` is its name, as in `load.sweep`.
    ///
    /// # Errors
    /// If it is no mapping.
    pub fn new(section: impl Into<String>, node: &'a Node) -> Result<Self, Fault> {
        let entries = if node.value == Value::Null { &[][..] } else { node.map()? };
        Ok(Self { section: section.into(), entries: entries.iter().collect(), whole: node })
    }

    /// A key's name with its section.
    pub fn name(&self, key: &str) -> String {
        if self.section.is_empty() { key.to_owned() } else { format!("{}.{key}", self.section) }
    }

    /// Removes a key and returns its value.
    pub fn take(&mut self, key: &str) -> Option<&'a Node> {
        let at = self.entries.iter().position(|(name, _)| name.name == key)?;
        let (_, node) = self.entries.remove(at);
        (node.value != Value::Null).then_some(node)
    }

    /// Removes keys that mean nothing here.
    pub fn pass_over(&mut self, keys: &[&str]) {
        self.entries.retain(|(key, _)| !keys.contains(&key.name.as_str()));
    }

    /// Takes a text.
    ///
    /// # Errors
    /// If the value is none.
    pub fn text(&mut self, key: &str) -> Result<Option<&'a str>, Fault> {
        let Some(node) = self.take(key) else { return Ok(None) };
        text(node).map(Some).ok_or_else(|| self.misfit(key, node, "a text"))
    }

    /// Takes a boolean.
    ///
    /// # Errors
    /// If the value is none.
    pub fn switch(&mut self, key: &str) -> Result<Option<bool>, Fault> {
        let Some(node) = self.take(key) else { return Ok(None) };
        boolean(node).map(Some).ok_or_else(|| self.misfit(key, node, "true or false"))
    }

    /// Takes a finite number of at least `least`.
    ///
    /// # Errors
    /// If the value is none.
    pub fn number(&mut self, key: &str, least: f64) -> Result<Option<f64>, Fault> {
        let Some(node) = self.take(key) else { return Ok(None) };
        let number = text(node).and_then(decimal).filter(|number| *number >= least);
        number.map(Some).ok_or_else(|| self.misfit(key, node, &format!("a number of at least {least}")))
    }

    /// Takes a number above 0.
    ///
    /// # Errors
    /// If the value is none.
    pub fn positive(&mut self, key: &str) -> Result<Option<f64>, Fault> {
        let at = self.peek(key).map(|node| node.at);
        match (self.number(key, 0.0)?, at) {
            (Some(0.0), Some(at)) => Err(Fault::new(at, format!("'{}' must be above 0", self.name(key)))),
            (number, _) => Ok(number),
        }
    }

    /// Takes a whole number of at least `least`.
    ///
    /// # Errors
    /// If the value is none.
    pub fn whole(&mut self, key: &str, least: u64) -> Result<Option<u64>, Fault> {
        let Some(node) = self.take(key) else { return Ok(None) };
        let number = text(node).and_then(whole).filter(|number| *number >= least);
        number.map(Some).ok_or_else(|| self.misfit(key, node, &format!("a whole number of at least {least}")))
    }

    /// Takes a whole number of at least 1 that has two names.
    ///
    /// # Errors
    /// If the value is none.
    pub fn either(&mut self, key: &str, other: &str) -> Result<Option<u64>, Fault> {
        let value = self.whole(key, 1)?;
        Ok(value.or(self.whole(other, 1)?))
    }

    /// Takes one of several words.
    ///
    /// # Errors
    /// If the value is none of them.
    pub fn choice(&mut self, key: &str, names: &[&'static str]) -> Result<Option<&'static str>, Fault> {
        let Some(node) = self.take(key) else { return Ok(None) };
        let found = text(node).and_then(|text| names.iter().copied().find(|name| *name == text));
        found.map(Some).ok_or_else(|| self.misfit(key, node, &format!("one of {}", names.join(", "))))
    }

    /// Takes a list.
    ///
    /// # Errors
    /// If the value is none.
    pub fn list(&mut self, key: &str) -> Result<&'a [Node], Fault> {
        let Some(node) = self.take(key) else { return Ok(&[]) };
        match &node.value {
            Value::List(list) => Ok(list),
            _ => Err(self.misfit(key, node, "a list")),
        }
    }

    /// Takes a mapping within this one.
    ///
    /// # Errors
    /// If the value is none.
    pub fn section(&mut self, key: &str) -> Result<Option<Fields<'a>>, Fault> {
        let name = self.name(key);
        self.take(key).map(|node| Fields::new(name, node)).transpose()
    }

    /// The value of a key, which is not removed.
    pub fn peek(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(name, _)| name.name == key).map(|(_, node)| node)
    }

    /// Where the value of a key stands, taken or not; where the section does, if it has none.
    pub fn place(&self, key: &str) -> Place {
        let entries = self.whole.map().unwrap_or_default();
        entries.iter().find(|(name, _)| name.name == key).map_or(self.whole.at, |(_, node)| node.at)
    }

    /// A key that has no counterpart.
    ///
    /// # Errors
    /// If it has a value: `instead` is what would do.
    pub fn refuse(&mut self, key: &str, instead: &str) -> Result<(), Fault> {
        match self.take(key) {
            Some(node) => Err(Fault::new(node.at, format!("'{}' has no counterpart: {instead}", self.with(key, node)))),
            None => Ok(()),
        }
    }

    /// Removes a key that has no effect here; what is to be said of it, if it has a value.
    pub fn no_effect(&mut self, key: &str, why: &str) -> Option<String> {
        self.take(key).map(|node| format!("{}: {why}", self.with(key, node)))
    }

    /// A key's name with its section, and its value if that is a scalar.
    fn with(&self, key: &str, node: &Node) -> String {
        match &node.value {
            Value::Text(text) => format!("{}: {text}", self.name(key)),
            Value::Bool(on) => format!("{}: {on}", self.name(key)),
            _ => self.name(key),
        }
    }

    /// Ends the section.
    ///
    /// # Errors
    /// If keys are left, which the other program does not know either. One without a value is as good as absent: programs print all
    /// that they know.
    pub fn finish(self) -> Result<(), Fault> {
        match self.entries.iter().find(|(_, node)| node.value != Value::Null) {
            Some((key, _)) => {
                let rule = "this format has no such key, and takes no triton-bench flags: give those on the command \
                    line";
                Err(Fault::new(key.at, format!("'{}': {rule}", self.name(&key.name))))
            }
            None => Ok(()),
        }
    }

    fn misfit(&self, key: &str, node: &Node, needed: &str) -> Fault {
        Fault::new(node.at, format!("'{}' takes {needed}, not {}", self.name(key), shown(node)))
    }
}

/// A boolean, also in the words of YAML 1.1, which other programs read.
pub fn boolean(node: &Node) -> Option<bool> {
    match &node.value {
        Value::Bool(on) => Some(*on),
        Value::Text(text) => match text.as_str() {
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
            "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// A finite number as other programs read it: YAML 1.1 lets digits be in groups (`1_000`).
pub fn decimal(text: &str) -> Option<f64> {
    ungrouped(text).parse::<f64>().ok().filter(|number| number.is_finite())
}

/// A whole number of those, perhaps with decimals that are 0.
pub fn whole(text: &str) -> Option<u64> {
    let text = ungrouped(text);
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    whole.parse().ok().filter(|_| decimals.bytes().all(|digit| digit == b'0'))
}

/// A number without the marks between groups of its digits.
fn ungrouped(text: &str) -> Cow<'_, str> {
    let begins = text.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_digit());
    if begins && text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

/// A scalar's text.
pub fn text(node: &Node) -> Option<&str> {
    if let Value::Text(text) = &node.value { Some(text) } else { None }
}

fn shown(node: &Node) -> String {
    text(node).map_or_else(|| node.kind().to_owned(), |text| format!("'{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_yaml_and_pydantic() {
        for (text, wanted) in [
            ("60", Some(60)),
            ("60.0", Some(60)),
            ("60.", Some(60)),
            ("1_000", Some(1000)),
            ("1_000.00", Some(1000)),
            ("60.5", None),
            ("-60", None),
            ("_60", None),
            ("60.0.0", None),
            ("sixty", None),
        ] {
            assert_eq!(whole(text), wanted, "{text}");
        }
        assert_eq!(["1_000.5", "-1_0", "_1", "inf"].map(decimal), [Some(1000.5), Some(-10.0), None, None]);
    }
}
