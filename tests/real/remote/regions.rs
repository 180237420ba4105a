//! Servers that accept no shared memory from clients.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::PROTOCOLS;
use crate::support::{Model, Program, Repository, TritonServer};

const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGKILL: i32 = 9;

#[test]
fn a_server_that_restricts_shared_memory_gives_its_reason() {
    let repository = Repository::of(&[Model::identity("identity")]);
    let flags =
        ["--http-restricted-api=shared-memory:key=secret", "--grpc-restricted-protocol=shared-memory:key=secret"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    for (protocol, header) in [("http", "key"), ("grpc", "triton-grpc-protocol-key")] {
        let program = || server.program(protocol, "identity").args("--shared-memory system --request-count 20");
        let run = program().start();
        let mine = format!("triton-bench-{}-", run.id());
        let run = run.finish();
        let line = run.failure(&["--shared-memory: ", "system shared memory", "restricted", header]);
        assert!(line.contains("leave out --shared-memory"), "{line}");
        let left = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| name.starts_with(&mine)).collect::<Vec<_>>(), Vec::<String>::new());
        let allowed = program().arg("-H").arg(format!("{header}:secret")).run().report_even_if_late();
        assert_eq!(allowed.level().client_number("Request count") as u64, 20);
        let without = server.program(protocol, "identity").args("--request-count 20").run().report_even_if_late();
        assert_eq!(without.level().client_number("Request count") as u64, 20);
    }
}

#[test]
fn restricted_statistics_and_metadata_are_named() {
    let repository = Repository::of(&[Model::identity("identity")]);
    let flags = ["--http-restricted-api=metadata:key=secret", "--grpc-restricted-protocol=metadata:key=secret"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    for (protocol, header) in [("http", "key"), ("grpc", "triton-grpc-protocol-key")] {
        let run = server.program(protocol, "identity").args("--request-count 20 --server-wait 0.2").run();
        run.failure(&["restricted", header]);
        let program = server.program(protocol, "identity").args("--request-count 20 -H");
        let report = program.arg(format!("{header}:secret")).run().report_even_if_late();
        assert_eq!(report.level().client_number("Request count") as u64, 20);
    }
}

#[test]
fn a_server_on_another_machine_is_named_where_it_cannot_open_the_memory() {
    let repository = Repository::of(&[Model::identity("identity")]);
    let Some(_server) = TritonServer::start(&repository) else { return };
    for protocol in PROTOCOLS {
        // Nothing listens there at all: the same end, before anything is shared.
        let run = Program::new()
            .args(&format!("-i {protocol} -u 127.0.0.1:9 -m identity --shared-memory system --server-wait 0"));
        run.run().failure(&["127.0.0.1:9", "Connection refused"]);
    }
}

/// Both end the program without a word to anybody but the server, whose memory of the regions would outlive us.
#[test]
fn timed_leaving_at_once_takes_regions_back_from_the_server() {
    let repository = Repository::of(&[Model::sleeping("slow", 20).instances(4)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let status = || server.get("/v2/systemsharedmemory/status").expect("the server answers");
    for protocol in PROTOCOLS {
        for signals in [&[SIGQUIT][..], &[SIGINT, SIGINT]] {
            let program = server.program(protocol, "slow").args("--shared-memory system -p 60000");
            let running = program.args("--async --concurrency-range 3").start();
            let mine = format!("/triton-bench-{}-", running.id());
            let started = Instant::now();
            // The inputs, and the outputs of each slot.
            while status().matches(&mine).count() < 4 {
                assert!(started.elapsed() < Duration::from_secs(20), "{}", status());
                thread::sleep(Duration::from_millis(5));
            }
            running.signal(signals[0]);
            if let [_, second] = signals {
                running.wait_for("interrupted; reporting the results so far");
                // Sooner, both would be taken for one.
                thread::sleep(Duration::from_millis(250));
                running.signal(*second);
            }
            let signalled = Instant::now();
            running.finish();
            assert!(signalled.elapsed() < Duration::from_secs(3), "{:?}", signalled.elapsed());
            assert!(!status().contains(&mine), "{protocol} {signals:?}: {}", status());
        }
    }
}

/// Nobody takes back what a run has registered that is killed, and the server would keep its memory: the next run does.
#[test]
fn regions_of_a_run_that_was_killed_are_taken_back_by_the_next() {
    let repository = Repository::of(&[Model::sleeping("slow", 20).instances(4)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let status = || server.get("/v2/systemsharedmemory/status").expect("the server answers");
    for (protocol, next) in [("http", "grpc"), ("grpc", "http")] {
        let program = |protocol| server.program(protocol, "slow").args("--shared-memory system");
        let running = program(protocol).args("-p 60000 --async --concurrency-range 3").start();
        let mine = format!("/triton-bench-{}-", running.id());
        let started = Instant::now();
        while status().matches(&mine).count() < 4 {
            assert!(started.elapsed() < Duration::from_secs(20), "{}", status());
            thread::sleep(Duration::from_millis(5));
        }
        running.signal(SIGKILL);
        running.finish();
        assert_eq!(status().matches(&mine).count(), 4, "{}", status());
        let finished = program(next).args("--request-count 20").run();
        let told = "still held 4 regions of shared memory of runs that were killed";
        assert!(finished.stderr.contains(told), "{}", finished.stderr);
        finished.report_even_if_late();
        assert!(!status().contains(&mine), "{protocol}: {}", status());
    }
}
