//! `per_request_lifecycle_metrics.json`: the requests of a run, from its export.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::file::Interrupts;
use crate::lifecycle::{failed, write_file};
use crate::result::RunResult;
use crate::terms::ReportFolder;

const NS: f64 = 1e9;

/// Writes the requests of the run's `--profile-export-file`, which does not contain failed ones. Those of a level that
/// was measured again are left out, as in the files of its stage.
///
/// # Errors
/// If the export cannot be read, or the file cannot be written.
pub fn write(folder: &ReportFolder, interrupts: Interrupts, export: &Path, result: &RunResult) -> Result<()> {
    let file = File::open(export).map_err(|error| failed(export, &error))?;
    let export: Value = serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        Error::output(format!("--report-dir: {} is not a complete export: {error}", export.display()))
    })?;
    let experiments = export["experiments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = experiments.iter().filter_map(|experiment| Some((stage(experiment, result)?, experiment)));
    let all = all.flat_map(|(stage, experiment)| {
        let requests = experiment["requests"].as_array().map(Vec::as_slice).unwrap_or_default();
        requests.iter().map(move |request| entry(stage, request))
    });
    write_file(interrupts, &folder.file(&folder.requests()), &all.collect())
}

/// The number of the level that an experiment is the measurement of; `None` if another measurement of it counts. A
/// periodic load is the only one of its run, without a level.
fn stage(experiment: &Value, result: &RunResult) -> Option<usize> {
    if result.levels.is_empty() {
        return Some(0);
    }
    let start = experiment["summary"]["start_ns"].as_u64()?;
    result.levels.iter().position(|level| level.client.start.0 == start)
}

fn entry(stage: usize, request: &Value) -> Value {
    let stamps = request["response_timestamps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let start = request["timestamp"].as_u64();
    let end = stamps.last().and_then(Value::as_u64).or(start);
    let seconds = |ns: u64| ns as f64 / NS;
    json!({
        "start_time": start.map(seconds),
        "end_time": end.map(seconds),
        "request": request["request_inputs"],
        "response": request["response_outputs"],
        "info": {
            "stage_id": stage,
            "lora_adapter": request.get("model"),
            "scheduled_time": request["intended_timestamp"].as_u64().map(seconds),
            "response_times": stamps.iter().filter_map(Value::as_u64).map(seconds).collect::<Vec<_>>(),
        },
        "error": null,
    })
}
