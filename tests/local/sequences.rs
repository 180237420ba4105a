//! Figures of whole sequences, and streams that are paced.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Export, Scripted};

/// A sequence model that answers each request after so long.
fn model(delay_us: u64) -> Scripted {
    Scripted::script(&json!({
        "server": {"log_requests": true},
        "models": [{"name": "fake", "config": {
            "max_batch_size": 0,
            "sequence_batching": {},
            "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
        }}],
        "requests": [{"delay_us": delay_us}]
    }))
}

const LOADS: [&str; 4] = [
    "--sync --concurrency-range 2",
    "--async --concurrency-range 2",
    "--request-rate-range 100 --num-of-sequences 2",
    "--request-rate-range 100 --num-of-sequences 2 --serial-sequences",
];

#[test]
fn whole_sequences_have_a_duration_and_a_final_latency_everywhere() {
    for load in LOADS {
        let scripted = model(5_000);
        let [result, csv, export] = ["result.json", "levels.csv", "export.json"].map(|name| scripted.path(name));
        let run = scripted
            .program()
            .args("--request-count 120 --sequence-length 5 --sequence-length-variation 0 --percentiles 95")
            .args(load)
            .args("--require final_latency_p50>4ms --summary-file")
            .arg(&result)
            .arg("-f")
            .arg(&csv)
            .arg("--profile-export-file")
            .arg(&export)
            .run();
        // A busy machine may send late, which makes a level invalid and its requirements fail.
        assert!([0, 4].contains(&run.code()) && run.stdout.contains("final_latency_p50>4ms"), "{load}: {run:#?}");
        for line in
            ["Sequence duration (first send to last answer): avg ", "Final latency (last request of a sequence): avg "]
        {
            assert!(run.stdout.contains(line), "{load}: {}", run.stdout);
        }
        let value: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
        let level = &value["levels"][0];
        let figure = |key: &str| level["figures"][key].as_f64().unwrap_or_else(|| panic!("{load}: {key} {level:#}"));
        let (duration, last) = (figure("sequence_duration_p50"), figure("final_latency_p50"));
        assert!(last >= 5e6 && duration > last && duration >= 20e6, "{load}: {duration} {last}");
        assert!(value["catalogue"].as_array().unwrap().iter().any(|row| row["key"] == "final_latency_p95"), "{load}");
        let columns = fs::read_to_string(&csv).unwrap();
        assert!(
            columns.contains(",Avg sequence duration,p50 sequence duration,p99 sequence duration,Avg final latency,")
        );
        let exported = Export::read(&export);
        let whole = &exported.experiments()[0]["summary"]["sequences"];
        // Whichever sequences the last requests belong to, each of the two may be ended early.
        assert!((22..=24).contains(&whole["count"].as_u64().unwrap()), "{load}: {whole}");
        assert!(whole["final_latency_ns"]["p50"].as_u64().unwrap() >= 5_000_000, "{load}: {whole}");
    }
}

#[test]
fn what_is_ended_early_is_no_whole_sequence() {
    // Seven requests of one sequence at a time: one is whole, the other is ended after two.
    let scripted = model(1_000);
    let export = scripted.path("export.json");
    let line = "--request-count 7 --sequence-length 5 --sequence-length-variation 0 --profile-export-file";
    let run = scripted.program().args(line).arg(&export).run();
    assert!(run.stdout.contains("Sequence count: 2 "), "{run:#?}");
    let exported = Export::read(&export);
    assert_eq!(exported.experiments()[0]["summary"]["sequences"]["count"], 1);
}

#[test]
fn perf_analyzers_callers_get_its_columns_and_lines() {
    let scripted = model(1_000);
    let csv = scripted.path("levels.csv");
    let line = "--request-count 20 --sequence-length 5 -f";
    let run = scripted.program().named_perf_analyzer().args(line).arg(&csv).run();
    assert!(!run.stdout.contains("Final latency"), "{}", run.stdout);
    assert!(!fs::read_to_string(&csv).unwrap().contains("final latency"));
}
