//! How many bytes the tensors of an inference have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of the tensors of an inference, on average over what requests carry; none where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorBytes {
    /// Of its inputs.
    pub input: Option<f64>,
    /// Of its outputs.
    pub output: Option<f64>,
}

impl TensorBytes {
    /// Whether neither is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}
