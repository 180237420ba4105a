//! The script: which server to pretend to be and how to answer each request. The crate's README describes the format.

use std::ffi::c_int;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::abi;

/// A failure to play.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    code: String,
    /// Its text.
    pub message: String,
}

impl Failure {
    /// Its number in the interface.
    pub fn code(&self) -> c_int {
        abi::CODES.iter().position(|(name, _)| *name == self.code).unwrap_or(0) as c_int
    }
}

/// All of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The server.
    pub server: ServerScript,
    /// Its models.
    pub models: Vec<ModelScript>,
    /// How requests are answered, in turn.
    pub requests: Vec<Behaviour>,
}

/// The server as a whole.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerScript {
    pub version: String,
    pub api_minor: u32,
    pub error: Option<Failure>,
    pub start_delay_us: u64,
    pub live: bool,
    pub ready: bool,
    pub stop_error: Option<Failure>,
    pub unload_polls: u32,
    pub metrics: String,
    pub delivery_threads: usize,
    pub log_requests: bool,
}

/// A model.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelScript {
    pub name: String,
    pub versions: Vec<String>,
    pub config: Value,
    pub metadata: Option<Value>,
    pub statistics: Option<Value>,
    pub load_error: Option<Failure>,
    /// How long after its load its backend says that it is not ready.
    pub unready_us: u64,
}

/// On which thread callbacks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallbackThread {
    Caller,
    #[default]
    Other,
}

/// Release callback relative to the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    ResponseFirst,
    ReleaseFirst,
}

/// Thread of the release callback relative to that of the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseThread {
    #[default]
    Same,
    Other,
}

/// How the last response is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalMode {
    #[default]
    Flag,
    Null,
}

/// What follows when the client yields no buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocFailure {
    #[default]
    Error,
    NullOutput,
}

/// The memory that the allocator is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    #[default]
    Cpu,
    Pinned,
    Gpu,
}

/// What never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hang {
    #[default]
    No,
    All,
    Final,
    Release,
}

/// An output made from nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputScript {
    pub name: String,
    pub datatype: String,
    pub shape: Vec<i64>,
    pub byte_size: Option<usize>,
    #[serde(default)]
    pub fill: u8,
}

/// How a request is answered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    pub submit_error: Option<Failure>,
    pub delay_us: u64,
    pub gap_us: u64,
    pub thread: CallbackThread,
    pub order: Order,
    pub release_thread: ReleaseThread,
    pub release_delay_us: u64,
    pub responses: u32,
    #[serde(rename = "final")]
    pub final_mode: FinalMode,
    pub error: Option<Failure>,
    pub error_at: u32,
    pub outputs: Option<Vec<OutputScript>>,
    pub preferred_memory: Memory,
    pub on_alloc_failure: AllocFailure,
    pub response_parameters: Map<String, Value>,
    pub never_complete: Hang,
    pub honour_cancel: bool,
    pub linger_us: u64,
    pub overlap: bool,
}

impl Default for Script {
    fn default() -> Script {
        Script {
            server: ServerScript::default(),
            models: vec![ModelScript::default()],
            requests: vec![Behaviour::default()],
        }
    }
}

impl Default for ServerScript {
    fn default() -> ServerScript {
        ServerScript {
            version: "2.51.0".to_owned(),
            api_minor: 34,
            error: None,
            start_delay_us: 0,
            live: true,
            ready: true,
            stop_error: None,
            unload_polls: 0,
            metrics: String::new(),
            delivery_threads: 2,
            log_requests: false,
        }
    }
}

impl Default for ModelScript {
    fn default() -> ModelScript {
        ModelScript {
            name: "fake".to_owned(),
            versions: vec!["1".to_owned()],
            config: json!({
                "max_batch_size": 0,
                "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
                "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
            }),
            metadata: None,
            statistics: None,
            load_error: None,
            unready_us: 0,
        }
    }
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            submit_error: None,
            delay_us: 0,
            gap_us: 0,
            thread: CallbackThread::default(),
            order: Order::default(),
            release_thread: ReleaseThread::default(),
            release_delay_us: 0,
            responses: 1,
            final_mode: FinalMode::default(),
            error: None,
            error_at: 0,
            outputs: None,
            preferred_memory: Memory::default(),
            on_alloc_failure: AllocFailure::default(),
            response_parameters: Map::new(),
            never_complete: Hang::default(),
            honour_cancel: false,
            linger_us: 0,
            overlap: false,
        }
    }
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// A sentence on what is wrong with it.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script: Script = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if script.requests.is_empty() {
            script.requests.push(Behaviour::default());
        }
        if !(1..=64).contains(&script.server.delivery_threads) {
            return Err("delivery_threads must be from 1 to 64".to_owned());
        }
        let failures = script.requests.iter().flat_map(|request| [&request.error, &request.submit_error]);
        let failures = failures.chain(script.models.iter().map(|model| &model.load_error));
        for failure in failures.chain([&script.server.error, &script.server.stop_error]).flatten() {
            if !abi::CODES.iter().any(|(name, _)| *name == failure.code) {
                return Err(format!("the error code {:?} does not exist", failure.code));
            }
        }
        for request in &script.requests {
            check(request)?;
        }
        Ok(script)
    }
}

fn check(request: &Behaviour) -> Result<(), String> {
    if request.responses > 1_000_000 {
        return Err("responses must be at most 1000000".to_owned());
    }
    if request.release_thread == ReleaseThread::Other && request.thread == CallbackThread::Caller {
        return Err("release_thread other needs thread other".to_owned());
    }
    if request.overlap && request.thread == CallbackThread::Caller {
        return Err("overlap needs thread other".to_owned());
    }
    for output in request.outputs.iter().flatten() {
        if abi::datatype(&output.datatype) == 0 {
            return Err(format!("output {}: the datatype {:?} does not exist", output.name, output.datatype));
        }
    }
    Ok(())
}

impl ServerScript {
    /// Whether it is of that release of the core or a later one.
    pub fn is_since(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
    }
}

impl ModelScript {
    /// The datatype that its control of correlation IDs declares, if it has one.
    pub fn correlation_datatype(&self) -> Option<&str> {
        let inputs = self.config["sequence_batching"]["control_input"].as_array().into_iter().flatten();
        let mut controls = inputs.flat_map(|input| input["control"].as_array().into_iter().flatten());
        controls.find(|control| control["kind"] == "CONTROL_SEQUENCE_CORRID")?["data_type"].as_str()
    }

    /// The configuration with the model's name.
    pub fn config(&self) -> Value {
        let mut config = self.config.clone();
        if let Some(members) = config.as_object_mut() {
            members.entry("name").or_insert_with(|| json!(self.name));
        }
        config
    }

    /// Whether the first dimension of every tensor is the batch.
    pub fn batching(&self) -> bool {
        self.config["max_batch_size"].as_i64().unwrap_or(0) > 0
    }

    /// Whether requests have any number of responses.
    pub fn decoupled(&self) -> bool {
        self.config["model_transaction_policy"]["decoupled"].as_bool().unwrap_or(false)
    }

    /// Inputs or outputs.
    pub fn tensors(&self, kind: &str) -> Vec<TensorSpec> {
        let list = self.config[kind].as_array();
        list.into_iter()
            .flatten()
            .map(|tensor| {
                let name = tensor["data_type"].as_str().unwrap_or_default().trim_start_matches("TYPE_");
                let mut shape: Vec<i64> = if self.batching() { vec![-1] } else { Vec::new() };
                shape.extend(tensor["dims"].as_array().into_iter().flatten().filter_map(Value::as_i64));
                TensorSpec {
                    name: tensor["name"].as_str().unwrap_or_default().to_owned(),
                    datatype: abi::datatype(if name == "STRING" { "BYTES" } else { name }),
                    shape,
                    optional: tensor["optional"].as_bool().unwrap_or(false),
                }
            })
            .collect()
    }

    /// The metadata as the server prints it.
    pub fn metadata(&self) -> Value {
        let list = |kind| {
            let tensors = self.tensors(kind).into_iter();
            tensors
                .map(|t| json!({"name": t.name, "datatype": abi::datatype_name(t.datatype), "shape": t.shape}))
                .collect::<Vec<Value>>()
        };
        self.metadata.clone().unwrap_or_else(|| {
            json!({
                "name": self.name, "versions": self.versions, "platform": "fake",
                "inputs": list("input"), "outputs": list("output"),
            })
        })
    }
}

/// A tensor of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub datatype: c_int,
    /// With the batch dimension; -1 = any.
    pub shape: Vec<i64>,
    pub optional: bool,
}

/// What happens next in a request's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A response; `error`: it carries the scripted error; `last`: with the final flag.
    Respond { error: bool, last: bool },
    /// A response without the final flag that is still with the client when the final one comes.
    Overlap,
    /// The null response with the final flag.
    EndEmpty,
    /// The release callback.
    Release,
}

impl Behaviour {
    /// The request's life: actions and when they are due, in microseconds after the issue.
    pub fn steps(&self) -> Vec<(u64, Action)> {
        let failing = self.error.as_ref().map(|_| u64::from(self.error_at));
        let count = failing.map_or(u64::from(self.responses), |at| at + 1);
        let mut steps = Vec::new();
        let mut due = self.delay_us;
        for index in 0..count {
            due = self.delay_us + index * self.gap_us;
            let last = index + 1 == count && self.final_mode == FinalMode::Flag;
            steps.push((due, Action::Respond { error: failing == Some(index), last }));
        }
        let more = Action::Respond { error: false, last: false };
        if let Some((_, kept)) = steps.iter_mut().rfind(|(_, action)| self.overlap && *action == more) {
            *kept = Action::Overlap;
        }
        if count == 0 || self.final_mode == FinalMode::Null {
            steps.push((due, Action::EndEmpty));
        }
        match self.order {
            Order::ResponseFirst => steps.push((due + self.release_delay_us, Action::Release)),
            Order::ReleaseFirst => steps.insert(0, (self.delay_us, Action::Release)),
        }
        steps.retain(|(_, action)| match self.never_complete {
            Hang::No => true,
            Hang::All => false,
            Hang::Final => !matches!(action, Action::EndEmpty | Action::Respond { last: true, .. }),
            Hang::Release => *action != Action::Release,
        });
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(behaviour: &str) -> Vec<(u64, Action)> {
        let script = Script::parse(&format!(r#"{{"requests":[{behaviour}]}}"#)).unwrap();
        script.requests[0].steps()
    }

    const LAST: Action = Action::Respond { error: false, last: true };
    const MORE: Action = Action::Respond { error: false, last: false };

    #[test]
    fn a_plain_request_responds_and_is_released() {
        assert_eq!(steps("{}"), [(0, LAST), (0, Action::Release)]);
    }

    #[test]
    fn orders_finals_and_times() {
        assert_eq!(
            steps(r#"{"responses":2,"gap_us":5,"delay_us":10,"order":"release_first"}"#),
            [(10, Action::Release), (10, MORE), (15, LAST)]
        );
        assert_eq!(
            steps(r#"{"responses":1,"final":"null","release_delay_us":3}"#),
            [(0, MORE), (0, Action::EndEmpty), (3, Action::Release)]
        );
        assert_eq!(steps(r#"{"responses":0}"#), [(0, Action::EndEmpty), (0, Action::Release)]);
    }

    #[test]
    fn the_last_response_but_the_final_one_overlaps_with_it() {
        assert_eq!(steps(r#"{"responses":3,"overlap":true}"#)[..3], [(0, MORE), (0, Action::Overlap), (0, LAST)]);
        let ends = [(0, Action::Overlap), (0, Action::EndEmpty), (0, Action::Release)];
        assert_eq!(steps(r#"{"responses":1,"final":"null","overlap":true}"#), ends);
        assert_eq!(steps(r#"{"overlap":true}"#), steps("{}"));
    }

    #[test]
    fn errors_end_the_stream() {
        let error = r#""error":{"code":"INTERNAL","message":"x"}"#;
        assert_eq!(
            steps(&format!(r#"{{"responses":5,"error_at":1,{error}}}"#)),
            [(0, MORE), (0, Action::Respond { error: true, last: true }), (0, Action::Release)]
        );
    }

    #[test]
    fn hanging_requests_lack_a_part() {
        assert_eq!(steps(r#"{"never_complete":"all"}"#), []);
        assert_eq!(steps(r#"{"never_complete":"final"}"#), [(0, Action::Release)]);
        assert_eq!(steps(r#"{"never_complete":"release"}"#), [(0, LAST)]);
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, part) in [
            (r#"{"request":[]}"#, "request"),
            (r#"{"requests":[{"delay":1}]}"#, "delay"),
            (r#"{"server":{"error":{"code":"OOPS","message":""}}}"#, "OOPS"),
            (r#"{"server":{"delivery_threads":0}}"#, "delivery_threads"),
            (r#"{"requests":[{"release_thread":"other","thread":"caller"}]}"#, "release_thread"),
            (r#"{"requests":[{"overlap":true,"thread":"caller"}]}"#, "overlap"),
        ] {
            assert!(Script::parse(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn metadata_follows_the_configuration() {
        let model = ModelScript {
            config: json!({"max_batch_size": 4, "input": [{"name": "A", "data_type": "TYPE_STRING", "dims": [2]}]}),
            ..ModelScript::default()
        };
        assert_eq!(model.metadata()["inputs"], json!([{"name": "A", "datatype": "BYTES", "shape": [-1, 2]}]));
        assert_eq!(model.config()["name"], "fake");
    }
}
