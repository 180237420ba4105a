//! Files in Model Analyzer's format, which `tune` reads.

use std::ffi::OsStr;

use triton_bench::plan::{ServiceKind, TuneLoad, TunePlan};
use triton_bench::terms::LoadMode;

use super::*;

fn read(file: &Config, words: &[&str]) -> Result<Command> {
    let path = file.path();
    let command = [OsStr::new("triton-bench"), OsStr::new("tune"), OsStr::new("--config"), path.as_os_str()];
    let all = command.into_iter().chain(words.iter().map(OsStr::new));
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
    plan.search.iter().map(|entry| format!("{}={}", entry.setting, serde_json::json!(entry.values))).collect()
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

/// As `model-analyzer profile --profile-models m -f FILE` reads it.
#[test]
fn a_file_may_leave_its_model_to_the_command_line() {
    for text in [
        "model_repository: /models\nexport_path: /results\nobjectives: [perf_latency_p99]",
        "run_config_search_max_instance_count: 3\nmodel_repository: /models",
        "perf_analyzer_flags: {percentile: 95}\nmodel_repository: /models",
    ] {
        let plan = tune(text, &["-m", "resnet"]);
        assert_eq!(plan.run.target.model.name, "resnet", "{text}");
        assert!(error(text, &[]).contains("-m"), "{text}: {}", error(text, &[]));
    }
}

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
    let constraints: Vec<&str> = plan.constraints.iter().map(|constraint| constraint.text.as_str()).collect();
    assert_eq!(constraints, ["p90<=12.5ms", "throughput>=40"], "its own, in place of the usual one");
    assert_eq!((plan.objective.name(), plan.unit.unwrap().as_millis()), ("p99".to_owned(), 700));
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
    assert!(plan.search.iter().all(|entry| entry.setting.to_string() == "batch_size"), "{:?}", searched(&plan));
    assert_eq!((plan.constraints[0].text.as_str(), plan.objective.name()), ("p99<=100ms", "throughput".to_owned()));
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
    let constraints: Vec<&str> = plan.constraints.iter().map(|constraint| constraint.text.as_str()).collect();
    assert_eq!(constraints, ["p99<=20ms", "throughput>=5"]);
    let rate = "profile_models: m\nrequest_rate: [50]\ntriton_launch_mode: remote\ntriton_http_endpoint: host:9000";
    let plan = tune(rate, &["--search", "instances=1,2"]);
    assert_eq!(plan.load, TuneLoad::Rate(50.0));
    assert_eq!((plan.run.target.service, plan.run.target.connection.url.as_str()), (ServiceKind::Triton, "host:9000"));
    let other_plan = tune(
        "profile_models: m\nmodel_repository: /a\nbatch_sizes: [1, 2]",
        &["-m", "other", "--search", "concurrency=3,4"],
    );
    assert_eq!(
        (other_plan.run.target.model.name.as_str(), searched(&other_plan)[0].as_str()),
        ("other", "concurrency=[3,4]")
    );
    assert!(!matches!(other_plan.run.load.mode, LoadMode::RequestRate { .. }));
}

/// The search of a model `m` whose section holds this.
fn of_model(section: &str) -> TunePlan {
    tune(&format!("model_repository: /a\nprofile_models: {{m: {{{section}}}}}"), &[])
}

fn settings(parameters: &str) -> Vec<String> {
    searched(&of_model(&format!("model_config_parameters: {{{parameters}}}")))
}

#[test]
fn parameters_of_a_backend_have_every_form_of_a_configuration() {
    let wanted = ["parameters.THREADS=[\"1\",\"2\"]"];
    for form in [
        "parameters: {THREADS: {string_value: [1, 2]}}",
        "parameters: {key: THREADS, value: {string_value: [1, 2]}}",
        "parameters: [{key: THREADS, value: {string_value: [1, 2]}}]",
        "parameters: [{THREADS: {string_value: [1, 2]}}]",
    ] {
        assert_eq!(settings(form), wanted, "{form}");
    }
    let two = "parameters: [{key: A, value: {string_value: 'off'}}, {key: B.c, value: {string_value: ['1:4', null]}}]";
    assert_eq!(settings(two), ["parameters.A=[\"off\"]", "parameters.B.c=[\"1:4\",null]"]);
    assert_eq!(settings("parameters: {key: {string_value: x}}"), ["parameters.key=[\"x\"]"], "a parameter called key");
    for (form, position) in [("parameters: [A]", "3:61"), ("parameters: {A: {int_value: 3}}", "")] {
        let text = format!("model_repository: /a\n\nprofile_models: {{m: {{model_config_parameters: {{{form}}}}}}}");
        let error = error(&text, &[]);
        assert!(error.starts_with(&format!("FILE:{position}")) && error.contains("{key: NAME, value:"), "{error}");
    }
}

#[test]
fn lists_are_values_to_try_and_lists_of_lists_the_values_of_lists() {
    let delays = "dynamic_batching: {max_queue_delay_microseconds: [200, 300], preferred_batch_size: [4, 8]}";
    assert_eq!(
        settings(delays),
        ["dynamic_batching.max_queue_delay_microseconds=[200,300]", "dynamic_batching.preferred_batch_size=[[4,8]]"]
    );
    let kinds = "instance_group: [[{kind: KIND_GPU, count: [1, 2]}], [{kind: KIND_CPU, count: 1}]]";
    assert_eq!(
        settings(kinds),
        [concat!(
            r#"instance_group=[[{"count":1,"kind":"KIND_GPU"}],[{"count":2,"kind":"KIND_GPU"}],"#,
            r#"[{"count":1,"kind":"KIND_CPU"}]]"#
        )]
    );
    let groups = "instance_group: [{kind: KIND_GPU, count: 1}, {kind: KIND_CPU, count: [1, 2]}]";
    assert_eq!(
        settings(groups),
        [concat!(
            r#"instance_group=[[{"count":1,"kind":"KIND_GPU"},{"count":1,"kind":"KIND_CPU"}],"#,
            r#"[{"count":1,"kind":"KIND_GPU"},{"count":2,"kind":"KIND_CPU"}]]"#
        )]
    );
    let whole = "dynamic_batching: [{max_queue_delay_microseconds: 5}, {}, null]";
    assert_eq!(settings(whole), [r#"dynamic_batching=[{"max_queue_delay_microseconds":5},{},null]"#]);
    let called = "
profile_models: ensemble
model_repository: /a
ensemble_composing_models:
  tokenizer: {model_config_parameters: {instance_group: [{kind: KIND_CPU, count: [1, 2, 4]}]}}
  model:
";
    let plan = tune(called, &[]);
    let wanted = ["tokenizer:instance_group[].kind=[\"KIND_CPU\"]", "tokenizer:instance_group[].count=[1,2,4]"];
    assert_eq!(searched(&plan), wanted);
}

#[test]
fn loads_are_lists_in_every_form() {
    for form in ["'1,2,4'", "'1, 2, 4'", "[1, 2, 4]", "['1,2', 4]"] {
        let plan = of_model(&format!("parameters: {{concurrency: {form}, batch_sizes: {form}}}"));
        assert_eq!(searched(&plan), ["batch_size=[1,2,4]", "concurrency=[1,2,4]"], "{form}");
        let rates = of_model(&format!("parameters: {{request_rate: {form}}}"));
        assert_eq!((searched(&rates), rates.load), (vec!["request_rate=[1,2,4]".to_owned()], TuneLoad::Rate(1.0)));
    }
    let bare = "profile_models:\n  m:\n    parameters:\n      concurrency: 1,2,3\n      batch_sizes: 1, 2\nmodel_repository: /a\n";
    assert_eq!(searched(&tune(bare, &[])), ["batch_size=[1,2]", "concurrency=[1,2,3]"]);
    let ranged = of_model("parameters: {concurrency: {start: 2, stop: 6, step: 2}, batch_sizes: {start: 4, stop: 6}}");
    assert_eq!(searched(&ranged), ["batch_size=[4,5,6]", "concurrency=[2,4,6]"]);
    let bounds = "profile_models: m\nmodel_repository: /a\nrequest_rate_search_enable: true\nrun_config_search_max_request_rate: 64";
    assert_eq!(searched(&tune(bounds, &[])), ["request_rate=[16,32,64]"]);
}

#[test]
fn flags_of_perf_analyzer_and_of_the_server_are_heeded_or_noted() {
    let file = "
model_repository: /a
profile_models:
  m:
    perf_analyzer_flags: {percentile: 95, measurement-interval: 700, max-trials: 4, stability-percentage: 20}
    triton_server_flags: {log_verbose: true, http-port: 9}
    triton_server_environment: {NO_SUCH_VARIABLE: x}
perf_analyzer_flags: {shape: 'A:1', measurement-mode: count_windows, measurement-request-count: 9, verbose: true}
triton_server_flags: {strict_model_config: false, log_verbose: 0}
weighting: 2
";
    let plan = tune(file, &[]);
    assert_eq!((plan.percentile(), plan.unit.unwrap().as_millis()), (95.0, 700));
    assert_eq!(plan.run.data.shapes.len(), 1, "those of all models apply, too");
    assert_eq!((plan.run.target.server.log.verbose, plan.run.target.server.strict_config), (1, false));
    let notes = plan.run.notes.join("\n");
    for note in [
        "perf_analyzer_flags: max-trials, stability-percentage, measurement-mode, measurement-request-count: a search",
        "perf_analyzer_flags: verbose: no effect",
        "triton_server_flags: http-port: no effect, because the models are loaded in this process",
        "triton_server_environment: NO_SUCH_VARIABLE: the server is in this process",
        "weighting: settings of Model Analyzer itself",
    ] {
        assert!(notes.contains(note), "{note}\n{notes}");
    }
    let rate = "profile_models: {m: {perf_analyzer_flags: {percentile: 90}}}\nmodel_repository: /a\nrequest_rate: 5";
    assert_eq!(tune(rate, &[]).objective.name(), "p90");
}

#[test]
fn what_a_search_cannot_hold_is_noted_and_the_rest_is_searched() {
    let file = "
model_repository: /a
profile_models: {m: {cpu_only: true}}
objectives: {perf_latency_p99: 2, perf_throughput: 3}
constraints: [{gpu_used_memory: {max: 200}}, {perf_latency_p99: {max: 100}}]
run_config_search_max_instance_count: 2
";
    let plan = tune(file, &[]);
    assert_eq!(plan.objective.name(), "throughput");
    assert_eq!(plan.constraints.iter().map(|constraint| constraint.text.as_str()).collect::<Vec<_>>(), ["p99<=100ms"]);
    assert_eq!(searched(&plan), ["instance_group[].count=[1,2]", "instance_group[].kind=[\"KIND_CPU\"]"]);
    let notes = plan.run.notes.join("\n");
    assert!(notes.contains("perf_latency_p99 has no effect, unless a constraint bounds it"), "{notes}");
    assert!(notes.contains("constraints.gpu_used_memory: a search does not measure it"), "{notes}");
    let remote = "profile_models: m\ntriton_launch_mode: remote\nclient_protocol: grpc\ntriton_grpc_endpoint: h:9";
    let target = tune(remote, &[]).run.target;
    assert_eq!(target.connection.url, "h:9");
}

#[test]
fn every_model_is_searched_in_a_process_of_its_own() {
    let Ok(Command::Runs(runs)) = read(&Config::of(WHOLE), &["--budget", "5s"]) else { panic!("no runs") };
    assert_eq!(runs.iter().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["resnet", "bert"]);
    let words: Vec<_> = runs[1].arguments.iter().map(|word| word.to_string_lossy()).collect();
    assert_eq!((&*words[0], &*words[words.len() - 1]), ("tune", "--run=bert"));
    assert!(words.contains(&"--budget=5s".into()), "{words:?}");
    let shared = read(&Config::of(WHOLE), &["--output", "one"]).unwrap_err().to_string();
    assert!(shared.contains("--output=one: the runs 'resnet' and 'bert' would overwrite"), "{shared}");
}

#[test]
fn what_has_no_counterpart_is_a_fault_with_its_place() {
    for (text, words, expected) in [
        ("profile_models:\n", &[][..], "FILE:1:1: 'profile_models' names no model"),
        ("profile_models: m\nobjectives: [gpu_utilization]", &[], "FILE:2:14: 'gpu_utilization' has no counterpart"),
        ("profile_models: m\nconstraints: {perf_throughput: {about: 9}}", &[], "FILE:2:33: 'about' is not a bound"),
        (
            "profile_models: m\nconstraints: {perf_throughput: {min: lots}}",
            &[],
            "FILE:2:38: 'perf_throughput' takes a number of at least 0, not 'lots'",
        ),
        ("profile_models: m\nmodel_type: LLM", &[], "FILE:2:13: 'model_type: LLM' has no counterpart"),
        ("profile_models: m\nconcurrency: {start: 1}", &[], "FILE:2:14: 'concurrency': a range has start and stop"),
        ("profile_models: m\nconcurrency: {start: 1, stop: 90000}", &[], "a larger step"),
        (
            "profile_models: m\nconcurrency: {start: 8, stop: 2}",
            &[],
            "FILE:2:14: 'concurrency': a range's stop, 2, must not be below",
        ),
        ("profile_models: m\nspeed: 3", &[], "FILE:2:1: 'speed': this format has no such key"),
        ("profile_models: {m: {speed: 3}}", &[], "'profile_models.m.speed': this format has no such key"),
        ("profile_models: {m: {perf_analyzer_flags: {speed: 3}}}", &[], "FILE:1:44: 'speed' is not the name of a flag"),
        (
            "model_repository: /m\nprofile_models: {m: {perf_analyzer_flags: {request-intervals: Cargo.toml}}}",
            &[],
            "FILE:2:63: --request-intervals is for a run, not for tune",
        ),
        (
            "model_repository: /m\nprofile_models: {m: {perf_analyzer_flags: {request-intervals: Cargo.toml}}, n: }",
            &[],
            "--run 'm': FILE:2:63: --request-intervals is for a run, not for tune",
        ),
        (
            "profile_models: {m: {parameters: {concurrency: many}}}",
            &[],
            "FILE:1:48: 'concurrency' takes whole numbers of at least 1, as in 1,2,4, in a list, or as start, stop and step, not 'many'",
        ),
        ("profile_models: {m: {parameters: {batch_sizes: [1, 0.5]}}}", &[], "FILE:1:48: 'batch_sizes' takes whole"),
    ] {
        let error = error(text, words);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let run = Config::of("profile_models: m").error(&["-m", "m"]);
    assert!(run.contains("FILE:1:1: ") && run.contains("triton-bench tune --config FILE"), "{run}");
}
