//! A server's own metrics over the windows of a level.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One GPU's metrics over the windows; `None` if the server reported none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuMetrics {
    /// The GPU's UUID.
    pub uuid: String,
    /// The number of its server among the setup's `servers`, from 0; `None` with a single one.
    #[serde(default)]
    pub server: Option<usize>,
    /// Mean utilisation, 0 to 1.
    pub utilization: Option<f64>,
    /// Mean power in watts.
    pub power_watts: Option<f64>,
    /// Largest memory use in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory in bytes.
    pub memory_total_bytes: Option<u64>,
}

/// Metrics of a server's machine and queues over the windows, or of several servers together: means of shares, sums of memory
/// and requests. `None` if no server reported any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostMetrics {
    /// Mean utilisation of the GPUs, 0 to 1.
    #[serde(default)]
    pub gpu_utilization: Option<f64>,
    /// Mean utilisation of the processors, 0 to 1.
    pub cpu_utilization: Option<f64>,
    /// Largest memory use in bytes.
    pub cpu_memory_used_bytes: Option<u64>,
    /// Memory in bytes.
    pub cpu_memory_total_bytes: Option<u64>,
    /// Mean number of requests that waited for the model.
    pub pending_requests: Option<f64>,
    /// Largest number of requests that waited for the model.
    pub pending_requests_max: Option<f64>,
    /// Seconds that the load of the model took, of the slowest of its versions.
    pub model_load_seconds: Option<f64>,
    /// Mean time to a request's first response in milliseconds, by the server's histogram.
    pub first_response_ms: Option<f64>,
    /// Number of requests that the server cancelled.
    pub cancelled_requests: Option<f64>,
    /// Load of a server of language models; `None` if its page has none of these figures.
    #[serde(default)]
    pub load: Option<ServerLoad>,
}

/// What a server of language models said of its load, by the readings in the windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerLoad {
    /// Requests that it generated text for.
    pub running: Option<MeanAndMax>,
    /// Requests that waited for their turn.
    pub waiting: Option<MeanAndMax>,
    /// Share of the KV cache in use, 0 to 1; of several engines or servers the largest.
    pub kv_cache: Option<MeanAndMax>,
}

/// Mean and largest of the readings of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeanAndMax {
    /// Their mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
}
