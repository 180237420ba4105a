//! `--report-dir`: a folder of reports in inference-perf's form.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use crate::plan::ReportPlan;
use crate::terms::{ReportFolder, ReportPart};

/// The placeholder of the time in a folder's name.
const TIMESTAMP: &str = "{timestamp}";

/// A folder of reports in inference-perf's form.
#[derive(Args, Debug)]
#[command(next_help_heading = "Report")]
pub struct FolderArgs {
    /// Writes reports with inference-perf's names and keys into this folder, creating it if needed: times are in
    /// seconds. `{timestamp}` becomes the date and time (UTC). Default: off
    #[arg(long, value_name = "DIR")]
    report_dir: Option<PathBuf>,

    /// What --report-dir contains: the whole run, each stage or level, each entry of --model-mix, each entry in each
    /// stage, each request (from --profile-export-file, written to the folder unless given); or none
    #[arg(long, value_name = "summary,stages,adapters,adapter-stages,requests", default_value = "summary,stages,adapters,adapter-stages",
        value_parser = parts)]
    report_parts: Parts,

    /// Prefix of all file names in --report-dir. Default: none
    #[arg(long, value_name = "TEXT", value_parser = prefix)]
    report_prefix: Option<String>,
}

#[derive(Clone, Debug)]
struct Parts(Vec<ReportPart>);

impl FolderArgs {
    /// Adds the folder to the outputs, and the export that it needs.
    pub fn add_to(&self, plan: ReportPlan) -> ReportPlan {
        let Some(path) = &self.report_dir else { return plan };
        let named = path.to_str().filter(|path| path.contains(TIMESTAMP)).map(|path| {
            let now = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
            PathBuf::from(path.replace(TIMESTAMP, &now))
        });
        let folder = ReportFolder {
            path: named.unwrap_or_else(|| path.clone()),
            prefix: self.report_prefix.clone().unwrap_or_default(),
            parts: self.report_parts.0.clone(),
            rank: None,
        };
        let export = folder.has(ReportPart::Requests).then(|| folder.file("profile_export"));
        ReportPlan { profile_export: plan.profile_export.or(export), folder: Some(folder), ..plan }
    }
}

fn parts(text: &str) -> Result<Parts, String> {
    if text == "none" {
        return Ok(Parts(Vec::new()));
    }
    let part = |word: &str| {
        let found = ReportPart::ALL.into_iter().find(|(name, _)| word.trim().eq_ignore_ascii_case(name));
        found.map(|(_, part)| part).ok_or_else(|| {
            let names: Vec<&str> = ReportPart::ALL.iter().map(|(word, _)| *word).collect();
            format!("it must be none, or some of {}", names.join(", "))
        })
    };
    text.split(',').map(part).collect::<Result<_, _>>().map(Parts)
}

fn prefix(text: &str) -> Result<String, String> {
    if text.contains(['/', '\0']) {
        Err("it is part of a file's name and holds no '/'".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_words_of_a_list() {
        assert_eq!(parts("Summary, requests").unwrap().0, [ReportPart::Summary, ReportPart::Requests]);
        assert!(parts("none").unwrap().0.is_empty());
        assert!(parts("").is_err() && parts("summary,").is_err() && parts("stage").is_err());
        assert!(prefix("a/b").is_err());
    }
}
