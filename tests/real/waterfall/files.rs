//! The files of traced requests, and the flags that request them.

use std::fs;

use serde_json::Value;

use super::json;
use crate::support::{Model, Program, Repository};

fn summary(arguments: &[&std::ffi::OsStr]) -> String {
    let program =
        arguments.iter().fold(Program::new().args("trace-summary"), |program, argument| program.arg(*argument));
    let finished = program.run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished.stdout
}

#[test]
fn timed_the_file_of_traces_is_read_by_trace_summary() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let file = repository.file("own.json");
    let arguments = "--trace-level TIMESTAMPS --trace-rate 4 --request-count 40 --max-errors 1";
    Program::on(&repository, "m").args(arguments).arg("--trace-file").arg(&file).run().report();
    let text = summary(&[file.as_os_str()]);
    assert!(text.contains("Summary for m (1): trace count = 10\n"), "{text}");
    let infer = text.lines().find_map(|line| line.trim().strip_prefix("Infer (avg): ")).unwrap();
    let infer: u64 = infer.strip_suffix("us").unwrap().parse().unwrap();
    assert!((2_000..4_000).contains(&infer), "{text}");
}

#[test]
fn the_file_of_traces_has_a_name_of_its_own_and_no_more_than_were_asked_for() {
    let repository = Repository::of(&[Model::identity("m")]);
    let folder = repository.file("folder");
    fs::create_dir(&folder).unwrap();
    let arguments = "--trace-level TIMESTAMPS --trace-rate 1 --trace-count 7 --request-count 40";
    let program = Program::on(&repository, "m").args(arguments).under(&format!("cd '{}'", folder.display()));
    program.run().report();
    let ids: std::collections::BTreeSet<u64> = json(&folder.join("trace.json"))
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), 7);
}

#[test]
fn the_export_has_the_stages_within_their_requests() {
    let repository = Repository::of(&[]);
    let model = repository.journaling(Model::sleeping("m", 2));
    repository.add(&model);
    let file = repository.file("chrome.json");
    let arguments = "--trace-rate 1 --request-count 20 --concurrency-range 2 --async --max-errors 1";
    Program::on(&repository, "m").args(arguments).arg("--trace-export").arg(&file).run().report();
    let export = json(&file);
    let events = export["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
    let span = |event: &Value| {
        let start = event["ts"].as_f64().unwrap();
        (start, start + event["dur"].as_f64().unwrap())
    };
    let (requests, models) = (named("request"), named("m"));
    assert_eq!((requests.len(), models.len(), named("compute").len()), (20, 20, 20));
    for (request, model) in requests.iter().zip(&models) {
        assert_eq!(request["args"]["request"], model["args"]["request"]);
        // Triton's moments are on our clock: it begins after we sent, and before we have the answer.
        let ((sent, answered), (begun, _)) = (span(request), span(model));
        assert!(sent <= begun && begun < answered, "{request} {model}");
    }
    // So does the model's own journal, which reads CLOCK_MONOTONIC.
    let executed: Vec<f64> =
        repository.journal("m").iter().map(|entry| entry["ns"].as_f64().unwrap() / 1_000.0).collect();
    for compute in named("compute") {
        let (start, end) = span(compute);
        assert!(executed.iter().any(|at| (start - 1.0..end).contains(at)), "{compute}: {executed:?}");
    }
}

#[test]
fn timed_csv_files_have_columns_for_stages() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let file = repository.file("result.csv");
    let arguments = "--breakdown --trace-rate 1 --request-count 20 --max-errors 1";
    Program::on(&repository, "m").args(arguments).arg("-f").arg(&file).run().report();
    let text = fs::read_to_string(&file).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (header, row) = (rows.next().unwrap(), rows.next().unwrap());
    let cell = |name: &str| -> f64 {
        let column = header.iter().position(|head| *head == name).unwrap_or_else(|| panic!("{name}: {text}"));
        row[column].parse().unwrap()
    };
    for name in ["mean", "p50", "p90", "p95", "p99"] {
        assert!(cell(&format!("compute {name}")) >= 2_000.0, "{text}");
    }
    assert!(cell("server CPU per inference") > 0.0 && cell("wake-ups per inference") > 0.5, "{text}");
    assert!(cell("compute share") > 0.3 && cell("unexplained share") < 0.1, "{text}");
}

#[test]
fn flags_of_traces_are_refused_where_they_mean_nothing() {
    let network = |arguments: &str| Program::new().args("-m m").args(arguments).run();
    network("--trace-export x.json").refusal(&["--trace-export x.json", "triton_c_api", "--trace-level TIMESTAMPS"]);
    network("--trace-export x.json --trace-level TENSORS")
        .refusal(&["--trace-export x.json", "--trace-level TIMESTAMPS"]);
    network("--service-kind tfserving --trace-export x.json").refusal(&["--trace-export x.json", "triton_c_api"]);
    network("--trace-file x.json").refusal(&["--trace-file", "--trace-config=triton,file=FILE"]);
    let repository = Repository::of(&[Model::identity("m")]);
    let here = |arguments: &str| Program::on(&repository, "m").args(arguments).run();
    here("--trace-level TENSORS").refusal(&["--trace-level TENSORS", "TIMESTAMPS"]);
    here("--trace-rate 0").refusal(&["--trace-rate", "0"]);
    here("--trace-export /none/such.json").refusal(&["--trace-export /none/such.json", "cannot be written"]);
    here("--trace-export a.json --trace-file a.json").refusal(&["--trace-file a.json", "--trace-export"]);
    let finished = here("--request-count 5 --trace-rate 3");
    assert!(finished.stderr.contains("--trace-rate"), "it is said to have no effect: {}", finished.stderr);
}
