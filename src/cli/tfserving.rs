//! Section "TensorFlow Serving": flags of `--service-kind tfserving`.

use clap::Args;

use crate::plan::{Given, TfServingPlan};
use crate::values::filled;

/// What `--service-kind tfserving` has of its own.
#[derive(Args, Debug)]
#[command(next_help_heading = "TensorFlow Serving (--service-kind tfserving)")]
pub struct TfServingArgs {
    /// The signature whose inputs are sent
    #[arg(long, value_name = "NAME", default_value = "serving_default", value_parser = filled)]
    model_signature_name: String,
}

impl TfServingArgs {
    /// What the flags say.
    pub fn plan(&self, given: &Given) -> TfServingPlan {
        TfServingPlan { signature: self.model_signature_name.clone(), batched: given.has("-b") }
    }
}
