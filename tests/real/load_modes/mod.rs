//! Every load mode in process, end to end, against models that report from the server's side what reached them.
//!
//! Runs are short and bounds wide enough for a busy machine: `scripts/check-truth` measures how accurate the program
//! is.

mod decoupled;
mod mixes;
mod modes;
mod refused;
mod schedules;
mod sequences;

use serde_json::Value;

use crate::support::Repository;

/// What a model's journal says of each request under a key, in order of execution.
fn column<T>(repository: &Repository, model: &str, key: &str, read: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let entry = |entry: &Value| read(&entry[key]).unwrap_or_else(|| panic!("no {key} in {entry}"));
    repository.journal(model).iter().map(entry).collect()
}

/// Milliseconds from the first to each execution that a model's journal holds.
fn offsets_ms(repository: &Repository, model: &str) -> Vec<f64> {
    let mut stamps = column(repository, model, "ns", Value::as_u64);
    stamps.sort_unstable();
    stamps.iter().map(|ns| (ns - stamps[0]) as f64 / 1e6).collect()
}

fn assert_near(label: &str, value: f64, wanted: f64, tolerance: f64) {
    assert!((value - wanted).abs() <= tolerance, "{label}: {value} is not within {tolerance} of {wanted}");
}
