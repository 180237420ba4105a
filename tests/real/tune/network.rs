//! Searches on a network server that loads models on request.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::found::{Found, folder};
use crate::support::{Model, Program, Repository, TritonServer};

fn program(server: &TritonServer, way: &str, repository: &Repository, arguments: &str) -> Program {
    let url = server.url(way);
    let tune = format!("tune -m m -i {way} -u {url} --search instances=1,3 --search max_batch_size=2,4");
    Program::new().args(&tune).arg("--output").arg(folder(repository)).args(arguments)
}

fn model() -> Model {
    Model::sleeping("m", 10).batches(2).with("dynamic_batching {}")
}

/// What the server has loaded.
fn configuration(server: &TritonServer) -> Value {
    configuration_of(server, "m")
}

fn configuration_of(server: &TritonServer, model: &str) -> Value {
    let answer = server.get(&format!("/v2/models/{model}/config")).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn timed_a_server_that_loads_models_on_request_is_tuned_and_left_as_it_was() {
    let repository = Repository::of(&[model()]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let before = configuration(&server);
    let finished = program(&server, "http", &repository, "--budget 12s").run();
    let found = Found::read(finished, repository);
    assert_eq!((found.name(), found.winner()), ("better", vec![3, 4]), "{}", found.text());
    assert_eq!(configuration(&server), before);
    // Broken off, too.
    let repository = found.repository;
    let running = program(&server, "http", &repository, "--budget 60s").start();
    running.wait_for("racing");
    running.signal(2);
    assert_eq!(running.finish().code(), 0);
    assert_eq!(configuration(&server), before);
}

#[test]
fn timed_over_grpc_it_is_the_same() {
    let repository = Repository::of(&[model()]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let before = configuration(&server);
    let finished = program(&server, "grpc", &repository, "--budget 12s").run();
    let found = Found::read(finished, repository);
    assert_eq!((found.name(), found.winner()), ("better", vec![3, 4]), "{}", found.text());
    assert_eq!(configuration(&server), before);
}

#[test]
fn a_server_that_does_not_is_named() {
    let repository = Repository::of(&[model()]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for way in ["http", "grpc"] {
        let refused = program(&server, way, &repository, "--budget 5s").run();
        refused.failure_after_notes(&["--model-control-mode=explicit"]);
    }
}

/// An ensemble that calls `part`.
fn ensemble() -> Model {
    let step = r#"step { model_name: "part" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }"#;
    Model::identity("m").backend("").with(&format!("platform: \"ensemble\"\nensemble_scheduling {{ {step} }}"))
}

/// The models that it calls are loaded by processes that do not put them back.
#[test]
fn an_isolated_ensemble_is_left_as_it_was() {
    let repository = Repository::of(&[Model::sleeping("part", 10), ensemble()]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let loaded = || ["m", "part"].map(|model| configuration_of(&server, model));
    let before = loaded();
    let search = |budget: &str| {
        let url = server.url("http");
        let tune =
            format!("tune -m m -u {url} --search part:instances=2,3 --at-concurrency 8 --isolate --budget {budget}");
        Program::new().args(&tune).arg("--output").arg(folder(&repository))
    };
    let finished = search("8s").run();
    assert_eq!((finished.code(), loaded()), (0, before.clone()), "{finished:?}");
    // Broken off while a candidate is loaded.
    let (running, started) = (search("60s").start(), Instant::now());
    let is_another = |count: &Value| count.as_u64().is_some_and(|count| count > 1);
    while !is_another(&loaded()[1]["instance_group"][0]["count"]) {
        assert!(started.elapsed() < Duration::from_secs(40), "no candidate was loaded");
        thread::sleep(Duration::from_millis(5));
    }
    running.signal(2);
    let finished = running.finish();
    assert_eq!((finished.code(), loaded()), (0, before), "{finished:?}");
}
