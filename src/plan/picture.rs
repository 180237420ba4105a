//! Pictures of a result.

use std::path::PathBuf;

/// A picture of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Latency against throughput.
    Throughput,
    /// Time to first token and inter token latency over the load.
    Tokens,
    /// Tokens a second of all users against those of each.
    Interactivity,
    /// Latency against the share of requests.
    Spectrum,
    /// What happened window by window.
    Timeline,
    /// How often each latency occurred over time.
    Heatmap,
    /// Where the mean latency goes.
    Waterfall,
    /// Why requests failed over time.
    Failures,
    /// Ratios of the figures of two results.
    Comparison,
}

impl Picture {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 9] = [
        Self::Throughput,
        Self::Tokens,
        Self::Interactivity,
        Self::Spectrum,
        Self::Timeline,
        Self::Heatmap,
        Self::Waterfall,
        Self::Failures,
        Self::Comparison,
    ];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Tokens => "tokens",
            Self::Interactivity => "interactivity",
            Self::Spectrum => "spectrum",
            Self::Timeline => "timeline",
            Self::Heatmap => "heatmap",
            Self::Waterfall => "waterfall",
            Self::Failures => "failures",
            Self::Comparison => "comparison",
        }
    }
}

/// A picture in a separate file (`--svg`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// Which one.
    pub figure: Picture,
    /// Its file.
    pub path: PathBuf,
}

/// Pictures and tables of results for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// The report, a self-contained page.
    pub html: Option<PathBuf>,
    /// Single pictures.
    pub figures: Vec<PictureFile>,
    /// A table for a pull request.
    pub markdown: Option<PathBuf>,
}

/// What the command `report` reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOf {
    /// Results, starting with the one that the others are compared with.
    pub results: Vec<PathBuf>,
    /// What is made from them.
    pub pages: Pages,
}
