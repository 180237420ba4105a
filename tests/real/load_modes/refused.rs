//! Loads that the models of a server do not fit: exit code 99, one line that says what is wrong, and no hang. What needs no server
//! is refused in `tests/local/refused.rs`.

use crate::support::{Model, Program, Repository, triton};

/// Refused once the model is known.
fn misfit(model: Model, arguments: &str, words: &[&str]) {
    let repository = Repository::of(&[model]);
    Program::on(&repository, "m").args(arguments).run().failure(words);
}

#[test]
fn inputs_that_a_trace_cannot_size() {
    for (input, word) in [("OTHER", "INPUT0"), ("INPUT0", "exactly one dimension")] {
        let repository = Repository::of(&[Model::identity("m")]);
        let path = repository.file("trace.csv");
        std::fs::write(&path, "offset_ms,ContextTokens,GeneratedTokens\n1,2,3\n").unwrap();
        let program = Program::on(&repository, "m").args(&format!("--trace-input {input} --trace-replay")).arg(&path);
        program.run().failure(&["--trace-input", input, word]);
    }
}

#[test]
fn mixes_of_models_that_are_not_there() {
    let repository = Repository::of(&[Model::identity("a")]);
    let mix = |mix: &str| Program::in_process(&triton(), &repository.path()).args("--model-mix").arg(mix).run();
    mix("a:0.5,nobody:0.5").failure(&["nobody"]);
    mix("a:0.5,a:7:0.5").failure(&["'a'", "version 7", "--model-mix", "ready: 1"]);
}

#[test]
fn ids_that_do_not_suffice() {
    misfit(
        Model::accumulator("m"),
        "--concurrency-range 3 --sequence-id-range 1:3",
        &["--sequence-id-range", "2 IDs", "3 sequences"],
    );
}

#[test]
fn periodic_loads() {
    let range = "--periodic-concurrency-range 1:2";
    misfit(Model::identity("m"), range, &["'m'", "--periodic-concurrency-range", "decoupled"]);
    let decoupled = "model_transaction_policy { decoupled: true }";
    misfit(Model::accumulator("m").with(decoupled), range, &["'m'", "--periodic-concurrency-range", "sequences"]);
}

#[test]
fn a_warm_up_that_a_schedule_of_one_sequence_has_no_place_for() {
    let repository = Repository::of(&[Model::accumulator("m")]);
    let path = repository.file("data.json");
    std::fs::write(&path, r#"{"data": [{"timestamp": [1], "INPUT0": [1]}, {"timestamp": [2], "INPUT0": [2]}]}"#)
        .unwrap();
    let program = Program::on(&repository, "m").args("--warmup-request-count 1 --fixed-schedule --input-data");
    program.arg(&path).run().failure(&["--warmup-request-count 1", "sequence"]);
}
