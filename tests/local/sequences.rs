//! Figures of whole sequences, and streams that are paced.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::support::{Export, Program, Scripted};

/// A sequence model that answers each request after so long.
fn model(delay_us: u64) -> Scripted {
    Scripted::script(&json!({
        "server": {"log_requests": true, "delivery_threads": 8},
        "models": [{"name": "fake", "config": {
            "max_batch_size": 0,
            "sequence_batching": {},
            "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
        }}],
        "requests": [{"delay_us": delay_us}]
    }))
}

/// Everything that a run leaves behind.
struct Files {
    run: crate::support::Finished,
    result: Value,
    csv: String,
    export: Export,
}

fn run(scripted: &Scripted, flags: &str) -> Files {
    let [result, csv, export] = ["result.json", "levels.csv", "export.json"].map(|name| scripted.path(name));
    let program = scripted.program().args("--sequence-length 5 --sequence-length-variation 0").args(flags);
    let program =
        program.args("--summary-file").arg(&result).args("-f").arg(&csv).args("--profile-export-file").arg(&export);
    let run = program.run();
    // A busy machine may send late, which makes a level invalid and its requirements fail.
    assert!([0, 4].contains(&run.code()), "{flags}: {run:#?}");
    Files {
        run,
        result: serde_json::from_slice(&fs::read(&result).unwrap()).unwrap(),
        csv: fs::read_to_string(&csv).unwrap(),
        export: Export::read(&export),
    }
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
        let flags = format!("{load} --request-count 120 --percentiles 95 --require final_latency_p50>4ms");
        let Files { run, result: value, csv: columns, export: exported } = run(&scripted, &flags);
        assert!(run.stdout.contains("final_latency_p50>4ms"), "{load}: {run:#?}");
        for line in
            ["Sequence duration (first send to last answer): avg ", "Final latency (last request of a sequence): avg "]
        {
            assert!(run.stdout.contains(line), "{load}: {}", run.stdout);
        }
        let level = &value["levels"][0];
        let figure = |key: &str| level["figures"][key].as_f64().unwrap_or_else(|| panic!("{load}: {key} {level:#}"));
        let (duration, last) = (figure("sequence_duration_p50"), figure("final_latency_p50"));
        assert!(last >= 5e6 && duration > last && duration >= 20e6, "{load}: {duration} {last}");
        assert!(value["catalogue"].as_array().unwrap().iter().any(|row| row["key"] == "final_latency_p95"), "{load}");
        assert!(
            columns.contains(",Avg sequence duration,p50 sequence duration,p99 sequence duration,Avg final latency,")
        );
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

/// The gaps between the requests of each stream, in milliseconds, in ascending order, and how many sequences there were.
fn gaps(scripted: &Scripted, streams: u64) -> (Vec<u64>, usize) {
    let mut sent = scripted.events("request");
    sent.sort_by_key(|request| request["ns"].as_u64());
    let (mut latest, mut sequences, mut gaps) = (BTreeMap::new(), Vec::new(), Vec::new());
    for request in &sent {
        let (id, ns) = (request["correlation"].as_u64().unwrap(), request["ns"].as_u64().unwrap());
        if !sequences.contains(&id) {
            sequences.push(id);
        }
        // The IDs go round the streams.
        gaps.extend(latest.insert(id % streams, ns).map(|before: u64| (ns - before) / 1_000_000));
    }
    gaps.sort_unstable();
    (gaps, sequences.len())
}

#[test]
fn timed_paced_streams_send_when_they_are_due_answered_or_not() {
    for (delay_us, in_time) in [(2_000, true), (150_000, false)] {
        let scripted = model(delay_us);
        let flags = "--concurrency-range 3 --paced 60ms --request-count 90";
        let Files { run, result: value, csv, export: exported } = run(&scripted, flags);
        let (gaps, sequences) = gaps(&scripted, 3);
        assert_eq!((gaps.len(), sequences), (87, 18), "{gaps:?}");
        let median = gaps[gaps.len() / 2];
        assert!((55..=65).contains(&median), "each stream sends every 60 ms: {gaps:?}");
        for words in
            ["  Each stream sends a request every 60ms, answered or not\n", "Paced streams: 3\n", "\nStreams: 3, "]
        {
            assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
        }
        let level = &value["levels"][0];
        assert_eq!(level["load"], json!({"kind": "streams", "value": 3}), "{level:#}");
        assert!((level["client"]["open_loop"]["requested_rate"].as_f64().unwrap() - 50.0).abs() < 1e-6);
        let share = level["figures"]["sequences_in_time"].as_f64().unwrap();
        assert!(if in_time { share > 0.5 } else { share == 0.0 }, "{share}: {}", run.stdout);
        assert!(run.stdout.contains("    Sequences in time (last answer before a further request was due): "));
        assert!(csv.starts_with("Streams,"));
        assert_eq!(exported.experiments()[0]["experiment"], json!({"mode": "streams", "value": 3}));
    }
}

#[test]
fn what_does_not_go_with_paced_streams_is_said() {
    let program = || Program::new().args("-m m --paced 10ms");
    program().args("--request-rate-range 5").run().refusal(&[
        "--paced 10ms",
        "--concurrency-range",
        "--request-rate-range",
    ]);
    program().args("--stage rate:5:1s").run().refusal(&["--paced 10ms", "--stage"]);
    Program::new().args("-m m --paced 0").run().refusal(&["--paced", "20ms"]);
    let run = model(1_000).program().args("--paced 10ms --serial-sequences --request-count 10").run();
    assert!(run.stderr.contains("--serial-sequences has no effect here: "), "{run:#?}");
}
