//! `--report-dir`: a folder of reports with inference-perf's names and keys, so that its `--analyze` and other readers
//! understand them. Times are in seconds.
//!
//! Keys are those of inference-perf 0.7 (`reportgen/base.py`). What is not known here is `null`: prompt tokens where the
//! server does not count them, and all of failed requests. Percentiles come from our histograms, to 3 digits.

mod config;
mod figures;
mod findings;
mod partial;
mod requests;
mod sessions;
mod stale;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::file::{Interrupts, SafeFile, check_writable};
use crate::lifecycle::figures::Figures;
use crate::result::RunResult;
use crate::result::summary::{ClientSummary, LevelLoad, LevelSummary};
use crate::stdio::note;
use crate::terms::{ReportFolder, ReportPart};
use crate::{file_name, inert};

pub use requests::write as write_requests;

/// The default percentiles of a report: inference-perf's own, since its readers look for these keys.
const PERCENTILES: [f64; 11] = [0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Writes the files for the run's result.
///
/// # Errors
/// If the folder or a file cannot be written.
pub fn write(folder: &ReportFolder, interrupts: Interrupts, result: &RunResult) -> Result<()> {
    let asked = &result.setup.measurement.percentiles;
    let percentiles = if asked.is_empty() { PERCENTILES.as_slice() } else { asked };
    let files = files(folder, result, percentiles);
    if files.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(&folder.path).map_err(|error| failed(&folder.path, &error))?;
    for (path, value) in &files {
        write_file(interrupts, path, value)?;
    }
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stages: Vec<String> = (0..result.levels.len()).map(|stage| name(&folder.file(&stage_name(stage)))).collect();
    let about = |file: String| {
        let level = stages.iter().position(|stage| *stage == file).map(|stage| &result.levels[stage]);
        (file, level)
    };
    let checked = files.iter().map(|(path, _)| about(name(path)));
    write_file(interrupts, &folder.file("validation"), &findings::findings(checked))?;
    name_stale(folder, &files.into_iter().map(|(path, _)| path).collect::<Vec<_>>());
    Ok(())
}

/// Says that stages of another run are beside the files that were `written`.
fn name_stale(folder: &ReportFolder, written: &[PathBuf]) {
    let count = stale::count(folder, written);
    if count > 0 {
        note!(
            "--report-dir {}: {} about stages that this run does not have; readers of the folder take them for this run's, so \
             remove them, or name another folder",
            folder.path.display(),
            if count == 1 { "1 file is".to_owned() } else { format!("{count} files are") }
        );
    }
}

/// The files that are asked for, with their contents.
fn files(folder: &ReportFolder, result: &RunResult, percentiles: &[f64]) -> Vec<(PathBuf, Value)> {
    let (levels, adapters) = (result.levels.as_slice(), adapters(result));
    let mut files = Vec::new();
    if levels.is_empty() || folder.parts.is_empty() {
        return files;
    }
    let mut put = |name: &str, value: Value| files.push((folder.file(name), value));
    if folder.has(ReportPart::Summary) {
        let all = Figures::sum(levels.iter().map(|level| &level.client));
        put("summary_lifecycle_metrics", all.report(percentiles, None));
        let clients = levels.iter().map(|level| &level.client);
        let sessions = sessions::report(clients, all.seconds(), percentiles);
        sessions.into_iter().for_each(|report| put("summary_session_lifecycle_metrics", report));
    }
    for (stage, level) in levels.iter().enumerate().filter(|_| folder.has(ReportPart::Stages)) {
        let figures = Figures::sum([&level.client]);
        put(&stage_name(stage), figures.report(percentiles, Some(level.load)));
        let sessions = sessions::of_stage(stage, level, figures.seconds(), percentiles);
        sessions.into_iter().for_each(|report| put(&format!("stage_{stage}_session_lifecycle_metrics"), report));
    }
    for (entry, adapter) in adapters.iter().enumerate() {
        let part_of = |level: &'_ LevelSummary| level.client.entries.get(entry).cloned();
        if folder.has(ReportPart::Adapters) {
            let parts: Vec<ClientSummary> = levels.iter().filter_map(part_of).collect();
            put(&format!("adapter_{adapter}_lifecycle_metrics"), Figures::sum(&parts).report(percentiles, None));
        }
        for (stage, level) in levels.iter().enumerate().filter(|_| folder.has(ReportPart::AdapterStages)) {
            let Some(part) = part_of(level) else { continue };
            let name = format!("adapter_{adapter}_stage_{stage}_lifecycle_metrics");
            put(&name, Figures::sum([&part]).report(percentiles, Some(adapter_load(level, &part))));
        }
    }
    // JSON is YAML, too.
    let mut put_yaml = |name: &str, value: Value| files.push((folder.file(name).with_extension("yaml"), value));
    for (stage, level) in levels.iter().enumerate().filter(|_| folder.has(ReportPart::Stages)) {
        let figures = Figures::sum([&level.client]).report(&PERCENTILES, Some(level.load));
        let name = format!("inference-perf.partial.stage_{stage}");
        put_yaml(&name, partial::partial(&result.setup, stage, level, &figures));
    }
    put_yaml("config", config::config(result));
    files
}

fn stage_name(stage: usize) -> String {
    format!("stage_{stage}_lifecycle_metrics")
}

/// Checks, before anything is measured, that the folder can be written.
///
/// # Errors
/// What is in the way.
pub fn check(folder: &ReportFolder) -> Result<()> {
    if folder.has(ReportPart::Requests) {
        // The export is written into it from the first request on.
        fs::create_dir_all(&folder.path).map_err(|error| failed(&folder.path, &error))?;
    }
    let existing = folder.path.ancestors().find(|path| path.exists() || path.as_os_str().is_empty());
    let within = existing.map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    match within {
        Some(path) if !path.is_dir() => {
            let rule = format!("{} is not a directory: name another", path.display());
            Err(Error::output(format!("--report-dir {}: cannot be made: {rule}", folder.path.display())))
        }
        Some(path) if path == folder.path => check_writable("--report-dir", &folder.file("summary_lifecycle_metrics")),
        Some(path) => check_writable("--report-dir", &path.join("summary_lifecycle_metrics.json")),
        None => Ok(()),
    }
}

/// The entries of a mix as unique file names.
fn adapters(result: &RunResult) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in &result.setup.entries {
        let name = file_name::harmless(&entry.name, ADAPTER_BYTES);
        let again = (2..).map(|number| format!("{name}~{number}"));
        names.extend(std::iter::once(name.clone()).chain(again).find(|name| !names.contains(name)));
    }
    names
}

/// Maximum bytes of an adapter's name in a file name.
const ADAPTER_BYTES: usize = 100;

/// The requested load of an adapter in a stage: its part of the stage's rate.
fn adapter_load(level: &LevelSummary, part: &ClientSummary) -> LevelLoad {
    let share = part.completed() as f64 / level.client.completed().max(1) as f64;
    match level.load {
        LevelLoad::RequestRate(rate) => LevelLoad::RequestRate(rate * share),
        other => other,
    }
}

fn write_file(interrupts: Interrupts, path: &Path, value: &Value) -> Result<()> {
    let written = || {
        let mut file = io::BufWriter::new(SafeFile::create(path, interrupts)?);
        inert::write(&mut file, value)?;
        file.write_all(b"\n")?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    };
    written().map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::output(format!(
        "--report-dir {}: cannot be written: {error}; free space or name another folder",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
