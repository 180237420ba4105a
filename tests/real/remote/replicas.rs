//! Several servers as one: figures of each, counters of all, regions and sequences where they belong.

use std::path::Path;

use serde_json::Value;

use crate::support::{Model, Program, Repository, TritonServer};

/// The program on all of these servers.
fn on(servers: &[TritonServer], protocol: &str, model: &str) -> Program {
    let program = Program::new().args(&format!("--on-disturbance mark -i {protocol} -m {model}"));
    servers.iter().fold(program, |program, server| program.args("-u").arg(server.url(protocol)))
}

fn requests_of_each(file: &Path) -> Vec<u64> {
    let result: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let servers = result["levels"][0]["client"]["servers"].as_array().unwrap();
    servers.iter().map(|server| server["requests"].as_u64().unwrap()).collect()
}

#[test]
fn counters_are_added_up_and_regions_are_registered_with_each() {
    let repository = Repository::of(&[Model::identity("identity")]);
    let start = || TritonServer::start(&repository);
    let (Some(first), Some(second)) = (start(), start()) else { return };
    let servers = [first, second];
    for (protocol, more) in [
        ("http", "--async --concurrency-range 3"),
        ("http", "--sync --concurrency-range 3 --shared-memory system"),
        ("grpc", "--async --concurrency-range 5"),
        ("grpc", "--async --concurrency-range 5 --shared-memory system"),
        ("grpc", "--streaming --concurrency-range 4"),
        ("grpc", "--request-rate-range 50"),
    ] {
        let before: Vec<_> = servers.iter().map(|server| server.executed("identity")).collect();
        let file = repository.file("s.json");
        let run = on(&servers, protocol, "identity").args(more).args("--request-count 60 --summary-file").arg(&file);
        let report = run.run().report_even_if_late();
        let executed = servers.iter().zip(before).map(|(server, before)| server.executed("identity") - before);
        assert_eq!(executed.collect::<Vec<_>>(), [30, 30], "{protocol} {more}");
        assert_eq!(requests_of_each(&file), [30, 30], "{protocol} {more}");
        assert_eq!(report.level().server_number("Inference count") as u64, 60, "{protocol} {more}");
    }
}

#[test]
fn sequences_stay_on_their_server() {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]"#;
    let model = Model::identity("m").tensors(tensors).parameter("accumulate", "true").instances(8);
    let model = model.with("sequence_batching { max_sequence_idle_microseconds: 5000000 }");
    let repository = Repository::of(&[model]);
    let start = || TritonServer::start(&repository);
    let (Some(first), Some(second)) = (start(), start()) else { return };
    let servers = [first, second];
    for (protocol, load) in
        [("http", "--sync --concurrency-range 3"), ("grpc", "--async --concurrency-range 5"), ("grpc", "--streaming")]
    {
        let file = repository.file("s.json");
        let run = on(&servers, protocol, "m").args(load);
        let run = run.args("--sequence-length 5 --request-count 100 --summary-file").arg(&file).run();
        // A request without its sequence fails at the other server.
        let report = run.report_even_if_late();
        let count = report.level().client_number("Request count");
        assert!(count >= 100.0, "{protocol} {load}: {count}, with the last of open sequences");
        assert!(requests_of_each(&file).iter().all(|requests| *requests > 20), "{protocol} {load}");
    }
}
