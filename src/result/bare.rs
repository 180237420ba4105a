//! What the machine does without any server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fastest that one thread moved the tensors of an inference here, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BareCopies {
    /// The inputs, copied once in memory.
    pub memcpy_ns: f64,
    /// The inputs to another thread over a TCP connection on this machine, and the outputs back.
    pub loopback_ns: Option<f64>,
}
