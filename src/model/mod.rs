//! What a model is: its tensors, its batching, its scheduler, as its metadata and configuration tell.

pub mod configuration;
mod dtype;
mod json;
mod mark;
mod spec;
pub mod statistics;

pub use dtype::DataType;
pub use json::{ConfigJson, MetadataJson};
pub use mark::ConfigMark;
pub use spec::{ModelId, ModelSpec, Scheduler, TensorSpec};
