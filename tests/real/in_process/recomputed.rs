//! Every figure of a report, recomputed from the raw records of its own export.

use serde_json::Value;

use crate::support::{Export, Model, Program, Repository};

/// A request of the export, in nanoseconds: when its latency began, and when its last response came.
fn requests(experiment: &Value) -> Vec<(u64, u64)> {
    let all = experiment["requests"].as_array().expect("there are requests");
    let stamp = |value: &Value| value.as_u64().expect("a stamp is a whole number");
    let interval = |request: &Value| {
        let intended = request.get("intended_timestamp").unwrap_or(&request["timestamp"]);
        let responses = request["response_timestamps"].as_array().expect("there are responses");
        (stamp(intended), stamp(responses.last().expect("there is a response")))
    };
    all.iter().map(interval).collect()
}

/// `shown` is `exact` as a histogram of three significant digits has it, in nanoseconds.
fn assert_same(label: &str, shown: u64, exact: u64) {
    let resolution = exact / 1000 + 1;
    assert!(shown.abs_diff(exact) <= resolution, "{label}: the report has {shown} ns, its records {exact} ns");
}

fn recompute(arguments: &str) {
    let repository =
        Repository::of(&[Model::identity("m").parameter("delay_us", "2000").parameter("jitter_us", "3000")]);
    let path = repository.file("export.json");
    let run = Program::on(&repository, "m").args(arguments).args(&format!("--profile-export-file {}", path.display()));
    let finished = run.run();
    let report = finished.report_with(finished.code());
    let export = Export::read(&path);
    let experiment = &export.experiments()[0];
    let boundaries: Vec<u64> =
        experiment["window_boundaries"].as_array().unwrap().iter().map(|stamp| stamp.as_u64().unwrap()).collect();
    let (from, to) = (boundaries[0], *boundaries.last().unwrap());
    // A load that ends by itself is over with its last answer.
    let finite = arguments.contains("--request-count");
    let inside = |(_, end): &&(u64, u64)| *end >= from && (*end < to || finite);
    let mut latencies: Vec<u64> =
        requests(experiment).iter().filter(inside).map(|(begin, end)| end.saturating_sub(*begin)).collect();
    latencies.sort_unstable();

    let summary = &experiment["summary"];
    let count = latencies.len() as u64;
    assert!(count > 50, "{count} requests");
    assert_eq!(summary["requests"].as_u64(), Some(count), "{arguments}");
    assert_eq!(summary["duration_ns"].as_u64(), Some(to - from));
    let throughput = count as f64 * 1e9 / (to - from) as f64;
    assert!((summary["throughput"].as_f64().unwrap() / throughput - 1.0).abs() < 1e-9, "{throughput}: {summary}");
    let shown = |name: &str| summary["latency_ns"][name].as_u64().unwrap();
    let mean = u64::try_from(latencies.iter().map(|ns| u128::from(*ns)).sum::<u128>() / u128::from(count)).unwrap();
    assert_eq!((shown("count"), shown("avg")), (count, mean), "{arguments}");
    let at = |percentile: f64| latencies[((count as f64 * percentile / 100.0).ceil() as usize).max(1) - 1];
    for (name, percentile) in [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)] {
        assert_same(&format!("{arguments}: {name}"), shown(name), at(percentile));
    }
    assert_same("max", shown("max"), *latencies.last().unwrap());

    // The console has the same, in whole microseconds and six digits. Both are cut, so they may be a microsecond further apart.
    let level = report.level();
    assert_eq!(level.client_number("Request count"), count as f64);
    assert!((level.client_number("Throughput") / throughput - 1.0).abs() < 1e-5);
    assert_eq!(level.client_number("Avg latency"), (mean / 1000) as f64);
    for (line, percentile) in
        [("p50 latency", 50.0), ("p90 latency", 90.0), ("p95 latency", 95.0), ("p99 latency", 99.0)]
    {
        let (shown, exact) = (level.client_number(line) as u64 * 1000, at(percentile));
        assert!(
            shown.abs_diff(exact) <= exact / 1000 + 1000,
            "{line}: the console has {shown} ns, its records {exact} ns"
        );
    }
}

#[test]
fn timed_an_asynchronous_closed_loop_is_what_its_records_say() {
    recompute("--concurrency-range 3 --async -p 300 -s 1000000 -r 3");
}

#[test]
fn timed_a_closed_loop_of_a_number_of_requests_is_what_its_records_say() {
    recompute("--concurrency-range 2 --async --request-count 300");
}

#[test]
fn timed_an_open_loop_is_what_its_records_say() {
    recompute("--request-rate-range 150 --request-distribution poisson --async -p 400 -s 1000000 -r 3");
}

#[test]
fn timed_a_rate_of_a_number_of_requests_is_what_its_records_say() {
    recompute("--request-rate-range 150 --async --request-count 200");
}

#[test]
fn timed_a_synchronous_closed_loop_is_what_its_records_say() {
    recompute("--concurrency-range 3 --sync -p 300 -s 1000000 -r 3");
}

#[test]
fn a_synchronous_counted_load_is_what_its_records_say() {
    recompute("--concurrency-range 2 --sync --request-count 300");
}

#[test]
fn a_synchronous_open_loop_is_what_its_records_say() {
    recompute("--request-rate-range 300 --sync --request-count 400");
}
