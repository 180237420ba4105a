//! Results written and read back.

use std::path::Path;
use std::sync::Arc;

use schemars::{Schema, schema_for};
use serde_json::Value;

use super::*;
use crate::clock::Stamp;
use crate::reasons::InvalidReason;
use crate::setup::sample as plans;
use crate::stats::Interval;
use crate::summary::{DecoupledSummary, Ending, Generated, LevelLoad, OpenLoopSummary, StatisticEstimate, sample};
use crate::terms::Statistic;
use crate::{TuneFile, TuneResult};

fn result() -> RunResult {
    let mut late = sample::level(LevelLoad::RequestRate(20.5), 100, 2_000_000);
    late.verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(0.25)]);
    let mut measured = sample::level(LevelLoad::Concurrency(4), 1_000, 1_000_000);
    let interval = Some(Interval { low: 900.0, high: 1_100.0 });
    measured.intervals = vec![StatisticEstimate::new(Statistic::Throughput, interval)];
    let failed = LevelSummary { ending: Ending::Failed, ..sample::level(LevelLoad::Schedule(3.0), 0, 1) };
    plans::result(&plans::setup(), &[late, measured, failed])
}

#[test]
fn what_was_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let text = serde_json::to_string(&result()).unwrap();
    std::fs::write(&path, &text).unwrap();
    let read = RunResult::read(&path).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
    assert_eq!(serde_json::to_string(&RunResult::read(&path).unwrap()).unwrap(), text, "after a byte order mark");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["schema"], &value["exit_code"]), (&1.into(), &3.into()));
    let late = &value["levels"][0];
    assert_eq!((&late["load"]["kind"], &late["load"]["value"]), (&"request_rate".into(), &20.5.into()));
    assert_eq!((&late["outcome"], &late["reasons"][0]["word"]), (&"load not delivered".into(), &"issuers_late".into()));
    assert_eq!(value["levels"][1]["figures"]["throughput"], 1_000.0);
    assert_eq!(value["levels"][1]["intervals"][0]["interval"]["high"], 1_100.0);
}

#[test]
fn a_timeline_is_read_by_its_former_name() {
    let mut written = result();
    written.levels[0].timeline.began = Stamp(7);
    let text = serde_json::to_string(&written).unwrap();
    let former = text.replace("\"timeline\":", "\"course\":");
    assert_ne!(former, text);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    std::fs::write(&path, former).unwrap();
    assert_eq!(serde_json::to_string(&RunResult::read(&path).unwrap()).unwrap(), text);
}

/// Levels with everything that a client can record.
fn rich() -> RunResult {
    let times = |ns: u64| {
        let mut times = sample::distribution(50, ns);
        times.merge(&sample::distribution(3, 7 * ns + 12_345));
        times
    };
    let mut level = sample::level(LevelLoad::RequestRate(20.5), 53, 2_000_000);
    let client = &mut level.client;
    client.latency = times(2_000_000);
    client.wakeup = Some(times(41_237).coarsened());
    client.open_loop = Some(OpenLoopSummary {
        response_time: times(2_000_000),
        service_time: times(1_900_000),
        schedule_delay: times(333),
        requested_rate: 20.5,
        achieved_rate: 20.4,
        completed_rate: 20.3,
    });
    client.decoupled =
        Some(DecoupledSummary { first_response: times(1_000), gap: times(2_000), last_response: times(9_000) });
    let mut generated = Generated::empty();
    (generated.first_token, generated.inter_token, generated.gap) = (times(900_000), times(18_001), times(17_003));
    (generated.second_token, generated.normalised) = (times(20_000), times(40_000));
    (generated.tokens, generated.counted, generated.input_tokens, generated.inputs) = (700, 53, 6_000, 53);
    (generated.cacheable_tokens, generated.cached_tokens) = (6_000, 1_500);
    client.generated = Some(Box::new(generated));
    (client.good, client.cancelled, client.overhead_share, client.turnaround_ns) = (Some(40), 2, 0.1 + 0.2, 1.0 / 3.0);
    client.entries = vec![sample::client(30, 1_001), sample::client(23, 2_003)];
    let p99 = Interval { low: 1.0e6 / 3.0, high: 4.0e6 };
    level.intervals = vec![
        StatisticEstimate::new(Statistic::Percentile(99.0), Some(p99)),
        StatisticEstimate::new(Statistic::Throughput, None),
    ];
    let mut result = plans::result(&plans::setup(), &[level]);
    result.sweep = Some(SweepResult { saturation: 100.0 / 3.0, unsustained: Some(40.1), knee: None });
    result
}

/// A run that is resumed writes back what it read: nothing may drift with each file.
#[test]
fn every_value_is_the_same_after_it_was_written_and_read() {
    let text = serde_json::to_string(&rich()).unwrap();
    let read: RunResult = serde_json::from_str(&text).unwrap();
    let (written, rewritten): (Value, Value) =
        (serde_json::from_str(&text).unwrap(), serde_json::to_value(&read).unwrap());
    let figures = written["levels"][0]["figures"].as_object().unwrap();
    assert!(figures.contains_key("wakeup_p99") && figures.contains_key("cache_hit_rate") && figures.len() > 60);
    assert_eq!(written, rewritten);
}

/// As if the wall clock had been set back by an hour since the run began.
#[test]
fn a_step_of_the_wall_clock_puts_no_end_before_the_beginning() {
    let mut setup = (*result().setup).clone();
    let hour = jiff::SignedDuration::from_hours(1);
    (setup.began, setup.began_stamp) = (jiff::Timestamp::now() + hour, crate::clock::Stamp::now());
    let closed = RunResult::new(Arc::new(setup)).closed();
    let took = closed.ended.unwrap().duration_since(closed.setup.began);
    assert!(!took.is_negative() && took.as_secs() < 60, "{took:?}");
}

#[test]
fn what_is_no_result_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let mut later = serde_json::to_value(result()).unwrap();
    later["schema"] = 99.into();
    let mut torn = serde_json::to_string(&result()).unwrap();
    torn.truncate(torn.len() / 2);
    let cases = [("", "no result"), ("[]", "no result"), ("{\"schema\":1}", "no result"), (&torn, "no result")];
    let later = later.to_string();
    let others = [(later.as_str(), "version 99"), ("{\"schema\":2,\"candidates\":[]}", "result of a search (tune)")];
    for (text, word) in cases.into_iter().chain(others) {
        std::fs::write(&path, text).unwrap();
        let error = RunResult::read(&path).unwrap_err().to_string();
        assert!(error.contains("r.json") && error.contains(word) && error.contains("--summary-file"), "{error}");
    }
    assert!(RunResult::read(folder.path()).is_err());
}

#[test]
fn what_never_ends_is_not_read_to_its_end() {
    let error = text(Path::new("/dev/zero"), 1_000).unwrap_err().to_string();
    assert!(error.contains("more than 1000 bytes"), "{error}");
    assert_eq!(text(Path::new("/dev/null"), 1_000).unwrap(), "", "a device may be a result");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "é").unwrap();
    assert_eq!(text(file.path(), 2).unwrap(), "é");
    assert!(text(file.path(), 1).unwrap_err().to_string().contains("it has 2 bytes"));
}

/// `UPDATE_SNAPSHOTS=1` writes it.
fn is_documented(name: &str, schema: &Schema) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let schema = serde_json::to_string_pretty(schema).unwrap() + "\n";
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let is_current = std::fs::read_to_string(&path).unwrap_or_default() == schema;
    assert!(is_current, "{name} is out of date: run the tests with UPDATE_SNAPSHOTS=1 and look at what changed");
}

#[test]
fn the_schemas_in_the_documentation_are_those_of_the_code() {
    is_documented("result.schema.json", &schema_for!(ResultFile<'static>));
    is_documented("tune.schema.json", &schema_for!(TuneFile<'static>));
}

/// What a schema demands, as `Definition.member`.
fn required(name: &str, schema: &Value, found: &mut Vec<String>) {
    let members = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    found.extend(members.map(|member| format!("{name}.{member}")));
    match schema {
        Value::Object(members) => members.iter().for_each(|(key, value)| match (key.as_str(), value) {
            ("$defs", Value::Object(all)) => all.iter().for_each(|(name, one)| required(name, one, found)),
            _ => required(name, value, found),
        }),
        Value::Array(all) => all.iter().for_each(|one| required(name, one, found)),
        _ => {}
    }
}

#[test]
fn results_of_earlier_programs_have_all_that_is_demanded() {
    let known = include_str!("required.txt").lines().collect::<Vec<_>>();
    let mut demanded = Vec::new();
    for schema in [schema_for!(ResultFile<'static>), schema_for!(TuneResult)] {
        required(schema.get("title").and_then(Value::as_str).unwrap_or_default(), schema.as_value(), &mut demanded);
    }
    assert!(demanded.len() > 300, "{}", demanded.len());
    demanded.retain(|member| !known.contains(&member.as_str()) && !WRITTEN.iter().any(|name| member.starts_with(name)));
    assert!(
        demanded.is_empty(),
        "results of earlier programs lack {demanded:?}: give them #[serde(default)], so that such results are read"
    );
}

/// What is written and never read.
const WRITTEN: [&str; 4] = ["Answer.", "GateAnswer.", "Missing.", "ReportedFigure."];

#[test]
fn results_share_their_setup() {
    let result = result();
    assert!(Arc::ptr_eq(&result.clone().setup, &result.setup));
}
