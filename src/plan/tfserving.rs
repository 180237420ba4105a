//! What a run on TensorFlow Serving has of its own.

/// What a run on TensorFlow Serving has of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TfServingPlan {
    /// The signature whose inputs are sent.
    pub signature: String,
    /// Whether the first dimension of every tensor is that of the batch (`-b` was given); else shapes are sent as they are.
    pub batched: bool,
}

impl Default for TfServingPlan {
    fn default() -> Self {
        Self { signature: "serving_default".to_owned(), batched: false }
    }
}
