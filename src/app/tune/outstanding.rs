//! The number of requests outstanding for a candidate.

use serde_json::Value;

use crate::app::tune::assignment::Assignment;
use crate::model::ModelId;
use crate::plan::{TuneLoad, TunePlan};

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
        TuneLoad::Saturating => Some(saturating(bases, assignment, batch_size)),
    }
}

/// Twice as many requests as fill the batches of all instances. An ensemble has none: those of every model that it
/// calls count, because all of them work at the same time.
fn saturating(bases: &[(ModelId, Value)], assignment: &Assignment, batch_size: u64) -> u32 {
    let Some(((_, base), parts)) = bases.split_first() else { return of_one(&Value::Null, batch_size) };
    let is_ensemble = base.get("ensemble_scheduling").is_some_and(|steps| !steps.is_null());
    if !is_ensemble || parts.is_empty() {
        return of_one(&assignment.configure(None, base), batch_size);
    }
    let of_part = |(id, base): &(ModelId, Value)| of_one(&assignment.configure(Some(&id.name), base), batch_size);
    parts.iter().map(of_part).fold(0, u32::saturating_add).min(MAX_OUTSTANDING as u32)
}

/// The same for a model that computes.
fn of_one(configuration: &Value, batch_size: u64) -> u32 {
    let groups = configuration["instance_group"].as_array().map_or(&[][..], Vec::as_slice);
    let instances = groups.iter().map(instances_of).sum::<u64>().max(1);
    let batched = configuration.get("dynamic_batching").is_some_and(|batcher| !batcher.is_null());
    let largest = if batched { configuration["max_batch_size"].as_u64().unwrap_or(1).max(1) } else { 1 };
    let outstanding = 2 * instances * largest.div_ceil(batch_size.max(1));
    u32::try_from(outstanding.min(MAX_OUTSTANDING)).unwrap_or(u32::MAX)
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
