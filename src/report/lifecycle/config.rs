//! `config.yaml`: the load in inference-perf's own terms, as its runs leave it beside their reports.

use serde_json::{Value, json};

use crate::result::RunResult;
use crate::result::summary::{LevelLoad, LevelSummary};
use crate::terms::Flag;

/// What was asked for, as far as inference-perf has a word for it; and the flags, which have all of it.
pub fn config(result: &RunResult) -> Value {
    let setup = &result.setup;
    let flag = |name: &str| setup.flags.iter().find(|flag| flag.name == name);
    let value = |name: &str| flag(name).and_then(|flag| flag.values.first());
    let api = value("endpoint").map(|endpoint| match endpoint.ends_with("chat/completions") {
        true => "chat",
        false => "completion",
    });
    json!({
        "load": {
            "type": kind(&result.levels, value("request-distribution").map(String::as_str)),
            "stages": result.levels.iter().map(stage).collect::<Vec<_>>(),
            "base_seed": setup.seed,
        },
        "api": {"type": api, "streaming": flag("streaming").is_some()},
        "server": {"model_name": setup.models.first().map(|model| &model.name), "base_url": value("url")},
        "flags": setup.flags.iter().filter(|flag| flag.given).map(words).collect::<Vec<_>>(),
    })
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
            json!({"rate": rate, "duration": (sent as f64 / rate).round().max(1.0)})
        }
        LevelLoad::Concurrency(number) | LevelLoad::Streams(number) => {
            json!({"concurrency_level": number, "num_requests": sent})
        }
    }
}

fn words(flag: &Flag) -> String {
    [vec![format!("--{}", flag.name)], flag.values.clone()].concat().join(" ")
}
