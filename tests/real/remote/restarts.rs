//! Servers that are not up yet, or that go down and return.

use std::thread;
use std::time::Duration;

use super::PROTOCOLS;
use crate::support::{Model, Repository, TritonServer};

#[test]
fn timed_the_servers_counters_are_those_since_its_restart() {
    let repository = Repository::of(&[Model::identity("m")]);
    for protocol in PROTOCOLS {
        // One that has not counted anything yet.
        let Some(mut server) = TritonServer::start(&repository) else { return };
        let load = "--reconnect --max-errors 1 -p 8000 -r 1 --concurrency-range 2";
        let running = server.program(protocol, "m").args(load).start();
        server.wait_for_load("m", 0, Duration::from_secs(1));
        server.kill();
        server.restart();
        // One window of one cannot be stable.
        let report = running.finish().report_with(2);
        assert!(report.level().client_number("Failed request count") >= 1.0, "{}", report.text);
        // It answered again before the window ended.
        assert!(report.level().server_number("Inference count") >= 1.0, "{protocol}: {}", report.text);
    }
}

#[test]
fn timed_a_load_outlives_windows_that_end_while_the_server_is_away() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        let load = "--async --reconnect --max-errors 1 -p 500 -r 8 --precision p99:0.01%";
        let before = server.executed("m");
        let running = server.program(protocol, "m").args(load).start();
        server.wait_for_load("m", before, Duration::from_millis(600));
        server.kill();
        // Two windows' time.
        thread::sleep(Duration::from_millis(1200));
        server.restart();
        let finished = running.finish();
        let report = finished.report_with(2);
        assert!(report.level().client_number("Failed request count") >= 1.0, "{}", report.text);
        let left_out = "figures from that time are left out (--reconnect)";
        assert!(finished.stderr.contains(left_out), "{protocol}: {}", finished.stderr);
        assert!(!finished.stderr.contains("ended early"), "{protocol}: {}", finished.stderr);
        server.wait_until_ready();
    }
}

/// A new process knows nothing of the regions that the one before was given.
#[test]
fn timed_a_server_that_comes_back_is_given_its_shared_memory_again() {
    let repository = Repository::of(&[Model::sleeping("brief", 2).instances(4)]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        for load in ["--async", "--sync --connections new"] {
            let memory = "--reconnect --shared-memory system --output-shared-memory-size 4096 --max-errors 100%";
            let stages = "--stage concurrency:8:4s --stage concurrency:8:1s";
            let before = server.executed("brief");
            let program = server.program(protocol, "brief").args(memory).args(stages).args(load);
            let running = program.start();
            let mine = format!("/triton-bench-{}-", running.id());
            server.wait_for_load("brief", before, Duration::from_secs(1));
            server.kill();
            server.restart();
            let finished = running.finish();
            server.wait_until_ready();
            let report = finished.report_even_if_late();
            let [first, second] = &report.levels[..] else { panic!("{}", report.text) };
            assert!(first.failures("Connection") >= 8, "{protocol} {load}: {}", report.text);
            assert!(!report.text.contains("Unable to find"), "{protocol} {load}: {}", report.text);
            assert!(!second.text.contains("Failed"), "{protocol} {load}: {}", report.text);
            assert!(second.client_number("Throughput") > 100.0, "{protocol} {load}: {}", report.text);
            let status = server.get("/v2/systemsharedmemory/status").expect("the server answers");
            assert!(!status.contains(&mine), "{protocol} {load}: {status}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        server.kill();
        server.program(protocol, "m").args("-p 200 --server-wait 0").run().refusal(&["Connection refused"]);
        server.restart();
        server.program(protocol, "m").args("--server-wait 60 --request-count 10").run().report();
    }
}
