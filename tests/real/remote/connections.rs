//! `--connections new` on a real server: as many connections as requests, over gRPC each with a stream of its own if asked.

use std::sync::atomic::Ordering;

use crate::support::far::counted;
use crate::support::{Model, Repository, TritonServer};

/// Connections of questions beside the load, at most: a slow machine asks more often whether the server is there.
const BESIDE: usize = 15;

#[test]
fn each_request_makes_one_whatever_it_carries() {
    let sums = Model::accumulator("sums").instances(8);
    let repository = Repository::of(&[Model::identity("plain"), Model::decoupled("parts", 3), sums]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for (protocol, model, flags) in [
        ("http", "plain", "--sync --concurrency-range 2"),
        ("grpc", "plain", "--sync --concurrency-range 2"),
        ("grpc", "plain", "--async --concurrency-range 8 --max-connections 3"),
        ("grpc", "plain", "--streaming --concurrency-range 3"),
        ("grpc", "plain", "--grpc-compression-algorithm gzip --request-rate-range 100"),
        ("grpc", "parts", "--streaming --concurrency-range 3"),
        ("grpc", "sums", "--streaming --concurrency-range 3 --sequence-length 5"),
        ("grpc", "sums", "--sync --concurrency-range 3 --sequence-length 5"),
    ] {
        let (url, count) = counted(&server.url(protocol));
        let program = TritonServer::program_at(&url, protocol, model).args(flags);
        let run = program.args("--connections new --request-count 60").run();
        let report = run.report_even_if_late();
        let requests = report.level().client_number("Request count") as usize;
        assert!(requests >= 60 && !report.text.contains("Failed"), "{model} {flags}: {}", report.text);
        let connections = count.load(Ordering::SeqCst);
        // Sequences that were open at the end of the count go on to theirs.
        let most = requests + BESIDE + if model == "sums" { 15 } else { 0 };
        assert!((requests..=most).contains(&connections), "{model} {flags}: {requests} requests, {connections}");
        if model == "parts" {
            assert!(report.text.contains("Time between responses: avg"), "{}", report.text);
        }
    }
}
