//! Settings of runs on TensorFlow Serving.

/// Settings of runs on TensorFlow Serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TfServingPlan {
    /// The signature whose inputs are sent.
    pub signature: String,
    /// Whether the first dimension of every tensor is the batch's (`-b` was given); otherwise shapes are sent as they
    /// are.
    pub batched: bool,
}

impl Default for TfServingPlan {
    fn default() -> Self {
        Self { signature: "serving_default".to_owned(), batched: false }
    }
}
