//! Messages of the control plane, by their published field numbers. Fields that nobody reads are left out.
#![allow(missing_docs)]

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// Request of the calls that are about a model and a version.
#[derive(Clone, PartialEq, Message)]
pub struct ModelRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

/// Answer of the calls about liveness and readiness.
#[derive(Clone, PartialEq, Message)]
pub struct Ready {
    #[prost(bool, tag = "1")]
    pub ready: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, repeated, tag = "3")]
    pub extensions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelMetadata {
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub platform: String,
    #[prost(message, repeated, tag = "4")]
    pub inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<TensorMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub config: Option<ModelConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelConfig {
    #[prost(int32, tag = "4")]
    pub max_batch_size: i32,
    #[prost(message, repeated, tag = "5")]
    pub input: Vec<InputConfig>,
    #[prost(message, repeated, tag = "6")]
    pub output: Vec<OutputConfig>,
    #[prost(message, optional, tag = "11")]
    pub dynamic_batching: Option<Empty>,
    #[prost(message, optional, tag = "13")]
    pub sequence_batching: Option<Empty>,
    #[prost(message, optional, tag = "15")]
    pub ensemble_scheduling: Option<Ensemble>,
    #[prost(message, optional, tag = "19")]
    pub model_transaction_policy: Option<TransactionPolicy>,
    #[prost(message, optional, tag = "24")]
    pub response_cache: Option<ResponseCache>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InputConfig {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bool, tag = "6")]
    pub is_shape_tensor: bool,
    #[prost(bool, tag = "8")]
    pub optional: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct OutputConfig {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bool, tag = "6")]
    pub is_shape_tensor: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Ensemble {
    #[prost(message, repeated, tag = "1")]
    pub step: Vec<EnsembleStep>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EnsembleStep {
    #[prost(string, tag = "1")]
    pub model_name: String,
    #[prost(int64, tag = "2")]
    pub model_version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct TransactionPolicy {
    #[prost(bool, tag = "1")]
    pub decoupled: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseCache {
    #[prost(bool, tag = "1")]
    pub enable: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatisticsResponse {
    #[prost(message, repeated, tag = "1")]
    pub model_stats: Vec<ModelStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelStats {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(uint64, tag = "4")]
    pub inference_count: u64,
    #[prost(uint64, tag = "5")]
    pub execution_count: u64,
    #[prost(message, optional, tag = "6")]
    pub inference_stats: Option<InferStats>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct InferStats {
    #[prost(message, optional, tag = "1")]
    pub success: Option<Duration>,
    #[prost(message, optional, tag = "2")]
    pub fail: Option<Duration>,
    #[prost(message, optional, tag = "3")]
    pub queue: Option<Duration>,
    #[prost(message, optional, tag = "4")]
    pub compute_input: Option<Duration>,
    #[prost(message, optional, tag = "5")]
    pub compute_infer: Option<Duration>,
    #[prost(message, optional, tag = "6")]
    pub compute_output: Option<Duration>,
    #[prost(message, optional, tag = "7")]
    pub cache_hit: Option<Duration>,
    #[prost(message, optional, tag = "8")]
    pub cache_miss: Option<Duration>,
}

/// `StatisticDuration`: events, and their nanoseconds together.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Duration {
    #[prost(uint64, tag = "1")]
    pub count: u64,
    #[prost(uint64, tag = "2")]
    pub ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct SystemRegister {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub key: String,
    #[prost(uint64, tag = "3")]
    pub offset: u64,
    #[prost(uint64, tag = "4")]
    pub byte_size: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct CudaRegister {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub raw_handle: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub device_id: i64,
    #[prost(uint64, tag = "4")]
    pub byte_size: u64,
}

/// Request to unregister a region, or all where the name is empty.
#[derive(Clone, PartialEq, Message)]
pub struct RegionName {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Both request and response of trace settings.
#[derive(Clone, PartialEq, Message)]
pub struct TraceSetting {
    #[prost(map = "string, message", tag = "1")]
    pub settings: HashMap<String, TraceValue>,
    #[prost(string, tag = "2")]
    pub model_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct TraceValue {
    #[prost(string, repeated, tag = "1")]
    pub value: Vec<String>,
}
