//! `config.yaml`: the load, the server and the model in inference-perf's own terms, as its runs leave them beside their reports.

use serde_json::{Map, Value, json};

use crate::result::RunResult;
use crate::result::summary::{LevelLoad, LevelSummary};

/// What was asked for, as far as inference-perf has a word for it.
pub fn config(result: &RunResult) -> Value {
    let setup = &result.setup;
    let flag = |name: &str| setup.flags.iter().find(|flag| flag.name == name);
    let value = |name: &str| flag(name).and_then(|flag| flag.values.first());
    let api = value("--endpoint")
        .map(|endpoint| json!({ "type": api_type(endpoint), "streaming": flag("--streaming").is_some() }));
    let server = known([
        ("model_name", setup.models.first().map(|model| json!(model.name))),
        (
            "base_url",
            value("-u").map(|url| json!(if url.contains("://") { url.clone() } else { format!("http://{url}") })),
        ),
    ]);
    let load = known([
        ("type", Some(json!(kind(&result.levels, value("--request-distribution").map(String::as_str))))),
        ("stages", Some(result.levels.iter().map(stage).collect())),
        ("trace", value("--trace-replay").map(|file| json!({ "file": file }))),
        ("base_seed", Some(json!(setup.seed))),
    ]);
    known([("load", Some(load)), ("api", api), ("server", Some(server))])
}

/// The type of the API that an endpoint is of; a query is no part of its path.
fn api_type(endpoint: &str) -> &'static str {
    let path = endpoint.split('?').next().unwrap_or_default().trim_end_matches('/');
    match path.rsplit('/').next().unwrap_or_default() {
        "embeddings" => "embeddings",
        "messages" => "anthropic_messages",
        "completions" if path.ends_with("chat/completions") => "chat",
        _ => "completion",
    }
}

/// An object of what is known.
fn known<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
}

/// The type of a load is that of its first stage.
fn kind(levels: &[LevelSummary], distribution: Option<&str>) -> &'static str {
    match levels.first().map(|level| level.load) {
        Some(LevelLoad::Concurrency(_) | LevelLoad::Streams(_)) => "concurrent",
        Some(LevelLoad::Schedule(_)) => "trace_replay",
        _ if distribution == Some("poisson") => "poisson",
        _ => "constant",
    }
}

fn stage(level: &LevelSummary) -> Value {
    let sent = level.client.sent;
    match level.load {
        LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => {
            // A schedule of one request has no rate.
            let seconds = if rate > 0.0 { sent as f64 / rate } else { level.client.duration.as_secs_f64() };
            json!({ "rate": rate, "duration": seconds.round().max(1.0) as u64 })
        }
        LevelLoad::Concurrency(number) | LevelLoad::Streams(number) => {
            json!({ "concurrency_level": number, "num_requests": sent })
        }
    }
}
