//! The server's metrics, over the network and in process.

use super::{PROTOCOLS, figure};
use crate::support::{Model, Program, Repository, TritonServer};

#[test]
fn timed_metrics_are_collected_over_every_way() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let collect = "--collect-metrics --metrics-interval 100 -p 500 -r 3 -s 1000000";
    let url = format!("--metrics-url {}/metrics", server.metrics());
    let remote = PROTOCOLS.map(|protocol| server.program(protocol, "m").args(&url));
    for program in remote.into_iter().chain([Program::on(&repository, "m")]) {
        let run = program.args(collect).run();
        run.report();
        assert!(figure(&run.stdout, "Max CPU Memory Usage:") > 1e6, "{}", run.stdout);
        assert!(figure(&run.stdout, "Pending requests: avg") < 2.0, "{}", run.stdout);
    }
}

#[test]
fn a_server_without_metrics_at_that_address_ends_the_run_before_it_starts() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for wrong in ["localhost:1/metrics", &format!("{}/nothing", server.metrics())] {
        let program = server.program("http", "m").args("--collect-metrics -p 200 --metrics-url").arg(wrong);
        program.run().failure(&["--collect-metrics: ", "metrics"]);
    }
}
