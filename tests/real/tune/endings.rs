//! How searches end, and what they leave behind.

use std::fs;

use serde_json::Value;

use super::found::{Found, folder, search, tune};
use crate::support::{Model, Repository};

fn model() -> Model {
    Model::sleeping("m", 5).batches(4).with("dynamic_batching {}")
}

const SMALL: &str = "--search instances=1:3 --search max_batch_size=2,4";

#[test]
fn the_winner_is_left_as_text_and_for_the_load_api() {
    let found = search(model(), &format!("{SMALL} --budget 5s"));
    let folder = folder(&found.repository);
    let text = fs::read_to_string(folder.join("config.pbtxt")).unwrap();
    let load: Value = serde_json::from_str(&fs::read_to_string(folder.join("load.json")).unwrap()).unwrap();
    let configuration: Value = serde_json::from_str(load["parameters"]["config"].as_str().unwrap()).unwrap();
    let [instances, batch] = found.winner()[..] else { panic!("{}", found.text()) };
    assert!(
        text.contains(&format!("count: {instances}\n")) && text.contains(&format!("max_batch_size: {batch}\n")),
        "{text}"
    );
    assert_eq!(configuration["max_batch_size"], batch);
    let table = fs::read_to_string(folder.join("metrics-model-inference.csv")).unwrap();
    assert!(
        table.starts_with(
            "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,"
        ),
        "{table}"
    );
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    let points = found.candidates().iter().filter(|candidate| !candidate["figures"].is_null()).count();
    assert_eq!(page.matches("<path class=\"mark ").count(), points, "{page}");
    assert!(page.contains(">yours</text>") && !page.contains("src=\"http") && !page.contains("href=\"http"), "{page}");
    // The text is one that Triton reads: the model is loaded with it, and is what was found.
    fs::write(found.repository.path().join("m/config.pbtxt"), &text).unwrap();
    let again = tune(&found.repository, &format!("--search instances={instances} --budget 2s")).run();
    assert_eq!(again.code(), 0, "{again:?}");
    let again = Found::read(again, found.repository);
    assert_eq!((again.name(), again.winner()), ("kept", vec![instances]), "{}", again.text());
}

#[test]
fn an_interrupt_leaves_the_best_so_far() {
    let repository = Repository::of(&[model()]);
    let running = tune(&repository, &format!("{SMALL} --budget 60s")).start();
    running.wait_for("racing");
    running.signal(2);
    let finished = running.finish();
    assert_eq!(finished.code(), 0, "{finished:?}");
    let found = Found::read(finished, repository);
    assert_eq!(found.result["interrupted"], true);
    assert!(["unconfirmed", "kept", "too_short", "nothing"].contains(&found.name()), "{}", found.text());
    assert!(folder(&found.repository).join("config.pbtxt").exists());
}

#[test]
fn a_search_goes_on_from_its_record() {
    let repository = Repository::of(&[model()]);
    let running = tune(&repository, &format!("{SMALL} --budget 6s")).start();
    running.wait_for("racing");
    running.signal(2);
    assert_eq!(running.finish().code(), 0);
    let record = folder(&repository).join("trials.jsonl");
    let before = fs::read_to_string(&record).unwrap();
    let finished = tune(&repository, &format!("{SMALL} --budget 6s --resume")).run();
    assert_eq!(finished.code(), 0, "{finished:?}");
    let after = fs::read_to_string(&record).unwrap();
    assert!(
        before.lines().count() > 1 && after.starts_with(&before) && after.len() > before.len(),
        "{before}\n{after}"
    );
    let other = tune(&repository, "--search instances=1:2 --budget 6s --resume").run();
    other.failure_after_notes(&["--resume", "another search", "where this one has 'instance_group[].count=1,2'"]);
    let other = tune(&repository, &format!("{SMALL} --budget 6s --resume -b 2")).run();
    other.failure_after_notes(&["another search", "of the flags of a run", "this one has '-b 2'"]);
    let mut configuration = fs::read_to_string(repository.path().join("m/config.pbtxt")).unwrap();
    configuration += "\nresponse_cache { enable: false }\nmetric_tags { key: \"a\" value: \"b\" }\n";
    fs::write(repository.path().join("m/config.pbtxt"), configuration).unwrap();
    let other = tune(&repository, &format!("{SMALL} --budget 6s --resume")).run();
    other.failure_after_notes(&["another search", "configurations have changed"]);
    assert_eq!(fs::read_to_string(&record).unwrap(), after, "a record of another search stays as it is");
}

/// A search that is over measures on with a greater budget, and nothing that it has.
#[test]
fn a_search_takes_more_time() {
    let repository = Repository::of(&[model()]);
    let record = || fs::read_to_string(folder(&repository).join("trials.jsonl")).unwrap();
    let run = |arguments: &str| tune(&repository, &format!("{SMALL} {arguments}")).run();
    let finished = run("--budget 4s");
    assert_eq!(finished.code(), 0, "{finished:?}");
    let rounds = |text: &str| -> Vec<u64> {
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line["trial"]["round"].as_u64()).collect()
    };
    let mut before = record();
    for (budget, had) in [("8s", 4), ("10s", 8)] {
        let finished = run(&format!("--budget {budget} --resume"));
        assert_eq!(finished.code(), 0, "{finished:?}");
        assert!(finished.stderr.contains(&format!("instead of {had} s")), "{}", finished.stderr);
        let after = record();
        let added = after.strip_prefix(&before).unwrap_or_else(|| panic!("{before}\n{after}"));
        assert_eq!(added.lines().next(), Some(&*format!("{{\"budget_s\":{}.0}}", budget.trim_end_matches('s'))));
        let (old, new) = (rounds(&before), rounds(added));
        assert!(!new.is_empty() && new.iter().all(|round| old.iter().all(|old| round > old)), "{before}\n{after}");
        before = after;
    }
    let again = run("--resume");
    assert_eq!((again.code(), record()), (0, before.clone()), "it keeps the 10 s that it had: {again:?}");
    let refused = run("--budget 6s --resume");
    refused.failure_after_notes(&["--budget 6s", "a resumed search cannot have less", "give --budget 10s or more"]);
    assert_eq!(record(), before, "what is refused changes nothing");
    let found = Found::read(finished, repository);
    assert_eq!(found.result["budget_s"], 10.0);
    assert!(found.result["spent_s"].as_f64().unwrap() > 4.0, "{}", found.text());
}

/// A request takes longer than the shortest window.
#[test]
fn a_slow_model_is_tuned() {
    let model = Model::sleeping("m", 500);
    let found = search(model, "--search instances=1,2 --at-concurrency 4 --budget 20s");
    let failed = |candidate: &&Value| candidate["status"] == "failed";
    assert_eq!(found.candidates().iter().filter(failed).count(), 0, "{}", found.text());
    let rate = |count: u64| found.with(&[count])["figures"]["throughput"].as_f64();
    let is_about = |count: u64, expected: f64| rate(count).is_none_or(|rate| (rate / expected - 1.0).abs() < 0.3);
    assert!(rate(1).or(rate(2)).is_some() && is_about(1, 2.0) && is_about(2, 4.0), "{}", found.text());
    // Whether there is time enough to prove it is the machine's matter.
    assert!(found.winner() == [2] || found.name() == "too_short", "{}", found.text());
}

/// With larger batches many more requests are outstanding, and each is answered as soon.
#[test]
fn a_slow_model_is_searched_in_time() {
    let model = Model::sleeping("m", 200).batches(1).with("dynamic_batching {}");
    let found = search(model, "--search max_batch_size=1,32 --budget 16s");
    let spent = found.result["spent_s"].as_f64().unwrap();
    assert!(spent < 24.0, "{spent} s of 16: {}", found.text());
    let rate = found.with(&[32])["figures"]["throughput"].as_f64();
    assert!(rate.is_some_and(|rate| rate > 30.0), "{}", found.text());
}

/// Its requests take longer than a search has time.
#[test]
fn a_model_that_hangs_is_said_to() {
    let model = Model::sleeping("m", 6_000);
    let found = search(model, "--search instances=1,2 --budget 4s");
    assert_eq!((found.finished.code(), found.name()), (3, "nothing"), "{}", found.text());
    assert!(found.text().contains("no request ended within"), "{}", found.text());
}

/// The same model, where the user has not waited: that says nothing of it.
#[test]
fn an_interrupt_before_anything_was_measured_is_told_apart() {
    let repository = Repository::of(&[Model::sleeping("m", 6_000)]);
    let running = tune(&repository, "--search instances=1,2 --budget 60s").start();
    running.wait_for("searching along each setting");
    running.signal(2);
    let finished = running.finish();
    assert_eq!(finished.code(), 130, "{finished:?}");
    let found = Found::read(finished, repository);
    assert_eq!((found.name(), &found.result["interrupted"]), ("nothing", &Value::Bool(true)), "{}", found.text());
    assert!(found.words().contains("Interrupted before anything was measured"), "{}", found.text());
    assert!(!found.text().contains("no candidate works"), "{}", found.text());
}

/// A model that takes any parameter.
const ECHO: &str = r#"
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)]) for values in inputs]
"#;

/// Fields whose text form follows from where they are.
#[test]
fn the_winners_text_is_read_by_triton() {
    let more = r#"
        dynamic_batching {
          priority_levels: 2
          default_priority_level: 1
          priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 5000000 max_queue_size: 500 } }
        }
        optimization { cuda { graph_spec { batch_size: 1 input { key: "INPUT0" value { dim: [4] } } } } }
        metric_tags { key: "KIND_CPU" value: "MODE_A" }
    "#;
    let model = Model::python("m", ECHO).batches(4).with(more).parameter("PRECISION", "TYPE_FP16");
    let found = search(model, "--search instances=1,2 --budget 5s");
    let text = fs::read_to_string(folder(&found.repository).join("config.pbtxt")).unwrap();
    fs::write(found.repository.path().join("m/config.pbtxt"), &text).unwrap();
    let again = tune(&found.repository, "--search max_batch_size=4 --budget 2s").run();
    assert_eq!(again.code(), 0, "{again:?}\n{text}");
    let load = |name: &str| -> Value {
        let body: Value = serde_json::from_str(&fs::read_to_string(found.repository.file(name)).unwrap()).unwrap();
        serde_json::from_str(body["parameters"]["config"].as_str().unwrap()).unwrap()
    };
    let read = load("tuned/load.json");
    assert_eq!(read["parameters"]["PRECISION"]["string_value"], "TYPE_FP16");
    assert_eq!(read["metric_tags"]["KIND_CPU"], "MODE_A");
    assert_eq!(read["dynamic_batching"]["priority_queue_policy"]["1"]["timeout_action"], "DELAY", "{read:#}");
    assert_eq!(read["optimization"]["cuda"]["graph_spec"][0]["input"]["INPUT0"]["dim"][0], "4", "{read:#}");
}

#[test]
fn what_is_off_is_left_to_the_server() {
    let found = search(model(), "--search delay=off,2000 --search optimization.eager_batching=off,true --budget 4s");
    let failed = |candidate: &&Value| candidate["status"] == "failed";
    assert_eq!(found.candidates().iter().filter(failed).count(), 0, "{}", found.text());
    // The server's own: no delay, no eager batching.
    let is_off = |value: &Value| value.is_null() || *value == 0 || *value == false;
    let off = found.candidates().iter().filter(|candidate| candidate["values"].as_array().unwrap().iter().all(is_off));
    let off: Vec<_> = off.map(|candidate| candidate["number"].as_u64()).collect();
    assert_eq!(off, [Some(0)], "yours is the one where both are off: {}", found.text());
}

#[test]
fn where_nothing_meets_the_constraint_the_nearest_is_named() {
    let found = search(model(), "--search instances=1,2 --constraint p99<1ms --budget 6s");
    // On a machine that others use, none is seen to.
    assert!(["none_meets", "none_seen"].contains(&found.name()), "{}", found.text());
    assert_eq!(found.finished.code(), 2, "{}", found.text());
    assert!(found.words().contains("is nearest"), "{}", found.text());
}

#[test]
fn what_suits_the_model_is_searched_where_nothing_is_said() {
    let found = search(model(), "--budget 4s");
    let settings = found.result["settings"].as_array().unwrap();
    let delay = "dynamic_batching.max_queue_delay_microseconds";
    assert_eq!(settings, &["instance_group[].count", "max_batch_size", delay]);
}

#[test]
fn unknown_models_and_settings_are_refused() {
    let repository = Repository::of(&[model()]);
    let refused = tune(&repository, "--search other:instances=1:2").run();
    refused.failure_after_notes(&["other", "calls no model of that name"]);
    let finished = tune(&repository, "--search nonsense_field=1,2 --budget 6s").run();
    let found = Found::read(finished, repository);
    let failed = found.candidates().iter().filter(|candidate| candidate["status"] == "failed");
    assert_eq!(failed.count(), 2, "{}", found.text());
}
