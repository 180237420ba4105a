//! Requests and short answers of the control plane, by their published field numbers. Unused fields are left out.
#![allow(missing_docs)]

use std::collections::HashMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// Request of calls about a model and a version.
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

/// Answer of the index of the repositories' models; its request may be empty.
#[derive(Clone, PartialEq, Message)]
pub struct RepositoryIndex {
    #[prost(message, repeated, tag = "1")]
    pub models: Vec<IndexRow>,
}

#[derive(Clone, PartialEq, Message)]
pub struct IndexRow {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, tag = "3")]
    pub state: String,
    #[prost(string, tag = "4")]
    pub reason: String,
}

/// Request to load or to unload a model; its answer is empty.
#[derive(Clone, PartialEq, Message)]
pub struct RepositoryRequest {
    #[prost(string, tag = "2")]
    pub model_name: String,
    #[prost(map = "string, message", tag = "3")]
    pub parameters: HashMap<String, RepositoryParameter>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RepositoryParameter {
    #[prost(oneof = "Choice", tags = "1, 3")]
    pub choice: Option<Choice>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Choice {
    #[prost(bool, tag = "1")]
    Flag(bool),
    #[prost(string, tag = "3")]
    Text(String),
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

/// Request to unregister a region, or all if the name is empty.
#[derive(Clone, PartialEq, Message)]
pub struct RegionName {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Answer of the call for the regions of POSIX shared memory.
#[derive(Clone, PartialEq, Message)]
pub struct RegionsKnown {
    #[prost(map = "string, message", tag = "1")]
    pub regions: HashMap<String, RegionStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RegionStatus {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub key: String,
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
