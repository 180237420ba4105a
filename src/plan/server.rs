//! How the embedded server is set up.

use std::path::PathBuf;
use std::time::Duration;

/// Where NVIDIA's images have Triton.
pub const INSTALL_DIRECTORY: &str = "/opt/tritonserver";
/// Environment variable that names another place.
pub const INSTALL_VARIABLE: &str = "TRITON_SERVER_DIRECTORY";

/// Options of the embedded server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPlan {
    /// Install directory: holds `lib/libtritonserver.so` and `backends/`.
    pub directory: PathBuf,
    /// Model repositories.
    pub repositories: Vec<PathBuf>,
    /// Where backends are; by default `backends` in the install directory.
    pub backend_directory: Option<PathBuf>,
    /// Where repository agents are; by default `repoagents` in the install directory.
    pub repo_agent_directory: Option<PathBuf>,
    /// Where cache libraries are; by default `caches` in the install directory.
    pub cache_directory: Option<PathBuf>,
    /// `(backend, setting, value)`; an empty backend means all.
    pub backend_config: Vec<(String, String, String)>,
    /// `(cache, setting, value)`.
    pub cache_config: Vec<(String, String, String)>,
    /// Bytes of pinned memory pool; the server's default if absent.
    pub pinned_pool_bytes: Option<u64>,
    /// `(device, bytes)` of CUDA memory pools.
    pub cuda_pool_bytes: Vec<(i32, u64)>,
    /// `(device, bytes)` of CUDA virtual address space.
    pub cuda_virtual_address_bytes: Vec<(i32, u64)>,
    /// Least compute capability; 0 takes any device.
    pub min_compute_capability: Option<f64>,
    /// Whether the rate limiter counts executions.
    pub rate_limit: bool,
    /// `(resource, count, device)`; -1 for every device.
    pub rate_limit_resources: Vec<(String, u64, i32)>,
    /// `(policy, setting, value)`.
    pub host_policies: Vec<(String, String, String)>,
    /// Threads that load models.
    pub load_threads: Option<u32>,
    /// How often a failed load is tried again.
    pub load_retries: u32,
    /// Threads that gather and scatter tensors.
    pub buffer_threads: Option<u32>,
    /// Whether peer access between GPUs is enabled.
    pub peer_access: bool,
    /// Whether a model's configuration must be complete.
    pub strict_config: bool,
    /// Name of a custom model configuration.
    pub config_name: Option<String>,
    /// Whether repositories are namespaces of models.
    pub model_namespacing: bool,
    /// What the server logs.
    pub log: ServerLog,
    /// Whether the server keeps metrics.
    pub metrics: bool,
    /// How often the server looks at its GPUs and processors; its own default if absent.
    pub metrics_interval: Option<Duration>,
    /// `(name, setting, value)` of the metrics.
    pub metrics_config: Vec<(String, String, String)>,
    /// How long the server waits for requests when it stops, in seconds.
    pub exit_timeout_s: u32,
}

/// What the embedded server logs, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLog {
    /// Least severe level.
    pub level: LogLevel,
    /// Verbosity of verbose messages; 0 is none.
    pub verbose: u32,
    /// A file; standard error if absent.
    pub file: Option<PathBuf>,
    /// Stamps in ISO 8601.
    pub iso8601: bool,
}

/// Least severe messages that the embedded server logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    #[default]
    None,
    Error,
    Warning,
    Info,
}
