//! The number of requests outstanding for a candidate.

use serde_json::Value;

use crate::app::tune::assignment::Assignment;
use crate::model::ModelId;
use crate::plan::{TuneLoad, TunePlan};
use crate::terms::Statistic;

/// Limit on outstanding requests if the configuration decides their number.
const MAX_OUTSTANDING: u64 = 1024;

/// Requests outstanding; none if a rate is sent.
pub fn concurrency(
    plan: &TunePlan,
    bases: &[(ModelId, Value)],
    assignment: &Assignment,
    batch_size: u64,
) -> Option<u32> {
    if let Some(concurrency) = assignment.concurrency() {
        return Some(concurrency);
    }
    match plan.load {
        _ if assignment.request_rate().is_some() => None,
        TuneLoad::Rate(_) => None,
        TuneLoad::Concurrency(concurrency) => Some(concurrency),
        TuneLoad::Saturating if plan.objective == Statistic::Throughput => {
            Some(saturating(bases, assignment, batch_size))
        }
        // A latency depends on the load more than on anything else, so all candidates have the present configuration's.
        TuneLoad::Saturating => Some(saturating(bases, &Assignment::default(), plan.run.data.batch_size)),
    }
}

/// Twice as many requests as fill the batches of all instances, but no more than any queue takes. An ensemble has no
/// instances: those of every model that it calls count, because all of them work at the same time.
fn saturating(bases: &[(ModelId, Value)], assignment: &Assignment, batch_size: u64) -> u32 {
    let Some(((_, base), parts)) = bases.split_first() else { return of_one(&Value::Null, batch_size) };
    let is_ensemble = base.get("ensemble_scheduling").is_some_and(|steps| !steps.is_null());
    let working: Vec<Value> = match is_ensemble && !parts.is_empty() {
        true => parts.iter().map(|(id, base)| assignment.configure(Some(&id.name), base)).collect(),
        false => vec![assignment.configure(None, base)],
    };
    // All of them may wait for the same model.
    let most = working.iter().filter_map(queue).min().unwrap_or(u64::MAX).min(MAX_OUTSTANDING);
    let all = working.iter().map(|configuration| of_one(configuration, batch_size)).fold(0, u32::saturating_add);
    all.min(u32::try_from(most).unwrap_or(u32::MAX))
}

/// The same for a model that computes, whatever its queue takes.
fn of_one(configuration: &Value, batch_size: u64) -> u32 {
    let groups = configuration["instance_group"].as_array().map_or(&[][..], Vec::as_slice);
    let instances = groups.iter().map(instances_of).sum::<u64>().max(1);
    let has = |name: &str| configuration.get(name).is_some_and(|scheduler| !scheduler.is_null());
    let largest = number(&configuration["max_batch_size"]).unwrap_or(1).max(1);
    let each = match (has("sequence_batching"), has("dynamic_batching")) {
        (true, _) => sequences(&configuration["sequence_batching"], largest),
        (false, true) => 2 * largest.div_ceil(batch_size.max(1)),
        (false, false) => 2,
    };
    u32::try_from((instances * each).min(MAX_OUTSTANDING)).unwrap_or(u32::MAX)
}

/// Sequences of an instance, each with one request outstanding: those beyond its slots wait for a whole sequence to end.
fn sequences(batcher: &Value, largest: u64) -> u64 {
    match number(&batcher["oldest"]["max_candidate_sequences"]).filter(|slots| *slots > 0) {
        Some(slots) => slots.min(2 * largest),
        None => largest,
    }
}

/// How many requests the batcher's queue takes, which refuses others: that of the level that requests without a priority have.
fn queue(configuration: &Value) -> Option<u64> {
    let batcher = &configuration["dynamic_batching"];
    let level = number(&batcher["default_priority_level"]).unwrap_or(0).to_string();
    let policy = batcher["priority_queue_policy"].get(&level).unwrap_or(&batcher["default_queue_policy"]);
    number(&policy["max_queue_size"]).filter(|size| *size > 0)
}

/// A whole number, which servers may write as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Instances of a group: its count, on each of its GPUs if it has any.
fn instances_of(group: &Value) -> u64 {
    let is_on_gpus = group["kind"] == "KIND_GPU";
    let gpus = group["gpus"].as_array().filter(|_| is_on_gpus).map_or(1, |gpus| gpus.len().max(1) as u64);
    group["count"].as_u64().unwrap_or(1) * gpus
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn enough_requests_for_all_instances() {
        let outstanding = |configuration: Value| of_one(&configuration, 2);
        let groups = json!([{"count": 2}, {"count": 1}]);
        assert_eq!(outstanding(json!({"max_batch_size": 8, "dynamic_batching": {}, "instance_group": groups})), 24);
        assert_eq!(outstanding(json!({"max_batch_size": 8, "instance_group": groups})), 6, "nothing forms batches");
        assert_eq!(outstanding(json!({})), 2);
    }

    #[test]
    fn a_queue_is_not_overrun() {
        let with = |batcher: Value| json!({"max_batch_size": 8, "dynamic_batching": batcher, "instance_group": [{"count": 2}]});
        let bases = |all: &[Value]| all.iter().cloned().map(|base| (ModelId::latest("m"), base)).collect::<Vec<_>>();
        let unchanged = Assignment::default();
        let outstanding = |batcher: Value| saturating(&bases(&[with(batcher)]), &unchanged, 1);
        assert_eq!(outstanding(json!({"default_queue_policy": {"max_queue_size": 0}})), 32);
        assert_eq!(outstanding(json!({"default_queue_policy": {"max_queue_size": 5}})), 5);
        let of_level = |level: u64| {
            let levels = json!({"1": {"max_queue_size": 3}, "2": {"timeout_action": "DELAY"}});
            let policy = json!({"max_queue_size": 9});
            outstanding(
                json!({"priority_queue_policy": levels, "default_queue_policy": policy, "default_priority_level": level}),
            )
        };
        assert_eq!([of_level(1), of_level(2), of_level(3)], [3, 32, 9]);
        let steps = json!({"max_batch_size": 8, "ensemble_scheduling": {"step": []}});
        let short = with(json!({"default_queue_policy": {"max_queue_size": 7}}));
        assert_eq!(saturating(&bases(&[steps, with(json!({})), short]), &unchanged, 1), 7, "all wait for one model");
    }

    #[test]
    fn sequences_fill_the_slots_of_all_instances() {
        let outstanding = |batcher: Value, largest: u64| {
            of_one(
                &json!({"max_batch_size": largest, "sequence_batching": batcher, "instance_group": [{"count": 3}]}),
                1,
            )
        };
        for direct in [json!({}), json!({"direct": {"minimum_slot_utilization": 0.5}})] {
            assert_eq!([outstanding(direct.clone(), 8), outstanding(direct, 0)], [24, 3]);
        }
        let oldest = |most: Value| outstanding(json!({"oldest": {"max_candidate_sequences": most}}), 8);
        assert_eq!([oldest(json!(4)), oldest(json!("12")), oldest(json!(1024)), oldest(json!(0))], [12, 36, 48, 24]);
    }

    #[test]
    fn latencies_are_compared_under_one_load() {
        use crate::app::tune::sample::plan;
        use crate::model::configuration::Path;
        use crate::plan::Setting;
        let base = json!({"max_batch_size": 2, "dynamic_batching": {}, "instance_group": [{"count": 1}]});
        let bases = [(ModelId::latest("m"), base)];
        let more =
            |path: &str, value: Value| Assignment(vec![(Setting::Model(None, Path::parse(path).unwrap()), value)]);
        let loads = |flags: &str| {
            let candidates = [Assignment::default(), more("instances", json!(4)), more("max_batch_size", json!(8))];
            candidates.map(|candidate| concurrency(&plan(flags), &bases, &candidate, 1))
        };
        assert_eq!(loads(""), [Some(4), Some(16), Some(16)]);
        assert_eq!(loads("--objective p99"), [Some(4); 3]);
        assert_eq!(loads("--objective avg --at-concurrency 7"), [Some(7); 3]);
    }

    #[test]
    fn an_ensemble_has_those_of_all_its_models() {
        let steps = json!({"max_batch_size": 8, "ensemble_scheduling": {"step": []}});
        let batching = json!({"max_batch_size": 8, "dynamic_batching": {}, "instance_group": [{"count": 2}]});
        let single = json!({"max_batch_size": 8, "instance_group": [{"count": 1}]});
        let bases = [("e", steps), ("a", batching), ("b", single)].map(|(name, base)| (ModelId::latest(name), base));
        let unchanged = Assignment::default();
        assert_eq!(saturating(&bases, &unchanged, 1), 32 + 2);
        assert_eq!(saturating(&bases[1..], &unchanged, 1), 32, "a model that calls others has its own instances");
    }

    #[test]
    fn a_group_has_its_instances_on_each_of_its_gpus() {
        let outstanding = |kind: &str, gpus: Value| {
            let groups =
                json!([{"kind": kind, "count": 2, "gpus": gpus}, {"kind": "KIND_CPU", "count": 1, "gpus": []}]);
            of_one(&json!({"max_batch_size": 8, "dynamic_batching": {}, "instance_group": groups}), 1)
        };
        assert_eq!(outstanding("KIND_GPU", json!([0, 1, 2, 3])), 2 * 9 * 8);
        assert_eq!(outstanding("KIND_GPU", json!([])), 2 * 3 * 8);
        assert_eq!(outstanding("KIND_MODEL", json!([0, 1])), 2 * 3 * 8, "the model spreads itself");
    }
}
