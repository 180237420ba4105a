//! A folder of reports in inference-perf's format.

use std::path::PathBuf;

/// A folder of reports in inference-perf's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFolder {
    /// Where it is.
    pub path: PathBuf,
    /// Prefix of all its file names.
    pub prefix: String,
    /// What is written into it.
    pub parts: Vec<ReportPart>,
    /// The process whose requests it contains, if several share the load.
    pub rank: Option<usize>,
}

/// Files of such a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportPart {
    /// The run as a whole.
    Summary,
    /// Each stage, or level.
    Stages,
    /// Each adapter: each entry of a mix.
    Adapters,
    /// Each adapter in each stage.
    AdapterStages,
    /// Each request.
    Requests,
}

impl ReportPart {
    /// All of them, with their keywords.
    pub const ALL: [(&'static str, Self); 5] = [
        ("summary", Self::Summary),
        ("stages", Self::Stages),
        ("adapters", Self::Adapters),
        ("adapter-stages", Self::AdapterStages),
        ("requests", Self::Requests),
    ];
}

impl ReportFolder {
    /// Whether a part is written.
    pub fn has(&self, part: ReportPart) -> bool {
        self.parts.contains(&part)
    }

    /// The name of the file of single requests, without prefix and extension.
    pub fn requests(&self) -> String {
        let rank = self.rank.map(|rank| format!(".rank{rank}")).unwrap_or_default();
        format!("per_request_lifecycle_metrics{rank}")
    }

    /// The path of one of its files, from the name without prefix and extension.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{}{name}.json", self.prefix))
    }
}
