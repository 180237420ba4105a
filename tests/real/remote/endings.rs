//! How runs end when requests or servers do not return.

use std::thread;
use std::time::{Duration, Instant};

use super::PROTOCOLS;
use crate::support::{Finished, Model, Repository, Running, TritonServer};

const SIGINT: i32 = 2;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// Kills the server under a run and waits for the run's end; tells how long that took. The server is there again after.
fn lose(server: &mut TritonServer, running: Running) -> (Finished, Duration) {
    server.kill();
    let killed = Instant::now();
    let finished = running.finish();
    let took = killed.elapsed();
    server.restart();
    server.wait_until_ready();
    (finished, took)
}

#[test]
fn answers_beyond_the_client_timeout_are_counted_as_failures_by_reason() {
    let repository = Repository::of(&[Model::sleeping("slow", 400), Model::identity("fast")]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    let late = "Deadline exceeded: no answer within 60000 us (--client-timeout-us)";
    for protocol in ["http", "grpc", "grpc --streaming", "http --async", "http --shared-memory system"] {
        let (name, more) = protocol.split_once(' ').unwrap_or((protocol, ""));
        let run = server.run_that_cancels(|server| {
            let program = server.program(name, "slow").args(more).args("--client-timeout-us 60000 --request-count 8");
            program.args("--concurrency-range 2").run()
        });
        let report = run.report_with(3);
        let level = report.level();
        assert_eq!(level.client_number("Failed request count") as u64, 8, "{protocol}: {}", report.text);
        assert_eq!(level.failures(late), 8, "{protocol}: {}", report.text);
        let program = server.program(name, "fast").args(more).args("--client-timeout-us 5000000 --request-count 8");
        let report = program.run().report_even_if_late();
        assert_eq!(report.level().client_number("Request count") as u64, 8, "{protocol}");
    }
}

#[test]
fn every_request_is_cancelled_that_has_a_stream_of_its_own() {
    let repository = Repository::of(&[Model::sleeping("slow", 2_000)]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for flags in ["", "--async", "--streaming"] {
        let run = server.run_that_cancels(|server| {
            let program = server.program("grpc", "slow").args(flags).args("--cancel-after-us 20000 --request-count 24");
            program.args("--concurrency-range 8").run()
        });
        let report = run.report_with(3);
        let cancelled = report.level().client_number("Cancelled request count") as u64;
        assert_eq!(cancelled, 24, "{flags}: {}", report.text);
        assert_eq!(run.stderr.contains("alone on its stream"), flags == "--streaming", "{}", run.stderr);
    }
}

/// Loads of every kind, on a model whose requests take 2 ms.
const LOADS: [&str; 6] = [
    "-p 30000",
    "-p 30000 --async --concurrency-range 8 --max-errors 100%",
    "-p 30000 --concurrency-range 8",
    "--request-rate-range 200 -p 30000",
    "--request-count 1000000 --concurrency-range 4",
    "--stage concurrency:4:30s --stage concurrency:2:30s",
];

#[test]
fn timed_a_server_that_dies_ends_every_load_within_two_seconds() {
    let repository = Repository::of(&[Model::sleeping("brief", 2).instances(4)]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for (number, load) in LOADS.iter().enumerate() {
        for protocol in ["http", "grpc", "grpc --streaming"] {
            let streaming = protocol.ends_with("--streaming");
            if streaming && number != 1 {
                continue;
            }
            let (name, more) = protocol.split_once(' ').unwrap_or((protocol, ""));
            let running = server.program(name, "brief").args(more).args(load).start();
            server.wait_for_load("brief", 0, Duration::from_secs(1));
            let (finished, took) = lose(&mut server, running);
            assert!(took < Duration::from_secs(2), "{protocol} {load}: {took:?}");
            let report = finished.report_with(3);
            let level = &report.levels.first().unwrap_or_else(|| panic!("{}", report.text));
            assert!(level.client_number("Request count") > 50.0, "{protocol} {load}: {}", report.text);
            assert!(level.client_number("Failed request count") >= 1.0, "{protocol} {load}: {}", report.text);
            assert!(level.failures("Connection") >= 1, "{protocol} {load}: {}", report.text);
            assert!(level.text.contains("Verdict: invalid [failed]"), "{protocol} {load}: {}", report.text);
        }
    }
}

#[test]
fn timed_a_server_that_comes_back_is_used_again_by_every_slot() {
    let repository = Repository::of(&[Model::sleeping("brief", 2).instances(4)]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        let load = "--reconnect --max-errors 100% --stage concurrency:8:4s --stage concurrency:8:2s";
        let before = server.executed("brief");
        let running = server.program(protocol, "brief").args(load).start();
        server.wait_for_load("brief", before, Duration::from_secs(1));
        server.kill();
        server.restart();
        let finished = running.finish();
        server.wait_until_ready();
        let report = finished.report_even_if_late();
        let [first, second] = &report.levels[..] else { panic!("{}", report.text) };
        assert!(first.client_number("Failed request count") >= 8.0, "{protocol}: {}", report.text);
        assert!(first.failures("Connection") >= 8, "{protocol}: {}", report.text);
        // Four instances of 2 ms answer near 2000 a second; a slot without a connection would cost an eighth.
        assert!(!second.text.contains("Failed"), "{protocol}: {}", report.text);
        assert!(second.client_number("Throughput") > 800.0, "{protocol}: {}", report.text);
        assert!(!finished.stderr.contains("do not add up"), "{}", finished.stderr);
    }
}

#[test]
fn timed_loads_without_levels_end_with_the_same_code() {
    let repository = Repository::of(&[Model::decoupled("stream", 2), Model::sleeping("brief", 2).instances(4)]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for (protocol, model, load, message) in [
        (
            "grpc",
            "stream",
            "--streaming --periodic-concurrency-range 50:100000:50 --request-period 2",
            "requests failed: Conn",
        ),
        ("http", "brief", "--sweep linear:4 -p 2000", "the server went away"),
    ] {
        let running = server.program(protocol, model).args(load).start();
        server.wait_for_load(model, 0, Duration::from_secs(1));
        let (finished, took) = lose(&mut server, running);
        assert!(took < Duration::from_secs(2), "{load}: {took:?}");
        assert_eq!(finished.code(), 3, "{load}: {}{}", finished.stdout, finished.stderr);
        assert!(finished.stderr.contains(message), "{load}: {}", finished.stderr);
    }
}

#[test]
fn timed_a_server_that_falls_silent_ends_the_level_after_its_window() {
    let repository = Repository::of(&[Model::sleeping("brief", 2).instances(4)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        for timeout in ["", "--client-timeout-us 300000"] {
            let load = "-p 1000 -r 20 -s 0.001 --concurrency-range 2";
            let before = server.executed("brief");
            let running = server.program(protocol, "brief").args(load).args(timeout).start();
            server.wait_for_load("brief", before, Duration::from_secs(1));
            server.signal(SIGSTOP);
            let stopped = Instant::now();
            let finished = running.finish();
            let took = stopped.elapsed();
            server.signal(SIGCONT);
            // What is left of the window, and the time in which the server's counters should have come.
            assert!(took < Duration::from_secs(4), "{protocol} {timeout}: {took:?}");
            let report = finished.report_with(3);
            assert!(report.level().client_number("Request count") > 50.0, "{}", report.text);
            if !timeout.is_empty() {
                assert!(report.level().failures("Deadline exceeded") >= 2, "{}", report.text);
            }
        }
    }
}

/// The load asks for a further region at that moment, and never gets it.
#[test]
fn timed_an_interrupt_while_a_server_stands_still_is_no_failure_of_it() {
    let repository = Repository::of(&[Model::sleeping("brief", 5)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        for load in ["-p 500 -s 0.001 -r 100 --shared-memory system --request-rate-range 50", "--stage rate:50:60s"] {
            let before = server.executed("brief");
            let running = server.program(protocol, "brief").args(load).start();
            server.wait_for_load("brief", before, Duration::from_millis(900));
            server.signal(SIGSTOP);
            thread::sleep(Duration::from_millis(1_100));
            running.signal(SIGINT);
            let finished = running.finish();
            server.signal(SIGCONT);
            let report = finished.report();
            assert!(report.text.contains("[interrupted]"), "{protocol} {load}: {finished:#?}");
            assert!(report.level().client_number("Request count") > 20.0, "{protocol} {load}: {}", report.text);
            assert!(!finished.stderr.contains("ended early"), "{protocol} {load}: {}", finished.stderr);
        }
    }
}

/// The kernel tells of bytes that are gone with an error of the system call that was to send them.
#[test]
fn a_file_that_is_cut_short_ends_the_run_over_the_network_too() {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [1048576] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [1048576] }]"#;
    let repository = Repository::of(&[Model::identity("m").tensors(tensors)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("INPUT0");
        std::fs::write(&file, vec![1; 4 << 20]).unwrap();
        let before = server.executed("m");
        let running = server.program(protocol, "m").args("-p 60000 --input-data").arg(folder.path()).start();
        server.wait_for_load("m", before, Duration::ZERO);
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(0).unwrap();
        running.finish().failure(&["input data file was cut short", "leave input files as they are"]);
    }
}
