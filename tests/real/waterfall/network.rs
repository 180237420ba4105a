//! Over the network there are averages.

use super::{breakdown, median_us, stage};
use crate::support::{Model, Repository, TritonServer, turns};

#[test]
fn over_the_network_a_breakdown_is_of_averages_and_says_so() {
    let _turn = turns::shared();
    let repository = Repository::of(&[Model::sleeping("m", 5)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in ["http", "grpc"] {
        let file = repository.file("summary.json");
        let program = server.program(protocol, "m").args("--breakdown --request-count 30 --max-errors 1");
        let finished = program.arg("--summary-file").arg(&file).run();
        let text = finished.report().text;
        assert!(text.contains("Breakdown: averages of the server's statistics, no traces, usec"), "{text}");
        assert!(text.contains("Executed batch of m: average 1.00; executions by size 1: 100.00%"), "{text}");
        let breakdown = breakdown(&file);
        let compute = stage(&breakdown, None, "compute");
        assert!(compute["mean_ns"].as_f64() >= Some(5e6) && compute["percentiles_ns"].is_null(), "{breakdown}");
        assert!(median_us(&breakdown["latency"]) >= 5_000.0, "{breakdown}");
    }
}
