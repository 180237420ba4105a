//! What a model does, derived once from its configuration: which input becomes which output, and the settings.

use std::collections::BTreeMap;
use std::ffi::CString;

use serde_json::Value;

use crate::settings::Settings;

/// Name of the output that carries time stamps.
pub const STAMP: &str = "STAMP";
/// Name of the input that carries a number of responses.
pub const REPEAT: &str = "REPEAT";

/// An input tensor of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: CString,
    /// Whether a request may leave it out.
    pub optional: bool,
    /// The output that repeats it, and that output's datatype as the configuration spells it; `None` = ignored.
    pub output: Option<CString>,
    /// Its datatype, for example `TYPE_INT32`.
    pub datatype: String,
}

/// A model, worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Inputs in configured order, without [`REPEAT`].
    pub sources: Vec<Source>,
    /// Number of configured outputs, [`STAMP`] included.
    pub outputs: u32,
    /// Stamps per row of the output [`STAMP`], if there is one.
    pub stamp_width: Option<usize>,
    /// Whether there is an input [`REPEAT`].
    pub repeat_input: bool,
    /// Whether the first dimension of every tensor is the batch.
    pub batching: bool,
    /// The largest batch; 0 where there is none.
    pub max_batch_size: u64,
    /// Whether a request may have any number of responses.
    pub decoupled: bool,
    /// Whether the server batches sequences.
    pub sequence_batching: bool,
    /// The parameters.
    pub settings: Settings,
}

impl Plan {
    /// Reads a model configuration as the server prints it.
    ///
    /// # Errors
    /// A sentence on what the configuration has wrong.
    pub fn from_json(config: &str) -> Result<Plan, String> {
        let config: Value = serde_json::from_str(config).map_err(|error| format!("model configuration: {error}"))?;
        let settings = Settings::parse(&parameters(&config)?)?;
        let outputs = tensors(&config, "output")?;
        let inputs = tensors(&config, "input")?;
        let plan = Plan {
            sources: pair(&inputs, &outputs)?,
            outputs: outputs.len() as u32,
            stamp_width: stamp_width(&outputs)?,
            repeat_input: repeat_input(&inputs)?,
            max_batch_size: config["max_batch_size"].as_u64().unwrap_or(0),
            batching: config["max_batch_size"].as_i64().unwrap_or(0) > 0,
            decoupled: config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false),
            sequence_batching: config["sequence_batching"].is_object(),
            settings,
        };
        plan.checked()
    }

    fn checked(self) -> Result<Plan, String> {
        if !self.decoupled {
            if let Some(key) = self.settings.decoupled_keys.first() {
                return Err(format!("parameter {key} needs model_transaction_policy {{ decoupled: true }}"));
            }
            if self.repeat_input {
                return Err(format!("input {REPEAT} needs model_transaction_policy {{ decoupled: true }}"));
            }
        }
        if self.settings.accumulate {
            let first = self.sources.first().filter(|source| source.output.is_some());
            if !first.is_some_and(|source| ["TYPE_INT32", "TYPE_INT64"].contains(&source.datatype.as_str())) {
                return Err("parameter accumulate needs a first input and output of INT32 or INT64".to_owned());
            }
        }
        Ok(self)
    }
}

struct Tensor {
    name: String,
    datatype: String,
    dims: Vec<i64>,
    optional: bool,
}

fn tensors(config: &Value, kind: &str) -> Result<Vec<Tensor>, String> {
    let list = config[kind].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .map(|tensor| {
            let name = tensor["name"].as_str().ok_or_else(|| format!("an {kind} has no name"))?;
            Ok(Tensor {
                name: name.to_owned(),
                datatype: tensor["data_type"].as_str().unwrap_or_default().to_owned(),
                dims: tensor["dims"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect(),
                optional: tensor["optional"].as_bool().unwrap_or(false),
            })
        })
        .collect()
}

fn pair(inputs: &[Tensor], outputs: &[Tensor]) -> Result<Vec<Source>, String> {
    let mut outputs = outputs.iter().filter(|output| output.name != STAMP);
    let mut sources = Vec::new();
    for input in inputs.iter().filter(|input| input.name != REPEAT) {
        let output = outputs.next();
        if let Some(output) = output.filter(|output| output.datatype != input.datatype) {
            let (from, to) = (&input.name, &output.name);
            return Err(format!("{to} is {}, but repeats {from}, which is {}", output.datatype, input.datatype));
        }
        sources.push(Source {
            name: c_string(&input.name)?,
            optional: input.optional,
            output: output.map(|output| c_string(&output.name)).transpose()?,
            datatype: input.datatype.clone(),
        });
    }
    match outputs.next() {
        Some(output) => Err(format!("output {} has no input to repeat", output.name)),
        None => Ok(sources),
    }
}

fn stamp_width(outputs: &[Tensor]) -> Result<Option<usize>, String> {
    let Some(stamp) = outputs.iter().find(|output| output.name == STAMP) else { return Ok(None) };
    match (stamp.datatype.as_str(), stamp.dims.as_slice()) {
        ("TYPE_INT64", [width @ (1 | 2)]) => Ok(Some(*width as usize)),
        _ => Err(format!("output {STAMP} must be TYPE_INT64 with dims [1] or [2]")),
    }
}

fn repeat_input(inputs: &[Tensor]) -> Result<bool, String> {
    let Some(repeat) = inputs.iter().find(|input| input.name == REPEAT) else { return Ok(false) };
    if repeat.datatype == "TYPE_INT32" { Ok(true) } else { Err(format!("input {REPEAT} must be TYPE_INT32")) }
}

fn parameters(config: &Value) -> Result<BTreeMap<String, String>, String> {
    let map = config["parameters"].as_object();
    map.into_iter()
        .flatten()
        .map(|(key, value)| {
            let text = value["string_value"].as_str();
            Ok((key.clone(), text.ok_or_else(|| format!("parameter {key} has no string_value"))?.to_owned()))
        })
        .collect()
}

fn c_string(name: &str) -> Result<CString, String> {
    CString::new(name).map_err(|_| format!("the name {name:?} contains a zero byte"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT32: &str = r#"{"name":"INPUT0","data_type":"TYPE_INT32","dims":[4]}"#;
    const OUT32: &str = r#"{"name":"OUTPUT0","data_type":"TYPE_INT32","dims":[4]}"#;

    fn plan(inputs: &str, outputs: &str, members: &str) -> Result<Plan, String> {
        Plan::from_json(&format!(r#"{{"input":[{inputs}],"output":[{outputs}]{members}}}"#))
    }

    #[test]
    fn special_tensors_are_left_out_of_the_pairing() {
        let inputs = format!(r#"{{"name":"REPEAT","data_type":"TYPE_INT32","dims":[1]}},{INT32}"#);
        let outputs = format!(r#"{{"name":"STAMP","data_type":"TYPE_INT64","dims":[2]}},{OUT32}"#);
        let members = r#","max_batch_size":8,"model_transaction_policy":{"decoupled":true}"#;
        let plan = plan(&inputs, &outputs, members).unwrap();
        assert_eq!(plan.sources.len(), 1);
        assert_eq!(plan.sources[0].output.as_deref(), Some(c"OUTPUT0"));
        assert_eq!((plan.outputs, plan.stamp_width), (2, Some(2)));
        assert!(plan.repeat_input && plan.batching && plan.decoupled && !plan.sequence_batching);
    }

    #[test]
    fn surplus_inputs_are_ignored() {
        let inputs = format!(r#"{INT32},{{"name":"MORE","data_type":"TYPE_STRING","dims":[-1],"optional":true}}"#);
        let plan = plan(&inputs, OUT32, "").unwrap();
        assert!(plan.sources[1].optional && plan.sources[1].output.is_none());
    }

    #[test]
    fn contradictions_are_named() {
        let fp32 = OUT32.replace("INT32", "FP32");
        let decoupled = r#","parameters":{"repeat":{"string_value":"2"}}"#;
        let sums = r#","parameters":{"accumulate":{"string_value":"true"}}"#;
        for (inputs, outputs, members, expected) in [
            (INT32, fp32.as_str(), "", "OUTPUT0 is TYPE_FP32"),
            ("", OUT32, "", "OUTPUT0 has no input"),
            (INT32, r#"{"name":"STAMP","data_type":"TYPE_INT32","dims":[2]}"#, "", "STAMP must be"),
            (INT32, OUT32, decoupled, "repeat needs"),
            (INT32, "", sums, "accumulate needs"),
            (INT32, OUT32, r#","parameters":{"delay_us":{}}"#, "string_value"),
        ] {
            let message = plan(inputs, outputs, members).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        assert!(Plan::from_json("{").is_err());
    }
}
