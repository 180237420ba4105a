//! [`Members`]: a JSON object whose members are known by name, some of them replaced, and the others sent as they are written.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, from_slice, from_str};

use crate::error::{Error, Result};

/// The members of a JSON object, in their order, each with the text of its value.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Those of `document`.
    ///
    /// # Errors
    /// If it is not an object.
    pub fn read(document: &[u8]) -> Result<Self> {
        from_slice(document).map_err(|_| Error::input("fields must be set in the payload, but it is not a JSON object"))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(member, _)| member == name)
    }

    /// The text of a member's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.position(name).map(|index| self.0[index].1.get())
    }

    /// Whether there is a member.
    pub fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Whether a member is a text.
    pub fn has_text(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.starts_with('"'))
    }

    /// A member that is a text.
    pub fn string(&self, name: &str) -> Option<String> {
        from_str(self.get(name)?).ok()
    }

    /// Whether a member is `true`.
    pub fn has_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The elements of a member that is a list, as they are written.
    pub fn list(&self, name: &str) -> Option<&str> {
        self.get(name)?.strip_prefix('[')?.strip_suffix(']').map(str::trim)
    }

    /// A member that is an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        from_str(self.get(name)?).ok()
    }

    /// Removes a member; the text of its value.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.position(name).map(|index| self.0.remove(index).1.get().to_owned())
    }

    /// Sets a member: in place if it exists, else at the end.
    pub fn set(&mut self, name: &str, value: &Value) {
        self.put(name, raw(value));
    }

    /// Sets all members of another object.
    pub fn merge(&mut self, others: Self) {
        others.0.into_iter().for_each(|(name, value)| self.put(&name, value));
    }

    /// Their names, but for those whose value is `null`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| value.get() != "null").map(|(name, _)| name.as_str())
    }

    /// Sets a member to a JSON text, which stays as it is written.
    ///
    /// # Errors
    /// If it is none.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        let value = RawValue::from_string(text.to_owned())
            .map_err(|error| Error::input(format!("the field '{name}' is to be set to what is no JSON: {error}")))?;
        self.put(name, value);
        Ok(())
    }

    /// Adds a member at the end, unless it exists.
    pub fn add(&mut self, name: &str, value: &Value) {
        if !self.has(name) {
            self.set(name, value);
        }
    }

    fn put(&mut self, name: &str, value: Box<RawValue>) {
        match self.position(name) {
            Some(index) => self.0[index].1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets a member at the beginning, unless it exists.
    pub fn begin_with(&mut self, name: &str, value: &Value) {
        if !self.has(name) {
            self.0.insert(0, (name.to_owned(), raw(value)));
        }
    }

    /// All of them as an object.
    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out, |_| None);
        out
    }

    /// All of them as an object, with the value of one replaced by these parts.
    pub fn write_with(&self, out: &mut Vec<u8>, name: &str, parts: &[&[u8]]) {
        self.write(out, |member| (member == name).then_some(parts));
    }

    fn write<'a>(&self, out: &mut Vec<u8>, replaced: impl Fn(&str) -> Option<&'a [&'a [u8]]>) {
        out.push(b'{');
        for (index, (member, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, member).expect("writing to memory cannot fail");
            out.push(b':');
            match replaced(member) {
                Some(parts) => parts.iter().for_each(|part| out.extend_from_slice(part)),
                None => out.extend_from_slice(value.get().as_bytes()),
            }
        }
        out.push(b'}');
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value has a text")
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Members::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    // Of two members of one name, the last counts, as for most readers.
                    members.put(&name, value);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_stay_as_they_are_written() {
        let text = r#"{"z":{"b":1.50, "a":99999999999999999999999},"a":"\u00e9","z2":null}"#;
        let mut members: Members = from_str(text).unwrap();
        assert_eq!(members.text(), text.as_bytes());
        assert!(members.has_text("a") && members.has("z2") && !members.has("b") && members.object("a").is_none());
        assert_eq!(members.object("z").unwrap().get("a"), Some("99999999999999999999999"));
        assert_eq!(members.take("a").as_deref(), Some(r#""\u00e9""#));
        members.set("z2", &json!(5));
        members.begin_with("z2", &json!(6));
        members.begin_with("m", &json!("x"));
        assert_eq!(members.text(), br#"{"m":"x","z":{"b":1.50, "a":99999999999999999999999},"z2":5}"#);
        assert_eq!(from_str::<Members>(r#"{"a":1,"b":2,"a":3}"#).unwrap().text(), br#"{"a":3,"b":2}"#);
    }

    #[test]
    fn members_are_replaced_in_place_or_added_at_the_end() {
        let mut members = Members::read(br#"{"model":"a","x":[1,{"model":2}],"stream":false}"#).unwrap();
        members.set("model", &json!("b"));
        members.add("stream", &json!(true));
        members.add("n", &json!(3));
        assert!(!members.has_true("stream"));
        assert_eq!(members.text(), br#"{"model":"b","x":[1,{"model":2}],"stream":false,"n":3}"#);
        members.set_text("n", r#"{"z":1, "a":2}"#).unwrap();
        assert!(members.text().ends_with(br#""n":{"z":1, "a":2}}"#));
        assert!(members.set_text("n", "{").is_err() && Members::read(b"[1]").is_err());
        let mut out = Vec::new();
        Members::read(br#"{"a":1,"b":[2]}"#).unwrap().write_with(&mut out, "b", &[b"[", b"3]"]);
        assert_eq!(out, br#"{"a":1,"b":[3]}"#);
        let mut merged = Members::read(br#"{"a":1,"b":2,"c":null}"#).unwrap();
        merged.merge(Members::read(br#"{"b":1.50,"z":[]}"#).unwrap());
        assert_eq!(merged.text(), br#"{"a":1,"b":1.50,"c":null,"z":[]}"#);
        assert_eq!(merged.names().collect::<Vec<_>>(), ["a", "b", "z"]);
    }
}
