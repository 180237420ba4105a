//! Generated declarations, and the C API's constants (from its documentation; their values never changed).
#![allow(non_camel_case_types, non_snake_case, missing_docs, dead_code, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/triton_api.rs"));

pub const ERROR_INTERNAL: TRITONSERVER_Error_Code = 1;
pub const ERROR_CANCELLED: TRITONSERVER_Error_Code = 7;
pub const MEMORY_CPU: TRITONSERVER_MemoryType = 0;
pub const MEMORY_CPU_PINNED: TRITONSERVER_MemoryType = 1;
pub const MEMORY_GPU: TRITONSERVER_MemoryType = 2;
pub const MODEL_CONTROL_EXPLICIT: TRITONSERVER_ModelControlMode = 2;
pub const RATE_LIMIT_OFF: TRITONSERVER_RateLimitMode = 0;
pub const RATE_LIMIT_EXEC_COUNT: TRITONSERVER_RateLimitMode = 1;
pub const LOG_ISO8601: TRITONSERVER_LogFormat = 1;
pub const PARAMETER_STRING: TRITONSERVER_ParameterType = 0;
pub const METRICS_PROMETHEUS: TRITONSERVER_MetricFormat = 0;
pub const REQUEST_RELEASE_ALL: u32 = 1;
pub const RESPONSE_COMPLETE_FINAL: u32 = 1;
pub const REQUEST_FLAG_SEQUENCE_START: u32 = 1;
pub const REQUEST_FLAG_SEQUENCE_END: u32 = 2;
pub const TRACE_LEVEL_TIMESTAMPS: TRITONSERVER_InferenceTraceLevel = 4;
