//! `inference-perf.partial.stage_N.yaml`: a stage's part of llm-d's benchmark report 0.2.1, which its composers merge with what
//! others know of the run. Figures that are not known are left out, because a `null` would replace another's.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::result::Setup;
use crate::result::summary::LevelSummary;

const VERSION: &str = "0.2.1";

/// The report of a stage, from the one with inference-perf's `figures`.
pub fn partial(setup: &Setup, stage: usize, level: &LevelSummary, figures: &Value) -> Value {
    let (latency, throughput) = (&figures["successes"]["latency"], &figures["successes"]["throughput"]);
    let (seconds, per_token) = ("s", "s/token");
    let latencies = [
        ("request_latency", seconds),
        ("time_to_first_token", seconds),
        ("time_per_output_token", per_token),
        ("inter_token_latency", per_token),
        ("normalized_time_per_output_token", per_token),
    ];
    let rates = [
        ("input_token_rate", "input_tokens_per_sec", "tokens/s"),
        ("output_token_rate", "output_tokens_per_sec", "tokens/s"),
        ("total_token_rate", "total_tokens_per_sec", "tokens/s"),
        ("request_rate", "requests_per_sec", "queries/s"),
    ];
    let lengths = [("input_length", "prompt_tokens"), ("output_length", "output_len")];
    let mut requests: Map<String, Value> =
        lengths.iter().filter_map(|(name, key)| named(name, statistics(&figures["successes"][key], "count"))).collect();
    requests.insert("total".to_owned(), figures["load_summary"]["count"].clone());
    requests.insert("failures".to_owned(), figures["failures"]["count"].clone());
    let mut aggregate = json!({
        "requests": requests,
        "latency": latencies.iter().filter_map(|(key, unit)| named(key, statistics(&latency[key], unit))).collect::<Map<_, _>>(),
    });
    // Where nothing succeeded no rate was measured.
    if figures["successes"]["count"].as_u64() > Some(0) {
        let rate = |key: &str, unit: &str| Some(json!({ "units": unit, "mean": throughput[key].as_f64()? }));
        aggregate["throughput"] =
            rates.iter().filter_map(|(name, key, unit)| named(name, rate(key, unit))).collect::<Map<_, _>>().into();
    }
    json!({
        "version": VERSION,
        "run": run(setup, stage, level),
        "results": { "request_performance": { "aggregate": aggregate } },
    })
}

fn named(name: &str, value: Option<Value>) -> Option<(String, Value)> {
    value.map(|value| (name.to_owned(), value))
}

/// A distribution under the names of that report: `median` is `p50`, and a point in a percentile a `p`.
fn statistics(distribution: &Value, unit: &str) -> Option<Value> {
    let members = distribution.as_object().filter(|members| members.get("mean").is_some_and(Value::is_number))?;
    let mut all = Map::from_iter([("units".to_owned(), json!(unit))]);
    for (key, value) in members {
        let name = if key == "median" { "p50".to_owned() } else { key.replace('.', "p") };
        let is_part = ["mean", "min", "max"].contains(&&*name) || name.starts_with('p');
        all.extend(is_part.then(|| (name, value.clone())));
    }
    Some(all.into())
}

/// Which run it was, and when the stage ran, by the wall clock at the run's beginning.
fn run(setup: &Setup, stage: usize, level: &LevelSummary) -> Value {
    let experiment = format!("{:x}", setup.began.as_nanosecond());
    let client = &level.client;
    let [start, end] = [client.start, client.start.plus_duration(client.duration)].map(|stamp| setup.wall_time(stamp));
    let show = |moment: Timestamp| format!("{moment:.6}");
    json!({
        "uid": format!("triton-bench-stage-{stage}-{experiment}"),
        "eid": format!("triton-bench-experiment-{experiment}"),
        "time": {
            "start": show(start),
            "end": show(end),
            "duration": format!("PT{:.3}S", client.duration.as_secs_f64()),
        },
    })
}
