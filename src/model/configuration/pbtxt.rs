//! The text form of a configuration: nested messages in braces, repeated fields in brackets, enumeration words bare,
//! other texts quoted.

use std::fmt::Write as _;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::schema;

/// Fields that a reader looks for first; of those inside others only the name.
const FIRST: [&str; 8] =
    ["name", "platform", "backend", "max_batch_size", "input", "output", "instance_group", "dynamic_batching"];
/// `config.pbtxt` for a configuration in JSON. Empty and zero values are left out, because the server fills them in. Members
/// that are newer than this program are written as what they look like.
pub fn text(configuration: &Value) -> String {
    let mut text = String::new();
    let config = schema::config();
    let fields = configuration.as_object().into_iter().flat_map(|members| in_order(members, &FIRST));
    fields.for_each(|(name, value)| Field::new(Some(&config), name).write(&mut text, 0, value));
    text
}

/// Members, these first.
fn in_order<'a>(members: &'a Map<String, Value>, first: &[&str]) -> Vec<(&'a String, &'a Value)> {
    let mut fields: Vec<(&String, &Value)> = members.iter().collect();
    fields.sort_by_key(|(name, _)| first.iter().position(|first| first == name).unwrap_or(first.len()));
    fields
}

/// A field by its name in the text, and what is known of it.
struct Field<'a> {
    name: &'a str,
    descriptor: Option<FieldDescriptor>,
}

impl<'a> Field<'a> {
    fn new(message: Option<&MessageDescriptor>, name: &'a str) -> Self {
        Self { name, descriptor: message.and_then(|message| message.get_field_by_name(name)) }
    }

    /// Writes the field with this value, indented by `depth`.
    fn write(&self, text: &mut String, depth: usize, value: &Value) {
        let (indent, name) = ("  ".repeat(depth), self.name);
        match value {
            Value::Array(list) if list.is_empty() => {}
            Value::Array(list) if list.iter().all(|item| !item.is_object()) => {
                let items: Vec<String> = list.iter().map(|item| self.scalar(item)).collect();
                let _ = writeln!(text, "{indent}{name}: [{}]", items.join(", "));
            }
            Value::Array(list) => list.iter().for_each(|item| self.write(text, depth, item)),
            Value::Object(members) => {
                let kind = self.descriptor.as_ref().map(FieldDescriptor::kind);
                let message = kind.as_ref().and_then(Kind::as_message);
                let is_map = self.descriptor.as_ref().is_some_and(FieldDescriptor::is_map);
                if !is_map {
                    let _ = writeln!(text, "{indent}{name} {{");
                    let fields = in_order(members, &FIRST[..1]).into_iter();
                    fields.for_each(|(name, value)| Field::new(message, name).write(text, depth + 1, value));
                    let _ = writeln!(text, "{indent}}}");
                    return;
                }
                for (key, value) in members {
                    let key = Field::new(message, "key").scalar(&Value::from(key.as_str()));
                    let _ = writeln!(text, "{indent}{name} {{\n{indent}  key: {key}");
                    Field::new(message, "value").write(text, depth + 1, value);
                    let _ = writeln!(text, "{indent}}}");
                }
            }
            value if is_default(value) => {}
            value => {
                let _ = writeln!(text, "{indent}{name}: {}", self.scalar(value));
            }
        }
    }

    /// Words of enumerations are bare, and so are numbers, which JSON may carry as text.
    fn scalar(&self, value: &Value) -> String {
        let Value::String(text) = value else { return value.to_string() };
        match self.descriptor.as_ref().map(FieldDescriptor::kind) {
            None | Some(Kind::String) => quoted(text),
            Some(_) if text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.+".contains(c)) => text.clone(),
            Some(_) => quoted(text),
        }
    }
}

/// Whether a field that is left out has this value.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\{:03o}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_becomes_text() {
        let configuration = json!({"name": "m", "platform": "", "backend": "bench", "max_batch_size": 8,
            "input": [{"name": "IN \"x\"", "data_type": "TYPE_FP32", "dims": [16, "-1"], "optional": false}],
            "instance_group": [{"count": 2, "kind": "KIND_CPU", "gpus": [], "rate_limiter": {"resources": [{"name": "R", "count": 1}]}}],
            "dynamic_batching": {"max_queue_delay_microseconds": "100", "preferred_batch_size": [4, 8]},
            "parameters": {"delay_us": {"string_value": "500"}}, "version_policy": {"latest": {"num_versions": 1}}});
        let expected = r#"name: "m"
backend: "bench"
max_batch_size: 8
input {
  name: "IN \"x\""
  data_type: TYPE_FP32
  dims: [16, -1]
}
instance_group {
  count: 2
  kind: KIND_CPU
  rate_limiter {
    resources {
      name: "R"
      count: 1
    }
  }
}
dynamic_batching {
  max_queue_delay_microseconds: 100
  preferred_batch_size: [4, 8]
}
parameters {
  key: "delay_us"
  value {
    string_value: "500"
  }
}
version_policy {
  latest {
    num_versions: 1
  }
}
"#;
        let lines = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(lines(&text(&configuration)), lines(expected));
        assert_eq!(
            text(&json!({"dynamic_batching": {}})),
            "dynamic_batching {\n}\n",
            "an empty message means something"
        );
    }

    #[test]
    fn what_a_value_is_follows_from_where_it_is() {
        let lines = |configuration: Value| {
            text(&configuration).lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            lines(
                json!({"parameters": {"PRECISION": {"string_value": "TYPE_FP16"}}, "default_model_filename": "MODE_A"})
            ),
            r#"default_model_filename: "MODE_A" parameters { key: "PRECISION" value { string_value: "TYPE_FP16" } }"#
        );
        let newer = json!({"x_y": {"z": "A", "n": [1]}, "ensemble_scheduling": {"max_inflight_requests": 8, "w": "7"}});
        assert_eq!(lines(newer), r#"ensemble_scheduling { max_inflight_requests: 8 w: "7" } x_y { n: [1] z: "A" }"#);
        let policy = json!({"timeout_action": "DELAY", "default_timeout_microseconds": "5"});
        assert_eq!(
            lines(json!({"dynamic_batching": {"priority_levels": "2", "priority_queue_policy": {"1": policy}}})),
            "dynamic_batching { priority_levels: 2 priority_queue_policy { key: 1 value { \
             default_timeout_microseconds: 5 timeout_action: DELAY } } }"
        );
        assert_eq!(
            lines(
                json!({"optimization": {"cuda": {"graph_spec": [{"batch_size": 1, "input": {"IN": {"dim": ["4"]}}}]}}})
            ),
            r#"optimization { cuda { graph_spec { batch_size: 1 input { key: "IN" value { dim: [4] } } } } }"#
        );
        assert_eq!(
            lines(
                json!({"ensemble_scheduling": {"step": [{"model_name": "7", "model_version": "-1", "input_map": {"A": "1"}}]}})
            ),
            r#"ensemble_scheduling { step { input_map { key: "A" value: "1" } model_name: "7" model_version: -1 } }"#
        );
        assert_eq!(
            lines(
                json!({"model_warmup": [{"name": "w", "inputs": {"A": {"data_type": "TYPE_FP32", "dims": ["2"], "zero_data": true}}}]})
            ),
            r#"model_warmup { name: "w" inputs { key: "A" value { data_type: TYPE_FP32 dims: [2] zero_data: true } } }"#
        );
    }
}
