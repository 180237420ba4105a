//! What is traced of requests in this process, and where traces go.

use std::path::PathBuf;

use crate::backend::TraceRate;

/// What is traced of requests, and where traces go.
#[derive(Clone, Debug)]
pub struct TracingPlan {
    /// Whether the report shows where requests spend their time.
    pub breakdown: bool,
    /// Which requests are traced, in this process.
    pub rate: TraceRate,
    /// Where traces are written in Chrome's format.
    pub export: Option<PathBuf>,
    /// Where traces are written in Triton's format, in this process.
    pub file: Option<TraceFilePlan>,
}

impl TracingPlan {
    /// Whether traces of single requests are needed.
    pub fn wants_traces(&self) -> bool {
        self.breakdown || self.has_files()
    }

    /// Whether traces are written to files.
    pub fn has_files(&self) -> bool {
        self.export.is_some() || self.file.is_some()
    }
}

/// A file in the form of Triton's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFilePlan {
    /// Where it is.
    pub path: PathBuf,
    /// Most traces in it; no bound if absent.
    pub count: Option<usize>,
}
