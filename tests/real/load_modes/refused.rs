//! Bad input to every mode: exit code 99, one line that says what is wrong, and no hang.

use crate::support::{Model, Program, Repository, triton, turns};

/// Refused before the server is started.
fn refused(arguments: &str, words: &[&str]) {
    let _turn = turns::shared();
    let repository = Repository::of(&[]);
    Program::on(&repository, "m").args(arguments).run().refusal(words);
}

/// Refused with a file, before a server is looked for: there is none.
fn refused_file(flag: &str, text: &str, words: &[&str]) {
    let _turn = turns::shared();
    let repository = Repository::of(&[]);
    let path = repository.file("input");
    std::fs::write(&path, text).unwrap();
    let nowhere = std::path::Path::new("/nonexistent/server");
    let finished = Program::in_process(nowhere, &repository.path()).args("-m m").args(flag).arg(&path).run();
    let line = finished.refusal(words);
    let named = line.contains(flag.split(' ').next_back().unwrap()) && line.contains(path.to_str().unwrap());
    // What several flags make of the file together names the first of them.
    assert!(named || line.contains(flag.split(' ').next().unwrap()), "{line}");
}

/// Refused once the model is known.
fn misfit(model: Model, arguments: &str, words: &[&str]) {
    let _turn = turns::shared();
    let repository = Repository::of(&[model]);
    Program::on(&repository, "m").args(arguments).run().failure(words);
}

#[test]
fn two_modes_at_once() {
    let modes = [
        "--concurrency-range 2",
        "--request-rate-range 5",
        "--request-intervals Cargo.toml",
        "--fixed-schedule",
        "--trace-replay Cargo.toml",
        "--periodic-concurrency-range 1:2",
        "--stage rate:5:1s",
        "--sweep linear",
    ];
    for (index, first) in modes.iter().enumerate() {
        for second in &modes[index + 1..] {
            let name = |mode: &str| mode.split(' ').next().unwrap().to_owned();
            refused(&format!("{first} {second}"), &[&name(first), &name(second), "choose one"]);
        }
    }
}

#[test]
fn rates_that_are_none() {
    for rate in ["0", "-5", "NaN", "inf", "0:10", "10:5", "1e300", "x", ""] {
        refused(&format!("--request-rate-range={rate}"), &["--request-rate-range"]);
    }
    refused("--stage rate:NaN:1s", &["--stage"]);
    refused("--stage rate:0:1s", &["--stage", "above 0"]);
    refused("--stage rate:-1:1s", &["--stage"]);
}

#[test]
fn steps_of_zero() {
    refused("--concurrency-range 1:4:0", &["--concurrency-range"]);
    refused("--request-rate-range 1:4:0", &["--request-rate-range"]);
    refused("--request-rate-range 1:4:NaN", &["--request-rate-range"]);
    refused("--periodic-concurrency-range 1:4:0", &["--periodic-concurrency-range"]);
    refused("--periodic-concurrency-range 1:4:2", &["--periodic-concurrency-range"]);
}

#[test]
fn ranges_of_sequence_ids() {
    refused("--sequence-id-range 5:5", &["--sequence-id-range"]);
    refused("--sequence-id-range 5:4", &["--sequence-id-range"]);
    refused("--sequence-id-range x", &["--sequence-id-range"]);
    misfit(
        Model::accumulator("m"),
        "--concurrency-range 3 --sequence-id-range 1:3",
        &["--sequence-id-range", "2 IDs", "3 sequences"],
    );
    misfit(
        Model::accumulator("m"),
        "--request-rate-range 3 --num-of-sequences 4 --sequence-id-range 1:3",
        &["--sequence-id-range", "2 IDs", "4 sequences"],
    );
}

#[test]
fn files_of_intervals() {
    const FLAG: &str = "--request-intervals";
    refused_file(FLAG, "", &["no interval"]);
    refused_file(FLAG, "\n\n", &["no interval"]);
    refused_file(FLAG, "0\n0\n", &["every interval is zero"]);
    refused_file(FLAG, "100\nten\n", &["line 2", "'ten'"]);
    refused_file(FLAG, "100\n\n200\n", &["line 2", "blank"]);
    refused_file(FLAG, "100\n-1\n", &["line 2", "'-1'"]);
    refused("--request-intervals /nonexistent/file", &["--request-intervals", "/nonexistent/file", "no such file"]);
    refused("--request-intervals src", &["--request-intervals", "directory"]);
}

#[test]
fn schedules() {
    const FLAG: &str = "--fixed-schedule --input-data";
    let step = |ms: &str| format!(r#"{{"timestamp": [{ms}], "INPUT0": {:?}}}"#, [1.0; 16]);
    let file = |steps: &str| format!(r#"{{"data": [{steps}]}}"#);
    let refused_steps = |steps: &str, word: &str| refused_file(FLAG, &file(steps), &["--fixed-schedule", word]);
    refused_steps(&format!("{}, {}", step("5"), step("4")), "': the schedule is out of order");
    refused_steps(&format!("{}, {}", step("5"), step("4.5")), "timestamp");
    refused_steps(&step("-1"), "timestamp");
    refused_steps(r#"{"INPUT0": [1.0]}"#, "timestamp");
    refused_steps(&format!("[{}], [{}]", step("1"), step("2")), "one stream");
    refused_steps("", "empty");
    refused_file(FLAG, r#"{"timestamp": [1]}"#, &["--fixed-schedule", "data"]);
    refused_file(FLAG, "5\n6\n", &["--fixed-schedule", "line 1"]);
    refused("--fixed-schedule", &["--fixed-schedule", "--input-data"]);
    refused("--fixed-schedule --input-data zero", &["--fixed-schedule", "--input-data"]);
    refused("--fixed-schedule --input-data Cargo.toml -b 2", &["--fixed-schedule", "-b 2"]);
    let words = ["--warmup-request-count 2", "which has 2"];
    refused_file("--warmup-request-count 2 --trace-replay", "offset_ms\n1\n2\n", &words);
    refused_file(&format!("--warmup-request-count 2 {FLAG}"), &file(&[step("1"), step("2")].join(",")), &words);
}

#[test]
fn traces() {
    const FLAG: &str = "--trace-replay";
    refused_file(FLAG, "", &["no column holds times"]);
    refused_file(FLAG, "time,tokens\n1,2\n", &["no column holds times", "time,tokens"]);
    refused_file(FLAG, "offset_ms\n", &["empty"]);
    refused_file(FLAG, "offset_ms\n5\n4\n", &["line 3", "earlier"]);
    refused_file(FLAG, "offset_ms\nx\n", &["line 2", "'x'"]);
    refused_file("--trace-input IDS --trace-replay", "offset_ms\n1\n", &["ContextTokens", "--trace-input"]);
    refused_file("--trace-parameter n --trace-replay", "offset_ms,ContextTokens\n1,2\n", &["GeneratedTokens"]);
    refused("--trace-speed 2", &["--trace-speed", "--trace-replay"]);
    refused("--trace-replay Cargo.toml --trace-speed 0", &["--trace-speed"]);
    refused("--trace-input IDS", &["--trace-input", "--trace-replay", "--trace-lengths"]);
    refused("--trace-lengths Cargo.toml", &["--trace-lengths", "--trace-input"]);
    refused(
        "--trace-lengths Cargo.toml --trace-input I --trace-replay Cargo.toml",
        &["--trace-lengths", "--trace-replay"],
    );
    refused("--trace-replay Cargo.toml --trace-input IDS:0", &["--trace-input"]);
    refused(
        "--trace-replay Cargo.toml --trace-input IDS --input-data Cargo.toml",
        &["--trace-input", "generated data"],
    );
}

#[test]
fn inputs_that_a_trace_cannot_size() {
    let _turn = turns::shared();
    for (input, word) in [("OTHER", "INPUT0"), ("INPUT0", "exactly one dimension")] {
        let repository = Repository::of(&[Model::identity("m")]);
        let path = repository.file("trace.csv");
        std::fs::write(&path, "offset_ms,ContextTokens,GeneratedTokens\n1,2,3\n").unwrap();
        let program = Program::on(&repository, "m").args(&format!("--trace-input {input} --trace-replay")).arg(&path);
        program.run().failure(&["--trace-input", input, word]);
    }
}

fn mix(repository: &Repository, mix: &str) -> Program {
    Program::in_process(&triton(), &repository.path()).args("--model-mix").arg(mix)
}

#[test]
fn mixes() {
    let _turn = turns::shared();
    let none = Repository::of(&[]);
    for (text, word) in [("a:0.5,b:0.4", "0.9"), ("a:0.7,b:0.7", "1.4"), ("a:0.5", "0.5")] {
        mix(&none, text).run().refusal(&["--model-mix", "sum to 1", word]);
    }
    for text in ["a", "a:0,b:1", "a:-1,b:2", "a:NaN", ":1", "a?x:1", ""] {
        mix(&none, text).run().refusal(&["--model-mix"]);
    }
    mix(&none, "a:1").args("-m a").run().refusal(&["--model-mix", "-m"]);
    let one = Repository::of(&[Model::identity("a")]);
    mix(&one, "a:0.5,nobody:0.5").run().failure(&["nobody"]);
    mix(&one, "a:0.5,a:7:0.5").run().failure(&["'a'", "version 7", "--model-mix", "ready: 1"]);
}

#[test]
fn periodic_loads() {
    let range = "--periodic-concurrency-range 1:2";
    misfit(Model::identity("m"), range, &["'m'", "--periodic-concurrency-range", "decoupled"]);
    let decoupled = "model_transaction_policy { decoupled: true }";
    misfit(Model::accumulator("m").with(decoupled), range, &["'m'", "--periodic-concurrency-range", "sequences"]);
    refused(&format!("{range} --sync"), &["--periodic-concurrency-range", "--sync"]);
    refused("--periodic-concurrency-range 4:2", &["--periodic-concurrency-range"]);
    refused(&format!("{range} --request-period 0"), &["--request-period"]);
}

#[test]
fn counts_that_contradict_the_load() {
    refused("--request-count 5 --concurrency-range 1:4", &["--request-count"]);
    refused("--request-count 5 --sweep linear", &["--request-count", "--sweep"]);
    refused("--request-count 2 --concurrency-range 3", &["--request-count", "--concurrency-range"]);
    refused("--concurrency-range 1:0", &["--latency-threshold"]);
    refused("--binary-search --concurrency-range 1:4", &["--binary-search", "--latency-threshold"]);
}

#[test]
fn warm_ups_that_a_load_has_no_place_for() {
    let periodic = "--periodic-concurrency-range 1:2";
    refused(&format!("{periodic} --warmup-duration 1s"), &["--periodic-concurrency-range", "--warmup-duration"]);
    refused("--trace-replay Cargo.toml --warmup-duration 1s", &["--warmup-duration 1s", "--warmup-request-count"]);
    refused("--warmup-duration 1s --warmup-request-count 20", &["--warmup-duration", "--warmup-request-count"]);
    let repository = Repository::of(&[Model::accumulator("m")]);
    let path = repository.file("data.json");
    std::fs::write(&path, r#"{"data": [{"timestamp": [1], "INPUT0": [1]}, {"timestamp": [2], "INPUT0": [2]}]}"#)
        .unwrap();
    let _turn = turns::shared();
    let program = Program::on(&repository, "m").args("--warmup-request-count 1 --fixed-schedule --input-data");
    program.arg(&path).run().failure(&["--warmup-request-count 1", "sequence"]);
}

#[test]
fn distributions_that_are_none() {
    refused("--request-rate-range 5 --request-distribution gamma --burstiness 0", &["--burstiness"]);
    refused("--request-rate-range 5 --request-distribution gamma --burstiness NaN", &["--burstiness"]);
    refused("--request-rate-range 5 --burstiness 0.5", &["--burstiness", "gamma"]);
    refused("--request-distribution gamma", &["gamma", "--request-rate-range"]);
    refused("--request-rate-range 5 --request-distribution normal", &["--request-distribution"]);
    refused("--precision p99", &["--precision"]);
    refused("--sweep linear:1", &["--sweep"]);
}

/// perf_analyzer never ends with a rate and fewer warm-up requests than threads.
#[test]
fn warm_ups_that_leave_threads_without_a_request() {
    let few = "--warmup-request-count 3";
    refused(&format!("--request-rate-range 10 {few}"), &["--warmup-request-count 3", "4", "--max-threads"]);
    refused(&format!("--request-rate-range 10 --max-threads 8 {few}"), &["--warmup-request-count 3", "8"]);
    refused(&format!("--sweep linear {few}"), &["--warmup-request-count 3", "--max-threads"]);
    refused(&format!("--request-intervals Cargo.toml {few}"), &["--warmup-request-count 3", "--max-threads"]);
    refused(&format!("--request-rate-range 10 --num-of-sequences 8 {few}"), &["--warmup-request-count 3", "4"]);
}
