//! Where the time goes: traces of in-process requests, and how they are used.
mod files;
mod lifetimes;
mod measured;
mod network;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Model, Program, Repository};

/// A file's JSON.
fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {text}", path.display()))
}

/// The breakdown of the first level of a `--summary-file`.
fn breakdown(path: &Path) -> Value {
    json(path)["levels"][0]["breakdown"][0].clone()
}

/// A stage of a breakdown, of `model` where it has several.
fn stage<'a>(breakdown: &'a Value, model: Option<&str>, name: &str) -> &'a Value {
    let stages = breakdown["stages"].as_array().unwrap_or_else(|| panic!("{breakdown}"));
    let is = |stage: &&Value| stage["name"] == name && stage["model"].as_str() == model;
    stages.iter().find(is).unwrap_or_else(|| panic!("no stage {model:?} {name} in {breakdown}"))
}

/// The median of a stage in microseconds.
fn median_us(stage: &Value) -> f64 {
    stage["percentiles_ns"][0].as_f64().unwrap_or_else(|| panic!("{stage}")) / 1_000.0
}

/// Runs a model with a breakdown and returns what was said and the breakdown.
fn run(repository: &Repository, arguments: &str) -> (String, Value) {
    let file = repository.file("summary.json");
    let finished =
        Program::on(repository, "m").args("--breakdown").args(arguments).arg("--summary-file").arg(&file).run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    (finished.stdout, breakdown(&file))
}

#[test]
fn every_nth_request_is_traced_and_its_stages_add_up() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let (text, breakdown) = run(&repository, "--request-count 100 --trace-rate 10 --sync --max-errors 1");
    assert_eq!((&breakdown["traced"], &breakdown["one_in"]), (&10.into(), &10.0.into()), "{breakdown}");
    assert!(text.contains("Breakdown: 10 traced requests, 1 in 10, usec"), "{text}");
    for row in ["queue", "compute input", "compute", "compute output", "unexplained", "latency", "then wake-up"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("    {row:18}"))), "{row}: {text}");
    }
    let stages = breakdown["stages"].as_array().unwrap();
    let mean = |stage: &Value| stage["mean_ns"].as_f64().unwrap();
    let sum: f64 = stages.iter().map(mean).sum::<f64>() + mean(&breakdown["unexplained"]);
    let latency = mean(&breakdown["latency"]);
    assert!((sum / latency - 1.0).abs() < 0.01, "{sum} of {latency}: {breakdown}");
    assert!(mean(stage(&breakdown, None, "compute")) >= 2e6, "{breakdown}");
}

#[test]
fn the_stages_of_a_schedule_begin_with_its_delay() {
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    let arguments = "--request-rate-range 100 --request-count 100 --max-errors 1 --trace-rate 1";
    let file = repository.file("summary.json");
    let program = Program::on(&repository, "m").args("--breakdown").args(arguments).arg("--summary-file").arg(&file);
    let finished = program.run();
    assert!([0, 4].contains(&finished.code()), "{}", finished.stderr);
    let breakdown = breakdown(&file);
    assert_eq!(breakdown["traced"], 100);
    assert_eq!(breakdown["stages"][0]["name"], "schedule delay", "{breakdown}");
}

#[test]
fn nothing_is_said_of_stages_unless_asked_for() {
    let repository = Repository::of(&[Model::identity("m")]);
    let file = repository.file("summary.json");
    let program = Program::on(&repository, "m").args("--request-count 20").arg("--summary-file").arg(&file);
    let text = program.run().report().text;
    assert!(!text.contains("Breakdown") && !text.contains("Executed batch"), "{text}");
    assert_eq!(json(&file)["levels"][0]["breakdown"], Value::Array(Vec::new()));
}

const ENSEMBLE: &str = r#"
platform: "ensemble"
ensemble_scheduling { step [
    { model_name: "first" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "between" } },
    { model_name: "second" model_version: -1 input_map { key: "INPUT0" value: "between" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }"#;

#[test]
fn timed_every_model_of_an_ensemble_has_its_stages() {
    let repository = Repository::of(&[
        Model::sleeping("first", 2),
        Model::sleeping("second", 4),
        Model::identity("m").backend("").with(ENSEMBLE),
    ]);
    let (text, breakdown) = run(&repository, "--request-count 30 --trace-rate 1 --max-errors 1");
    for (model, ms) in [("first", 2.0), ("second", 4.0)] {
        let compute = median_us(stage(&breakdown, Some(model), "compute"));
        assert!(compute >= 1_000.0 * ms && compute < 1_000.0 * (ms + 2.0), "{model}: {breakdown}");
        assert!(text.contains(&format!("      {model}: compute ")), "{text}");
        assert!(
            text.contains(&format!("Executed batch of {model}: average 1.00; executions by size 1: 100.00%")),
            "{text}"
        );
    }
    let mean = |stage: &Value| stage["mean_ns"].as_f64().unwrap();
    let share = mean(&breakdown["unexplained"]) / mean(&breakdown["latency"]);
    assert!(share < 0.3, "what is between the steps is little: {breakdown}");
}

/// A model that calls another one, and tells the server for which request.
const BLS: &str = r#"
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="called", requested_output_names=["OUTPUT0"], trace=request.trace(),
                inputs=[pb_utils.get_input_tensor_by_name(request, "INPUT0")])
            answer = call.exec()
            answers.append(pb_utils.InferenceResponse(
                output_tensors=[pb_utils.get_output_tensor_by_name(answer, "OUTPUT0")]))
        return answers
"#;

#[test]
fn a_call_of_a_model_has_its_stages_where_the_server_tells() {
    let repository = Repository::of(&[Model::sleeping("called", 3), Model::python("m", BLS)]);
    let arguments = "--request-count 10 --trace-rate 1 --bls-composing-models called --max-errors 1";
    let (_, breakdown) = run(&repository, arguments);
    let (caller, called) = (stage(&breakdown, Some("m"), "compute"), stage(&breakdown, Some("called"), "compute"));
    assert_eq!((&caller["depth"], &called["depth"]), (&0.into(), &1.into()));
    assert!(median_us(called) >= 3_000.0 && median_us(caller) >= median_us(called), "{breakdown}");
}
