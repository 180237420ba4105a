//! A run's figures as metrics of OpenTelemetry: OTLP's JSON form, which every collector takes over HTTP.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::level_name;
use crate::result::figures::{FigureAt, all};
use crate::result::outcome::Outcome;
use crate::result::summary::LevelSummary;
use crate::result::{RunResult, Unit};

/// What a metric's name begins with.
const PREFIX: &str = "triton_bench";

/// The request that carries every figure of every level as a gauge, with the level's load as an attribute; none without levels.
pub fn request(result: &RunResult) -> Option<String> {
    let setup = &result.setup;
    let metrics: Vec<Value> = all(&setup.measurement).into_iter().filter_map(|figure| metric(result, figure)).collect();
    if metrics.is_empty() {
        return None;
    }
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", "triton-bench"), ("service.version", version)];
    let scope = json!({ "name": "triton-bench", "version": version });
    let request = json!({ "resourceMetrics": [{
        "resource": { "attributes": resource.map(|(key, value)| attribute(key, value)) },
        "scopeMetrics": [{ "scope": scope, "metrics": metrics }],
    }] });
    Some(request.to_string())
}

/// A figure of all levels that have it. Times are in seconds, as OpenTelemetry wants them.
fn metric(result: &RunResult, figure: FigureAt) -> Option<Value> {
    let (unit, factor) = unit(figure.figure.unit);
    let point = |level: &LevelSummary| {
        let found = figure.value(level)?;
        Some(json!({
            "attributes": attributes(result, level),
            "startTimeUnixNano": nanoseconds(result.setup.began),
            "timeUnixNano": nanoseconds(result.ended.unwrap_or(result.setup.began)),
            "asDouble": found.value * factor,
        }))
    };
    let points: Vec<Value> = result.levels.iter().filter_map(point).collect();
    (!points.is_empty()).then(|| {
        json!({
            "name": format!("{PREFIX}.{}", figure.key()),
            "description": figure.figure.meaning,
            "unit": unit,
            "gauge": { "dataPoints": points },
        })
    })
}

fn attributes(result: &RunResult, level: &LevelSummary) -> [Value; 5] {
    let models: Vec<&str> = result.setup.models.iter().map(|model| model.name.as_str()).collect();
    [
        attribute("model", &models.join(",")),
        attribute("service", &result.setup.service_kind),
        attribute("load", &level_name(level.load)),
        attribute("batch_size", &level.client.batch_size.to_string()),
        attribute("outcome", Outcome::new(level).name()),
    ]
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// 64-bit numbers are texts in protobuf's JSON.
fn nanoseconds(time: Timestamp) -> String {
    time.as_nanosecond().to_string()
}

/// The unit in UCUM, OpenTelemetry's code for units, and what a value is multiplied by.
fn unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::PerSecond => ("{inference}/s", 1.0),
        Unit::RequestsPerSecond => ("{request}/s", 1.0),
        Unit::ResponsesPerSecond => ("{response}/s", 1.0),
        Unit::TokensPerSecond => ("{token}/s", 1.0),
        Unit::Tokens => ("{token}", 1.0),
        Unit::BytesPerSecond => ("By/s", 1.0),
        Unit::Nanoseconds => ("s", 1e-9),
        Unit::Share | Unit::Ratio => ("1", 1.0),
    }
}
