//! What the user should know about the flags although they are good.

use crate::plan::Given;
use crate::range;
use crate::terms::{LoadMode, MeasurementPlan};

/// The note if levels may not get as many windows as they need.
pub fn too_few_windows(plan: &MeasurementPlan, mode: &LoadMode) -> Option<String> {
    let few = plan.request_count.is_none() && plan.max_trials < 3 && mode.has_windows();
    let rule = "a level is stable when three windows agree, so none can be";
    few.then(|| format!("--max-trials {}: {rule}", plan.max_trials))
}

/// Notes that are not errors.
pub fn notes(given: &Given) -> Vec<String> {
    const OLD: [(&str, &str); 4] = [
        ("-t", "--concurrency-range"),
        ("-d", "--concurrency-range START:END"),
        ("-z", "--input-data zero"),
        ("--data-directory", "--input-data"),
    ];
    let old = OLD.iter().filter(|(flag, _)| given.has(flag));
    let mut notes: Vec<String> = old.map(|(flag, new)| format!("{flag} is an old spelling: use {new}")).collect();
    if given.has("--cancel-after-us") && given.has("--streaming") {
        let rule = "a request is cancelled only while it is alone on its stream, which those of a sequence share";
        notes.push(format!("--cancel-after-us: {rule}"));
    }
    let is_zero = |range: &str| range.split(':').next().is_some_and(|first| first.trim_start_matches('0').is_empty());
    if given.value("--sequence-id-range").is_some_and(is_zero) {
        notes.push("--sequence-id-range starts at 0, which means no sequence: IDs start at 1".to_owned());
    }
    if let Some(length) = given.value("--sequence-length").filter(|length| range::sequence_length(length) == Ok(0)) {
        notes.push(format!("--sequence-length {length} is not a length: it is taken for the default, 20"));
    }
    notes
}
