//! Section "Output and other": what is written where.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::plan::ReportPlan;

/// What is written where.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output and other")]
pub struct OutputArgs {
    /// Writes the results as CSV. Default: off
    #[arg(short = 'f', long = "csv", value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Adds columns to the CSV. Default: off
    #[arg(long)]
    verbose_csv: bool,

    /// Writes the result as JSON, anew after every level: settings, machine, figures with intervals, histograms, verdicts.
    /// Default: off
    #[arg(long, value_name = "FILE")]
    summary_file: Option<PathBuf>,

    /// Writes every request with its moments as JSON. Default: off
    #[arg(long, value_name = "FILE")]
    profile_export_file: Option<PathBuf>,

    /// Prints every window as it ends; given twice, each with its requests and latencies, and the models as the server
    /// describes them. Default: off
    #[arg(short = 'v', long, action = ArgAction::Count)]
    verbose: u8,

    /// Prints the version
    #[arg(long)]
    version: bool,

    /// Prints this text
    #[arg(short = 'h', long, visible_short_alias = '?')]
    help: bool,
}

impl OutputArgs {
    /// What is written where.
    pub fn plan(&self) -> ReportPlan {
        ReportPlan {
            csv: self.csv.clone(),
            verbose_csv: self.verbose_csv,
            summary: self.summary_file.clone(),
            profile_export: self.profile_export_file.clone(),
            verbosity: self.verbose,
        }
    }
}
