//! Section "TorchServe": what `--service-kind torchserve` has of its own.

use clap::Args;

use crate::cli::values::filled;
use crate::plan::TorchServePlan;

/// What `--service-kind torchserve` has of its own.
#[derive(Args, Debug)]
#[command(next_help_heading = "TorchServe (--service-kind torchserve)")]
pub struct TorchServeArgs {
    /// Where the server is managed, usually port 8081: the model must be there before anything is sent, with a worker that is ready
    /// (waited for as --server-wait says), and how it batches is told. Default: nothing is asked
    #[arg(long, value_name = "URL", value_parser = filled)]
    management_url: Option<String>,

    /// The key for management, where the server wants one: it is another than the one for inferences. Default: what -H says
    #[arg(long, value_name = "KEY", value_parser = filled)]
    management_key: Option<String>,
}

impl TorchServeArgs {
    /// What the flags say, and where the server's metrics are.
    pub fn plan(&self, metrics_url: Option<String>) -> TorchServePlan {
        let (management_url, management_key) = (self.management_url.clone(), self.management_key.clone());
        TorchServePlan { metrics_url, management_url, management_key }
    }
}
