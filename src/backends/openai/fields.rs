//! [`Fields`]: the members of a payload, in their order, some of them replaced.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// The members of a JSON object, in their order, each with the text of its value.
#[derive(Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Those of `document`.
    ///
    /// # Errors
    /// If it is not an object.
    pub(super) fn new(document: &[u8]) -> Result<Self> {
        serde_json::from_slice(document)
            .map_err(|_| Error::input("fields must be set in the payload, but it is not a JSON object"))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(member, _)| member == name)
    }

    /// Sets a member: in place if it exists, else at the end.
    pub(super) fn set(&mut self, name: &str, value: &Value) {
        self.put(name, serde_json::value::to_raw_value(value).expect("a value has a text"));
    }

    fn put(&mut self, name: &str, value: Box<RawValue>) {
        match self.position(name) {
            Some(index) => self.0[index].1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets a member to a JSON text, which stays as it is written.
    pub(super) fn set_text(&mut self, name: &str, text: &str) -> Result<()> {
        let value = RawValue::from_string(text.to_owned())
            .map_err(|error| Error::input(format!("the field '{name}' is to be set to what is no JSON: {error}")))?;
        self.put(name, value);
        Ok(())
    }

    /// Adds a member, unless it exists.
    pub(super) fn add(&mut self, name: &str, value: &Value) {
        if self.position(name).is_none() {
            self.set(name, value);
        }
    }

    /// Removes a member and returns the text of its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.position(name)?;
        Some(self.0.remove(index).1.get().to_owned())
    }

    /// The elements of a list among the members, as written; none if it is not a list.
    pub(super) fn list(&self, name: &str) -> Option<&str> {
        let value = self.0[self.position(name)?].1.get();
        value.strip_prefix('[')?.strip_suffix(']').map(str::trim)
    }

    /// A text among the members.
    pub(super) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0[self.position(name)?].1.get()).ok()
    }

    /// All of them as an object, with the value of one replaced by these parts.
    pub(super) fn write_with(&self, out: &mut Vec<u8>, name: &str, parts: &[&[u8]]) {
        out.push(b'{');
        for (index, (member, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, member).expect("writing to memory cannot fail");
            out.push(b':');
            match member == name {
                true => parts.iter().for_each(|part| out.extend_from_slice(part)),
                false => out.extend_from_slice(value.get().as_bytes()),
            }
        }
        out.push(b'}');
    }

    /// Whether a member is `true`.
    pub(super) fn has_true(&self, name: &str) -> bool {
        self.position(name).is_some_and(|index| self.0[index].1.get() == "true")
    }

    /// All of them as an object again.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut out = vec![b'{'];
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut out, name).expect("writing to memory cannot fail");
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
        out.push(b'}');
        out
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(member) = map.next_entry()? {
                    fields.push(member);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_replaced_in_place_or_added_at_the_end() {
        let mut fields = Fields::new(br#"{"model":"a","x":[1,{"model":2}],"stream":false}"#).unwrap();
        fields.set("model", &Value::from("b"));
        fields.add("stream", &Value::from(true));
        fields.add("n", &Value::from(3));
        assert!(!fields.has_true("stream"));
        assert_eq!(fields.text(), br#"{"model":"b","x":[1,{"model":2}],"stream":false,"n":3}"#);
        fields.set_text("n", r#"{"z":1, "a":2}"#).unwrap();
        assert!(fields.text().ends_with(br#""n":{"z":1, "a":2}}"#));
        assert!(fields.set_text("n", "{").is_err() && Fields::new(b"[1]").is_err());
    }
}
