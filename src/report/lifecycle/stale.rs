//! Files of stages that an earlier run left in the folder: readers would take them for this run's.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::terms::{ReportFolder, ReportPart};

/// Removes the files of stages that are not among `written`. Returns how many there were.
///
/// # Errors
/// If the folder cannot be read, or a file not removed.
pub(super) fn remove(folder: &ReportFolder, written: &[PathBuf]) -> io::Result<usize> {
    if !folder.has(ReportPart::Stages) {
        return Ok(0);
    }
    let mut count = 0;
    for entry in fs::read_dir(&folder.path)? {
        let entry = entry?;
        let is_stale = entry.file_name().to_str().is_some_and(|name| is_of_a_stage(name, &folder.prefix))
            && !written.contains(&entry.path())
            && entry.file_type()?.is_file();
        if is_stale {
            fs::remove_file(entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

/// Whether a file is one of those that each stage has.
fn is_of_a_stage(name: &str, prefix: &str) -> bool {
    let ends = ["_lifecycle_metrics.json", "_session_lifecycle_metrics.json", ".yaml"];
    let Some(name) = name.strip_prefix(prefix) else { return false };
    let (number, is_partial) = match name.strip_prefix("inference-perf.partial.stage_") {
        Some(number) => (number, true),
        None => (name.strip_prefix("stage_").unwrap_or_default(), false),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut ends = ends.into_iter().filter(|end| end.ends_with(".yaml") == is_partial);
    ends.any(|end| number.strip_suffix(end).is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_stages_are_taken_for_such() {
        for name in [
            "x-stage_3_lifecycle_metrics.json",
            "x-stage_10_session_lifecycle_metrics.json",
            "x-inference-perf.partial.stage_2.yaml",
        ] {
            assert!(is_of_a_stage(name, "x-"), "{name}");
        }
        for name in [
            "stage_3_lifecycle_metrics.json",
            "x-stage_three_lifecycle_metrics.json",
            "x-stage__lifecycle_metrics.json",
            "x-stage_3.yaml",
            "x-my_stage_3_lifecycle_metrics.json",
            "x-summary_lifecycle_metrics.json",
            "x-per_request_lifecycle_metrics.json",
            "x-inference-perf.partial.stage_2.yaml.bak",
        ] {
            assert!(!is_of_a_stage(name, "x-"), "{name}");
        }
    }
}
