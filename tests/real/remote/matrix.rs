//! `--matrix`: the same load over every transport, and with every kind of memory.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::figure;
use crate::support::{Model, Program, Repository, Running, TritonServer};

/// What `--matrix transports` measures.
const WAYS: [&str; 6] =
    ["C API", "HTTP", "gRPC", "C API + shared memory", "HTTP + shared memory", "gRPC + shared memory"];

/// A way's name in the table on standard output.
fn shown(way: &str) -> String {
    way.replace("shared memory", "shm")
}

fn repository() -> Repository {
    Repository::of(&[Model::identity("m")])
}

/// A short matrix.
fn brief(repository: &Repository, matrix: &str) -> Program {
    Program::on(repository, "m").args("-p 100 -r 2 -s 1000000 --concurrency-range 2 --matrix").args(matrix)
}

#[test]
fn every_way_is_held_against_the_first_and_nothing_is_left_behind() {
    let repository = repository();
    let memory = brief(&repository, "memory --async").run();
    assert_eq!(memory.code(), 0, "{}", memory.stderr);
    assert!(figure(&memory.stdout, "  system shm") > 100.0, "{}", memory.stdout);
    let transports = brief(&repository, "transports --async").run();
    assert_eq!(transports.code(), 0, "{}{}", transports.stdout, transports.stderr);
    for way in WAYS {
        assert!(figure(&transports.stdout, &format!("\n  {} ", shown(way))) > 100.0, "{way}: {}", transports.stdout);
    }
    assert!(!is_served(&repository.path()), "a server program was left behind");
}

#[test]
fn sizes_are_gone_through_and_every_cell_is_in_the_files() {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]"#;
    let repository = Repository::of(&[Model::identity("m").batches(0).tensors(tensors)]);
    let (csv, summary) = (repository.file("m.csv"), repository.file("m.json"));
    let run = brief(&repository, "transports --async --rounds 3 --matrix-sizes 64,64KiB,1MiB -f").arg(&csv);
    let svg = |name: &str| repository.file(&format!("{name}.svg"));
    let pictures = ["sizes", "bandwidth", "rounds"];
    let run = pictures.iter().fold(run, |run, name| run.arg("--svg").arg(format!("{name}:{}", svg(name).display())));
    let finished = run.arg("--summary-file").arg(&summary).run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let note = |part: &str| finished.stderr.lines().find(|line| line.contains(part)).unwrap_or_default().to_owned();
    assert!(note("3 cells, each of 6 variants: at least 0:0").starts_with("triton-bench: "), "{}", finished.stderr);
    assert!(note("cell 1/3 (concurrency 2, inputs of 64 B) is done, ").ends_with(" left"), "{}", finished.stderr);
    for size in ["64 B", "64 KiB", "1 MiB"] {
        assert!(finished.stdout.contains(&format!("concurrency 2, inputs of {size}: 3 rounds")), "{}", finished.stdout);
    }
    for (name, words) in pictures.into_iter().zip(["latency of a request", "loopback", "ratio to C API"]) {
        let drawn = fs::read_to_string(svg(name)).unwrap();
        assert!(drawn.contains(words), "{name}: {drawn}");
    }
    // A command is copied, and has a line of its own.
    let talk = finished.stdout.lines().filter(|line| !line.trim_start().starts_with("triton-bench "));
    talk.for_each(|line| assert!(line.chars().count() <= 80, "{line}"));
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(&summary).unwrap()).unwrap();
    let variants = &result["variants"];
    let sizes: Vec<u64> =
        variants["cells"].as_array().unwrap().iter().map(|cell| cell["size"].as_u64().unwrap()).collect();
    assert_eq!((variants["matrix"].as_str(), sizes), (Some("transports"), vec![64, 64 << 10, 1 << 20]));
    let cell = &variants["cells"][2];
    assert_eq!((&cell["input_bytes"][5], &cell["output_bytes"][5]), (&1_048_576.0.into(), &1_048_576.0.into()));
    let value = |key: &str| cell["figures"][4][key].as_f64().unwrap_or_else(|| panic!("{key}: {cell}"));
    assert!((value("output_bandwidth") / (value("throughput") * 1_048_576.0) - 1.0).abs() < 1e-9, "{cell}");
    let keys: Vec<&str> =
        result["catalogue"].as_array().unwrap().iter().filter_map(|row| row["key"].as_str()).collect();
    assert!(keys.contains(&"input_bandwidth") && keys.contains(&"avg"), "{keys:?}");
    let bare = |key: &str| cell["bare"][key].as_f64().unwrap();
    assert!(bare("loopback_ns") > bare("memcpy_ns"), "{cell}");
    assert_eq!(variants["variants"].as_array().unwrap().len(), WAYS.len());
    let rows = fs::read_to_string(&csv).unwrap();
    assert_eq!(rows.lines().count(), 1 + 3 * WAYS.len(), "{rows}");
    assert!(rows.lines().nth(2).unwrap().starts_with("2,64,HTTP,,3,0,"), "{rows}");
    let fixed = Repository::of(&[Model::identity("m")]);
    let refused = brief(&fixed, "memory --matrix-sizes 64").run();
    refused.failure_after_notes(&["--matrix-sizes", "model 'm'", "-1"]);
}

#[test]
fn a_request_that_takes_longer_than_a_window_gets_longer_windows() {
    let repository = Repository::of(&[Model::sleeping("m", 900)]);
    let summary = repository.file("m.json");
    let run = Program::on(&repository, "m").args("-p 100 -r 2 --matrix memory --rounds 2 --summary-file").arg(&summary);
    let finished = run.run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let result: serde_json::Value = serde_json::from_str(&fs::read_to_string(&summary).unwrap()).unwrap();
    let times = result["variants"]["cells"][0]["window_times"].as_u64().unwrap();
    assert!((9..100).contains(&times), "{result}");
    let message = format!("  windows grew to {times} times the length asked for");
    assert!(finished.stdout.contains(&message), "{}", finished.stdout);
    assert!(
        (900_000.0..1_200_000.0)
            .contains(&result["variants"]["cells"][0]["figures"][1]["avg"].as_f64().map_or(0.0, |ns| ns / 1e3)),
        "{result}"
    );
}

#[test]
fn a_running_server_is_used_and_left_running() {
    let repository = repository();
    let Some(server) = TritonServer::start(&repository) else { return };
    let [http, grpc] = ["http", "grpc"].map(|protocol| server.url(protocol));
    let run = brief(&repository, "transports -u").arg(format!("{http},{grpc}")).run();
    assert_eq!(run.code(), 0, "{}", run.stderr);
    for way in WAYS {
        assert!(figure(&run.stdout, &format!("\n  {} ", shown(way))) > 100.0, "{way}: {}", run.stdout);
    }
    let running = served_by(&repository.path());
    assert_eq!(running.len(), 1, "a server of its own was started: {running:?}");
    server.program("http", "m").args("--request-count 1").run().report();
    // Half of the ways lead nowhere: they are named, the others are measured.
    let half = brief(&repository, "transports --server-wait 0 -u").arg(format!("{http},localhost:1")).run();
    assert!(figure(&half.stdout, "\n  HTTP ") > 100.0, "{}", half.stdout);
    assert!(half.stderr.contains("gRPC") && half.stderr.contains("Connection refused"), "{}", half.stderr);
}

#[test]
fn variants_may_differ_in_how_a_server_is_reached() {
    let repository = repository();
    let Some(server) = TritonServer::start(&repository) else { return };
    let run = server.program("http", "m").args("-p 100 --rounds 3 --concurrency-range 1 --restarts 2");
    let run = run.args("--on-disturbance ignore --triton-server-directory").arg(crate::support::triton());
    let grpc = format!("grpc:-i grpc -u {}", server.url("grpc"));
    let here = format!("here:--service-kind triton_c_api --model-repository '{}'", repository.path().display());
    let finished = run.args("--variant http: --variant").arg(grpc).arg("--variant").arg(here).run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    for name in ["grpc", "here"] {
        assert!(finished.stdout.contains(&format!("concurrency 1: {name} is ")), "{name}: {}", finished.stdout);
    }
}

/// A matrix that would take long, whose server program runs.
fn under_way(repository: &Repository) -> Running {
    let running = Program::on(repository, "m").args("-p 500 -r 100 --matrix transports").start();
    wait_until(Duration::from_secs(60), "no server program was started", || is_served(&repository.path()));
    running
}

#[test]
fn an_interrupt_stops_the_server() {
    let repository = repository();
    for times in [1, 2] {
        let running = under_way(&repository);
        for _ in 0..times {
            thread::sleep(Duration::from_millis(250));
            // The first interrupt may have been enough.
            running.try_signal(2);
        }
        running.finish();
        assert!(!is_served(&repository.path()), "{times} interrupts left a server program behind");
    }
}

#[test]
fn a_matrix_that_is_killed_takes_its_server_along() {
    let repository = repository();
    for (name, signal) in [("SIGKILL", 9), ("SIGTERM", 15), ("SIGHUP", 1)] {
        let running = under_way(&repository);
        running.signal(signal);
        running.finish();
        let left = format!("{name} left a server program behind");
        wait_until(Duration::from_secs(5), &left, || !is_served(&repository.path()));
    }
}

fn wait_until(limit: Duration, otherwise: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < limit, "{otherwise}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a server program runs on that repository.
fn is_served(repository: &Path) -> bool {
    !served_by(repository).is_empty()
}

/// The command lines of the server programs that run on that repository.
fn served_by(repository: &Path) -> Vec<String> {
    let wanted = repository.display().to_string();
    let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&words).replace('\0', " "))
    });
    lines
        .filter(|line| {
            line.split(' ').next().is_some_and(|word| word.ends_with("/tritonserver")) && line.contains(&wanted)
        })
        .collect()
}
