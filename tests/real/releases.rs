//! A short suite for every release of Triton that there is as a package: scripts/test-versions runs it in each of them.

use std::fs;

use crate::support::{Model, Program, Report, Repository, TritonServer};

/// A run in process.
fn run(repository: &Repository, flags: &str) -> Report {
    Program::on(repository, "m").args("--request-count 60").args(flags).run().report()
}

#[test]
fn a_model_is_loaded_and_measured_in_both_modes() {
    for flags in ["--sync", "--sync --concurrency-range 3", "--async --concurrency-range 4"] {
        let repository = Repository::counted(Model::identity("m"));
        run(&repository, flags);
        assert_eq!(repository.counters("m").get("requests"), 60, "{flags}");
    }
}

#[test]
fn batches_are_formed_by_the_client_and_by_the_server() {
    let repository = Repository::counted(Model::identity("m"));
    let report = run(&repository, "-b 4");
    assert_eq!(report.level().server_number("Inference count"), 240.0);
    let batching = "dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 20000 }";
    let repository = Repository::counted(Model::identity("m").with(batching));
    run(&repository, "--async --concurrency-range 4");
    let counters = repository.counters("m");
    assert_eq!(counters.get("requests"), 60);
    assert!(counters.get("executions") < 60, "{}", counters.get("executions"));
}

#[test]
fn sequences_stay_whole() {
    let repository = Repository::counted(Model::accumulator("m").instances(2));
    run(&repository, "--concurrency-range 2 --sequence-length 5");
    let counters = repository.counters("m");
    assert_eq!((counters.get("violations"), counters.get("sequences_open")), (0, 0));
    assert!(counters.get("requests") >= 60, "sequences that were open at the end are ended");
}

#[test]
fn an_ensemble_is_measured_with_its_steps() {
    let steps = ["first", "second"].map(|name| {
        let (from, to) = if name == "first" { ("INPUT0", "between") } else { ("between", "OUTPUT0") };
        format!(
            "{{ model_name: \"{name}\" model_version: -1 input_map {{ key: \"INPUT0\" value: \"{from}\" }} \
             output_map {{ key: \"OUTPUT0\" value: \"{to}\" }} }}"
        )
    });
    let ensemble = format!("platform: \"ensemble\" ensemble_scheduling {{ step [ {} ] }}", steps.join(", "));
    let repository = Repository::of(&[Model::identity("m").backend("").with(&ensemble)]);
    for name in ["first", "second"] {
        repository.add(&repository.counting(Model::identity(name)));
    }
    let report = run(&repository, "--async --concurrency-range 3");
    assert!(report.text.contains("Composing models: "), "{}", report.text);
    for name in ["first", "second"] {
        assert_eq!(repository.counters(name).get("requests"), 60);
    }
}

/// The first releases have no such setting, and say so.
#[test]
fn a_cache_answers_or_is_refused_by_name() {
    let repository = Repository::of(&[Model::identity("m").with("response_cache { enable: true }")]);
    let flags = "--request-count 60 --input-data zero --cache-config local,size=1048576";
    let finished = Program::on(&repository, "m").args(flags).run();
    if finished.code() == 99 {
        finished.failure(&["--cache-config: this Triton release has no TRITONSERVER_ServerOptionsSetCacheConfig"]);
    } else {
        let report = finished.report();
        assert!(report.level().text.contains("Cache hit count: 59"), "{}", report.text);
        assert!(report.text.contains("the server's response cache answered 59 of 60 requests"), "{}", report.text);
    }
}

#[test]
fn tensors_may_be_in_shared_memory() {
    let repository = Repository::counted(Model::identity("m"));
    run(&repository, "--shared-memory system --async --concurrency-range 2");
    assert_eq!(repository.counters("m").get("requests"), 60);
}

#[test]
fn requests_are_traced() {
    let repository = Repository::of(&[Model::identity("m")]);
    let file = repository.file("traces.json");
    let flags = format!("--trace-level TIMESTAMPS --trace-rate 1 --trace-file {}", file.display());
    run(&repository, &flags);
    let text = fs::read_to_string(&file).unwrap();
    for moment in ["REQUEST_START", "COMPUTE_START", "REQUEST_END"] {
        assert!(text.matches(moment).count() >= 60, "{moment}");
    }
}

#[test]
fn the_servers_own_figures_are_reported() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let report = run(&repository, "--collect-metrics --metrics-interval 50");
    let level = report.level();
    assert!(level.server_number("Avg request latency") >= 2_000.0, "{}", level.text);
    assert!(level.text.contains("Inference count: "), "{}", level.text);
}

#[test]
fn a_model_is_started_again_and_again() {
    let repository = Repository::counted(Model::identity("m"));
    let report = run(&repository, "--restarts 3");
    assert_eq!(repository.counters("m").get("requests"), 60, "the last start");
    assert!(report.text.contains("between restarts"), "{}", report.text);
}

#[test]
fn a_server_program_is_measured_over_the_network() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for (protocol, flags) in [("http", ""), ("grpc", ""), ("grpc", "--streaming"), ("http", "--shared-memory system")] {
        server.program(protocol, "m").args("--request-count 60").args(flags).run().report();
    }
}
