//! A candidate's settings, and the configuration that they lead to.

use serde_json::{Value, json};

use crate::model::configuration::{Path, equal};
use crate::plan::{Searched, ServerPlan, ServerSetting, Setting};

/// A candidate's values for the searched settings; empty if it leaves them as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment(pub Vec<(Setting, Value)>);

impl Assignment {
    /// The point with these indexes of values.
    pub fn new(search: &[Searched], indexes: &[usize]) -> Self {
        let pairs = search.iter().zip(indexes);
        Self(pairs.map(|(searched, index)| (searched.setting.clone(), searched.values[*index].clone())).collect())
    }

    /// The configuration of `model` (`None` is the measured one) with its settings applied.
    pub fn configure(&self, model: Option<&str>, base: &Value) -> Value {
        let mut configuration = base.clone();
        let settings = self.0.iter().filter_map(|(setting, value)| match setting {
            Setting::Model(owner, path) if owner.as_deref() == model => Some((path, value)),
            _ => None,
        });
        let mut changed = false;
        for (path, value) in settings {
            path.set(&mut configuration, value);
            changed = true;
        }
        if changed {
            complete(&mut configuration, base);
        }
        configuration
    }

    /// The first setting of `model` whose value is not in force in the configuration; `None` if all are.
    pub fn differs(&self, model: Option<&str>, configuration: &Value) -> Option<String> {
        let is_other = |path: &Path, value: &Value| match path.get(configuration) {
            // The server may fill in omitted fields, but not with a message that carries its own meaning.
            Some(found) if value.is_null() => found.is_object(),
            Some(found) => !holds(&found, value) && !value.is_object(),
            None => !is_nothing(value),
        };
        self.0.iter().find_map(|(setting, value)| match setting {
            Setting::Model(owner, path) if owner.as_deref() == model && is_other(path, value) => {
                let found = path.get(configuration).unwrap_or_default();
                Some(format!("the server set {path} to {found} instead of {value}"))
            }
            _ => None,
        })
    }

    /// Inferences in a request.
    pub fn batch_size(&self) -> Option<u64> {
        self.value(&Setting::BatchSize)?.as_u64()
    }

    /// Requests outstanding.
    pub fn concurrency(&self) -> Option<u32> {
        self.value(&Setting::Concurrency)?.as_u64().and_then(|value| u32::try_from(value).ok())
    }

    /// Requests a second.
    pub fn request_rate(&self) -> Option<f64> {
        self.value(&Setting::RequestRate)?.as_f64()
    }

    /// Applies the server's settings; returns what distinguishes one server from another.
    ///
    /// # Errors
    /// A value that the setting does not accept.
    pub fn set_server(&self, plan: &mut ServerPlan) -> Result<Vec<String>, String> {
        let mut key = Vec::new();
        for (setting, value) in &self.0 {
            let Setting::Server(setting) = setting else { continue };
            let number = || value.as_u64().ok_or_else(|| format!("{}: {value} is not a number", setting.name()));
            match setting {
                ServerSetting::RateLimit => {
                    plan.rate_limit = match value {
                        Value::Null => false,
                        value if *value == json!("execution_count") => true,
                        value => return Err(format!("rate_limit: {value} is neither off nor execution_count")),
                    }
                }
                ServerSetting::PinnedPool => plan.pinned_pool_bytes = Some(number()?),
                ServerSetting::BufferThreads => {
                    plan.buffer_threads = Some(u32::try_from(number()?).unwrap_or(u32::MAX));
                }
            }
            key.push(format!("{}={value}", setting.name()));
        }
        Ok(key)
    }

    fn value(&self, setting: &Setting) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == setting).map(|(_, value)| value)
    }
}

/// Whether a value is in force: the server fills in what the messages of a list leave out.
fn holds(found: &Value, asked: &Value) -> bool {
    match (found, asked) {
        (Value::Array(found), Value::Array(asked)) => {
            found.len() == asked.len() && found.iter().zip(asked).all(|(found, asked)| holds(found, asked))
        }
        (Value::Object(found), Value::Object(asked)) => {
            asked.iter().all(|(name, asked)| found.get(name).is_some_and(|found| holds(found, asked)))
        }
        _ => equal(found, asked),
    }
}

/// Whether a model has something that forms its batches, or must not have it.
pub fn has_scheduler(configuration: &Value) -> bool {
    let schedulers = ["dynamic_batching", "sequence_batching", "ensemble_scheduling"];
    schedulers.iter().any(|name| configuration.get(name).is_some_and(|scheduler| !scheduler.is_null()))
}

/// Where batchers name the sizes that they prefer.
const PREFERRED: [&str; 2] =
    ["/dynamic_batching/preferred_batch_size", "/sequence_batching/oldest/preferred_batch_size"];

/// Makes a changed configuration consistent: forming larger batches needs a batcher, preferred sizes and warm-up batches may
/// not exceed the largest, and instances that are not on GPUs name none.
fn complete(configuration: &mut Value, base: &Value) {
    let largest = configuration["max_batch_size"].as_u64().unwrap_or(0);
    let was = base["max_batch_size"].as_u64().unwrap_or(0);
    if largest > was.max(1) && !has_scheduler(configuration) {
        configuration["dynamic_batching"] = json!({});
    }
    if largest == 0
        && configuration.get("dynamic_batching").is_some()
        && let Some(object) = configuration.as_object_mut()
    {
        object.remove("dynamic_batching");
    }
    // The server fills in the largest batch as the preferred one.
    for pointer in PREFERRED {
        let sizes = |config: &Value| config.pointer(pointer).cloned();
        let filled_in = sizes(base) == Some(json!([was])) && sizes(configuration) == sizes(base) && largest != was;
        let preferred = configuration.pointer_mut(pointer).and_then(Value::as_array_mut);
        if let Some(sizes) = preferred {
            sizes.retain(|size| !filled_in && size.as_u64().is_none_or(|size| size <= largest));
        }
    }
    if largest < was {
        fit_warm_up(configuration, largest.max(1));
    }
    // The server fills in the GPUs of each group, and refuses them in a group of another kind.
    let groups = configuration.get_mut("instance_group").and_then(Value::as_array_mut);
    for group in groups.into_iter().flatten().filter_map(Value::as_object_mut) {
        if group.get("kind").is_some_and(|kind| *kind == json!("KIND_CPU") || *kind == json!("KIND_MODEL")) {
            group.remove("gpus");
        }
    }
}

/// A warm-up batch is executed as it is, and a model that refuses it is not loaded.
fn fit_warm_up(configuration: &mut Value, largest: u64) {
    let samples = configuration.get_mut("model_warmup").and_then(Value::as_array_mut);
    for sample in samples.into_iter().flatten() {
        if sample["batch_size"].as_u64().is_some_and(|size| size > largest) {
            sample["batch_size"] = json!(largest);
        }
    }
}

/// Whether a value is that of a setting that is left out.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false))
        || value.as_f64() == Some(0.0)
        || value.as_object().is_some_and(|members| members.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(pairs: &[(&str, Value)]) -> Assignment {
        let setting = |path: &str| Setting::Model(None, Path::parse(path).unwrap());
        Assignment(pairs.iter().map(|(path, value)| (setting(path), value.clone())).collect())
    }

    #[test]
    fn larger_batches_bring_a_batcher() {
        let base = json!({"max_batch_size": 1, "instance_group": [{"count": 1}]});
        let larger = assignment(&[("max_batch_size", json!(8)), ("instances", json!(2))]).configure(None, &base);
        assert_eq!(larger, json!({"max_batch_size": 8, "dynamic_batching": {}, "instance_group": [{"count": 2}]}));
        let smaller = json!({"max_batch_size": 8});
        let smaller = assignment(&[("max_batch_size", json!(4))]).configure(None, &smaller);
        assert_eq!(
            smaller,
            json!({"max_batch_size": 4}),
            "what is gained by a batcher is not gained by smaller batches"
        );
        let same = assignment(&[("instances", json!(2))]).configure(None, &base);
        assert_eq!(same.get("dynamic_batching"), None, "what is not asked for stays");
        let preferred = json!({"max_batch_size": 8, "dynamic_batching": {"preferred_batch_size": [4, 8]}});
        let smaller = assignment(&[("max_batch_size", json!(4))]).configure(None, &preferred);
        assert_eq!(smaller["dynamic_batching"], json!({"preferred_batch_size": [4]}));
        let filled = json!({"max_batch_size": 8, "dynamic_batching": {"preferred_batch_size": [8]}});
        let larger = assignment(&[("max_batch_size", json!(32))]).configure(None, &filled);
        assert_eq!(larger["dynamic_batching"]["preferred_batch_size"], json!([]), "the server chose it, nobody else");
        let pairs = [("max_batch_size", json!(32)), ("dynamic_batching.preferred_batch_size", json!([16]))];
        let chosen = assignment(&pairs).configure(None, &filled);
        assert_eq!(chosen["dynamic_batching"]["preferred_batch_size"], json!([16]));
        assert_eq!(assignment(&[("max_batch_size", json!(8))]).configure(Some("other"), &base), base);
    }

    #[test]
    fn a_smaller_batch_fits_all_that_is_said_of_batches() {
        let oldest = |sizes: Value| json!({"max_batch_size": 8, "sequence_batching": {"oldest": {"preferred_batch_size": sizes}}});
        let preferred = |base: &Value, largest: u64| {
            let made = assignment(&[("max_batch_size", json!(largest))]).configure(None, base);
            made["sequence_batching"]["oldest"]["preferred_batch_size"].clone()
        };
        assert_eq!(preferred(&oldest(json!([8])), 4), json!([]), "the server chose it, and refuses it here");
        assert_eq!(preferred(&oldest(json!([8])), 16), json!([]));
        assert_eq!(preferred(&oldest(json!([2, 4, 8])), 4), json!([2, 4]));
        let base = json!({"max_batch_size": 64, "model_warmup": [{"batch_size": 1}, {"batch_size": 64}, {}]});
        let warm_up =
            |path: &str, value: u64| assignment(&[(path, json!(value))]).configure(None, &base)["model_warmup"].clone();
        assert_eq!(warm_up("max_batch_size", 8), json!([{"batch_size": 1}, {"batch_size": 8}, {}]));
        assert_eq!(warm_up("max_batch_size", 0)[1]["batch_size"], json!(1));
        assert_eq!(warm_up("max_batch_size", 128), base["model_warmup"]);
        assert_eq!(warm_up("instances", 2), base["model_warmup"]);
    }

    #[test]
    fn groups_that_are_not_on_gpus_name_none() {
        let base = json!({"instance_group": [{"count": 1, "kind": "KIND_GPU", "gpus": [0]}, {"kind": "KIND_GPU", "gpus": [1]}]});
        for kind in ["KIND_CPU", "KIND_MODEL"] {
            let moved = assignment(&[("instance_group[].kind", json!(kind))]).configure(None, &base);
            assert_eq!(moved, json!({"instance_group": [{"count": 1, "kind": kind}, {"kind": kind}]}));
        }
        let stays = assignment(&[("instances", json!(2))]).configure(None, &base);
        assert_eq!(stays["instance_group"][0]["gpus"], json!([0]));
    }

    #[test]
    fn what_is_in_force_is_compared() {
        let asked = assignment(&[("delay", json!(100)), ("instances", json!(2))]);
        let taken =
            json!({"dynamic_batching": {"max_queue_delay_microseconds": "100"}, "instance_group": [{"count": 2}]});
        assert_eq!(asked.differs(None, &taken), None);
        let other = json!({"dynamic_batching": {"max_queue_delay_microseconds": 0}, "instance_group": [{"count": 2}]});
        assert!(asked.differs(None, &other).unwrap().contains("100"));
        assert_eq!(assignment(&[("delay", json!(0))]).differs(None, &json!({})), None, "0 may be left out");
        let off = assignment(&[("delay", Value::Null), ("instances", Value::Null)]);
        assert_eq!(off.differs(None, &other), None, "what is left out is filled in");
        assert!(assignment(&[("dynamic_batching", Value::Null)]).differs(None, &other).is_some());
    }

    #[test]
    fn settings_of_the_server() {
        let set = |setting, value| Assignment(vec![(Setting::Server(setting), value)]);
        let mut plan = ServerPlan::default();
        assert_eq!(set(ServerSetting::RateLimit, json!("execution_count")).set_server(&mut plan).unwrap().len(), 1);
        set(ServerSetting::PinnedPool, json!(4096)).set_server(&mut plan).unwrap();
        assert!(plan.rate_limit && plan.pinned_pool_bytes == Some(4096));
        assert!(set(ServerSetting::RateLimit, json!("x")).set_server(&mut plan).is_err());
        assert!(Assignment::default().set_server(&mut plan).unwrap().is_empty());
    }
}
