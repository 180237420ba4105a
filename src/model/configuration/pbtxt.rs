//! The text form of a configuration: nested messages in braces, repeated fields in brackets, enumeration words bare,
//! other texts quoted.

use std::fmt::Write as _;

use serde_json::Value;

/// Fields that a reader looks for first.
const FIRST: [&str; 8] =
    ["name", "platform", "backend", "max_batch_size", "input", "output", "instance_group", "dynamic_batching"];
/// Fields whose value is an enumeration word, which is written without quotes. These tables name fields of Triton's
/// `model_config.proto` by their path from its `ModelConfig`; `*` is the value of a map.
const WORDS: [&str; 16] = [
    "input.data_type",
    "input.format",
    "output.data_type",
    "batch_input.kind",
    "batch_input.data_type",
    "batch_output.kind",
    "optimization.priority",
    "dynamic_batching.default_queue_policy.timeout_action",
    "dynamic_batching.priority_queue_policy.*.timeout_action",
    "sequence_batching.control_input.control.kind",
    "sequence_batching.control_input.control.data_type",
    "sequence_batching.state.data_type",
    "sequence_batching.state.initial_state.data_type",
    "instance_group.kind",
    "instance_group.secondary_devices.kind",
    "model_warmup.inputs.*.data_type",
];
/// Fields that map names to values.
const MAPS: [&str; 11] = [
    "parameters",
    "cc_model_filenames",
    "metric_tags",
    "ensemble_scheduling.step.input_map",
    "ensemble_scheduling.step.output_map",
    "model_warmup.inputs",
    "optimization.cuda.graph_spec.input",
    "optimization.cuda.graph_spec.graph_lower_bound.input",
    "optimization.execution_accelerators.gpu_execution_accelerator.parameters",
    "optimization.execution_accelerators.cpu_execution_accelerator.parameters",
    "model_repository_agents.agents.parameters",
];
/// Fields that map numbers to values.
const NUMBERED: [&str; 1] = ["dynamic_batching.priority_queue_policy"];
/// Fields of 64 bits, which JSON carries as text.
const NUMBERS: [&str; 21] = [
    "version_policy.specific.versions",
    "input.dims",
    "input.reshape.shape",
    "output.dims",
    "output.reshape.shape",
    "optimization.cuda.graph_spec.input.*.dim",
    "optimization.cuda.graph_spec.graph_lower_bound.input.*.dim",
    "dynamic_batching.max_queue_delay_microseconds",
    "dynamic_batching.priority_levels",
    "dynamic_batching.default_priority_level",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "dynamic_batching.priority_queue_policy.*.default_timeout_microseconds",
    "sequence_batching.direct.max_queue_delay_microseconds",
    "sequence_batching.oldest.max_queue_delay_microseconds",
    "sequence_batching.max_sequence_idle_microseconds",
    "sequence_batching.state.dims",
    "sequence_batching.state.initial_state.dims",
    "ensemble_scheduling.step.model_version",
    "instance_group.secondary_devices.device_id",
    "model_warmup.inputs.*.dims",
    "model_metrics.metric_control.histogram_options.buckets",
];

/// `config.pbtxt` for a configuration in JSON. Empty and zero values are left out, because the server fills them in.
pub fn text(configuration: &Value) -> String {
    let mut text = String::new();
    let mut fields: Vec<(&String, &Value)> = configuration.as_object().into_iter().flatten().collect();
    let place = |name: &str| FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
    fields.sort_by_key(|(name, _)| place(name));
    fields.into_iter().for_each(|(name, value)| field(&mut text, (0, name), name, value));
    text
}

/// Writes the field `name`, which is at `path`, indented by `depth`.
fn field(text: &mut String, (depth, path): (usize, &str), name: &str, value: &Value) {
    let indent = "  ".repeat(depth);
    let key = |key: &String| if NUMBERED.contains(&path) { key.clone() } else { quoted(key) };
    match value {
        Value::Array(list) if list.is_empty() => {}
        Value::Array(list) if list.iter().all(|item| !item.is_object()) => {
            let items: Vec<String> = list.iter().map(|item| scalar(path, item)).collect();
            let _ = writeln!(text, "{indent}{name}: [{}]", items.join(", "));
        }
        Value::Array(list) => list.iter().for_each(|item| field(text, (depth, path), name, item)),
        Value::Object(members) if MAPS.contains(&path) || NUMBERED.contains(&path) => {
            for (own, value) in members {
                let _ = writeln!(text, "{indent}{name} {{\n{indent}  key: {}", key(own));
                field(text, (depth + 1, &format!("{path}.*")), "value", value);
                let _ = writeln!(text, "{indent}}}");
            }
        }
        Value::Object(members) => {
            let _ = writeln!(text, "{indent}{name} {{");
            members.iter().for_each(|(name, value)| field(text, (depth + 1, &format!("{path}.{name}")), name, value));
            let _ = writeln!(text, "{indent}}}");
        }
        value if is_default(value) => {}
        value => {
            let _ = writeln!(text, "{indent}{name}: {}", scalar(path, value));
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

fn scalar(path: &str, value: &Value) -> String {
    match value {
        Value::String(text) if WORDS.contains(&path) && is_word(text) => text.clone(),
        Value::String(text) if NUMBERS.contains(&path) && text.parse::<i128>().is_ok() => text.clone(),
        Value::String(text) => quoted(text),
        value => value.to_string(),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
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
            r#"model_warmup { inputs { key: "A" value { data_type: TYPE_FP32 dims: [2] zero_data: true } } name: "w" }"#
        );
    }
}
