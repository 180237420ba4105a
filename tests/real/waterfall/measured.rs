//! Stages of models with known times. Each test has the machine to itself.

use super::{json, median_us, run, stage};
use crate::support::{Model, Program, Repository};

/// Milliseconds that the model sleeps for in the stages of its inputs, of the model itself, and of its outputs.
const STAGES: [(&str, u64); 3] = [("compute input", 20), ("compute", 50), ("compute output", 30)];

fn staged() -> Model {
    Model::sleeping("m", 50).parameter("input_delay_us", "20000").parameter("output_delay_us", "30000")
}

fn assert_stages(breakdown: &serde_json::Value) {
    for (name, ms) in STAGES {
        let (found, slept) = (median_us(stage(breakdown, None, name)), ms as f64 * 1_000.0);
        assert!((found / slept - 1.0).abs() < 0.03, "{name}: {found} usec of {slept}: {breakdown}");
    }
}

#[test]
fn a_model_that_sleeps_in_every_stage_is_seen_to() {
    let repository = Repository::of(&[staged()]);
    for mode in ["--sync", "--async"] {
        let (_, breakdown) = run(&repository, &format!("--request-count 30 --trace-rate 1 {mode}"));
        assert_stages(&breakdown);
    }
}

#[test]
fn a_queue_is_as_long_as_the_requests_before() {
    let repository = Repository::of(&[staged()]);
    let (_, breakdown) = run(&repository, "--concurrency-range 3 -p 1500 -s 1000000 --async --trace-rate 1");
    assert_stages(&breakdown);
    let queue = median_us(stage(&breakdown, None, "queue"));
    assert!((queue / 200_000.0 - 1.0).abs() < 0.03, "two requests of 100 ms are before each: {queue}: {breakdown}");
}

#[test]
fn a_stall_is_what_the_slowest_spent_their_time_on() {
    let model = Model::sleeping("m", 5).parameter("stall_after_requests", "50").parameter("stall_us", "200000");
    let repository = Repository::of(&[model]);
    let (text, breakdown) = run(&repository, "--request-count 90 --trace-rate 1 --max-errors 1");
    let slowest = &breakdown["slowest"];
    let compute = slowest["stages"].as_array().unwrap().iter().find(|stage| stage["name"] == "compute").unwrap();
    let more = compute["mean_ns"].as_f64().unwrap() - compute["median_mean_ns"].as_f64().unwrap();
    assert!((more / 2e8 - 1.0).abs() < 0.05, "{slowest}");
    assert!(text.contains("Slowest 1% (1 request): ") && text.contains("compute +"), "{text}");
}

fn cost(repository: &Repository, arguments: &str) -> (String, serde_json::Value) {
    let file = repository.file("summary.json");
    let arguments = format!("--breakdown --max-errors 1 {arguments}");
    let finished = Program::on(repository, "m").args(&arguments).arg("--summary-file").arg(&file).run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    (finished.stdout, json(&file)["levels"][0]["cost"].clone())
}

/// They take the processors themselves.
mod alone {
    use super::*;

    #[test]
    fn the_processor_time_of_an_inference_is_what_its_model_burns() {
        let burning = Model::sleeping("m", 20).parameter("delay_mode", "burn");
        let repository = Repository::of(&[burning]);
        for mode in ["--async -p 1000 -s 1000000", "--sync --request-count 100"] {
            let (text, cost) = cost(&repository, mode);
            let server = cost["server_cpu_ns"].as_f64().unwrap();
            assert!((server / 20e6 - 1.0).abs() < 0.03, "{server} ns of 20 ms: {text}");
            assert!(text.contains("Cost per inference: server CPU "), "{text}");
        }
    }

    #[test]
    fn the_processor_time_of_a_batch_is_that_of_its_inferences() {
        let repository = Repository::of(&[Model::sleeping("m", 40).parameter("delay_mode", "burn")]);
        let (text, cost) = cost(&repository, "-b 4 --async -p 1000 -s 1000000");
        let server = cost["server_cpu_ns"].as_f64().unwrap();
        assert!((server / 10e6 - 1.0).abs() < 0.03, "{server} ns of 10 ms: {text}");
    }

    /// A python model that burns 20 ms of processor time.
    const BURNING: &str = r#"
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
            tensor = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            answers.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT0", tensor.as_numpy())]))
        return answers
"#;

    #[test]
    fn the_processor_time_of_python_models_is_that_of_their_stubs() {
        let repository = Repository::of(&[Model::python("m", BURNING)]);
        let (text, cost) = cost(&repository, "--async -p 1000 -s 1000000");
        let groups = cost["groups"].as_array().unwrap();
        let stubs = groups.iter().find(|group| group["kind"] == "stubs").unwrap_or_else(|| panic!("{text}"));
        let burnt = stubs["cpu_ns"].as_f64().unwrap();
        assert!((0.97..1.06).contains(&(burnt / 20e6)), "{burnt} ns of 20 ms, and what python does beside: {text}");
    }
}

#[test]
fn a_model_that_sleeps_is_woken_and_costs_little() {
    let repository = Repository::of(&[Model::sleeping("m", 20)]);
    let (text, cost) = cost(&repository, "--sync -p 1000 -s 1000000");
    let wakeups = cost["server_wakeups"].as_f64().unwrap();
    // From its sleep, and mostly for the request: under load the next one is there before the thread waits for it.
    assert!((0.99..4.0).contains(&wakeups), "{text}");
    assert!(cost["server_cpu_ns"].as_f64() < Some(2e6), "{text}");
    assert!(cost["gpu"].is_null() == cost["no_gpu"].is_string(), "{text}");
}
