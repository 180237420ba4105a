//! The files that a search writes: the winner as `config.pbtxt` and for the load API, the table as CSV with the columns
//! of Model Analyzer, everything as JSON, and a page with a picture.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::csv::inert as inert_cell;
use crate::error::{Error, Result};
use crate::file_name::harmless;
use crate::model::configuration;
use crate::partial::unwritten;
use crate::result::{CandidateResult, TuneFile, TuneResult};
use crate::terms::asked;
use crate::{Interrupts, SafeFile, html, inert, is_special};

/// Columns of Model Analyzer's `metrics-model-inference.csv`.
const COLUMNS: [&str; 8] = [
    "Model",
    "Batch",
    "Concurrency",
    "Model Config Path",
    "Instance Group",
    "Max Batch Size",
    "Satisfies Constraints",
    "Throughput (infer/sec)",
];

/// Names of the files in the folder of a search, beside its record.
const NAMES: [&str; 5] = ["config.pbtxt", "load.json", "metrics-model-inference.csv", "result.json", "report.html"];

/// Fails if a file of a search could not take the place of what is there: a pipe would wait for whoever reads or writes it.
///
/// # Errors
/// Which, and what to do.
pub fn check(folder: &Path, record: &str) -> Result<()> {
    let is_odd = |path: &PathBuf| is_special(path) || path.is_dir();
    match NAMES.iter().chain([&record]).map(|name| folder.join(name)).find(is_odd) {
        Some(path) => Err(Error::output(format!(
            "--output {}: {} is no regular file, and would be replaced by one; remove it, or name another folder",
            folder.display(),
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Where a search writes.
pub struct Places<'a> {
    /// The folder of all its files.
    pub folder: &'a Path,
    /// A further file with the table.
    pub csv: Option<&'a Path>,
    /// A further file with everything.
    pub summary: Option<&'a Path>,
}

/// Writes everything; `configurations` are the winner's, that of the model first.
///
/// # Errors
/// All files that cannot be written.
pub fn write(
    places: &Places<'_>,
    interrupts: Interrupts,
    result: &TuneResult,
    configurations: &[(String, Value)],
) -> Result<()> {
    let Places { folder, csv: further_table, summary } = *places;
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (index, (model, configuration)) in configurations.iter().enumerate() {
        let name = |file: &str| match index {
            0 => folder.join(file),
            _ => folder.join(format!("{}.{file}", harmless(model, 100))),
        };
        let body = json!({ "parameters": { "config": configuration.to_string() } });
        files.push((name("config.pbtxt"), configuration::text(configuration).into_bytes()));
        files.push((name("load.json"), pretty(&body)));
    }
    let table = csv(result)?;
    let whole = pretty(&json!(TuneFile::new(result)));
    files.push((folder.join("metrics-model-inference.csv"), table.clone()));
    files.push((folder.join("result.json"), whole.clone()));
    files.push((folder.join("report.html"), html::tune_page(result).into_bytes()));
    files.extend(further_table.map(|path| (path.to_owned(), table.clone())));
    files.extend(summary.map(|path| (path.to_owned(), whole.clone())));
    files.iter().map(|(path, bytes)| put(path, interrupts, bytes)).fold(Ok(()), Error::both)
}

fn pretty(value: &Value) -> Vec<u8> {
    inert::escaped(&format!("{value:#}\n")).into_bytes()
}

fn put(path: &Path, interrupts: Interrupts, bytes: &[u8]) -> Result<()> {
    let written = || -> io::Result<()> {
        let mut file = SafeFile::create(path, interrupts)?;
        file.write_all(bytes)?;
        file.finish()
    };
    written().map_err(|error| unwritten(format_args!("{}", path.display()), &error))
}

/// A row for each candidate that was measured, best first.
fn csv(result: &TuneResult) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| Error::output(format!("the table cannot be written as CSV: {error}"));
    let latency = format!("p{} Latency (ms)", result.percentile);
    let verdict_titles = ["Verdict", "Reason"].map(str::to_owned);
    let header = COLUMNS
        .iter()
        .map(|name| (*name).to_owned())
        .chain([latency])
        .chain(result.settings.iter().cloned())
        .chain(verdict_titles)
        .map(|title| inert_cell(&title).into_owned());
    writer.write_record(header).map_err(failed)?;
    for candidate in result.candidates.iter().filter(|candidate| candidate.figures.is_some()) {
        let row = row(result, candidate);
        writer.write_record(row.iter().map(|cell| inert_cell(cell).into_owned())).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| Error::output(error.to_string()))
}

fn row(result: &TuneResult, candidate: &CandidateResult) -> Vec<String> {
    let value_of = |name: &str| {
        let index = result.settings.iter().position(|setting| setting == name)?;
        Some(asked(&candidate.values[index]))
    };
    let figures = candidate.figures.as_ref();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let path = match candidate.number {
        0 => format!("{}_config_default", result.model),
        number => format!("{}_config_{number}", result.model),
    };
    let mut row = vec![
        result.model.clone(),
        figures.map_or_else(String::new, |figures| figures.means.batch_size.to_string()),
        figures
            .and_then(|figures| figures.means.concurrency)
            .map_or_else(String::new, |concurrency| concurrency.to_string()),
        path,
        value_of("instance_group[].count").unwrap_or_default(),
        value_of("max_batch_size").unwrap_or_default(),
        if candidate.meets { "Yes" } else { "No" }.to_owned(),
        number(figures.map(|figures| figures.means.throughput)),
        number(figures.map(|figures| figures.means.latency_ns / 1e6)),
    ];
    row.extend(candidate.values.iter().map(asked));
    row.extend([candidate.status.name().to_owned(), candidate.reason.clone().unwrap_or_default()]);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::table::sample;

    #[test]
    fn a_folder_with_something_else_in_a_files_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path(), "trials.jsonl").unwrap();
        std::fs::write(folder.path().join("result.json"), "old").unwrap();
        check(folder.path(), "trials.jsonl").unwrap();
        for name in ["trials.jsonl", "config.pbtxt"] {
            let path = folder.path().join(name);
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            let error = check(folder.path(), "trials.jsonl").unwrap_err().to_string();
            assert!(error.contains("--output") && error.contains(name), "{error}");
            std::fs::remove_file(path).unwrap();
        }
        std::os::unix::fs::symlink("/dev/full", folder.path().join("report.html")).unwrap();
        assert!(check(folder.path(), "trials.jsonl").unwrap_err().to_string().contains("report.html"));
    }

    #[test]
    fn the_columns_are_model_analyzers() {
        let text = String::from_utf8(csv(&sample::result()).unwrap()).unwrap();
        let mut lines = text.lines();
        let header = "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,\
            Throughput (infer/sec),p99 Latency (ms),instance_group[].count,max_batch_size,\
            dynamic_batching.max_queue_delay_microseconds,Verdict,Reason";
        assert_eq!(lines.next(), Some(header));
        assert_eq!(lines.next(), Some("m,1,32,m_config_2,3,8,Yes,6399.995,14.250,3,8,100,winner,"));
        assert!(lines.next().unwrap().contains("m_config_default"));
        assert_eq!(lines.count(), 1, "what was not measured has no row");
    }

    #[test]
    fn names_do_nothing_in_a_spreadsheet_or_a_terminal() {
        let hostile = TuneResult { model: "=cmd()\u{202e}<".to_owned(), ..sample::result() };
        let text = String::from_utf8(csv(&hostile).unwrap()).unwrap();
        assert!(text.contains("\n'=cmd()") && !text.contains('\u{202e}'), "{text}");
        let json = String::from_utf8(pretty(&json!(hostile))).unwrap();
        assert!(!json.contains(['\u{202e}', '<']), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["model"], json!(hostile.model));
    }
}
