//! Real servers in separate processes, which open our memory by its handle.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::stand_in::StandIn;
use crate::support::{Model, Program, Repository, TritonServer};

const PROTOCOLS: [&str; 2] = ["http", "grpc"];

fn repository() -> Repository {
    let int32 = |dims: &str| {
        format!(
            "input [{{ name: \"IN\" data_type: TYPE_INT32 dims: [{dims}] }}]\n\
             output [{{ name: \"OUT\" data_type: TYPE_INT32 dims: [{dims}] }}]"
        )
    };
    let repository = Repository::of(&[
        Model::identity("fixed").tensors(&int32("4")),
        Model::identity("open").tensors(&int32("-1")).batches(0),
    ]);
    let slow = Model::sleeping("slow", 20).tensors(&int32("4")).instances(4);
    repository.add(&repository.journaling(slow));
    for (file, last) in [("right.json", 8), ("wrong.json", 0)] {
        let text = json!({
            "data": [{"IN": [1, 2, 3, 4]}, {"IN": [5, 6, 7, 8]}],
            "validation_data": [{"OUT": [1, 2, 3, 4]}, {"OUT": [5, 6, 7, last]}],
        });
        fs::write(repository.file(file), text.to_string()).unwrap();
    }
    repository
}

/// A server on the stand-in, and programs on the same.
struct Bench {
    repository: Repository,
    stand_in: StandIn,
    server: TritonServer,
}

impl Bench {
    fn new() -> Option<Self> {
        let (repository, stand_in) = (repository(), StandIn::new());
        let server = TritonServer::start_in(&repository, &[], &stand_in.environment())?;
        Some(Self { repository, stand_in, server })
    }

    fn program(&self, protocol: &str, model: &str, flags: &str) -> Program {
        self.stand_in.under(self.server.program(protocol, model)).args(flags)
    }

    /// What the server knows of CUDA regions.
    fn registered(&self) -> String {
        self.server.get("/v2/cudasharedmemory/status").unwrap()
    }

    /// Waits until what the server knows of a process' regions is as `test` wants it.
    fn wait(&self, ours: &str, test: impl Fn(usize) -> bool) -> String {
        let started = Instant::now();
        loop {
            let status = self.registered();
            if test(status.matches(ours).count()) {
                return status;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{status}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_server_infers_on_our_devices() {
    let Some(bench) = Bench::new() else { return };
    for protocol in PROTOCOLS {
        for flags in [
            "--cuda-device 1 --concurrency-range 2",
            "--cuda-device 0,1 --async --concurrency-range 3 -b 2",
            "--request-rate-range 30",
        ] {
            let run = |file: &str| {
                let program =
                    bench.program(protocol, "fixed", "--shared-memory cuda --request-count 40 --max-errors 1");
                let report = program.args(flags).args("--input-data").arg(bench.repository.file(file)).run();
                let report = report.report_even_if_late();
                assert!(!bench.stand_in.clean("triton-bench").allocations().is_empty());
                assert!(!bench.registered().contains("triton_bench_"), "{protocol} {flags}: {}", bench.registered());
                report
            };
            let good = run("right.json");
            assert_eq!(good.level().client_number("Request count"), 40.0, "{protocol} {flags}: {}", good.text);
            let device = if flags.contains("1 ") { "1" } else { "0" };
            assert!(good.text.contains("Inputs in memory of GPU "), "{device}: {}", good.text);
            if !flags.contains("-b") {
                let bad = run("wrong.json");
                let message = "stream 0, step 1, response 0, output 'OUT', element 3: expected 0, got 8";
                assert!(bad.level().failures(message).abs_diff(20) <= 2, "{protocol} {flags}: {}", bad.text);
            }
        }
    }
    let Bench { stand_in, server, .. } = bench;
    server.stop();
    // The server closed whatever it had opened.
    stand_in.clean("tritonserver");
}

#[test]
fn regions_are_known_while_a_run_lasts_and_forgotten_after_an_interrupt() {
    let Some(bench) = Bench::new() else { return };
    for protocol in PROTOCOLS {
        let flags = "--shared-memory cuda --cuda-device 1 --async --concurrency-range 3 -p 20000 --input-data";
        let journal = bench.repository.journal_length("slow");
        let run = bench.program(protocol, "slow", flags).arg(bench.repository.file("right.json")).start();
        let ours = format!("triton_bench_{protocol}_{}_", run.id());
        // One for all inputs, and one for the outputs of each slot.
        let status = bench.wait(&ours, |count| count == 4);
        assert_eq!(status.matches("\"device_id\":1").count(), 4, "{status}");
        bench.repository.wait_for_requests("slow", journal);
        // What was sent first is answered.
        thread::sleep(Duration::from_millis(100));
        run.signal(2);
        let finished = run.finish();
        let (count, failed) = (finished.stdout.contains("Request count"), finished.stdout.contains("Failed"));
        assert!(count && !failed, "{}{}", finished.stdout, finished.stderr);
        bench.wait(&ours, |count| count == 0);
        bench.stand_in.clean("triton-bench");
    }
}

#[test]
fn memory_is_kept_for_a_server_that_no_longer_answers() {
    let Some(mut bench) = Bench::new() else { return };
    let flags = "--shared-memory cuda --async --concurrency-range 2 -p 20000 --input-data";
    let run = bench.program("http", "slow", flags).arg(bench.repository.file("right.json")).start();
    bench.wait(&format!("triton_bench_http_{}_", run.id()), |count| count == 3);
    bench.repository.wait_for_requests("slow", 0);
    bench.server.kill();
    let finished = run.finish();
    assert_ne!(finished.code(), 0, "{}", finished.stdout);
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    // A server that only seemed to be gone would still read and write it.
    bench.stand_in.unbroken();
}

#[test]
fn a_region_that_is_too_small_is_refused_by_the_server() {
    let Some(bench) = Bench::new() else { return };
    for protocol in PROTOCOLS {
        let flags = "--shared-memory cuda --shape IN:64 --request-count 5 --output-shared-memory-size";
        let report = bench.program(protocol, "open", flags).args("8").run().report_with(3);
        assert!(report.level().client_number("Failed request count") >= 1.0, "{protocol}: {}", report.text);
        bench.stand_in.clean("triton-bench");
        bench.program(protocol, "open", flags).args("256").run().report();
        bench.stand_in.clean("triton-bench");
        assert!(!bench.registered().contains("triton_bench_"), "{protocol}: {}", bench.registered());
    }
}

#[test]
fn a_server_that_cannot_have_the_memory_is_named_with_its_reason() {
    let repository = repository();
    let ours = StandIn::new();
    // One without any CUDA, and one with fewer devices.
    let Some(without) = TritonServer::start(&repository) else { return };
    let smaller = StandIn::new().with("FAKE_CUDA_DEVICES", "1");
    let smaller = TritonServer::start_in(&repository, &[], &smaller.environment()).unwrap();
    for protocol in PROTOCOLS {
        for server in [&without, &smaller] {
            let program = ours.under(server.program(protocol, "fixed")).args("--shared-memory cuda --cuda-device 1");
            let line = program
                .run()
                .failure(&["--shared-memory: the server at ", "gpu:1", "a server without CUDA does not"])
                .to_owned();
            eprintln!("{line}");
            ours.clean("triton-bench");
        }
        let program = ours.under(without.program(protocol, "fixed")).args("--request-count 5");
        program.run().report();
    }
}
