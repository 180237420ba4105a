use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;
use crate::backend::{ErrorCode, InferError};
use crate::clock::Stamp;
use crate::result::Setup;
use crate::result::setup::sample as plans;
use crate::result::summary::{EntrySummary, OpenLoopSummary, SendingTime, Sessions, sample};
use crate::terms::Flag;

static NEVER: AtomicUsize = AtomicUsize::new(0);

fn level(load: LevelLoad, requests: u64, ns: u64) -> LevelSummary {
    let mut level = sample::level(load, requests, ns);
    level.client.sent = requests;
    if let LevelLoad::RequestRate(rate) = load {
        let delay = sample::level(load, requests, 1_000_000).client.latency;
        level.client.open_loop = Some(OpenLoopSummary {
            response_time: level.client.latency.clone(),
            service_time: level.client.latency.clone(),
            schedule_delay: delay,
            requested_rate: rate,
            achieved_rate: rate * 0.99,
            completed_rate: rate,
        });
    }
    level
}

fn folder(path: &Path, parts: &[ReportPart]) -> ReportFolder {
    ReportFolder { path: path.join("deep/er"), prefix: "x-".to_owned(), parts: parts.to_vec(), rank: None }
}

fn written(folder: &ReportFolder) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(&folder.path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(folder: &ReportFolder, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.file(name)).unwrap()).unwrap()
}

#[test]
fn every_stage_and_their_sum_have_a_file() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = folder(scratch.path(), &ReportPart::ALL.map(|(_, part)| part));
    let mut first = level(LevelLoad::RequestRate(100.0), 100, 20_000_000);
    let error = |message: &str| InferError { code: ErrorCode::Http(504), message: message.to_owned() };
    (first.client.failed, first.client.errors) = (3, vec![(error("a"), 2), (error("b"), 1)]);
    let ms = Duration::from_millis;
    first.client.sending = Some(SendingTime { first: ms(10), last: ms(990) });
    let mut closed = level(LevelLoad::Concurrency(8), 300, 40_000_000);
    closed.client.start = Stamp(1_500_000_000);
    let flag = |name: &str, value: &str| Flag {
        name: name.to_owned(),
        values: Some(value.to_owned()).filter(|value| !value.is_empty()).into_iter().collect(),
        given: true,
        file: false,
    };
    let flags = [flag("-u", "host:1"), flag("--endpoint", "v1/chat/completions"), flag("--streaming", "")];
    let setup = Setup { flags: flags.into(), ..plans::setup() };
    let result = plans::result(&setup, &[first, closed]);
    check(&folder).unwrap();
    write(&folder, &NEVER, &result).unwrap();
    let names = [
        "x-config.yaml",
        "x-inference-perf.partial.stage_0.yaml",
        "x-inference-perf.partial.stage_1.yaml",
        "x-stage_0_lifecycle_metrics.json",
        "x-stage_1_lifecycle_metrics.json",
        "x-summary_lifecycle_metrics.json",
        "x-validation.json",
    ];
    assert_eq!(written(&folder), names);
    let yaml = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.path.join(format!("x-{name}.yaml"))).unwrap()).unwrap()
    };
    let config = yaml("config");
    assert_eq!(config["load"]["type"], "constant");
    assert_eq!(config["server"]["base_url"], "http://host:1");
    assert_eq!(config["api"], serde_json::json!({"type": "chat", "streaming": true}));
    assert_eq!(config["load"]["stages"][0], serde_json::json!({"rate": 100.0, "duration": 1}));
    let partial = yaml("inference-perf.partial.stage_0");
    let aggregate = &partial["results"]["request_performance"]["aggregate"];
    assert_eq!(aggregate["requests"], serde_json::json!({"total": 100, "failures": 3}), "no tokens, so no lengths");
    assert_eq!(aggregate["latency"]["request_latency"]["units"], "s");
    assert!((aggregate["latency"]["request_latency"]["p99p9"].as_f64().unwrap() - 0.02).abs() < 1e-4, "{aggregate}");
    assert!(aggregate["latency"].get("time_to_first_token").is_none() && !partial.to_string().contains("null"));
    let findings = read(&folder, "validation");
    assert_eq!(findings["reports"].as_object().unwrap().len(), 6);
    assert_eq!(findings["reports"]["x-stage_0_lifecycle_metrics.json"]["errors"], serde_json::json!([]));
    assert_eq!(config["load"]["stages"][1], serde_json::json!({"concurrency_level": 8, "num_requests": 300}));
    let stage = read(&folder, "stage_0_lifecycle_metrics");
    let load = &stage["load_summary"];
    assert_eq!(
        (&load["count"], &load["requested_rate"], &load["send_duration"]),
        (&100.into(), &100.0.into(), &0.98.into())
    );
    let number = |value: &Value| value.as_f64().unwrap();
    assert!((number(&load["achieved_rate"]) - 100.0 / 0.98).abs() < 1e-9);
    assert!((number(&stage["benchmark_time_seconds"]) - 0.99).abs() < 1e-9, "from the first send on");
    let delays: Vec<&String> = load["schedule_delay"].as_object().unwrap().keys().collect();
    for name in ["mean", "min", "max", "p0.1", "p1", "p5", "p10", "p25", "median", "p75", "p90", "p95", "p99", "p99.9"]
    {
        assert!(delays.iter().any(|other| *other == name), "{name}: {delays:?}");
    }
    let latency = &stage["successes"]["latency"];
    assert!((latency["request_latency"]["p99"].as_f64().unwrap() - 0.02).abs() < 1e-4, "{latency}");
    assert!(latency["time_to_first_token"].is_null());
    let failures = &stage["failures"];
    assert_eq!(failures["count"], 3);
    let label = failures["by_label"].as_object().unwrap().values().next().unwrap();
    assert_eq!((&label["count"], label["messages"].as_array().unwrap().len()), (&3.into(), 2));
    let closed = read(&folder, "stage_1_lifecycle_metrics");
    assert_eq!(closed["load_summary"]["concurrency"], 8);
    assert!(closed["load_summary"]["requested_rate"].is_null() && closed["load_summary"]["schedule_delay"].is_null());
    let sum = read(&folder, "summary_lifecycle_metrics");
    assert_eq!((&sum["successes"]["count"], &sum["failures"]["count"]), (&400.into(), &3.into()));
    let mean = sum["successes"]["latency"]["request_latency"]["mean"].as_f64().unwrap();
    assert!((mean - 0.035).abs() < 1e-4, "{mean}: weighted by requests");
    assert!((number(&sum["benchmark_time_seconds"]) - 2.49).abs() < 1e-9, "with the pause");
    assert!(sum["load_summary"].get("achieved_rate").is_none(), "of a stage alone");
}

#[test]
fn stages_of_an_earlier_run_that_was_resumed_began_before_it() {
    let second = 1_000_000_000;
    let began = jiff::Timestamp::from_second(1_000).unwrap();
    let setup = Setup { began, began_stamp: Stamp(50 * second), ..plans::setup() };
    let mut earlier = level(LevelLoad::Concurrency(1), 10, 1000);
    earlier.client.start = Stamp(45 * second);
    let time = partial::partial(&setup, 0, &earlier, &Figures::sum([&earlier.client]).report(&PERCENTILES, None));
    let time = &time["run"]["time"];
    assert_eq!(
        (&time["start"], &time["end"]),
        (&"1970-01-01T00:16:35.000000Z".into(), &"1970-01-01T00:16:36.000000Z".into())
    );
}

#[test]
fn the_configuration_names_the_api_of_the_endpoint() {
    for (endpoint, kind) in [
        ("v1/completions", "completion"),
        ("v1/chat/completions", "chat"),
        ("proxy/v1/messages", "anthropic_messages"),
        ("v1/messages?beta=true", "anthropic_messages"),
        ("v1/embeddings", "embeddings"),
    ] {
        let flag = Flag { name: "--endpoint".to_owned(), values: vec![endpoint.to_owned()], given: true, file: false };
        let setup = Setup { flags: [flag].into(), ..plans::setup() };
        let result = plans::result(&setup, &[level(LevelLoad::Concurrency(1), 1, 1000)]);
        assert_eq!(config::config(&result)["api"]["type"], kind, "{endpoint}");
    }
    let alone = plans::result(&plans::setup(), &[level(LevelLoad::Schedule(0.0), 1, 1000)]);
    let stage = &config::config(&alone)["load"]["stages"][0];
    assert_eq!(stage, &serde_json::json!({"rate": 0.0, "duration": 1}), "a schedule of one request");
}

#[test]
fn conversations_have_files_of_the_run_and_of_each_stage() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = folder(scratch.path(), &[ReportPart::Summary, ReportPart::Stages]);
    let mut played = level(LevelLoad::Concurrency(2), 100, 20_000_000);
    let duration = played.client.latency.clone();
    let sessions = Sessions { waiting: duration.clone(), duration, turns: 250, broken: 7 };
    played.client.sessions = Some(Box::new(sessions));
    write(&folder, &NEVER, &plans::result(&plans::setup(), &[played])).unwrap();
    let all = read(&folder, "summary_session_lifecycle_metrics");
    assert_eq!(
        (&all["num_sessions"], &all["num_sessions_failed"], &all["total_events"]),
        (&100.into(), &7.into(), &250.into())
    );
    assert!((all["session_duration_sec"]["median"].as_f64().unwrap() - 0.02).abs() < 1e-4, "{all}");
    let stage = read(&folder, "stage_0_session_lifecycle_metrics");
    assert_eq!(
        (&stage["stage_metadata"]["concurrent_sessions"], &stage["num_sessions_succeeded"]),
        (&2.into(), &93.into())
    );
}

#[test]
fn adapters_have_files_of_harmless_names() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = folder(scratch.path(), &[ReportPart::Adapters, ReportPart::AdapterStages]);
    let mut summary = level(LevelLoad::RequestRate(100.0), 100, 20_000_000);
    summary.client.entries = [30, 70].map(|requests| level(summary.load, requests, 20_000_000).client).into();
    let entries = ["mo/vie", "mo:vie"].map(|name| EntrySummary { name: name.to_owned(), share: 0.5 });
    let setup = Setup { entries: entries.into(), ..plans::setup() };
    write(&folder, &NEVER, &plans::result(&setup, &[summary.clone(), summary])).unwrap();
    let names = written(&folder);
    assert_eq!(names.len(), 8, "{names:?}");
    assert!(names.contains(&"x-adapter_mo_vie_lifecycle_metrics.json".to_owned()), "{names:?}");
    assert_eq!(read(&folder, "adapter_mo_vie~2_lifecycle_metrics")["successes"]["count"], 140);
    let part = read(&folder, "adapter_mo_vie_stage_1_lifecycle_metrics");
    assert_eq!(part["load_summary"]["requested_rate"], 30.0);
}

#[test]
fn what_is_in_the_way_is_said_before() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("deep"), "").unwrap();
    let error = check(&folder(scratch.path(), &[])).unwrap_err().to_string();
    assert!(error.starts_with("--report-dir ") && error.contains("is not a directory"), "{error}");
}

#[test]
fn stages_of_another_run_are_noticed_and_stay() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = folder(scratch.path(), &[ReportPart::Summary, ReportPart::Stages]);
    let stages = |count: u32| {
        let all = (0..count).map(|stage| level(LevelLoad::Concurrency(stage + 1), 100, 20_000_000));
        plans::result(&plans::setup(), &all.collect::<Vec<_>>())
    };
    write(&folder, &NEVER, &stages(3)).unwrap();
    fs::write(folder.path.join("x-notes.json"), "mine").unwrap();
    let first = ["x-stage_0_lifecycle_metrics.json", "x-inference-perf.partial.stage_0.yaml"];
    let first = first.map(|name| folder.path.join(name));
    // Two stages have two files each.
    assert_eq!(stale::count(&folder, &first), 4);
    let summary = ReportFolder { parts: vec![ReportPart::Summary], ..folder.clone() };
    assert_eq!(stale::count(&summary, &first), 0, "it has no stages of its own");
    write(&folder, &NEVER, &stages(1)).unwrap();
    assert!(written(&folder).contains(&"x-stage_2_lifecycle_metrics.json".to_owned()));
}
