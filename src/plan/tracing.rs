//! What is traced of requests in this process, and what becomes of it.

use std::path::PathBuf;

use crate::backend::TraceRate;

/// What is traced of requests, and what becomes of it.
#[derive(Clone, Debug)]
pub struct TracingPlan {
    /// The report tells where the time of requests went.
    pub breakdown: bool,
    /// Which requests are traced, in this process.
    pub rate: TraceRate,
    /// Traces are written here in Chrome's form.
    pub export: Option<PathBuf>,
    /// Traces are written in Triton's form, in this process.
    pub file: Option<TraceFilePlan>,
}

impl TracingPlan {
    /// Whether there is a use for traces of single requests.
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
