//! Measurements of models with known behaviour. Each test has the machine to itself.

use std::time::Duration;

use serde_json::Value;

use crate::support::exported::{counts, peak};
use crate::support::{Export, Model, Program, Report, Repository};

/// What a busy machine may add to a delay's median, in microseconds.
const NOISE_US: f64 = 3000.0;

/// Runs a model on its own, and returns the report.
fn measure(model: Model, arguments: &str) -> Report {
    let repository = Repository::of(&[model]);
    Program::on(&repository, "m").args(arguments).run().report()
}

fn assert_between(label: &str, value: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&value), "{label}: {value} is not between {low} and {high}");
}

fn median_of_a_delay(milliseconds: u64, mode: &str) {
    let report = measure(Model::sleeping("m", milliseconds), &format!("-p 300 -s 1000000 {mode}"));
    let (median, delay) = (report.level().client_number("p50 latency"), milliseconds as f64 * 1000.0);
    assert_between("p50", median, delay, delay * 1.01 + NOISE_US);
    let server_latency = report.level().server_number("Avg request latency");
    assert_between("the server's latency", server_latency, delay, delay * 1.01 + 2.0 * NOISE_US);
}

#[test]
fn the_median_of_5_ms_is_5_ms() {
    median_of_a_delay(5, "--sync");
}

#[test]
fn the_median_of_20_ms_is_20_ms() {
    median_of_a_delay(20, "--async");
}

#[test]
fn the_median_of_50_ms_is_50_ms() {
    median_of_a_delay(50, "--sync --wait hybrid");
}

/// Throughput of concurrency `c` on `k` instances of 20 ms is min(c, k) / 20 ms.
fn throughput(instances: u32, arguments: &str) {
    let model = Model::sleeping("m", 20).instances(instances);
    let report = measure(model, &format!("--concurrency-range 1:4 -p 300 -s 1000000 {arguments}"));
    assert_eq!(report.values(), [1.0, 2.0, 3.0, 4.0]);
    for level in &report.levels {
        let capacity = level.value.min(f64::from(instances)) / 0.020;
        // A window of 300 ms holds 15 executions of an instance; one more or less of each is a matter of its edges.
        let measured = level.client_number("Throughput");
        assert_between(&format!("throughput at {}", level.value), measured, capacity * 0.7, capacity * 1.1);
        let latency = 20_000.0 * (level.value / f64::from(instances)).max(1.0);
        let name = format!("average latency at {}", level.value);
        assert_between(&name, level.client_number("Avg latency"), latency * 0.95, latency * 1.4);
    }
}

#[test]
fn throughput_ends_at_the_instances_of_a_model_sync() {
    throughput(2, "--sync");
}

#[test]
fn throughput_ends_at_the_instances_of_a_model_async() {
    throughput(2, "--async");
}

#[test]
fn a_dynamic_batcher_lifts_throughput_by_the_batch() {
    // Where the batcher does not wait for all four, two and two may take turns for ever.
    let batching = "dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 100000 }";
    let model = Model::sleeping("m", 20).with(batching);
    let report = measure(model, "--concurrency-range 4 -p 300 -s 1000000 --async");
    let level = report.level();
    assert_between("throughput", level.client_number("Throughput"), 4.0 / 0.020 * 0.7, 4.0 / 0.020 * 1.1);
    let (inferences, executions) = (level.server_number("Inference count"), level.server_number("Execution count"));
    assert_between("inferences per execution", inferences / executions, 2.5, 4.0);
}

#[test]
fn an_inference_is_a_batch_element() {
    let report = measure(Model::sleeping("m", 20), "-b 4 -p 300 -s 1000000");
    let level = report.level();
    assert_between("throughput", level.client_number("Throughput"), 4.0 / 0.020 * 0.7, 4.0 / 0.020 * 1.05);
    let (requests, inferences) = (level.client_number("Request count"), level.server_number("Inference count"));
    assert_between("inferences", inferences, 4.0 * (requests - 2.0), 4.0 * (requests + 2.0));
}

#[test]
fn percentiles_tell_the_tail_from_the_middle() {
    let model = Model::identity("m").parameter("delay_us", "5000").parameter("stall_after_requests", "20");
    let repository = Repository::of(&[model.parameter("stall_us", "200000")]);
    // 60 requests are fewer than a p99 needs to be known.
    let report = Program::on(&repository, "m").args("--request-count 60 --percentile 99").run().report_with(4);
    let level = report.level();
    assert_between("p50", level.client_number("p50 latency"), 5000.0, 5000.0 + NOISE_US);
    assert_between("p99", level.client_number("p99 latency"), 195_000.0, 260_000.0);
    assert!(report.summary()[0].contains("latency"), "{}", report.text);
}

/// When the server executed requests that take `delay`, from its journal.
fn executions(repository: &Repository, delay: Duration) -> Vec<(u64, u64)> {
    let start = |entry: &Value| entry["ns"].as_u64().unwrap();
    repository.journal("m").iter().map(|entry| (start(entry), start(entry) + delay.as_nanos() as u64)).collect()
}

/// The server must see each level's concurrency, reached from nothing: the level before it was drained.
fn levels_seen_by_the_server(arguments: &str) {
    let repository = Repository::of(&[]);
    let model = repository.counting(repository.journaling(Model::sleeping("m", 20).instances(8)));
    repository.add(&model);
    let report = Program::on(&repository, "m")
        .args("--concurrency-range 2:6:2 -p 200 -s 1000000")
        .args(arguments)
        .run()
        .report();
    assert_eq!(report.values(), [2.0, 4.0, 6.0]);
    assert_eq!(repository.counters("m").get("max_simultaneous_requests"), 6);
    // Shortened, so that a worker's next request does not overlap its last one.
    let open = counts(&executions(&repository, Duration::from_millis(18)));
    assert_eq!(open.iter().max(), Some(&6));
    for level in [2, 4] {
        let passed = open.iter().position(|&count| count > level).expect("a higher level follows");
        let climb = open[..passed].iter().rposition(|&count| count == 0).expect("the level before was drained");
        let rises = open[climb..=passed].windows(2).all(|pair| pair[1] == pair[0] + 1);
        assert!(rises, "level {level} was left without a drain: {:?}", &open[climb..=passed]);
        assert!(open[..passed].contains(&level), "level {level} was never reached");
    }
}

#[test]
fn the_server_sees_each_level_sync() {
    levels_seen_by_the_server("--sync");
}

#[test]
fn the_server_sees_each_level_async_from_fewer_threads() {
    levels_seen_by_the_server("--async --max-threads 1");
}

#[test]
fn the_server_sees_each_level_async_from_uneven_threads() {
    levels_seen_by_the_server("--async --max-threads 4");
}

/// A search that goes up and down keeps exactly its level outstanding.
fn binary_search(arguments: &str) {
    let repository = Repository::of(&[Model::sleeping("m", 40).instances(3)]);
    let path = repository.file("export.json");
    let program = Program::on(&repository, "m")
        .args("--binary-search --concurrency-range 1:9:1 -l 60 -p 300 -s 1000000 --profile-export-file")
        .arg(&path);
    let report = program.args(arguments).run().report();
    // Latency is 40 ms up to the instances' number, and 4/3 of that just above: still within the limit; 5/3 is not.
    assert_eq!(report.values(), [1.0, 9.0, 5.0, 3.0, 4.0], "{}", report.text);
    assert!(report.text.contains("\nHighest level within 60 msec: concurrency 4\n"), "{}", report.text);
    let export = Export::read(&path);
    for (level, experiment) in [1, 9, 5, 3, 4].into_iter().zip(export.experiments()) {
        assert_eq!(experiment["experiment"]["value"].as_f64(), Some(level as f64));
        assert_eq!(peak(&Export::spans(experiment)), level, "requests outstanding at level {level}");
    }
}

#[test]
fn a_binary_search_finds_the_limit_sync() {
    binary_search("--sync");
}

#[test]
fn a_binary_search_finds_the_limit_async() {
    binary_search("--async --max-threads 2");
}

/// They take the processors themselves.
mod alone {
    use super::*;

    #[test]
    fn three_windows_take_the_time_of_three_windows() {
        let repository = Repository::of(&[Model::identity("m")]);
        let short = Program::on(&repository, "m").args("-p 100 -s 1000000 --async").run();
        let long = Program::on(&repository, "m").args("-p 600 -s 1000000 --async").run();
        short.report();
        long.report();
        let extra = long.wall.saturating_sub(short.wall);
        assert_between("1.5 s more of windows, in ms", extra.as_secs_f64() * 1000.0, 1350.0, 1900.0);
    }

    #[test]
    fn the_process_ends_soon_after_its_last_word() {
        for arguments in ["--sync --concurrency-range 4", "--async --concurrency-range 16"] {
            let repository = Repository::of(&[Model::identity("m").instances(2)]);
            let silences: Vec<_> = (0..3)
                .map(|_| {
                    let finished = Program::on(&repository, "m").quick().args(arguments).run();
                    finished.report();
                    finished.silent
                })
                .collect();
            let shortest = silences.iter().min().unwrap();
            assert!(*shortest < Duration::from_millis(100), "{arguments}: ended {silences:?} after the report");
        }
    }

    /// Resident memory of a process in KiB.
    fn resident_kib(process: u32) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the program runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is resident");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Inputs of 1 MiB at full rate: memory stays what it was after the first window.
    fn soak(windows: u32, length: Duration) {
        let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [262144] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [262144] }]"#;
        let repository = Repository::of(&[Model::identity("m").tensors(tensors)]);
        let running = Program::on(&repository, "m")
            .args("--async --concurrency-range 16 -s 0 -v -r")
            .arg((4 * windows).to_string())
            .arg("-p")
            .arg(length.as_millis().to_string())
            .start();
        running.wait_for("Pass [1]");
        let before = resident_kib(running.id());
        running.wait_for(&format!("Pass [{}]", windows - 1));
        let after = resident_kib(running.id());
        running.signal(2);
        running.finish().report();
        assert!(after < before + (64 << 10), "resident memory went from {before} to {after} KiB");
    }

    #[test]
    fn memory_does_not_grow_in_seconds() {
        soak(8, Duration::from_millis(300));
    }

    #[test]
    #[ignore = "takes a minute"]
    fn memory_does_not_grow_in_a_minute() {
        soak(14, Duration::from_secs(5));
    }

    #[test]
    fn a_synchronous_latency_ends_with_the_response_and_the_wake_up_is_told_apart() {
        let repository = Repository::of(&[Model::sleeping("m", 4)]);
        let export = repository.file("e.json");
        let run = |flags: &str| {
            let program = Program::on(&repository, "m").args("--request-count 100 --sync").args(flags);
            let _ = std::fs::remove_file(&export);
            program.arg("--profile-export-file").arg(&export).run().report()
        };
        let row = |report: &Report| {
            let line =
                report.level().text.lines().find_map(|line| line.trim().strip_prefix("Wake-up time: avg ")).unwrap();
            line.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        for wait in ["park", "spin"] {
            let report = run(&format!("--wait {wait}"));
            let figures = Export::read(&export).experiments()[0].clone();
            let mean = figures["summary"]["latency_ns"]["avg"].as_f64().unwrap() / 1e3;
            let requests = figures["requests"].as_array().unwrap();
            let stamp = |value: &Value| value.as_u64().unwrap();
            let latency = |request: &Value| stamp(&request["response_timestamps"][0]) - stamp(&request["timestamp"]);
            let exported = requests.iter().map(latency).sum::<u64>() as f64 / requests.len() as f64 / 1e3;
            assert_between("mean of the records", exported, mean - 1.0, mean + 1.0);
            assert!(row(&report) < mean && row(&report) >= 0.0, "{}", report.text);
        }
        let until_wakeup = run("--latency-to wakeup");
        let figures = Export::read(&export).experiments()[0]["summary"].clone();
        let [mean, wakeup] = ["latency_ns", "wakeup_ns"].map(|name| figures[name]["avg"].as_f64().unwrap() / 1e3);
        let server = until_wakeup.level().server_number("Avg request latency");
        assert!(mean > server + 0.9 * wakeup, "{mean} {server} {wakeup}");
    }
}
