//! [`Members`]: a JSON object whose members are known by name, and sent as they are written.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, from_str};

/// The members of a JSON object, in their order, each with the text of its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(member, _)| member == name)
    }

    /// The text of a member's value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.position(name).map(|index| self.0[index].1.get())
    }

    /// Whether there is a member.
    pub(super) fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Whether a member is a text.
    pub(super) fn has_text(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.starts_with('"'))
    }

    /// A member that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        from_str(self.get(name)?).ok()
    }

    /// Removes a member; the text of its value.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.position(name).map(|index| self.0.remove(index).1.get().to_owned())
    }

    /// Sets a member, at the end.
    pub(super) fn set(&mut self, name: &str, value: &Value) {
        self.take(name);
        self.0.push((name.to_owned(), raw(value)));
    }

    /// Sets a member at the beginning, unless it exists.
    pub(super) fn begin_with(&mut self, name: &str, value: &Value) {
        if !self.has(name) {
            self.0.insert(0, (name.to_owned(), raw(value)));
        }
    }

    /// All of them as an object.
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
                    match members.position(&name) {
                        Some(index) => members.0[index].1 = value,
                        None => members.0.push((name, value)),
                    }
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
}
