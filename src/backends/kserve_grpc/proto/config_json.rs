//! A model's configuration as JSON, so that its hash is the same for every transport.

use serde_json::{Map, Value as Json};

use crate::model::schema::{CONFIG, Field, Key, Kind, Message, Shape};
use crate::model::{real, word};
use crate::wire::protobuf::{Fields, Value, take_varint};

/// Limit on the values of a configuration: a message of two bytes stands for a tree of dozens.
const MAX_VALUES: usize = 1_000_000;

/// A configuration as JSON, without fields at their defaults; `None` if it is malformed, too long, or has fields that
/// this program does not know, because a hash without them would be that of another configuration.
pub fn read(bytes: &[u8]) -> Option<Json> {
    Reader { left: MAX_VALUES }.message(CONFIG, bytes)
}

struct Reader {
    /// Values still allowed.
    left: usize,
}

impl Reader {
    fn message(&mut self, fields: Message, bytes: &[u8]) -> Option<Json> {
        let mut members = Map::new();
        let mut values = Fields::of(bytes);
        for (number, value) in values.by_ref() {
            let field = fields.iter().find(|field| field.number == number)?;
            self.member(field, value, &mut members)?;
        }
        (!values.is_broken()).then_some(Json::Object(members))
    }

    fn member(&mut self, field: &Field, value: Value<'_>, members: &mut Map<String, Json>) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        match field.shape {
            Shape::One => {
                let one = self.one(field.kind, value)?;
                members.insert(field.name.to_owned(), one);
            }
            Shape::Many => {
                let all = members.entry(field.name).or_insert_with(|| Json::Array(Vec::new()));
                self.many(field.kind, value, all.as_array_mut()?)?;
            }
            Shape::Map(key) => {
                let (key, one) = self.entry(key, field.kind, value.bytes()?)?;
                let all = members.entry(field.name).or_insert_with(|| Json::Object(Map::new()));
                all.as_object_mut()?.insert(key, one);
            }
        }
        Some(())
    }

    /// An element of a list, or all that are packed into one field.
    fn many(&mut self, kind: Kind, value: Value<'_>, all: &mut Vec<Json>) -> Option<()> {
        let Value::Bytes(mut packed) = value else {
            all.push(self.one(kind, value)?);
            return Some(());
        };
        match kind {
            Kind::Text | Kind::Nested(_) => all.push(self.one(kind, value)?),
            Kind::Real => {
                for bytes in packed.chunks(4) {
                    self.left = self.left.checked_sub(1)?;
                    all.push(real(f32::from_le_bytes(bytes.try_into().ok()?)));
                }
            }
            _ => {
                while !packed.is_empty() {
                    self.left = self.left.checked_sub(1)?;
                    let number = take_varint(&mut packed)?;
                    all.push(self.one(kind, Value::Number(number))?);
                }
            }
        }
        Some(())
    }

    fn one(&mut self, kind: Kind, value: Value<'_>) -> Option<Json> {
        Some(match (kind, value) {
            (Kind::Signed, Value::Number(number)) => Json::from(number as i64),
            (Kind::Unsigned, Value::Number(number)) => Json::from(number),
            (Kind::Flag, Value::Number(number)) => Json::from(number != 0),
            (Kind::Word(words), Value::Number(number)) => word(words, number),
            (Kind::Real, Value::Fixed(bits)) => real(f32::from_bits(bits as u32)),
            (Kind::Text, value) => Json::from(value.text()?),
            (Kind::Nested(fields), Value::Bytes(bytes)) => self.message(fields, bytes)?,
            _ => return None,
        })
    }

    /// A map entry is a message with the key in its first field and the value in its second; either may be left out.
    fn entry(&mut self, key: Key, kind: Kind, bytes: &[u8]) -> Option<(String, Json)> {
        let mut name = if key == Key::Number { "0".to_owned() } else { String::new() };
        let mut found = None;
        let mut values = Fields::of(bytes);
        for (number, value) in values.by_ref() {
            match (number, key, value) {
                (1, Key::Number, Value::Number(number)) => name = number.to_string(),
                (1, Key::Text, value) => name = value.text()?.to_owned(),
                (2, _, value) => found = Some(self.one(kind, value)?),
                _ => return None,
            }
        }
        let nothing = || match kind {
            Kind::Nested(_) => Json::Object(Map::new()),
            _ => Json::from(""),
        };
        (!values.is_broken()).then(|| (name, found.unwrap_or_else(nothing)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backends::kserve_grpc::proto::tests::{message, numbers};
    use crate::model::ConfigMark;

    #[test]
    fn a_message_and_the_json_of_the_same_configuration_have_one_hash() {
        let input = [
            message(&[(1, b"A")]),
            numbers(&[(2, 11)]),
            message(&[(4, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 16])]),
        ]
        .concat();
        let parameter = message(&[(1, b"k"), (2, &message(&[(1, b"v")]))]);
        let queue = [numbers(&[(1, 2)]), message(&[(2, &numbers(&[(1, 1)]))])].concat();
        let dynamic = [message(&[(1, &[4, 8])]), numbers(&[(2, 100)]), message(&[(7, &queue)])].concat();
        let bytes = [
            message(&[(1, b"m"), (17, b"python"), (5, &input), (14, &parameter), (11, &dynamic), (19, b"")]),
            numbers(&[(4, 8)]),
        ]
        .concat();
        let json = json!({
            "name": "m", "platform": "", "backend": "python", "max_batch_size": 8, "cc_model_filenames": {},
            "input": [{"name": "A", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [-1, 16], "optional": false}],
            "parameters": {"k": {"string_value": "v"}}, "model_transaction_policy": {"decoupled": false},
            "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": "100", "preserve_ordering": false,
                "priority_queue_policy": {"2": {"timeout_action": "DELAY", "max_queue_size": 0}}},
        });
        assert_eq!(ConfigMark::of(&read(&bytes).unwrap()), ConfigMark::of(&json));
    }

    #[test]
    fn what_is_unknown_or_malformed_has_no_hash() {
        assert_eq!(read(&message(&[(1, b"m")])), Some(json!({"name": "m"})));
        assert_eq!(read(&message(&[(99, b"newer")])), None);
        assert_eq!(read(&message(&[(5, &message(&[(77, b"newer")]))])), None);
        assert_eq!(read(&[0x0a, 0x05, b'm']), None);
        assert_eq!(read(&numbers(&[(1, 3)])), None, "a name is text");
        assert_eq!(read(&message(&[(5, b"")]).repeat(MAX_VALUES + 1)), None);
    }
}
