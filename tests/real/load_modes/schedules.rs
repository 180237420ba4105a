//! Loads timed by a file: intervals, fixed schedules, traces.

use serde_json::Value;

use super::{assert_near, column, offsets_ms};
use crate::support::{Finished, Model, Program, Repository};

/// How late a request may reach the server on a busy machine, in milliseconds.
const LATE_MS: f64 = 40.0;

fn journaled(model: Model) -> Repository {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(model));
    repository
}

fn run(repository: &Repository, flag: &str, file: (&str, &str), arguments: &str) -> Finished {
    let path = repository.file(file.0);
    std::fs::write(&path, file.1).unwrap();
    let finished = Program::on(repository, "m").args(flag).arg(&path).args(arguments).run();
    assert!([0, 4].contains(&finished.code()), "{}\n{}", finished.stdout, finished.stderr);
    finished
}

fn assert_offsets(repository: &Repository, wanted: &[f64]) {
    let offsets = offsets_ms(repository, "m");
    assert_eq!(offsets.len(), wanted.len(), "{offsets:?}");
    for (number, (offset, wanted)) in offsets.iter().zip(wanted).enumerate() {
        assert_near(&format!("request {number}"), *offset, *wanted, LATE_MS);
    }
}

#[test]
fn timed_intervals_are_kept_and_looped() {
    let repository = journaled(Model::identity("m"));
    run(&repository, "--request-intervals", ("gaps.txt", "100000\n200000\n50000\n"), "--request-count 5");
    assert_offsets(&repository, &[0.0, 200.0, 250.0, 350.0, 550.0]);
}

#[test]
fn timed_a_fixed_schedule_is_played_once_and_its_times_are_not_sent() {
    let repository = journaled(Model::identity("m").batches(0));
    let step = |ms: u32, value: f64| format!(r#"{{"timestamp": [{ms}], "INPUT0": {:?}}}"#, [value; 16]);
    let data = format!(r#"{{"data": [{}, {}, {}]}}"#, step(0, 1.0), step(150, 2.0), step(400, 3.0));
    run(&repository, "--fixed-schedule --input-data", ("data.json", &data), "");
    assert_offsets(&repository, &[0.0, 150.0, 400.0]);
    let sums = column(&repository, "m", "checksum", |value| value.as_str().map(str::to_owned));
    assert!(sums[0] != sums[1] && sums[1] != sums[2], "{sums:?}");
    assert_eq!(column(&repository, "m", "bytes", Value::as_u64), [64, 64, 64]);
}

/// What reached the model of six rows whose data differ: payload sums and offsets in milliseconds, in order.
fn rows_played(arguments: &str) -> (Vec<String>, Vec<f64>) {
    let repository = journaled(Model::identity("m").batches(0));
    let step = |row: u32| format!(r#"{{"timestamp": [{}], "INPUT0": {:?}}}"#, row * 100, [f64::from(row); 16]);
    let data = format!(r#"{{"data": [{}]}}"#, (0..6).map(step).collect::<Vec<_>>().join(","));
    run(&repository, "--fixed-schedule --input-data", ("data.json", &data), arguments);
    let sums = column(&repository, "m", "checksum", |value| value.as_str().map(str::to_owned));
    (sums, offsets_ms(&repository, "m"))
}

#[test]
fn timed_a_warm_up_plays_the_first_rows_of_a_schedule_and_the_rest_is_measured() {
    let (plain, _) = rows_played("");
    let (warm, offsets) = rows_played("--warmup-request-count 2");
    assert_eq!(warm, plain, "every row has its own data, in the warm-up and after it");
    // The measured part begins anew, and its first row is due after 200 ms.
    assert!(offsets[2] - offsets[1] > 190.0, "{offsets:?}");
    for row in 3..6 {
        assert_near(&format!("row {row}"), offsets[row] - offsets[2], 100.0 * (row - 2) as f64, LATE_MS);
    }
}

#[test]
fn a_warm_up_plays_the_first_rows_of_a_trace() {
    let repository = journaled(Model::identity("m"));
    let export = repository.file("export.json");
    let arguments = format!("--trace-parameter n --warmup-request-count 1 --profile-export-file {}", export.display());
    run(&repository, "--trace-replay", ("azure.csv", AZURE), &arguments);
    assert_eq!(column(&repository, "m", "parameters", |value| value["n"].as_i64()), [10, 8, 27]);
    let export = crate::support::Export::read(&export);
    assert_eq!(export.experiments()[0]["requests"].as_array().unwrap().len(), 2);
}

#[test]
fn timed_a_schedule_of_a_sequence_sends_every_step_at_its_time() {
    let repository = journaled(Model::accumulator("m"));
    let step = |row: u32| format!(r#"{{"timestamp": [{}], "INPUT0": [{row}]}}"#, row * 50);
    let data = format!(r#"{{"data": [{}]}}"#, (0..4).map(step).collect::<Vec<_>>().join(","));
    run(&repository, "--fixed-schedule --input-data", ("data.json", &data), "");
    assert_offsets(&repository, &[0.0, 50.0, 100.0, 150.0]);
    let flags = |key| column(&repository, "m", key, Value::as_bool);
    assert_eq!((flags("start"), flags("end")), (vec![true, false, false, false], vec![false, false, false, true]));
    assert_eq!(column(&repository, "m", "checksum", |value| value.as_str().map(str::to_owned)).len(), 4);
}

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2023-11-16 18:17:03.9799600,5,10\n2023-11-16 18:17:04.1799600,300,8\n\
                     2023-11-16 18:17:04.5799600,5,27\n";

#[test]
fn timed_a_trace_is_replayed_at_its_speed() {
    let repository = journaled(Model::identity("m"));
    run(&repository, "--trace-replay", ("azure.csv", AZURE), "--trace-speed 2");
    assert_offsets(&repository, &[0.0, 100.0, 300.0]);
    let repository = journaled(Model::identity("m"));
    run(&repository, "--trace-replay", ("plain.csv", "offset_ms\n10\n110.5\n160\n"), "");
    assert_offsets(&repository, &[0.0, 100.5, 150.0]);
}

#[test]
fn token_counts_of_a_trace_decide_lengths_and_a_parameter() {
    let tensors = r#"
input [{ name: "IDS" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [-1] }]"#;
    for (batches, batch) in [(0, 1), (4, 3)] {
        let repository = journaled(Model::identity("m").batches(batches).tensors(tensors));
        let arguments = format!("-b {batch} --trace-input IDS:200 --trace-parameter max_tokens");
        run(&repository, "--trace-replay", ("azure.csv", AZURE), &arguments);
        let lengths = [5, 200, 5].map(|tokens| 4 * batch * tokens);
        assert_eq!(column(&repository, "m", "bytes", Value::as_u64), lengths);
        let parameters = column(&repository, "m", "parameters", |value| value["max_tokens"].as_i64());
        assert_eq!(parameters, [10, 8, 27]);
    }
}

#[test]
fn lengths_of_a_trace_are_kept_under_another_load() {
    let tensors = r#"
input [{ name: "IDS" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [-1] }]"#;
    let repository = journaled(Model::identity("m").batches(0).tensors(tensors));
    let arguments = "--concurrency-range 1 --request-count 5 --trace-input IDS:200 --trace-parameter max_tokens";
    run(&repository, "--trace-lengths", ("azure.csv", AZURE), arguments);
    assert_eq!(column(&repository, "m", "bytes", Value::as_u64), [20, 800, 20, 20, 800]);
    let parameters = column(&repository, "m", "parameters", |value| value["max_tokens"].as_i64());
    assert_eq!(parameters, [10, 8, 27, 10, 8]);
}

#[test]
fn strings_may_be_as_many_as_a_trace_says() {
    let tensors = r#"
input [{ name: "TEXT" data_type: TYPE_STRING dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_STRING dims: [-1] }]"#;
    let repository = journaled(Model::identity("m").batches(0).tensors(tensors));
    run(&repository, "--trace-replay", ("azure.csv", AZURE), "--trace-input TEXT --string-length 6");
    assert_eq!(column(&repository, "m", "bytes", Value::as_u64), [50, 3000, 50]);
}
