//! The JSON that Triton's C API and its HTTP endpoint share: metadata, configurations and statistics.

mod model;
mod number;
mod statistics;

pub use model::{ConfigJson, MetadataJson, model, model_of};
pub use statistics::{StatisticsJson, statistics};
