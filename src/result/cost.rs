//! What an inference costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an inference costs. All values are per inference, except totals of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Inferences that succeeded in all windows of the level, over which the cost was measured.
    pub inferences: u64,
    /// Processor time of the server's threads and processes, in nanoseconds.
    pub server_cpu_ns: f64,
    /// How often a thread or process of the server had to be woken.
    pub server_wakeups: f64,
    /// By group of threads.
    pub groups: Vec<GroupCost>,
    /// Bytes of memory of this process at the end, server and client.
    pub memory_bytes: u64,
    /// Bytes of memory of its child processes at the end.
    pub stubs_memory_bytes: u64,
    /// Why there are no hardware counters.
    pub no_counters: Option<String>,
    /// What GPUs used, if there are any.
    pub gpu: Option<GpuCost>,
    /// Why there is no GPU data.
    pub no_gpu: Option<String>,
}

/// What a group of threads uses, per inference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupCost {
    /// Whose they are.
    pub kind: GroupKind,
    /// Name of the threads or processes; empty for our own.
    pub name: String,
    /// How many threads there are at the end.
    pub threads: usize,
    /// Processor time in nanoseconds.
    pub cpu_ns: f64,
    /// How often one had to be woken: voluntary context switches.
    pub wakeups: f64,
    /// How often one was preempted.
    pub preemptions: f64,
    /// Page faults.
    pub page_faults: f64,
    /// Instructions in user space.
    pub instructions: Option<f64>,
    /// Cycles in user space.
    pub cycles: Option<f64>,
    /// Misses of the last cache, in user space.
    pub cache_misses: Option<f64>,
}

/// Whose threads they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// The server's in this process: model instances, pools of backends, schedulers.
    Server,
    /// Child processes: stubs of the python backend.
    Stubs,
    /// Our threads that issue requests.
    Issuing,
    /// Our other threads.
    Own,
}

/// What GPUs used, per inference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuCost {
    /// Time that GPUs were at work, in nanoseconds, from their utilisation at the edges of windows.
    pub time_ns: f64,
    /// Energy in joules.
    pub joules: Option<f64>,
}
