//! Traces written by a Triton server: read from its files, and added up by protocol and model.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod objects;
mod read;
mod spans;
mod stages;
mod trace;

use base::error;

pub use follow::TraceFiles;
pub use read::{TraceFile, read};
pub use spans::{Frontend, ModelSpans, add_up};
pub use stages::{ModelStages, StageFigures, stages};
pub use trace::Trace;
