//! Files of stages that another run left in the folder: readers take them for this run's.

use std::fs;
use std::path::PathBuf;

use crate::terms::{ReportFolder, ReportPart};

/// How many files of stages are in the folder that are not among `written`. They stay: they may be inference-perf's own, which have the
/// same names.
pub(super) fn count(folder: &ReportFolder, written: &[PathBuf]) -> usize {
    if !folder.has(ReportPart::Stages) {
        return 0;
    }
    let is_stale = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| is_of_a_stage(name, &folder.prefix)) && !written.contains(path)
    };
    let entries = fs::read_dir(&folder.path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_stale).count()
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
