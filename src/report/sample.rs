//! A plain plan for the tests of the reports.

use crate::cli::{self, Command};
use crate::plan::Plan;

/// One level of concurrency 1 over HTTP.
pub(crate) fn plan() -> Plan {
    match cli::parse(["triton-bench", "-m", "m", "--seed", "1"].map(Into::into)) {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("a plain command line is a plan: {other:?}"),
    }
}
