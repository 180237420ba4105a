//! Section "Output and other": what is written where.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::plan::{Decision, GatePlan, ListenAddress, Pages, ReportPlan, Requirement};
use crate::requirement::requirement;
use crate::values::{SECOND, filled, integer, one_of, period};

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

    /// Writes the result as JSON, updated after every level: settings, machine, figures with intervals, histograms,
    /// verdicts. Default: off
    #[arg(long, value_name = "FILE")]
    summary_file: Option<PathBuf>,

    /// Continues an earlier run of the same plan from its --summary-file, after the last finished level, sweep step or
    /// round; the result is written back there unless --summary-file names another file. Default: off
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// Requirement, such as `p99<20ms`, `throughput>=1000`, `errors<0.1%@concurrency:8`, or `p99<+5%` relative to
    /// --baseline; judged on the confidence interval. Repeatable. Exit code 6 if one is not met. Default: none
    #[arg(long, value_name = "CONDITION", action = ArgAction::Append, value_parser = requirement)]
    require: Vec<Requirement>,

    /// An earlier run's --summary-file that --require compares with. Default: none
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// What becomes of a requirement whose confidence interval contains the bound: `more` measures its level on, for
    /// --gate-time at most, and what is undecided even then ends with exit code 7; `pass` and `fail` count it as met, or
    /// not. Default: more
    #[arg(long, value_name = "pass|fail|more",
        value_parser = one_of(&[("pass", Decision::Pass), ("fail", Decision::Fail), ("more", Decision::More)]))]
    undecided: Option<Decision>,

    /// How long a level, or rounds of variants at it, are measured at most until every requirement is decided, such as 30s
    /// or 2m; a bare number is seconds. 0: no longer than without requirements
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = period(SECOND, Duration::ZERO))]
    gate_time: Duration,

    /// Writes the outcome of every requirement as JUnit XML. Default: off
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Writes every request with its timestamps as JSON. Default: off
    #[arg(long, value_name = "FILE")]
    profile_export_file: Option<PathBuf>,

    /// Writes every request, failed ones too, as a row of a Parquet file: when it should have left, left, was first answered
    /// and ended, its latency and its status. Default: off
    #[arg(long, value_name = "FILE.parquet", value_parser = table)]
    requests_file: Option<PathBuf>,

    /// Prints every window as it ends; given twice, also its requests and latencies, and the models as the server
    /// describes them. Default: off
    #[arg(short = 'v', long, action = ArgAction::Count)]
    verbose: u8,

    /// Shows a dashboard on the terminal during the run, and the report after it; q ends the run like Ctrl-C. Default:
    /// off
    #[arg(long)]
    live: bool,

    /// Address of this machine where a page has the run's figures while it goes on, at /metrics in Prometheus' text format: a
    /// port, or HOST:PORT. A port alone is open to this machine only; 0 takes one that is free. Default: off
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen_address)]
    metrics_listen: Option<ListenAddress>,

    /// Hands the figures of all levels to a collector of OpenTelemetry when the run ends: OTLP over HTTP, to /v1/metrics below
    /// this address, such as http://localhost:4318. Default: off
    #[arg(long, value_name = "URL", value_parser = filled)]
    otlp_endpoint: Option<String>,

    /// Prints the version
    #[arg(long)]
    version: bool,

    /// Prints this text
    #[arg(short = 'h', long, visible_short_alias = '?')]
    help: bool,
}

impl OutputArgs {
    /// The conditions that the run must meet.
    pub fn gate(&self) -> GatePlan {
        GatePlan {
            requirements: self.require.clone(),
            baseline: self.baseline.clone(),
            undecided: self.undecided,
            time: self.gate_time,
            junit: self.junit.clone(),
        }
    }

    /// What is written where.
    pub fn plan(&self) -> ReportPlan {
        ReportPlan {
            csv: self.csv.clone(),
            verbose_csv: self.verbose_csv,
            summary: self.summary_file.clone().or_else(|| self.resume.clone()),
            resume: self.resume.clone(),
            pages: Pages::default(),
            folder: None,
            profile_export: self.profile_export_file.clone(),
            requests: self.requests_file.clone(),
            verbosity: self.verbose,
            live: self.live,
            metrics_listen: self.metrics_listen.clone(),
            otlp_endpoint: self.otlp_endpoint.clone(),
            as_upstream: false,
        }
    }
}

/// A Parquet file, which a program that was built without Parquet cannot write.
fn table(text: &str) -> Result<PathBuf, String> {
    match cfg!(feature = "parquet") {
        true if text.is_empty() => Err("it must not be empty".to_owned()),
        true => Ok(text.into()),
        false => {
            Err("this program was built without Parquet: `cargo build --release` makes one that has it".to_owned())
        }
    }
}

/// `PORT` or `HOST:PORT`.
fn listen_address(text: &str) -> Result<ListenAddress, String> {
    let rule = "it must be a port, or HOST:PORT such as 0.0.0.0:9400";
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() || bare.contains(|c: char| c.is_whitespace() || "/[]".contains(c)) {
        return Err(rule.to_owned());
    }
    let port = integer(port, 0, u64::from(u16::MAX)).map_err(|_| rule.to_owned())?;
    Ok(ListenAddress { host: bare.to_owned(), port })
}
