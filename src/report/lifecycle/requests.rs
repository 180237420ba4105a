//! `per_request_lifecycle_metrics.json`: the requests of a run, from its export.

use std::fs::File;
use std::io::BufReader;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::plan::ReportFolder;
use crate::report::file::Interrupts;
use crate::report::lifecycle::{failed, write_file};

const NS: f64 = 1e9;

/// Writes the requests of the run's `--profile-export-file`, which does not contain failed ones.
///
/// # Errors
/// Where the export cannot be read, or the file cannot be written.
pub fn write((folder, interrupts): (&ReportFolder, Interrupts), export: &std::path::Path) -> Result<()> {
    let file = File::open(export).map_err(|error| failed(export, &error))?;
    let export: Value = serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        Error::output(format!("--report-dir: {} is not a complete export: {error}", export.display()))
    })?;
    let experiments = export["experiments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = experiments.iter().enumerate().flat_map(|(stage, experiment)| {
        let requests = experiment["requests"].as_array().map(Vec::as_slice).unwrap_or_default();
        requests.iter().map(move |request| entry(stage, request))
    });
    write_file((folder, interrupts), &folder.requests(), &all.collect())
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
