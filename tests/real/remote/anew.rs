//! `--restarts` on a server that loads models on request, and on one that does not.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::PROTOCOLS;
use crate::support::far::{breaking, once_measured};
use crate::support::{Model, Repository, TritonServer};

const STARTS: &str = "--restarts 3 --request-count 200 --concurrency-range 2";
const ON_REQUEST: &str = "--model-control-mode=explicit";

fn configuration(server: &TritonServer, model: &str) -> Value {
    let answer = server.get(&format!("/v2/models/{model}/config")).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_model_is_loaded_anew_for_every_start() {
    let repository = Repository::of(&[Model::identity("m"), Model::identity("other")]);
    let flags = [ON_REQUEST, "--load-model=m", "--load-model=other"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    server.program("http", "other").args("--request-count 7").run().report();
    for protocol in PROTOCOLS {
        let finished = server.program(protocol, "m").args(STARTS).run();
        let report = finished.report();
        assert_eq!(report.text.matches("95% confidence over 3 starts of the model:").count(), 1, "{}", report.text);
        assert!(!finished.stderr.contains("does not reload"), "{protocol}: {}", finished.stderr);
        let others = "--restarts: model 'm' is unloaded and loaded on the server before each further start";
        assert_eq!(finished.stderr.matches(others).count(), 1, "{protocol}: {}", finished.stderr);
        // It counts from its load on.
        assert_eq!((server.executed("m"), server.executed("other")), (200, 7), "{protocol}");
    }
}

#[test]
fn a_model_that_was_loaded_with_another_configuration_keeps_it() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start_with(&repository, &[ON_REQUEST, "--load-model=m"]) else { return };
    let before = load_with_three(&server);
    for protocol in PROTOCOLS {
        server.program(protocol, "m").args(STARTS).run().report();
        assert_eq!((configuration(&server, "m"), server.executed("m")), (before.clone(), 200), "{protocol}");
    }
}

/// Loads `m` with three instances, of which its files know nothing; its configuration then.
fn load_with_three(server: &TritonServer) -> Value {
    let mut wanted = configuration(server, "m");
    wanted["instance_group"][0]["count"] = json!(3);
    let body = json!({ "parameters": { "config": wanted.to_string() } });
    let answer = server.post("/v2/repository/models/m/load", &body.to_string()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let before = configuration(server, "m");
    assert_eq!(before["instance_group"][0]["count"], 3);
    before
}

#[test]
fn a_model_whose_configuration_cannot_be_asked_for_stays_as_it_is() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start_with(&repository, &[ON_REQUEST, "--load-model=m"]) else { return };
    let before = load_with_three(&server);
    // What the model is, a run asks before its first inference; what it was loaded with, after it.
    let url = breaking(&server.url("http"), once_measured("/config "));
    let finished = TritonServer::program_at(&url, "http", "m").args(STARTS).run();
    let report = finished.report();
    assert_eq!(report.level().client_number("Request count"), 200.0, "{}", report.text);
    for message in ["configuration of model 'm'", "--restarts: 1 of 3 starts were measured"] {
        assert!(finished.stderr.contains(message), "{message}: {}", finished.stderr);
    }
    assert_eq!(configuration(&server, "m"), before);
}

#[test]
fn what_an_ensemble_is_made_of_is_loaded_anew_with_it() {
    let repository = Repository::of(&[Model::identity("m"), ensemble()]);
    let Some(server) = TritonServer::start_with(&repository, &[ON_REQUEST, "--load-model=e"]) else { return };
    for protocol in PROTOCOLS {
        server.program(protocol, "e").args(STARTS).run().report();
        assert_eq!((server.executed("m"), server.executed("e")), (200, 200), "{protocol}");
    }
}

fn ensemble() -> Model {
    let step = r#"step { model_name: "m" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }"#;
    Model::identity("e").backend("").with(&format!("platform: \"ensemble\"\nensemble_scheduling {{ {step} }}"))
}

#[test]
fn on_a_server_that_does_not_load_on_request_connections_alone_are_new() {
    let repository = Repository::of(&[Model::identity("m")]);
    for protocol in PROTOCOLS {
        let Some(server) = TritonServer::start(&repository) else { return };
        let finished = server.program(protocol, "m").args(STARTS).run();
        let report = finished.report();
        assert_eq!(report.text.matches("95% confidence over 3 starts").count(), 1, "{}", report.text);
        let stays = "--restarts: this server does not reload the model; each start only opens new connections";
        assert_eq!(finished.stderr.matches(stays).count(), 1, "{protocol}: {}", finished.stderr);
        assert_eq!(server.executed("m"), 600, "{protocol}");
    }
}

#[test]
fn a_model_that_does_not_come_back_costs_nothing_that_was_measured() {
    for protocol in PROTOCOLS {
        let repository = Repository::of(&[Model::sleeping("m", 2)]);
        let Some(server) = TritonServer::start_with(&repository, &[ON_REQUEST, "--load-model=m"]) else { return };
        let before = server.executed("m");
        let running = server.program(protocol, "m").args("--restarts 3 --request-count 1000").start();
        server.wait_for_load("m", before, Duration::ZERO);
        fs::write(repository.path().join("m/config.pbtxt"), "max_batch_size: none").unwrap();
        let finished = running.finish();
        let report = finished.report();
        assert_eq!(report.level().client_number("Request count"), 1000.0, "{}", report.text);
        for message in ["model 'm' was unloaded and does not load again", "--restarts: 1 of 3 starts were measured"] {
            assert!(finished.stderr.contains(message), "{protocol}: {}", finished.stderr);
        }
    }
}
