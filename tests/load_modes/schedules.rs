//! Loads whose moments come from a file: intervals, fixed schedules, traces.

use serde_json::Value;

use crate::support::{Finished, Model, Program, Repository, turns};
use crate::{assert_near, column, offsets_ms};

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
fn intervals_are_kept_and_looped() {
    let _turn = turns::alone();
    let repository = journaled(Model::identity("m"));
    run(&repository, "--request-intervals", ("gaps.txt", "100000\n200000\n50000\n"), "--request-count 5");
    assert_offsets(&repository, &[0.0, 200.0, 250.0, 350.0, 550.0]);
}

#[test]
fn a_fixed_schedule_is_played_once_and_its_times_are_not_sent() {
    let _turn = turns::alone();
    let repository = journaled(Model::identity("m").batches(0));
    let step = |ms: u32, value: f64| format!(r#"{{"timestamp": [{ms}], "INPUT0": {:?}}}"#, [value; 16]);
    let data = format!(r#"{{"data": [{}, {}, {}]}}"#, step(0, 1.0), step(150, 2.0), step(400, 3.0));
    run(&repository, "--fixed-schedule --input-data", ("data.json", &data), "");
    assert_offsets(&repository, &[0.0, 150.0, 400.0]);
    let sums = column(&repository, "m", "checksum", |value| value.as_str().map(str::to_owned));
    assert!(sums[0] != sums[1] && sums[1] != sums[2], "{sums:?}");
    assert_eq!(column(&repository, "m", "bytes", Value::as_u64), [64, 64, 64]);
}

const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                     2023-11-16 18:17:03.9799600,5,10\n2023-11-16 18:17:04.1799600,300,8\n\
                     2023-11-16 18:17:04.5799600,5,27\n";

#[test]
fn a_trace_is_replayed_at_its_speed() {
    let _turn = turns::alone();
    let repository = journaled(Model::identity("m"));
    run(&repository, "--trace-replay", ("azure.csv", AZURE), "--trace-speed 2");
    assert_offsets(&repository, &[0.0, 100.0, 300.0]);
    let repository = journaled(Model::identity("m"));
    run(&repository, "--trace-replay", ("plain.csv", "offset_ms\n10\n110.5\n160\n"), "");
    assert_offsets(&repository, &[0.0, 100.5, 150.0]);
}

#[test]
fn token_counts_of_a_trace_decide_lengths_and_a_parameter() {
    let _turn = turns::shared();
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
fn strings_may_be_as_many_as_a_trace_says() {
    let _turn = turns::shared();
    let tensors = r#"
input [{ name: "TEXT" data_type: TYPE_STRING dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_STRING dims: [-1] }]"#;
    let repository = journaled(Model::identity("m").batches(0).tensors(tensors));
    run(&repository, "--trace-replay", ("azure.csv", AZURE), "--trace-input TEXT --string-length 6");
    assert_eq!(column(&repository, "m", "bytes", Value::as_u64), [50, 3000, 50]);
}
