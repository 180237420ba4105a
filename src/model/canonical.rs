//! A model's configuration in a canonical form, whichever way it came: in process and over HTTP as JSON with every
//! field present, over gRPC as a message without fields at their defaults.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::schema;

/// The same configuration in canonical form: every known field in one representation, and without fields at their
/// defaults. The presence of a message counts, even if everything in it is left out: an empty `dynamic_batching` is
/// one. Members that are newer than this program stay as they are, unless they are empty.
pub fn canonical(config: &Value) -> Value {
    match config {
        Value::Object(members) => Value::Object(message(&schema::config(), members)),
        other => other.clone(),
    }
}

fn message(fields: &MessageDescriptor, members: &Map<String, Value>) -> Map<String, Value> {
    let entries = members.iter().filter_map(|(name, value)| {
        let kept = match fields.get_field_by_name(name) {
            Some(field) => member(&field, value),
            None => Some(value.clone()).filter(|value| !is_nothing(value)),
        };
        kept.map(|value| (name.clone(), value))
    });
    entries.collect()
}

/// A member, unless it is at its default.
fn member(field: &FieldDescriptor, value: &Value) -> Option<Value> {
    let kind = schema::value_kind(field);
    let canonical = |value: &Value| element(&kind, value);
    match value {
        Value::Null => None,
        Value::Array(all) if field.is_list() && !all.is_empty() => Some(all.iter().map(canonical).collect()),
        Value::Object(all) if field.is_map() && !all.is_empty() => {
            Some(Value::Object(all.iter().map(|(key, value)| (key.clone(), canonical(value))).collect()))
        }
        value if field.supports_presence() && matches!(kind, Kind::Message(_)) => Some(canonical(value)),
        value => Some(canonical(value)).filter(|value| !is_nothing(value) && !is_first(&kind, value)),
    }
}

fn element(kind: &Kind, value: &Value) -> Value {
    match (kind, value) {
        (Kind::Message(fields), Value::Object(members)) => Value::Object(message(fields, members)),
        // Protobuf's JSON writes 64-bit integers as text.
        (Kind::Int64, Value::String(text)) => text.parse::<i64>().map_or_else(|_| value.clone(), Value::from),
        (Kind::Uint64, Value::String(text)) => text.parse::<u64>().map_or_else(|_| value.clone(), Value::from),
        (Kind::Float, Value::Number(number)) => real(number.as_f64().unwrap_or(0.0) as f32),
        (Kind::Enum(words), Value::Number(number)) => {
            let word = number.as_i64().and_then(|number| words.get_value(i32::try_from(number).ok()?));
            word.map_or_else(|| value.clone(), |word| Value::from(word.name()))
        }
        (Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64, Value::Number(number)) => {
            whole(number).unwrap_or_else(|| value.clone())
        }
        _ => value.clone(),
    }
}

/// An integer that may be written as `8.0`.
fn whole(number: &serde_json::Number) -> Option<Value> {
    let written = number.as_f64().filter(|_| number.is_f64())?;
    (written.fract() == 0.0 && written.abs() < 1e15).then(|| Value::from(written as i64))
}

/// A 32-bit number, with no more digits than it has.
fn real(number: f32) -> Value {
    serde_json::Number::from_f64(f64::from(number)).map_or(Value::Null, Value::Number)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
    }
}

fn is_first(kind: &Kind, value: &Value) -> bool {
    matches!(kind, Kind::Enum(words) if value.as_str() == Some(words.default_value().name()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_at_its_default_is_not_told_and_messages_are() {
        let whole = json!({
            "name": "m", "platform": "", "max_batch_size": 8, "parameters": {}, "version_policy": {"latest": {"num_versions": 1}},
            "input": [{"name": "A", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [0, 16], "optional": false}],
            "dynamic_batching": {"preferred_batch_size": [], "max_queue_delay_microseconds": "0", "priority_queue_policy": {}},
            "instance_group": [{"kind": "KIND_CPU", "count": 1, "gpus": []}], "newer": {"a": 0}, "unset": {}, "response_cache": null,
        });
        let short = json!({
            "name": "m", "max_batch_size": 8, "version_policy": {"latest": {"num_versions": 1}},
            "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [0, 16]}],
            "dynamic_batching": {}, "instance_group": [{"kind": "KIND_CPU", "count": 1}], "newer": {"a": 0},
        });
        assert_eq!(canonical(&whole), short);
        assert_eq!(canonical(&short), short);
        assert_ne!(canonical(&json!({"dynamic_batching": {}})), canonical(&json!({})));
        assert_eq!(canonical(&json!({"version_policy": {"all": {}}})), json!({"version_policy": {"all": {}}}));
    }

    #[test]
    fn numbers_and_words_have_one_form() {
        let text = json!({"dynamic_batching": {"max_queue_delay_microseconds": "100", "default_queue_policy": {"timeout_action": 1}},
            "sequence_batching": {"direct": {"minimum_slot_utilization": 0.1}}, "max_batch_size": 4.0});
        let number = json!({"dynamic_batching": {"max_queue_delay_microseconds": 100,
            "default_queue_policy": {"timeout_action": "DELAY"}},
            "sequence_batching": {"direct": {"minimum_slot_utilization": f64::from(0.1_f32)}}, "max_batch_size": 4});
        assert_eq!(canonical(&text), canonical(&number));
        assert_eq!(canonical(&json!({"parameters": {"a": {"string_value": ""}}})), json!({"parameters": {"a": {}}}));
        assert_eq!(canonical(&json!({"metric_tags": {"a": ""}})), json!({"metric_tags": {"a": ""}}));
        assert_eq!(canonical(&json!("odd")), json!("odd"));
    }
}
