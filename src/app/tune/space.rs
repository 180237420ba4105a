//! The search space: the settings that were asked for, or those that suit the model.

use std::thread::available_parallelism;

use serde_json::{Value, json};

use crate::app::tune::assignment::Assignment;
use crate::app::tune::{members, outstanding};
use crate::model::ModelId;
use crate::model::configuration::{Path, equal};
use crate::plan::{Searched, ServerPlan, ServerSetting, Setting, TunePlan};
use crate::tune::{Dimension, Space};

/// Default limit on instances.
const MAX_INSTANCES: u64 = 8;
/// Default limit on batches, unless the model's is larger.
const LARGEST_BATCH: u64 = 32;
/// The server's default size of the pool of pinned memory.
const PINNED_POOL: u64 = 256 << 20;

/// The default settings to search: instances, largest batch and delay, as far as the model has them. What is in force is among the
/// values, so that each of the others can change alone.
pub fn usual(configuration: &Value) -> Vec<Searched> {
    let scheduled = |name: &str| configuration.get(name).is_some_and(|value| !value.is_null());
    if scheduled("ensemble_scheduling") {
        return Vec::new();
    }
    let processors = available_parallelism().map_or(2, |count| count.get() as u64);
    let most = (2 * processors).clamp(4, MAX_INSTANCES);
    let searched = |path: &str, values: Vec<u64>| {
        let path = Path::parse(path).ok()?;
        let values = with_present(values, path.get(configuration).as_ref());
        Some(Searched { setting: Setting::Model(None, path), values: values.into_iter().map(Value::from).collect() })
    };
    let mut all = vec![searched("instances", (1..=most).collect())];
    let largest = configuration["max_batch_size"].as_u64().unwrap_or(0);
    if largest > 0 && !scheduled("sequence_batching") {
        let sizes = (0..).map(|power| 1_u64 << power).take_while(|size| *size <= LARGEST_BATCH.max(largest).min(256));
        all.push(searched("max_batch_size", sizes.collect()));
        all.push(searched("delay", vec![0, 100, 500]));
    }
    all.into_iter().flatten().collect()
}

/// Values with that in force, in their order.
fn with_present(mut values: Vec<u64>, present: Option<&Value>) -> Vec<u64> {
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    values.extend(present.and_then(number).filter(|present| *present > 0));
    values.sort_unstable();
    values.dedup();
    values
}

/// Leaves batches out of the default settings that the measured model's requests of `batch_size` do not fit.
pub fn fit_requests(usual: &mut [Searched], batch_size: u64) {
    let batches = usual.iter_mut().filter(
        |searched| matches!(&searched.setting, Setting::Model(None, path) if path.to_string() == "max_batch_size"),
    );
    batches.for_each(|searched| searched.values.retain(|size| size.as_u64().is_none_or(|size| size >= batch_size)));
}

/// The same for each model that `root` calls. The models of an ensemble take batches as large as its own.
pub fn usual_of_parts<'a>(root: &Value, parts: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Vec<Searched> {
    let is_ensemble = root.get("ensemble_scheduling").is_some_and(|steps| !steps.is_null());
    let least = root["max_batch_size"].as_u64().filter(|_| is_ensemble).unwrap_or(0);
    let of_part = |(model, configuration): (&str, &Value)| {
        let settings = usual(configuration).into_iter().filter_map(|mut searched| match searched.setting {
            Setting::Model(_, path) => {
                if path.to_string() == "max_batch_size" {
                    searched.values.retain(|size| size.as_u64().is_none_or(|size| size >= least));
                }
                let setting = Setting::Model(Some(model.to_owned()), path);
                (!searched.values.is_empty()).then_some(Searched { setting, values: searched.values })
            }
            _ => None,
        });
        settings.collect::<Vec<_>>()
    };
    parts.into_iter().flat_map(of_part).collect()
}

/// The configuration of the model (`None`), or of one that it calls, as it was found.
pub fn base<'a>(bases: &'a [(ModelId, Value)], model: Option<&str>) -> Option<&'a Value> {
    match model {
        None => bases.first().map(|(_, base)| base),
        Some(name) => bases.iter().skip(1).find(|(id, _)| id.name == name).map(|(_, base)| base),
    }
}

/// The space of these settings; `bases` are the present configurations, that of the model first.
pub fn space(search: &[Searched], plan: &TunePlan, bases: &[(ModelId, Value)]) -> Space {
    let base = |model: Option<&str>| base(bases, model);
    let root = &plan.run.target.model.name;
    let group = |setting: &Setting| match setting {
        Setting::Model(model, _) => members::group(search, root, model.as_deref().unwrap_or(root)),
        _ => None,
    };
    let dimensions = search.iter().map(|searched| {
        let in_force = in_force(&searched.setting, plan, bases);
        // If the batcher comes with the batch, the same batch without it is a separate candidate.
        let changes_batcher = |value: &Value| match &searched.setting {
            Setting::Model(model, _) => base(model.as_deref()).is_some_and(|found| {
                let assignment = Assignment(vec![(searched.setting.clone(), value.clone())]);
                let made = assignment.configure(model.as_deref(), found);
                made.get("dynamic_batching").is_some() != found.get("dynamic_batching").is_some()
            }),
            _ => false,
        };
        let is_present = |choice: &Value, value: &Value| equal(choice, value) || (choice.is_null() && is_zero(value));
        let present = in_force.and_then(|value| {
            searched.values.iter().position(|choice| is_present(choice, &value) && !changes_batcher(choice))
        });
        Dimension {
            path: searched.setting.to_string(),
            values: searched.values.clone(),
            present,
            rank: rank(&searched.setting),
            group: group(&searched.setting),
            is_late: false,
        }
    });
    Space { dimensions: dimensions.collect() }
}

/// The present value of a setting; `null` if the configuration leaves it out.
pub fn in_force(setting: &Setting, plan: &TunePlan, bases: &[(ModelId, Value)]) -> Option<Value> {
    let run = &plan.run;
    match setting {
        Setting::Model(model, path) => {
            base(bases, model.as_deref()).map(|found| path.get(found).unwrap_or_else(|| missing(path, found)))
        }
        Setting::BatchSize => Some(json!(run.data.batch_size)),
        Setting::Concurrency => {
            outstanding::concurrency(plan, bases, &Assignment::default(), run.data.batch_size).map(Value::from)
        }
        // Written as the values of the search are.
        Setting::RequestRate => run.load.mode.rate().map(|rates| match rates.start.fract() == 0.0 {
            true => json!(rates.start as u64),
            false => json!(rates.start),
        }),
        Setting::Server(setting) => Some(of_server(*setting, &run.target.server)),
    }
}

/// The implied value of a setting that the configuration leaves out: no delay if there is a batcher, otherwise nothing.
fn missing(path: &Path, configuration: &Value) -> Value {
    let batches = configuration.get("dynamic_batching").is_some_and(|value| !value.is_null());
    match path.to_string().as_str() {
        "dynamic_batching.max_queue_delay_microseconds" if batches => json!(0),
        _ => Value::Null,
    }
}

/// The server's value: as configured, or its default.
fn of_server(setting: ServerSetting, server: &ServerPlan) -> Value {
    match setting {
        ServerSetting::RateLimit if server.rate_limit => json!("execution_count"),
        ServerSetting::RateLimit => Value::Null,
        ServerSetting::PinnedPool => json!(server.pinned_pool_bytes.unwrap_or(PINNED_POOL)),
        ServerSetting::BufferThreads => json!(server.buffer_threads.unwrap_or(0)),
    }
}

/// Whether a value equals that of an absent field, except for messages: an empty one means something.
fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value.as_f64() == Some(0.0) || value == "0"
}

/// Which setting should be small first if candidates are alike.
fn rank(setting: &Setting) -> u8 {
    match setting {
        Setting::Model(_, path) if path.to_string().ends_with(".count") => 0,
        Setting::Model(_, path) if path.to_string() == "max_batch_size" => 1,
        Setting::BatchSize | Setting::Concurrency | Setting::RequestRate => 2,
        Setting::Model(..) | Setting::Server(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tune::sample::plan;

    fn values(all: &[Searched]) -> Vec<(String, usize)> {
        all.iter().map(|searched| (searched.setting.to_string(), searched.values.len())).collect()
    }

    #[test]
    fn what_suits_a_model() {
        let batching = usual(&json!({"max_batch_size": 8, "dynamic_batching": {}}));
        let names: Vec<String> = values(&batching).into_iter().map(|(name, _)| name).collect();
        let delay = "dynamic_batching.max_queue_delay_microseconds";
        assert_eq!(names, ["instance_group[].count", "max_batch_size", delay]);
        assert_eq!(batching[1].values.last(), Some(&json!(32)));
        assert_eq!(usual(&json!({"max_batch_size": 0})).len(), 1);
        assert_eq!(usual(&json!({"max_batch_size": 8, "sequence_batching": {}})).len(), 1);
        assert_eq!(usual(&json!({"max_batch_size": 8, "ensemble_scheduling": {}})).len(), 0);
        let parts = usual_of_parts(&json!({}), [("a", &json!({"max_batch_size": 0})), ("b", &json!({}))]);
        assert_eq!(
            values(&parts).iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["a:instance_group[].count", "b:instance_group[].count"]
        );
        let ensemble = json!({"max_batch_size": 8, "ensemble_scheduling": {}});
        let of_ensemble = usual_of_parts(&ensemble, [("a", &json!({"max_batch_size": 8}))]);
        assert_eq!(json!(of_ensemble[1].values), json!([8, 16, 32]), "no less than the ensemble takes");
    }

    #[test]
    fn what_is_in_force_is_among_the_values() {
        let base = json!({"max_batch_size": 600, "instance_group": [{"count": 12}, {"count": 12}],
            "dynamic_batching": {"max_queue_delay_microseconds": "5000"}});
        let all = usual(&base);
        let (instances, batches) = (&all[0].values, &all[1].values);
        assert_eq!((instances.last(), batches.last()), (Some(&json!(12)), Some(&json!(600))));
        assert_eq!(json!(all[2].values), json!([0, 100, 500, 5000]));
        let bases = [(ModelId::latest("m"), base)];
        assert!(space(&all, &plan(""), &bases).present().is_some(), "{all:?}");
        let between = usual(&json!({"max_batch_size": 6, "instance_group": [{"count": 1}, {"count": 2}]}));
        assert_eq!(json!(between[1].values), json!([1, 2, 4, 6, 8, 16, 32]));
        assert_eq!(between[0].values[0], json!(1), "groups that differ have no number in force");
        let ensemble = json!({"max_batch_size": 8, "ensemble_scheduling": {}});
        let of_ensemble = usual_of_parts(&ensemble, [("a", &json!({"max_batch_size": 12}))]);
        assert_eq!(json!(of_ensemble[1].values), json!([8, 12, 16, 32]));
    }

    #[test]
    fn batches_hold_the_requests() {
        let mut all = usual(&json!({"max_batch_size": 12, "dynamic_batching": {}}));
        all.extend(usual_of_parts(&json!({}), [("a", &json!({"max_batch_size": 2}))]));
        fit_requests(&mut all, 5);
        assert_eq!(json!(all[1].values), json!([8, 12, 16, 32]));
        let part = all.iter().find(|searched| searched.setting.to_string() == "a:max_batch_size").unwrap();
        assert_eq!(part.values[0], json!(1), "what a model calls others with is its own affair");
    }

    #[test]
    fn what_is_in_force_is_told() {
        let base = json!({"max_batch_size": 4, "dynamic_batching": {}, "instance_group": [{"count": 3}]});
        let shown = |flags: &str| {
            let plan = plan(flags);
            let bases = [(ModelId::latest("m"), base.clone())];
            let value_of = |searched: &Searched| in_force(&searched.setting, &plan, &bases).unwrap_or_default();
            let present = space(&plan.search, &plan, &bases).present();
            (plan.search.iter().map(value_of).collect::<Vec<_>>(), present)
        };
        assert_eq!(
            shown("--search concurrency=1,24"),
            (vec![json!(24)], Some(vec![1])),
            "what fills all batches twice"
        );
        assert_eq!(shown("--at-concurrency 2 --search concurrency=1,2"), (vec![json!(2)], Some(vec![1])));
        assert_eq!(shown("--search request_rate=20,40"), (vec![json!(20)], Some(vec![0])));
        assert_eq!(
            shown("--search pinned_memory_pool_byte_size=0,268435456 --search buffer_manager_thread_count=0,2"),
            (vec![json!(268_435_456), json!(0)], Some(vec![1, 0]))
        );
        assert_eq!(shown("--search rate_limit=execution_count"), (vec![Value::Null], None));
        assert_eq!(shown("--search delay=off,100"), (vec![json!(0)], Some(vec![0])), "left out and 0 are one");
        assert_eq!(shown("--search dynamic_batching=off,{}"), (vec![json!({})], Some(vec![1])));
        let bare = [(ModelId::latest("m"), json!({"max_batch_size": 0}))];
        let plan = plan("--search delay=off,0");
        assert_eq!(space(&plan.search, &plan, &bare).present(), Some(vec![0]), "0 would bring a batcher");
    }
}
