//! Files in Model Analyzer's format, which `tune` reads.

use std::ffi::OsStr;

use triton_bench::plan::{LoadMode, ServiceKind, TuneLoad, TunePlan};

use super::*;

fn read(file: &Config, words: &[&str]) -> Result<Command> {
    let path = file.path();
    let own = [OsStr::new("triton-bench"), OsStr::new("tune"), OsStr::new("--config"), path.as_os_str()];
    let all = own.into_iter().chain(words.iter().map(OsStr::new));
    cli::parse(all.map(OsStr::to_owned), Codes::Own)
}

fn tune(text: &str, words: &[&str]) -> TunePlan {
    match read(&Config::of(text), words) {
        Ok(Command::Tune(plan)) => *plan,
        other => panic!("{text}: {other:?}"),
    }
}

fn error(text: &str, words: &[&str]) -> String {
    let file = Config::of(text);
    let message = read(&file, words).expect_err(text).to_string();
    message.replace(&format!("--config {}", file.path().display()), "FILE")
}

/// What is searched, as it would be said.
fn searched(plan: &TunePlan) -> Vec<String> {
    plan.search.iter().map(|one| format!("{}={}", one.setting, serde_json::json!(one.values))).collect()
}

/// Everything that has a counterpart.
const WHOLE: &str = "
model_repository: /models
triton_launch_mode: local
export_path: /results
run_config_search_mode: brute
override_output_model_repository: true
gpus: all
batch_sizes: 2
constraints: {perf_latency_p99: {max: 100}}
objectives: [perf_throughput]
profile_models:
  resnet:
    cpu_only: true
    parameters:
      concurrency: {start: 2, stop: 8, step: 2}
    constraints:
      perf_latency_p90: {max: 12.5}
      perf_throughput: {min: 40}
    objectives: {perf_latency_p99: 10}
    perf_analyzer_flags:
      measurement-interval: 700
      shape: [INPUT0:16, INPUT1:4]
    model_config_parameters:
      max_batch_size: [4, 8]
      instance_group:
      - kind: KIND_CPU
        count: [1, 2, 4]
      dynamic_batching:
        max_queue_delay_microseconds: [0, 100]
        preferred_batch_size: [[4, 8], [8]]
      parameters:
        precision: {string_value: [fp16, 'a,b']}
  bert:
";

#[test]
fn a_file_becomes_a_search_of_each_model() {
    let plan = tune(WHOLE, &["--run", "resnet", "--budget", "90s"]);
    assert_eq!(plan.run.target.model.name, "resnet");
    assert_eq!(plan.run.target.service, ServiceKind::TritonCApi);
    assert_eq!(
        searched(&plan),
        [
            "max_batch_size=[4,8]",
            "instance_group[].kind=[\"KIND_CPU\"]",
            "instance_group[].count=[1,2,4]",
            "dynamic_batching.max_queue_delay_microseconds=[0,100]",
            "dynamic_batching.preferred_batch_size=[[4,8],[8]]",
            "parameters.precision=[\"fp16\",\"a,b\"]",
            "concurrency=[2,4,6,8]",
        ]
    );
    let constraints: Vec<&str> = plan.constraints.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(constraints, ["p90<=12.5ms", "throughput>=40"], "its own, in place of the usual one");
    assert_eq!((plan.objective.word(), plan.unit.unwrap().as_millis()), ("p99".to_owned(), 700));
    assert_eq!(plan.output.as_deref(), Some(std::path::Path::new("/results/tune-resnet")));
    let notes = plan.run.notes.join("\n");
    assert!(
        notes.contains(
            "gpus, override_output_model_repository, run_config_search_mode: settings of Model Analyzer itself"
        ),
        "{notes}"
    );
    assert!(notes.contains("loaded in this process"), "{notes}");

    let plan = tune(WHOLE, &["--run", "bert"]);
    assert!(plan.search.iter().all(|one| one.setting.to_string() == "batch_size"), "{:?}", searched(&plan));
    assert_eq!((plan.constraints[0].text.as_str(), plan.objective.word()), ("p99<=100ms", "throughput".to_owned()));
}

#[test]
fn bounds_loads_and_servers_are_read() {
    let bounded = "
profile_models: [m]
model_repository: /models
latency_budget: 20
min_throughput: 5
run_config_search_max_instance_count: 3
run_config_search_min_model_batch_size: 4
run_config_search_max_model_batch_size: 16
run_config_search_max_concurrency: 4
";
    let plan = tune(bounded, &[]);
    assert_eq!(searched(&plan), ["instance_group[].count=[1,2,3]", "max_batch_size=[4,8,16]", "concurrency=[1,2,4]"]);
    let constraints: Vec<&str> = plan.constraints.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(constraints, ["p99<=20ms", "throughput>=5"]);
    let rate = "profile_models: m\nrequest_rate: [50]\ntriton_launch_mode: remote\ntriton_http_endpoint: host:9000";
    let plan = tune(rate, &["--search", "instances=1,2"]);
    assert_eq!(plan.load, TuneLoad::Rate(50.0));
    assert_eq!((plan.run.target.service, plan.run.target.connection.url.as_str()), (ServiceKind::Triton, "host:9000"));
    let own = tune(
        "profile_models: m\nmodel_repository: /a\nbatch_sizes: [1, 2]",
        &["-m", "other", "--search", "concurrency=3,4"],
    );
    assert_eq!((own.run.target.model.name.as_str(), searched(&own)[0].as_str()), ("other", "concurrency=[3,4]"));
    assert!(!matches!(own.run.load.mode, LoadMode::RequestRate { .. }));
}

#[test]
fn what_has_no_counterpart_is_a_fault_with_its_place() {
    for (text, words, said) in [
        (WHOLE, &[][..], "--config has several runs: name one with --run, of resnet, bert"),
        ("profile_models:\n", &[], "FILE:1:1: 'profile_models' names no model"),
        (
            "profile_models: m\nobjectives: {perf_throughput: 1, perf_latency_p99: 2}",
            &[],
            "FILE:2:34: several objectives",
        ),
        ("profile_models: m\nobjectives: [gpu_utilization]", &[], "'gpu_utilization' has no counterpart"),
        (
            "profile_models: m\nconstraints: {gpu_used_memory: {max: 9}}",
            &[],
            "FILE:2:15: 'gpu_used_memory' has no counterpart",
        ),
        ("profile_models: m\nconstraints: {perf_throughput: {about: 9}}", &[], "'about' is not a bound"),
        ("profile_models: m\nrequest_rate: [1, 2]", &[], "a search holds one rate"),
        ("profile_models: m\nconcurrency: {start: 1}", &[], "FILE:2:14: a range has start and stop"),
        ("profile_models: m\nconcurrency: {start: 1, stop: 90000}", &[], "a larger step"),
        ("profile_models: m\nconcurrency: {start: 8, stop: 2}", &[], "FILE:2:14: a range's stop, 2, must not be below"),
        ("profile_models: m\ntriton_server_flags: {a: b}", &[], "'triton_server_flags' has no counterpart"),
        ("profile_models: m\nspeed: 3", &[], "FILE:2:1: 'speed': this format has no such key"),
        ("profile_models: {m: {speed: 3}}", &[], "'profile_models.m.speed': this format has no such key"),
        ("profile_models: {m: {perf_analyzer_flags: {speed: 3}}}", &[], "'speed' is not the name of a flag"),
        (
            "profile_models: {m: {perf_analyzer_flags: {percentile: 95}}}",
            &["--model-repository", "/m"],
            "--percentile is for a run, not for tune",
        ),
        (
            "profile_models: {m: {model_config_parameters: {instance_group: [{count: 1}, {count: 2}]}}}",
            &[],
            "whole messages",
        ),
        ("profile_models: {m: {parameters: {concurrency: many}}}", &[], "a number of at least 0"),
    ] {
        let error = error(text, words);
        assert!(error.contains(said), "{text}: {error}");
    }
    let run = Config::of("profile_models: m").error(&["-m", "m"]);
    assert!(run.contains("FILE:1:1: ") && run.contains("triton-bench tune --config FILE"), "{run}");
}
