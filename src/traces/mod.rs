//! Traces written by a Triton server: read from its files, and added up by protocol and model.

mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod objects;
mod read;
mod spans;
mod stages;
mod trace;

pub use follow::TraceFiles;
pub use read::{TraceFile, read};
pub use spans::{Frontend, ModelSpans, add_up};
pub use stages::{ModelStages, StageFigures, stages};
pub use trace::Trace;
