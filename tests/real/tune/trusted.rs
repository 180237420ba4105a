//! Answers that can be trusted: where time runs out, where nothing helps, and where one member of an ensemble holds
//! requests up.

use std::fs;

use super::found::{Found, folder, search, tune};
use crate::support::{Model, Repository};

/// Loads take so long that nothing is measured beside yours.
#[test]
fn without_enough_time_yours_stays() {
    let delays = "--search dynamic_batching.max_queue_delay_microseconds=100,9000 --at-concurrency 4 --budget 4s";
    let model = Model::sleeping("m", 2)
        .batches(8)
        .with("dynamic_batching { max_queue_delay_microseconds: 100 }")
        .parameter("load_ms", "3000");
    let found = search(model, delays);
    assert_eq!((found.name(), found.finished.code()), ("too_short", 0), "{}", found.text());
    assert_eq!(found.values_of_winner(), ["100"], "{}", found.text());
    assert!(found.words().contains("Not enough time: yours stays; `--budget "), "{}", found.text());
    let folder = folder(&found.repository);
    let written = fs::read_to_string(folder.join("config.pbtxt")).unwrap();
    assert!(written.contains("max_queue_delay_microseconds: 100\n"), "{written}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Not enough time: yours stays"), "the page says the same");
}

/// More instances than permits gain nothing, however the last measurement came out.
#[test]
fn timed_more_instances_than_permits_are_not_recommended() {
    let found = search(Model::sleeping("m", 20).parameter("permits", "1"), "--search instances=1:3 --budget 15s");
    assert_eq!(found.winner(), [1], "{}", found.text());
}

#[test]
fn timed_where_all_are_alike_yours_stays() {
    let model = Model::identity("m").batches(8).with("dynamic_batching {}");
    let found = search(model, "--search delay=0:3 --at-concurrency 1 --budget 12s");
    assert_eq!(found.winner(), [0], "{}", found.text());
}

/// `a` takes 2 ms, and `b` 16 ms, one request at a time.
fn pipeline() -> Repository {
    let step = |model: &str, from: &str, to: &str| {
        format!(
            r#"{{ model_name: "{model}" model_version: -1 input_map {{ key: "INPUT0" value: "{from}" }} output_map {{ key: "OUTPUT0" value: "{to}" }} }}"#
        )
    };
    let steps = [step("a", "INPUT0", "between"), step("b", "between", "OUTPUT0")].join(", ");
    let more = format!("platform: \"ensemble\"\nensemble_scheduling {{ step [{steps}] }}");
    let ensemble = Model::identity("m").batches(2).backend("").with(&more);
    let part = |name: &str, milliseconds: u64| Model::sleeping(name, milliseconds).batches(2);
    Repository::of(&[part("a", 2), part("b", 16), ensemble])
}

#[test]
fn timed_the_bottleneck_of_an_ensemble_is_searched_first_within_a_latency() {
    let repository = pipeline();
    let finished = tune(&repository, "--constraint p99<150ms --budget 25s").run();
    let found = Found::read(finished, repository);
    assert_eq!(found.finished.code(), 0, "{}", found.text());
    assert!(["better", "meets", "unconfirmed"].contains(&found.name()), "{}", found.text());
    assert!(found.words().contains("for b and it computes"), "{}", found.text());
    let settings: Vec<&str> =
        found.result["settings"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let searched = |model: &str| {
        let belongs = |name: &&str| name.starts_with(model);
        let columns: Vec<usize> = (0..settings.len()).filter(|column| belongs(&settings[*column])).collect();
        let yours = found.candidates().iter().find(|candidate| candidate["number"] == 0).unwrap();
        let differs = |column: &usize| {
            let with = |candidate: &&serde_json::Value| candidate["figures"]["visits"].is_u64();
            let measured = found.candidates().iter().filter(with);
            measured.filter(|candidate| candidate["values"][*column] != yours["values"][*column]).count()
        };
        columns.iter().map(differs).sum::<usize>()
    };
    assert!(searched("b:") > searched("a:"), "{}", found.text());
    let batches = found.result["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|candidate| candidate["status"] == "failed")
        .count();
    assert_eq!(batches, 0, "members take batches as large as the ensemble's: {}", found.text());
    // What is recommended meets the latency, at the load that is named.
    let winner =
        found.candidates().iter().find(|candidate| candidate["number"] == found.result["verdict"]["winner"]).unwrap();
    assert_eq!(winner["meets"], true, "{winner}");
    assert!(winner["figures"]["latency_ns"].as_f64().unwrap() <= 150e6, "{winner}");
    let load = winner["figures"]["concurrency"].as_u64().unwrap();
    assert!(found.words().contains(&format!("with {load} outstanding")), "{}", found.text());
}
