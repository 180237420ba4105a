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
fn timed_metrics_of_several_servers_are_those_of_each_and_of_all() {
    let repository = Repository::of(&[Model::identity("m")]);
    let start = || TritonServer::start(&repository);
    let (Some(first), Some(second)) = (start(), start()) else { return };
    let collect = "--collect-metrics --metrics-interval 100 -p 500 -r 3 -s 1000000 --concurrency-range 2";
    for protocol in PROTOCOLS {
        let program = first.program(protocol, "m").args("-u").arg(second.url(protocol)).args(collect);
        let pages = [&first, &second].map(|server| format!("--metrics-url {}/metrics", server.metrics()));
        let run = program.args(&pages.join(" ")).run();
        run.report();
        let (together, each) = run.stdout.split_once("    Of each server:\n").expect(&run.stdout);
        let total = figure(together, "Max CPU Memory Usage:");
        let lines: Vec<_> = each.lines().take(2).collect();
        for (line, server) in lines.iter().zip([&first, &second]) {
            assert!(line.starts_with(&format!("      {}: ", server.url(protocol))), "{line}");
            assert!(figure(line, "pending requests avg") < 2.0, "{line}");
        }
        // Each as it is read: a tenth of a GiB, or a MiB.
        let bytes = |line: &&str| {
            figure(line, "memory")
                * if line.contains(" GiB of ") && !line.contains(" MiB of ") { 1_073_741_824.0 } else { 1_048_576.0 }
        };
        let sum = lines.iter().map(bytes).sum::<f64>();
        assert!(total > 1e6 && (total / sum - 1.0).abs() <= 0.1, "{}", run.stdout);
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
