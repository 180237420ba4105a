//! Traces written by a Triton server: read from its files, and added up by protocol and model.

mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod read;
mod spans;
mod stages;

pub use follow::TraceFiles;
pub use read::{Trace, read};
pub use spans::{Frontend, ModelSpans, add_up};
pub use stages::{ModelStages, StageFigures, stages};
