//! Input data of many steps: how many request objects it takes, and that every step is sent.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::support::Scripted;

/// What the documentation promises.
const MAX_OBJECTS: u64 = 32_768;

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
fn timed_a_schedule_that_grows_makes_no_objects_for_its_steps() {
    let load = "--request-rate-range 3000 --request-count 3000 --max-threads 1";
    for (steps, first) in [(200, 64 * 200), (600, 64)] {
        let made = objects(steps, load);
        assert!((first..first + 1024).contains(&made), "{steps} steps: {made}, and one for each further slot");
    }
}

#[test]
fn synchronous_workers_share_one_bound() {
    assert!(objects(3_000, "--sync --concurrency-range 16 --request-count 100") <= MAX_OBJECTS);
    let few = objects(1_000, "--async --max-threads 4 --concurrency-range 16 --request-count 100");
    assert_eq!(few, 16_000, "up to the bound each slot has an object for each step");
}

/// Sends as many requests as `--request-count` says, and returns how many distinct steps they carried.
fn distinct(count: usize, requests: usize, load: &str) -> usize {
    let scripted = Scripted::script(&json!({
        "server": {"log_requests": true},
        "requests": [{"thread": "caller"}, {"delay_us": 300}, {}, {"delay_us": 50}],
    }));
    let data = steps(count);
    let line = format!("{load} --request-count {requests}");
    let finished = scripted.program().args(&line).arg("--input-data").arg(data.path().join("steps.json")).run();
    assert!([0, 4].contains(&finished.code()), "{finished:#?}");
    let sent = scripted.events("request");
    assert_eq!(sent.len(), requests, "{load}");
    scripted.clean();
    let carried = |event: &serde_json::Value| event["inputs"][0]["data"].as_str().unwrap().to_owned();
    sent.iter().map(carried).collect::<BTreeSet<_>>().len()
}

const CLOSED: [&str; 3] =
    ["--async --concurrency-range 4 --max-threads 2", "--async --concurrency-range 7", "--sync --concurrency-range 3"];

#[test]
fn as_many_requests_as_steps_send_every_step() {
    for load in CLOSED {
        for count in [10, 301] {
            assert_eq!(distinct(count, count, load), count, "{count} steps, {load}");
            assert_eq!(distinct(count, 3 * count, load), count, "{count} steps, {load}");
        }
    }
    assert_eq!(distinct(301, 301, "--request-rate-range 300"), 301);
}

#[test]
fn fewer_requests_than_steps_send_distinct_ones() {
    for load in CLOSED {
        assert_eq!(distinct(301, 280, load), 280, "{load}");
    }
}
