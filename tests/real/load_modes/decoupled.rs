//! Decoupled models: any number of responses, and the times between them.

use super::assert_near;
use crate::support::report::number_in;
use crate::support::{Export, Model, Program, Report, Repository};

fn run(model: &Model, arguments: &str) -> Report {
    let repository = Repository::of(std::slice::from_ref(model));
    Program::on(&repository, "m").args(arguments).run().report()
}

/// Figures of a line such as `Time between responses: avg 10 usec, p50 9, …`.
fn figure(report: &Report, line: &str, name: &str) -> f64 {
    let text = report.level().client().lines().find(|text| text.trim_start().starts_with(line)).unwrap_or_else(|| {
        panic!("no line '{line}': {}", report.text);
    });
    let (_, tail) = text.split_once(&format!("{name} ")).unwrap_or_else(|| panic!("no {name} in {text}"));
    tail.split([' ', ',']).next().unwrap().parse().unwrap()
}

/// Four responses, the first at once, then one each 10 ms.
fn slow() -> Model {
    Model::decoupled("m", 4).parameter("gap_us", "10000")
}

#[test]
fn timed_the_latency_runs_to_the_first_or_the_last_response() {
    for (which, low, high) in [("first", 0.0, 8_000.0), ("last", 29_000.0, 45_000.0)] {
        let report = run(&slow(), &format!("--async --request-count 20 --decoupled-latency {which}"));
        let latency = report.level().client_number("p50 latency");
        assert!((low..high).contains(&latency), "{which}: {latency}");
        assert!(report.text.contains(&format!("using the {which} response for measuring latency")), "{}", report.text);
    }
}

#[test]
fn requests_without_a_response_are_counted() {
    let report = run(&Model::decoupled("m", 0), "--async --request-count 20 --concurrency-range 2");
    let level = report.level();
    assert_eq!(level.client_number("Request count"), 20.0, "{}", report.text);
    assert_eq!(level.client_number("Response Throughput"), 0.0);
    assert!(level.client().contains("Time between responses: none"), "{}", report.text);
}

#[test]
fn many_responses_are_all_seen() {
    for last in ["flag", "null"] {
        let repository = Repository::counted(Model::decoupled("m", 500).parameter("final", last));
        let path = repository.file("export.json");
        let finished = Program::on(&repository, "m")
            .args("--async --concurrency-range 3 --request-count 12 --profile-export-file")
            .arg(&path)
            .run();
        finished.report();
        assert_eq!(repository.counters("m").get("responses"), 12 * 500);
        let export = Export::read(&path);
        let requests = export.experiments()[0]["requests"].as_array().unwrap();
        let wanted = if last == "null" { 501 } else { 500 };
        let counts: Vec<_> =
            requests.iter().map(|request| request["response_timestamps"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [wanted; 12]);
    }
}

#[test]
fn timed_an_open_loop_measures_decoupled_models_too() {
    let repository = Repository::of(&[slow().parameter("repeat_mode", "thread")]);
    let finished = Program::on(&repository, "m").args("--request-rate-range 50 --request-count 50").run();
    assert!([0, 4].contains(&finished.code()), "{}", finished.stderr);
    let report = finished.report_with(finished.code());
    assert_near("gap", figure(&report, "Time between responses", "p50"), 10_000.0, 3_000.0);
    assert_eq!(report.text.matches("(the latency above)").count(), 1, "{}", report.text);
}

#[test]
fn a_periodic_load_that_fails_says_so() {
    let repository = Repository::of(&[Model::decoupled("m", 3).parameter("fail_every", "1")]);
    let finished = Program::on(&repository, "m").args("--periodic-concurrency-range 1:4 --request-period 2").run();
    assert_eq!(finished.code(), 3, "{}\n{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("Requests: 4 sent, 0 completed, 4 failed\n"), "{}", finished.stdout);
    assert!(finished.stdout.contains("Verdict: invalid: 4 of 4 requests failed\n"), "{}", finished.stdout);
    assert!(finished.stderr.contains("1 request failed: Internal"), "{}", finished.stderr);
}

#[test]
fn timed_a_periodic_load_grows_with_the_responses() {
    let model = Model::decoupled("m", 8).parameter("gap_us", "5000").parameter("repeat_mode", "thread");
    let repository = Repository::counted(model);
    let (path, csv) = (repository.file("export.json"), repository.file("batches.csv"));
    let finished = Program::on(&repository, "m")
        .args("--periodic-concurrency-range 2:6:2 --request-period 4 -f")
        .arg(&csv)
        .args("--profile-export-file")
        .arg(&path)
        .run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let rows = finished.stdout.lines().skip_while(|line| !line.starts_with("Periodic concurrency")).skip(2);
    let rows: Vec<Vec<f64>> =
        rows.map_while(|line| line.split_whitespace().map(|cell| cell.parse().ok()).collect()).collect();
    assert_eq!(
        rows.iter().map(|row| row[..3].to_vec()).collect::<Vec<_>>(),
        [[2.0, 2.0, 16.0], [4.0, 2.0, 16.0], [6.0, 2.0, 16.0]]
    );
    assert!(rows.iter().all(|row| (4_000.0..12_000.0).contains(&row[5])), "mean gaps: {rows:?}");
    assert!(
        finished.stdout.contains("Requests: 6 sent, 6 completed, 0 failed\nVerdict: valid\n"),
        "{}",
        finished.stdout
    );
    let answer = finished.stdout.split_once("Verdict: valid\n").unwrap().1;
    assert!(answer.trim().starts_with("From 2 to 6 outstanding: first response p99 "), "{answer}");
    // Percentiles of the gaps beside their mean.
    assert!(rows.iter().all(|row| row[5] > 0.0 && row[6] <= row[7] && row[7] <= row[8]), "gaps: {rows:?}");
    let written = std::fs::read_to_string(&csv).unwrap();
    let cells = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>();
    assert!(written.starts_with("Concurrency,Requests,Responses,Avg time to first response,"), "{written}");
    assert_eq!(written.lines().skip(1).map(cells).collect::<Vec<_>>(), rows);
    let export = Export::read(&path);
    let experiment = &export.experiments()[0];
    assert_eq!(experiment["window_boundaries"], serde_json::json!([0, u64::MAX]));
    assert_eq!((&experiment["summary"]["requests"], &experiment["summary"]["failed"]), (&6.into(), &0.into()));
    let stages = experiment["summary"]["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 3);
    for (stage, row) in stages.iter().zip(&rows) {
        let gaps = &stage["time_between_responses_ns"];
        assert_eq!((&stage["responses"], &gaps["count"]), (&16.into(), &14.into()));
        assert_near("p99 of the gaps", gaps["p99"].as_f64().unwrap() / 1e3, row[7], 1.0);
    }
    let mut sent: Vec<u64> = export.experiments()[0]["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["timestamp"].as_u64().unwrap() / 1_000_000)
        .collect();
    sent.sort_unstable();
    // Each batch follows the fourth response of the one before it, 15 ms after its first.
    assert!(sent[2] - sent[0] >= 14 && sent[4] - sent[2] >= 14, "{sent:?}");
    assert_eq!(number_in(&finished.stdout, "Requests"), 6.0);
}

/// Each has the machine to itself.
mod measured {
    use super::*;

    #[test]
    fn times_to_between_and_of_the_last_response() {
        let models = ["repeat_mode=inline", "repeat_mode=thread", "final=null", "release=before"];
        for (more, calls) in models.map(|more| (more, "--async")).into_iter().chain([("final=null", "--sync")]) {
            let (key, value) = more.split_once('=').unwrap();
            let report = run(&slow().parameter(key, value), &format!("{calls} --request-count 20"));
            assert_near(&format!("{more}: gap"), figure(&report, "Time between responses", "p50"), 10_000.0, 2_000.0);
            assert_near(&format!("{more}: last"), figure(&report, "Time to last response", "p50"), 30_000.0, 5_000.0);
            let first = figure(&report, "Time to first response", "p50");
            assert!(first < 5_000.0, "{more}: first response after {first} us");
            assert!(figure(&report, "Time between responses", "p99") >= 9_000.0);
            let level = report.level();
            let (responses, requests) = (level.client_number("Response Throughput"), level.client_number("Throughput"));
            assert_near(&format!("{more}: responses a request"), responses / requests, 4.0, 0.01);
        }
    }

    #[test]
    fn models_that_generate_have_the_figures_of_language_models() {
        for calls in ["--async", "--sync"] {
            let report = run(&slow(), &format!("{calls} --request-count 20 --tokens-from OUTPUT0 --goodput ttft<5s"));
            assert!(report.text.contains("tokens/sec (") && report.text.contains("    Goodput: "), "{}", report.text);
            assert_near("inter chunk", figure(&report, "Inter chunk latency", "p50"), 10_000.0, 2_000.0);
            assert_near("inter token", figure(&report, "Time to second token", "p50"), 10_000.0, 4_000.0);
            assert!(figure(&report, "Time to first token", "p50") < 5_000.0, "{}", report.text);
        }
        let repository = Repository::of(std::slice::from_ref(&slow()));
        let words = ["--tokens-from X", "no such output", "OUTPUT0"];
        Program::on(&repository, "m").args("--tokens-from X").run().failure(&words);
    }
}
