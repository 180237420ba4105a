//! Models with several requests per answer, or several answers per request: sequences and decoupled models.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::{Export, Model, Program, Repository};

const MODES: [&str; 4] = [
    "--sync --concurrency-range 1",
    "--sync --concurrency-range 3",
    "--async --concurrency-range 1",
    "--async --concurrency-range 4 --max-threads 2",
];

/// Requests by correlation ID, in the order in which the server executed them.
fn sequences(repository: &Repository) -> BTreeMap<u64, Vec<Value>> {
    let mut sequences: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for entry in repository.journal("m") {
        sequences.entry(entry["correlation"].as_u64().expect("a number")).or_default().push(entry);
    }
    sequences
}

fn accumulator() -> Repository {
    let repository = Repository::of(&[]);
    let model = repository.journaling(repository.counting(Model::accumulator("m")));
    repository.add(&model);
    repository
}

#[test]
fn sequences_are_whole() {
    for mode in MODES {
        let repository = accumulator();
        let program =
            Program::on(&repository, "m").args("-p 150 -s 1000000 --sequence-length 6 --sequence-length-variation 0");
        let report = program.args(mode).run().report();
        assert!(report.level().client_number("Sequence count") > 0.0, "{}", report.text);
        let counters = repository.counters("m");
        assert_eq!(counters.get("violations"), 0, "{mode}");
        assert_eq!(counters.get("sequences_open"), 0, "{mode}: all are ended");
        assert_eq!(counters.get("sequences_started"), counters.get("sequences_ended"), "{mode}");
        let lengths: Vec<usize> = sequences(&repository).values().map(Vec::len).collect();
        // Only those that the end of the run cut may be shorter.
        let cut = lengths.iter().filter(|&&length| length != 6).count();
        assert!(lengths.iter().all(|&length| length <= 6) && cut <= 4, "{mode}: {lengths:?}");
    }
}

#[test]
fn sequence_ids_are_those_of_the_range() {
    for mode in MODES {
        let repository = accumulator();
        let program =
            Program::on(&repository, "m").args("--request-count 200 --sequence-length 3 --sequence-id-range 100:108");
        program.args(mode).run().report();
        assert_eq!(repository.counters("m").get("violations"), 0, "{mode}");
        let ids: BTreeSet<u64> = sequences(&repository).into_keys().collect();
        assert!(ids.iter().all(|id| (100..108).contains(id)), "{mode}: {ids:?}");
        assert!(ids.len() >= 4, "{mode}: {ids:?}");
    }
}

#[test]
fn a_range_of_ids_smaller_than_the_concurrency_is_refused() {
    let repository = accumulator();
    let finished = Program::on(&repository, "m").args("--concurrency-range 4 --sequence-id-range 5:7").run();
    finished.refusal(&["--sequence-id-range"]);
}

#[test]
fn sequence_ids_may_be_texts() {
    let repository = Repository::of(&[]);
    let model = Model::identity("m")
        .batches(0)
        .tensors(
            r#"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]"#,
        )
        .with("sequence_batching { control_input [{ name: \"CORRID\" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }] }")
        .parameter("accumulate", "true");
    repository.add(&repository.journaling(repository.counting(model)));
    let program = Program::on(&repository, "m")
        .args("--request-count 60 --sequence-length 4 --sequence-id-type string --sequence-id-range 40:44");
    program.args("--async --concurrency-range 2").run().report();
    assert_eq!(repository.counters("m").get("violations"), 0);
    let journal = repository.journal("m");
    assert!(
        journal.iter().all(|entry| entry["correlation"].as_str().is_some_and(|id| id.starts_with('4'))),
        "{:?}",
        journal[0]
    );
}

#[test]
fn levels_leave_no_sequence_open() {
    let repository = accumulator();
    let program = Program::on(&repository, "m").quick().args("--concurrency-range 1:3 --sequence-length 1000 --async");
    program.run().report();
    let counters = repository.counters("m");
    assert_eq!((counters.get("violations"), counters.get("sequences_open")), (0, 0));
}

fn decoupled(change: impl Fn(Model) -> Model) {
    for mode in MODES {
        let repository = Repository::counted(change(Model::decoupled("m", 4)));
        let report = Program::on(&repository, "m").args("--request-count 100").args(mode).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 100.0, "{mode}: {}", level.text);
        let ratio = level.client_number("Response Throughput") / level.client_number("Throughput");
        assert!((ratio - 4.0).abs() < 0.01, "{mode}: {}", level.text);
        assert_eq!(repository.counters("m").get("responses"), 400, "{mode}");
        assert!(report.text.contains("Detected decoupled model"), "{}", report.text);
    }
}

#[test]
fn decoupled_responses_are_all_counted() {
    decoupled(|model| model);
    decoupled(|model| model.parameter("final", "null"));
}

#[test]
fn decoupled_requests_may_be_released_before_their_responses() {
    decoupled(|model| model.parameter("release", "before"));
    decoupled(|model| {
        model.parameter("release", "before").parameter("repeat_mode", "thread").parameter("gap_us", "300")
    });
    decoupled(|model| model.parameter("repeat_mode", "thread").parameter("final", "null").parameter("gap_us", "300"));
}

#[test]
fn a_decoupled_model_may_answer_nothing() {
    for mode in MODES {
        let repository = Repository::counted(Model::decoupled("m", 0));
        let report = Program::on(&repository, "m").args("--request-count 50").args(mode).run().report();
        assert_eq!(report.level().client_number("Request count"), 50.0, "{mode}: {}", report.text);
        assert_eq!(repository.counters("m").get("responses"), 0);
    }
}

#[test]
fn the_export_holds_every_response() {
    let repository = Repository::of(&[Model::decoupled("m", 3).parameter("gap_us", "1000")]);
    let path = repository.file("a.json");
    let program =
        Program::on(&repository, "m").args("--request-count 20 --async --concurrency-range 2 --profile-export-file");
    program.arg(&path).run().report();
    let export = Export::read(&path);
    let requests = export.experiments()[0]["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 20);
    let mut spans = Vec::new();
    for request in requests {
        let stamps: Vec<u64> =
            request["response_timestamps"].as_array().unwrap().iter().map(|stamp| stamp.as_u64().unwrap()).collect();
        assert_eq!(stamps.len(), 3, "{request}");
        assert!(stamps.is_sorted(), "{stamps:?}");
        spans.push(stamps[2] - stamps[0]);
    }
    // A first response may be seen late on a busy machine, but not most of them.
    spans.sort_unstable();
    assert!(spans[10] > 1_500_000, "{spans:?}");
}

#[test]
fn a_decoupled_request_that_fails_is_one_failure() {
    for mode in MODES {
        let repository = Repository::counted(Model::decoupled("m", 3).parameter("fail_every", "4"));
        let report =
            Program::on(&repository, "m").args("--request-count 80 --max-errors 30%").args(mode).run().report();
        assert_eq!(report.level().client_number("Failed request count"), 20.0, "{mode}: {}", report.text);
        assert_eq!(report.level().client_number("Request count"), 60.0);
    }
}
