//! Fewer default settings for an ensemble: those of all its models multiply.

use serde_json::Value;

use crate::model::configuration::equal;
use crate::plan::{Searched, Setting};

/// Most points that default settings span: a search predicts every point, several times.
const MAX_POINTS: usize = 50_000;

/// The ends of paths of default settings.
const DELAY: &str = "max_queue_delay_microseconds";
const BATCH: &str = "max_batch_size";
const INSTANCES: &str = ".count";

/// Thins default settings until they span few enough points, and says which: first delays go, then every other batch,
/// then every other number of instances, and at last whole settings. The value in force, which `present` tells, stays.
pub fn thin(usual: &mut Vec<Searched>, present: impl Fn(&Setting) -> Option<Value>) -> Option<String> {
    let before = usual.clone();
    while are_too_many(usual) && leave_out(usual, DELAY) {}
    for kind in [BATCH, INSTANCES] {
        while are_too_many(usual) && take_fewer(usual, kind, &present) {}
    }
    for kind in [BATCH, INSTANCES] {
        while are_too_many(usual) && leave_out(usual, kind) {}
    }
    (*usual != before).then(|| note(&before, usual))
}

fn points(search: &[Searched]) -> usize {
    search.iter().fold(1_usize, |points, searched| points.saturating_mul(searched.values.len()))
}

fn are_too_many(search: &[Searched]) -> bool {
    points(search) > MAX_POINTS
}

fn is_of(searched: &Searched, kind: &str) -> bool {
    matches!(&searched.setting, Setting::Model(_, path) if path.to_string().ends_with(kind))
}

/// Removes the last setting of a kind; whether there was one.
fn leave_out(usual: &mut Vec<Searched>, kind: &str) -> bool {
    let last = usual.iter().rposition(|searched| is_of(searched, kind)).filter(|_| usual.len() > 1);
    last.map(|last| usual.remove(last)).is_some()
}

/// Halves the values of the setting of a kind that has most of them, the last of several; whether there was one.
fn take_fewer(usual: &mut [Searched], kind: &str, present: impl Fn(&Setting) -> Option<Value>) -> bool {
    let settings = usual.iter().enumerate().filter(|(_, searched)| is_of(searched, kind));
    let thinned = settings.filter_map(|(index, searched)| {
        let fewer = fewer(&searched.values, present(&searched.setting).as_ref());
        (fewer.len() < searched.values.len()).then_some((index, fewer))
    });
    match thinned.max_by_key(|(index, _)| usual[*index].values.len()) {
        Some((index, fewer)) => {
            usual[index].values = fewer;
            true
        }
        None => false,
    }
}

/// The ends, the value in force, and every other one of the rest.
fn fewer(values: &[Value], present: Option<&Value>) -> Vec<Value> {
    let ends = [0, values.len().saturating_sub(1)];
    let mut others = 0;
    let stays = |(index, value): &(usize, &Value)| {
        if ends.contains(index) || present.is_some_and(|present| equal(value, present)) {
            return true;
        }
        others += 1;
        others % 2 == 0
    };
    values.iter().enumerate().filter(stays).map(|(_, value)| value.clone()).collect()
}

/// What was thinned.
fn note(before: &[Searched], after: &[Searched]) -> String {
    let now = |searched: &Searched| after.iter().find(|other| other.setting == searched.setting);
    let named = |is_meant: &dyn Fn(&Searched) -> bool| {
        let named = before.iter().filter(|searched| is_meant(searched)).map(|searched| searched.setting.to_string());
        named.collect::<Vec<_>>().join(", ")
    };
    let gone = named(&|searched| now(searched).is_none());
    let thinned = named(&|searched| now(searched).is_some_and(|now| now.values.len() < searched.values.len()));
    let parts = [("not searched", gone), ("searched at fewer values", thinned)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let details = parts.map(|(label, names)| format!("{label}: {names}")).collect::<Vec<_>>().join("; ");
    let rule = "--search names settings exactly";
    format!("the default settings of all models span more than {MAX_POINTS} points; {details}; {rule}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::tune::space::usual_of_parts;

    /// The default settings of an ensemble of that many batching models, and what is said of them.
    fn usual(parts: usize) -> (Vec<Searched>, Option<String>) {
        let configuration = json!({"max_batch_size": 256, "dynamic_batching": {}, "instance_group": [{"count": 3}]});
        let names: Vec<String> = (0..parts).map(|part| format!("p{part}")).collect();
        let mut usual = usual_of_parts(&json!({}), names.iter().map(|name| (name.as_str(), &configuration)));
        let note = thin(&mut usual, |setting| match setting {
            Setting::Model(_, path) => path.get(&configuration),
            _ => None,
        });
        (usual, note)
    }

    #[test]
    fn a_few_settings_stay_as_they_are() {
        let (search, note) = usual(1);
        assert_eq!((search.len(), note), (3, None));
    }

    #[test]
    fn defaults_of_any_ensemble_are_few_enough() {
        for parts in [2, 3, 4, 6, 10, 40, 200] {
            let (search, note) = usual(parts);
            let count = points(&search);
            assert!((MAX_POINTS / 10..=MAX_POINTS).contains(&count) || note.is_none(), "{parts}: {count}");
            assert_eq!((&search, &note), (&usual(parts).0, &usual(parts).1), "the same each time");
            let present = |searched: &Searched| is_of(searched, INSTANCES).then(|| searched.values.contains(&json!(3)));
            assert!(search.iter().filter_map(present).all(|is_there| is_there), "{parts}: what is in force stays");
        }
    }

    #[test]
    fn delays_go_first_then_batches_then_instances() {
        let (search, note) = usual(4);
        let note = note.unwrap();
        let delays: Vec<&Searched> = search.iter().filter(|searched| is_of(searched, DELAY)).collect();
        assert!(delays.is_empty() && search.len() == 8, "{search:?}");
        let most =
            |kind| search.iter().filter(|searched| is_of(searched, kind)).map(|searched| searched.values.len()).max();
        assert!(most(BATCH) < Some(9), "{search:?}");
        assert!(note.contains("not searched: p0:dynamic_batching.max_queue_delay_microseconds, p1:"), "{note}");
        assert!(note.contains("searched at fewer values: "), "{note}");
    }

    #[test]
    fn the_ends_and_the_value_in_force_stay() {
        let values: Vec<Value> = (1..=8).map(Value::from).collect();
        assert_eq!(json!(fewer(&values, Some(&json!(3)))), json!([1, 3, 4, 6, 8]));
        assert_eq!(json!(fewer(&values, None)), json!([1, 3, 5, 7, 8]));
        assert_eq!(json!(fewer(&values[..2], None)), json!([1, 2]));
        assert!(fewer(&[], None).is_empty());
    }
}
