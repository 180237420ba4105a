//! What a model is: its tensors, its batching, its scheduler, as its metadata and configuration tell.

mod canonical;
pub mod configuration;
mod dtype;
mod mark;
pub mod schema;
mod spec;
pub mod statistics;

pub use canonical::{real, word};
pub use dtype::DataType;
pub use mark::ConfigMark;
pub use spec::{ModelId, ModelSpec, Scheduler, TensorSpec};
