//! The messages of `inference.GRPCInferenceService`: those of inference parsed by hand, the others by prost.

mod answer;
mod config_json;
mod contents;
pub mod control;
mod infer;
mod parameter;
#[cfg(test)]
mod tests;

pub use answer::{
    Answer, ModelConfig, ModelConfigResponse, ModelMetadata, Statistics, TensorFlags, TensorMetadata, WholeConfig,
};
pub use infer::{InferReply, StreamReply};
pub use parameter::put_parameter;
