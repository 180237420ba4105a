//! What a model is: its tensors, its batching, its scheduler, as its metadata and configuration tell.

mod dtype;
mod json;
mod spec;
pub mod statistics;

pub use dtype::DataType;
pub use json::{ConfigJson, MetadataJson};
pub use spec::{ModelId, ModelSpec, Scheduler, TensorSpec};
