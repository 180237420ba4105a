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
    /// Latency over the size of tensors, of a study.
    Sizes,
    /// Bytes a second over the size of tensors, of a study.
    Bandwidth,
    /// What variants came to in each round.
    Rounds,
}

impl Picture {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 12] = [
        Self::Throughput,
        Self::Tokens,
        Self::Interactivity,
        Self::Spectrum,
        Self::Timeline,
        Self::Heatmap,
        Self::Waterfall,
        Self::Failures,
        Self::Comparison,
        Self::Sizes,
        Self::Bandwidth,
        Self::Rounds,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
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
            Self::Sizes => "sizes",
            Self::Bandwidth => "bandwidth",
            Self::Rounds => "rounds",
        }
    }
}

impl Picture {
    /// Whether it shows variants and no levels.
    pub fn is_of_variants(self) -> bool {
        matches!(self, Self::Sizes | Self::Bandwidth | Self::Rounds)
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
