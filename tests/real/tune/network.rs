//! Searches on a network server that loads models on request.

use serde_json::Value;

use super::found::{Found, folder};
use crate::support::{Model, Program, Repository, TritonServer, turns};

fn program((server, way): (&TritonServer, &str), repository: &Repository, arguments: &str) -> Program {
    let url = server.url(way);
    let tune = format!("tune -m m -i {way} -u {url} --search instances=1:3 --search max_batch_size=2,4");
    Program::new().args(&tune).arg("--output").arg(folder(repository)).args(arguments)
}

fn model() -> Model {
    Model::sleeping("m", 10).batches(2).with("dynamic_batching {}")
}

/// What the server has loaded.
fn configuration(server: &TritonServer) -> Value {
    let answer = server.get("/v2/models/m/config").unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_server_that_loads_models_on_request_is_tuned_and_left_as_it_was() {
    let _turn = turns::alone();
    let repository = Repository::of(&[model()]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let before = configuration(&server);
    let finished = program((&server, "http"), &repository, "--budget 25s").run();
    let found = Found::read(finished, repository);
    assert_eq!((found.word(), found.winner()), ("better", vec![3, 4]), "{}", found.text());
    assert_eq!(configuration(&server), before);
    // Broken off, too.
    let repository = found.repository;
    let running = program((&server, "http"), &repository, "--budget 60s").start();
    running.wait_for("racing");
    running.signal(2);
    assert_eq!(running.finish().code(), 0);
    assert_eq!(configuration(&server), before);
}

#[test]
fn over_grpc_it_is_the_same() {
    let _turn = turns::alone();
    let repository = Repository::of(&[model()]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let before = configuration(&server);
    let finished = program((&server, "grpc"), &repository, "--budget 25s").run();
    let found = Found::read(finished, repository);
    assert_eq!((found.word(), found.winner()), ("better", vec![3, 4]), "{}", found.text());
    assert_eq!(configuration(&server), before);
}

#[test]
fn a_server_that_does_not_is_named() {
    let _turn = turns::shared();
    let repository = Repository::of(&[model()]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for way in ["http", "grpc"] {
        let refused = program((&server, way), &repository, "--budget 5s").run();
        refused.failure_after_notes(&["--model-control-mode=explicit"]);
    }
}
