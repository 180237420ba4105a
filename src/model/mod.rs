//! Models: their tensors, batching and scheduler, from their metadata and configuration.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod canonical;
pub mod configuration;
mod dtype;
mod mark;
mod onnx;
pub mod schema;
mod spec;
pub mod starter;
pub mod statistics;

pub use dtype::DataType;
pub use mark::ConfigMark;
pub use spec::{CorrelationForm, ModelId, ModelSpec, Scheduler, TensorSpec};
