//! A run's figures as metrics of OpenTelemetry: OTLP's JSON form, which every collector takes over HTTP.

use serde_json::{Value, json};

use crate::clock::Stamp;
use crate::level_name;
use crate::result::figures::{FigureAt, all};
use crate::result::outcome::Outcome;
use crate::result::summary::LevelSummary;
use crate::result::{RunResult, Setup, Unit};

/// What a metric's name begins with.
const PREFIX: &str = "triton_bench";

/// The request that carries every figure of every level as a gauge, with what tells the level apart as attributes; none without levels.
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
    let point = |(level, earlier): (&LevelSummary, &[LevelSummary])| {
        let found = figure.value(level)?;
        let Counted { start, end } = Counted::of(level);
        Some(json!({
            "attributes": attributes(result, level, earlier),
            "startTimeUnixNano": nanoseconds(&result.setup, start),
            "timeUnixNano": nanoseconds(&result.setup, end),
            "asDouble": found.value * factor,
        }))
    };
    let points: Vec<Value> = result.levels_with_earlier().filter_map(point).collect();
    (!points.is_empty()).then(|| {
        json!({
            "name": format!("{PREFIX}.{}", figure.key()),
            "description": figure.figure.meaning,
            "unit": unit,
            "gauge": { "dataPoints": points },
        })
    })
}

/// The time that a level's figures are of.
struct Counted {
    start: Stamp,
    end: Stamp,
}

impl Counted {
    /// That of its windows. A level that is measured as a whole, or that lacks a counted window, has its own.
    fn of(level: &LevelSummary) -> Self {
        let client = &level.client;
        let windows = || level.windows.iter().filter(|row| row.counted);
        let start = windows().map(|row| row.start).min().unwrap_or(client.start);
        let end = windows().map(|row| row.start.plus_duration(row.duration)).max();
        Self { start, end: end.unwrap_or_else(|| client.start.plus_duration(client.duration)) }
    }
}

/// Two points of a metric with the same attributes would be one series, of which a collector may keep either.
fn attributes(result: &RunResult, level: &LevelSummary, earlier: &[LevelSummary]) -> Vec<Value> {
    let repetition = result.distinction(level, earlier).repetition;
    let models: Vec<&str> = result.setup.models.iter().map(|model| model.name.as_str()).collect();
    let all = [
        attribute("model", &models.join(",")),
        attribute("service", &result.setup.service_kind),
        attribute("load", &level_name(level.load)),
        attribute("batch_size", &level.client.batch_size.to_string()),
        attribute("outcome", Outcome::new(level).name()),
    ];
    all.into_iter().chain(repetition.map(|number| attribute("repetition", &number.to_string()))).collect()
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// A moment since the epoch. 64-bit numbers are texts in protobuf's JSON.
fn nanoseconds(setup: &Setup, moment: Stamp) -> String {
    setup.wall_time(moment).as_nanosecond().to_string()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{LevelLoad, sample};
    use crate::result::timeline;

    #[test]
    fn a_level_that_repeats_a_load_is_another_series_of_another_time() {
        const SECOND: u64 = 1_000_000_000;
        let setup =
            Setup { began: Timestamp::from_second(1_000).unwrap(), began_stamp: Stamp(50 * SECOND), ..plans::setup() };
        let level = |concurrency: u32, start: u64| {
            let mut level = sample::level(LevelLoad::Concurrency(concurrency), 100, 5_000_000);
            level.client.start = Stamp(start * SECOND);
            level
        };
        let mut with_windows = level(4, 60);
        let row = |start: u64, counted: bool| timeline::WindowRow {
            duration: Duration::from_secs(2),
            counted,
            ..timeline::sample::row(Stamp(start * SECOND))
        };
        with_windows.windows = vec![row(60, false), row(62, true), row(64, true), row(66, false)];
        // The first is of an earlier run that was resumed.
        let result = plans::result(&setup, &[level(4, 45), level(8, 51), with_windows]);
        let request: Value = serde_json::from_str(&request(&result).unwrap()).unwrap();
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let throughput = metrics.iter().find(|metric| metric["name"] == "triton_bench.throughput").unwrap();
        let told = |point: &Value| {
            let seconds = |key: &str| point[key].as_str().unwrap().parse::<u64>().unwrap() / SECOND;
            let attributes = point["attributes"].as_array().unwrap();
            let repetition = attributes.iter().find(|attribute| attribute["key"] == "repetition");
            let repetition = repetition.map(|found| found["value"]["stringValue"].as_str().unwrap().to_owned());
            (repetition, seconds("startTimeUnixNano"), seconds("timeUnixNano"))
        };
        let points: Vec<_> = throughput["gauge"]["dataPoints"].as_array().unwrap().iter().map(told).collect();
        let expected = [(Some("1"), 995, 996), (None, 1_001, 1_002), (Some("2"), 1_012, 1_016)];
        assert_eq!(points, expected.map(|(number, start, end)| (number.map(str::to_owned), start, end)));
    }
}
