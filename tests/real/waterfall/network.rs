//! Over the network: the traces that the server writes to its file, or averages where it writes none.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{ENSEMBLE, breakdown, json, median_us, stage};
use crate::support::{Finished, Model, Program, Repository, TritonServer};

/// Every way to a server: what it is called, its protocol and its flags.
const WAYS: [(&str, &str, &str); 4] = [
    ("HTTP", "http", "--sync"),
    ("HTTP, asynchronous", "http", "--async"),
    ("gRPC", "grpc", "--sync"),
    ("gRPC streams", "grpc", "--streaming"),
];

/// A server that writes its traces to a file.
fn tracing(repository: &Repository) -> Option<(TritonServer, PathBuf)> {
    let file = repository.file("trace.json");
    let config = format!("--trace-config=triton,file={}", file.display());
    Some((TritonServer::start_with(repository, &[&config])?, file))
}

fn run(repository: &Repository, program: Program, arguments: &str) -> (Finished, Value) {
    let file = repository.file("summary.json");
    let finished = program.args("--breakdown --max-errors 1").args(arguments).arg("--summary-file").arg(&file).run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let breakdown = breakdown(&file);
    (finished, breakdown)
}

fn mean(stage: &Value) -> f64 {
    stage["mean_ns"].as_f64().unwrap_or_else(|| panic!("{stage}"))
}

/// The stages with what none explains are the latency, where no two are under way at once.
fn assert_adds_up(breakdown: &Value, way: &str) {
    let stages = breakdown["stages"].as_array().unwrap();
    let sum: f64 = stages.iter().map(mean).sum::<f64>() + mean(&breakdown["unexplained"]);
    let latency = mean(&breakdown["latency"]);
    assert!((sum / latency - 1.0).abs() < 0.001, "{way}: {sum} of {latency}: {breakdown}");
}

#[test]
fn without_traces_a_breakdown_is_of_averages_and_says_so() {
    let repository = Repository::of(&[Model::sleeping("m", 5)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for protocol in ["http", "grpc"] {
        let (finished, breakdown) = run(&repository, server.program(protocol, "m"), "--request-count 30");
        let text = finished.stdout;
        assert!(text.contains("Breakdown: averages of the server's statistics, no traces, usec"), "{text}");
        assert!(text.contains("Executed batch of m: average 1.00; executions by size 1: 100.00%"), "{text}");
        let compute = stage(&breakdown, None, "compute");
        assert!(compute["mean_ns"].as_f64() >= Some(5e6) && compute["percentiles_ns"].is_null(), "{breakdown}");
        assert!(median_us(&breakdown["latency"]) >= 5_000.0, "{breakdown}");
    }
}

#[test]
fn every_traced_request_is_found_again() {
    let repository = Repository::of(&[Model::sleeping("m", 1).instances(4)]);
    let Some((server, file)) = tracing(&repository) else { return };
    for (way, protocol, flags) in WAYS {
        for (load, split) in [
            ("--concurrency-range 8", ""),
            ("--request-rate-range 400", ""),
            ("--concurrency-range 8", "--log-frequency 7"),
        ] {
            let arguments =
                format!("{load} --request-count 400 --trace-level TIMESTAMPS --trace-rate 4 {split} {flags}");
            let arguments =
                if load.starts_with("--request-rate") { arguments.replace("--sync", "") } else { arguments };
            let program = server.program(protocol, "m").args("--breakdown --max-errors 1").args(&arguments);
            let summary = repository.file("summary.json");
            let finished = program.arg("--summary-file").arg(&summary).run();
            assert!([0, 4].contains(&finished.code()), "{way} {arguments}: {}", finished.stderr);
            let breakdown = breakdown(&summary);
            assert_eq!(
                (&breakdown["traced"], &breakdown["one_in"]),
                (&100.into(), &4.0.into()),
                "{way} {arguments}: {breakdown}"
            );
            assert_eq!(breakdown["lost"], 0, "{way} {arguments}");
        }
    }
    assert!(file.exists());
}

/// Whatever else of a request is patched, compressed or matched by its id.
#[test]
fn ids_go_with_all_that_changes_in_a_request() {
    let repository =
        Repository::of(&[Model::sleeping("m", 1), Model::accumulator("sums"), Model::decoupled("many", 3)]);
    let Some((server, _)) = tracing(&repository) else { return };
    let loads = [
        ("http", "m", "--shared-memory system --async"),
        ("http", "m", "--request-parameter low:-3:int --input-tensor-format json --async"),
        ("http", "m", "--http-compression gzip"),
        ("http", "sums", "--sequence-length 5"),
        ("grpc", "m", "--shared-memory system --async"),
        ("grpc", "m", "--grpc-compression-algorithm gzip --async"),
        ("grpc", "sums", "--sequence-length 5 --streaming"),
        ("grpc", "many", "--streaming"),
    ];
    for (protocol, model, flags) in loads {
        let flags = format!("{flags} --concurrency-range 4 --request-count 60 --trace-level TIMESTAMPS --trace-rate 1");
        let summary = repository.file("summary.json");
        let program = server.program(protocol, model).args("--breakdown --max-errors 1").args(&flags);
        let finished = program.arg("--summary-file").arg(&summary).run();
        assert_eq!(finished.code(), 0, "{protocol} {flags}: {}", finished.stderr);
        let (breakdown, level) = (breakdown(&summary), json(&summary)["levels"][0].clone());
        let requests = level["client"]["requests"].as_u64().unwrap();
        assert_eq!((&breakdown["traced"], requests >= 60), (&requests.into(), true), "{protocol} {flags}: {breakdown}");
        assert_eq!(breakdown["lost"], 0, "{protocol} {flags}");
    }
}

#[test]
fn a_mix_has_traces_of_its_first_model_and_averages_of_the_others() {
    let repository = Repository::of(&[Model::sleeping("m", 1), Model::sleeping("n", 1)]);
    let Some((server, _)) = tracing(&repository) else { return };
    let summary = repository.file("summary.json");
    let flags = "--breakdown --max-errors 1 --model-mix m:0.5,n:0.5 --request-count 100 --trace-level TIMESTAMPS --trace-rate 1 -i grpc";
    let finished = Program::new()
        .args(flags)
        .args(&format!("-u {}", server.url("grpc")))
        .arg("--summary-file")
        .arg(&summary)
        .run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let level = json(&summary)["levels"][0].clone();
    let sources: Vec<_> =
        level["breakdown"].as_array().unwrap().iter().map(|entry| (&entry["model"], &entry["source"])).collect();
    assert_eq!(sources, [(&"m".into(), &"traces".into()), (&"n".into(), &"statistics".into())]);
    assert_eq!(level["breakdown"][0]["traced"], level["client"]["entries"][0]["requests"], "{level}");
}

#[test]
fn every_level_has_the_traces_of_its_own_requests() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let Some((server, _)) = tracing(&repository) else { return };
    for (way, protocol, flags) in WAYS {
        let (summary, csv) = (repository.file("summary.json"), repository.file("levels.csv"));
        let arguments = "--breakdown --concurrency-range 1:3 -p 300 -s 1000000 --trace-level TIMESTAMPS --trace-rate 5 --max-errors 1";
        let program = server.program(protocol, "m").args(arguments).args(flags).arg("--summary-file").arg(&summary);
        let finished = program.arg("-f").arg(&csv).run();
        assert_eq!(finished.code(), 0, "{way}: {}", finished.stderr);
        let levels = json(&summary)["levels"].as_array().unwrap().clone();
        assert_eq!(levels.len(), 3, "{way}");
        for level in levels {
            let (breakdown, requests) = (&level["breakdown"][0], level["client"]["requests"].as_f64().unwrap());
            let traced = breakdown["traced"].as_f64().unwrap();
            assert!((traced - requests / 5.0).abs() <= 1.0, "{way}: {traced} of {requests}: {breakdown}");
            assert_eq!(breakdown["lost"], 0, "{way}");
        }
        let table = fs::read_to_string(&csv).unwrap();
        assert!(table.lines().next().unwrap().contains("network in"), "{way}: {table}");
    }
}

#[test]
fn timed_every_model_of_an_ensemble_has_its_stages_over_the_network() {
    let repository = Repository::of(&[
        Model::sleeping("first", 2),
        Model::sleeping("second", 4),
        Model::identity("m").backend("").with(ENSEMBLE),
    ]);
    let Some((server, _)) = tracing(&repository) else { return };
    for (way, protocol, flags) in WAYS {
        let export = repository.file("chrome.json");
        let arguments = format!("--request-count 30 --trace-level TIMESTAMPS --trace-rate 1 {flags}");
        let program = server.program(protocol, "m").arg("--trace-export").arg(&export);
        let (finished, breakdown) = run(&repository, program, &arguments);
        assert_eq!(breakdown["traced"], 30, "{way}: {breakdown}");
        for (model, ms) in [("first", 2.0), ("second", 4.0)] {
            let compute = stage(&breakdown, Some(model), "compute");
            let found = median_us(compute);
            assert!(found >= 1_000.0 * ms && found < 1_000.0 * (ms + 2.0), "{way}: {model}: {breakdown}");
            assert_eq!(compute["depth"], 1, "{way}");
            assert!(finished.stdout.contains(&format!("      {model}: compute ")), "{way}: {}", finished.stdout);
        }
        assert_adds_up(&breakdown, way);
        let events = json(&export)["traceEvents"].clone();
        let count = |name: &str| events.as_array().unwrap().iter().filter(|event| event["name"] == name).count();
        assert_eq!((count("request"), count("network in"), count("compute")), (30, 30, 60), "{way}");
    }
}

#[test]
fn timed_requests_that_are_given_up_are_no_part_of_a_breakdown() {
    // Each takes from 1 to 81 ms, and the server goes on with it when its client has given it up.
    let slow = Model::sleeping("m", 1).parameter("jitter_us", "80000").batches(0).instances(4);
    let repository = Repository::of(&[slow]);
    let Some((mut server, _)) = tracing(&repository) else { return };
    for (way, protocol, flags) in WAYS {
        let summary = repository.file("summary.json");
        let arguments = "--breakdown --concurrency-range 4 --request-count 80 --cancel-after-us 50000 --trace-level TIMESTAMPS \
            --trace-rate 1 --max-errors 100%";
        // Of a stream that is reset at the wrong moment, Triton never lets go of the trace, and with it holds back all that it would
        // write with that one.
        let apart = if way == "gRPC streams" { "--log-frequency 1" } else { "" };
        let finished = server.run_that_cancels(|server| {
            let program = server.program(protocol, "m").args(arguments).args(flags).args(apart);
            program.arg("--summary-file").arg(&summary).run()
        });
        assert!([0, 4].contains(&finished.code()), "{way}: {}{}", finished.stdout, finished.stderr);
        let (breakdown, level) = (breakdown(&summary), json(&summary)["levels"][0].clone());
        let requests = level["client"]["requests"].as_u64().unwrap();
        assert!((10..75).contains(&requests), "{way}: {requests} of 80 were not given up");
        assert_eq!(breakdown["traced"], requests, "{way}: {breakdown} {}", finished.stderr);
        // Those that were given up are slower than all others.
        let (traced, all) = (mean(&breakdown["latency"]), level["client"]["latency"]["mean_ns"].as_f64().unwrap());
        assert!((traced / all - 1.0).abs() < 0.01, "{way}: {traced} of {all}: {breakdown}");
        assert_adds_up(&breakdown, way);
    }
}

/// What is said where the traces cannot be had; there are averages then.
fn averages(repository: &Repository, server: &TritonServer, flags: &str) -> String {
    let arguments = format!("--request-count 20 --trace-level TIMESTAMPS {flags}");
    let (finished, _) = run(repository, server.program("http", "m"), &arguments);
    let text = &finished.stdout;
    assert!(text.contains("Breakdown: averages of the server's statistics, no traces, usec"), "{text}");
    let lines: Vec<&str> = finished.stderr.lines().filter(|line| line.contains("averages of its statistics")).collect();
    assert_eq!(lines.len(), 1, "it is said once: {}", finished.stderr);
    lines[0].to_owned()
}

#[test]
fn why_there_are_averages_is_said() {
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    let folder = repository.file("elsewhere");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("trace.json");
    let config = format!("--trace-config=triton,file={}", file.display());
    let Some(server) = TritonServer::start_with(&repository, &[&config]) else { return };
    // No request of so few is traced.
    let warning = averages(&repository, &server, "--trace-rate 1000");
    assert!(
        warning.contains(&format!("'{}' cannot be read here: it holds no trace of these requests", file.display())),
        "{warning}"
    );
    let warning = averages(&repository, &server, "--trace-rate 1 --trace-count 5");
    assert!(warning.contains("--trace-count") && warning.contains("--log-frequency"), "{warning}");
    let otel = ["--trace-config=mode=opentelemetry", "--trace-config=opentelemetry,url=127.0.0.1:9/v1/traces"];
    let Some(other) = TritonServer::start_with(&repository, &otel) else { return };
    let warning = averages(&repository, &other, "--trace-rate 1000");
    assert!(warning.contains("its trace mode is 'opentelemetry', which writes no file"), "{warning}");
    // As it is with a server on another machine.
    fs::remove_dir_all(&folder).unwrap();
    let warning = averages(&repository, &server, "--trace-rate 1");
    assert!(
        warning.contains(&format!("'{}' cannot be read here: No such file or directory", file.display())),
        "{warning}"
    );
}

/// Each has the machine to itself.
mod measured {
    use super::*;

    #[test]
    fn a_model_that_sleeps_in_every_stage_is_seen_to_over_the_network() {
        let staged =
            Model::sleeping("m", 50).parameter("input_delay_us", "20000").parameter("output_delay_us", "30000");
        let repository = Repository::of(&[staged]);
        let Some((server, _)) = tracing(&repository) else { return };
        for (way, protocol, flags) in WAYS {
            let arguments = format!("--request-count 20 --trace-level TIMESTAMPS --trace-rate 1 {flags}");
            let (finished, breakdown) = run(&repository, server.program(protocol, "m"), &arguments);
            assert_eq!((&breakdown["traced"], &breakdown["one_in"]), (&20.into(), &1.0.into()), "{way}: {breakdown}");
            assert_eq!(breakdown["lost"], 0, "{way}");
            assert!(
                finished.stdout.contains("Breakdown: 20 traced requests, 1 in 1, usec"),
                "{way}: {}",
                finished.stdout
            );
            for (name, ms) in [("compute input", 20.0), ("compute", 50.0)] {
                let found = median_us(stage(&breakdown, None, name)) / 1_000.0;
                assert!((found / ms - 1.0).abs() < 0.05, "{way}: {name}: {found} ms of {ms}: {breakdown}");
            }
            // The model answers before it sleeps in its last stage, or after: what the client does not wait for is no part of its latency.
            let output = median_us(stage(&breakdown, None, "compute output")) / 1_000.0;
            assert!(output < 31.5, "{way}: {breakdown}");
            for name in ["network in", "parse", "scheduling", "queue", "response", "network out"] {
                let found = median_us(stage(&breakdown, None, name));
                assert!(found < 2_000.0, "{way}: {name}: {found} usec: {breakdown}");
            }
            assert_adds_up(&breakdown, way);
            assert!(mean(&breakdown["unexplained"]) < 0.01 * mean(&breakdown["latency"]), "{way}: {breakdown}");
        }
    }

    #[test]
    fn a_queue_is_seen_to_over_the_network() {
        let repository = Repository::of(&[Model::sleeping("m", 20).batches(1)]);
        let Some((server, _)) = tracing(&repository) else { return };
        for (way, protocol, flags) in WAYS {
            let arguments =
                format!("--concurrency-range 3 --request-count 60 --trace-level TIMESTAMPS --trace-rate 1 {flags}");
            let (_, breakdown) = run(&repository, server.program(protocol, "m"), &arguments);
            let queue = median_us(stage(&breakdown, None, "queue")) / 1_000.0;
            assert!(
                (37.0..45.0).contains(&queue),
                "{way}: two requests of 20 ms are before each: {queue}: {breakdown}"
            );
            assert_adds_up(&breakdown, way);
        }
    }
}
