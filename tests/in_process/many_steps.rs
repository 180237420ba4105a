//! Input data of many steps: how many request objects they take.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{Scripted, turns};

/// What the documentation promises.
const MOST_OBJECTS: u64 = 32_768;

/// A file of so many steps, each of another number.
fn steps(count: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<_> = (0..count).map(|number| json!({"INPUT0": [number, 0, 0, 0]})).collect();
    fs::write(folder.path().join("steps.json"), json!({ "data": steps }).to_string()).unwrap();
    folder
}

/// Request objects that a load makes in all.
fn objects(count: usize, load: &str) -> u64 {
    let scripted = Scripted::requests(json!([{"delay_us": 20_000}]));
    let data = steps(count);
    let finished = scripted.program().args(load).arg("--input-data").arg(data.path().join("steps.json")).run();
    assert!([0, 4].contains(&finished.code()), "{finished:#?}");
    scripted.clean()["made"].as_u64().unwrap()
}

#[test]
fn a_schedule_that_grows_makes_no_objects_for_its_steps() {
    let _turn = turns::alone();
    let load = "--request-rate-range 3000 --request-count 3000";
    assert!(objects(500, load) <= 1024, "one for each outstanding request");
}

#[test]
fn synchronous_workers_share_one_bound() {
    let _turn = turns::shared();
    assert!(objects(3_000, "--sync --concurrency-range 16 --request-count 100") <= MOST_OBJECTS);
    let few = objects(1_000, "--async --max-threads 4 --concurrency-range 16 --request-count 100");
    assert_eq!(few, 16_000, "up to the bound each slot has an object for each step");
}
