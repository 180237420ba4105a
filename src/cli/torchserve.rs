//! Section "TorchServe": what `--service-kind torchserve` has of its own.

use clap::Args;

use crate::plan::TorchServePlan;
use crate::values::filled;

/// What `--service-kind torchserve` has of its own.
#[derive(Args, Debug)]
#[command(next_help_heading = "TorchServe (--service-kind torchserve)")]
pub struct TorchServeArgs {
    /// URL of the management API, usually port 8081: checks that the model is registered and a worker is ready before
    /// anything is sent (waiting for --server-wait), and reports its batching. Default: not used
    #[arg(long, value_name = "URL", value_parser = filled)]
    management_url: Option<String>,

    /// The key for the management API, if the server wants one: it differs from the inference key. Default: the one
    /// given with -H
    #[arg(long, value_name = "KEY", value_parser = filled)]
    management_key: Option<String>,
}

impl TorchServeArgs {
    /// What the flags say.
    pub fn plan(&self) -> TorchServePlan {
        let (management_url, management_key) = (self.management_url.clone(), self.management_key.clone());
        TorchServePlan { management_url, management_key }
    }
}
