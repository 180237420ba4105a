//! Section "Where the time goes": stages of requests, and traces in this process.

use std::path::PathBuf;

use clap::Args;

use crate::backend::TraceRate;
use crate::plan::{TraceFilePlan, TraceLevel, TraceSettings, TracingPlan};

/// The file of traces in Triton's form where none is named.
const TRACE_FILE: &str = "trace.json";

/// Where the time goes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Where the time goes")]
pub struct TracingArgs {
    /// Shows where requests spend their time, stage by stage: mean, percentiles, share, and where the slowest 1% spend
    /// theirs. In this process from traces of individual requests (--trace-rate), over the network from those that a
    /// Triton on this machine writes to its trace file (--trace-level TIMESTAMPS), else from the server's averages.
    /// Default: off
    #[arg(long)]
    breakdown: bool,

    /// Writes traced requests as a Chrome trace, which Perfetto opens. In this process, or with a Triton on this
    /// machine and --trace-level TIMESTAMPS. Default: off
    #[arg(long, value_name = "FILE")]
    trace_export: Option<PathBuf>,

    /// Writes traced requests in the format of Triton's own trace files, for trace-summary. Only in this process.
    /// Default: off; with --trace-level TIMESTAMPS trace.json
    #[arg(long, value_name = "FILE")]
    trace_file: Option<PathBuf>,
}

impl TracingArgs {
    /// What is traced, where the server's `settings` say how; a server that is not `embedded` in this process writes its file itself.
    pub fn plan(&self, settings: Option<&TraceSettings>, embedded: bool) -> TracingPlan {
        let levels = settings.and_then(|settings| settings.levels.as_deref());
        let timestamps = levels.is_some_and(|levels| levels.contains(&TraceLevel::Timestamps));
        let path = self.trace_file.clone().or_else(|| (timestamps && embedded).then(|| PathBuf::from(TRACE_FILE)));
        let count = settings.and_then(|settings| settings.count).and_then(|count| usize::try_from(count).ok());
        let rate = settings.and_then(|settings| settings.rate);
        TracingPlan {
            breakdown: self.breakdown,
            rate: rate.map_or(TraceRate::Sparing, |n| TraceRate::Every(u32::try_from(n).unwrap_or(u32::MAX))),
            export: self.trace_export.clone(),
            file: path.map(|path| TraceFilePlan { path, count }),
        }
    }
}
