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
        let (sum, unknown) = lines
            .iter()
            .map(|line| memory(line))
            .fold((0.0, 0.0), |all, (bytes, unknown)| (all.0 + bytes, all.1 + unknown));
        assert!(total > 1e6 && (total - sum).abs() <= unknown, "{}", run.stdout);
    }
}

/// The bytes of memory that a line shows in binary units, and how many half of the last digit shown stands for.
fn memory(line: &str) -> (f64, f64) {
    let shown = line.split_once("memory ").expect(line).1;
    let [number, unit, ..] = shown.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let power = ["B", "KiB", "MiB", "GiB"].iter().position(|known| *known == unit).expect(line);
    let (scale, decimals) = (1024_f64.powi(power as i32), number.split_once('.').map_or(0, |(_, end)| end.len()));
    (number.parse::<f64>().unwrap() * scale, 0.5 * scale / 10_f64.powi(decimals as i32))
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
