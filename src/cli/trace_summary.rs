//! The command line of `trace-summary`.

use std::path::PathBuf;

use clap::Parser;

use crate::Command;
use crate::error::{Error, Result};
use crate::plan::TraceFiles;
use crate::subcommand::{self, Arguments, Subcommand};
use crate::values::whole;

/// This command.
pub const SUBCOMMAND: Subcommand = Subcommand {
    name: "trace-summary",
    flags: subcommand::flags::<TraceSummary>,
    read: |_, arguments| read(arguments),
};

const AFTER: &str = "A server writes traces if it was started with --trace-config=triton,file=FILE, and traces \
    requests as a run's --trace-level, --trace-rate and --trace-count ask; in this process --trace-level TIMESTAMPS \
    writes such a file. HTTP and gRPC requests are summarised separately; times are in microseconds.";

/// Summarises traces that a Triton server wrote: how long requests took, and where.
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench trace-summary [FLAGS] FILE...", after_help = AFTER)]
struct TraceSummary {
    #[arg(hide = true)]
    files: Vec<PathBuf>,

    /// Also prints every trace, with the times between its timestamps. Default: off
    #[arg(short = 't', long = "show-trace")]
    each: bool,

    /// How many of each model's slowest traces to show
    #[arg(long, value_name = "N", default_value = "3", value_parser = whole::<usize>(0, 1_000_000))]
    slowest: usize,

    /// Prints JSON instead of text, in microseconds. Default: off
    #[arg(long)]
    json: bool,

    /// Writes the traces as a Chrome trace, which Perfetto opens. Default: off
    #[arg(long = "trace-export", value_name = "FILE")]
    export: Option<PathBuf>,
}

/// Reads the words after `trace-summary`: flags, and files.
fn read(arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(SUBCOMMAND.name, arguments, |TraceSummary { files, each, slowest, json, export }| {
        if files.is_empty() {
            return Err(Error::usage("trace-summary needs a trace file: triton-bench trace-summary [FLAGS] FILE..."));
        }
        Ok(Command::TraceSummary(TraceFiles { files, each, slowest, json, export }))
    })
}
