//! A plain plan, and what is printed of a level, for the tests of the reports.

use crate::cli::{self, Command};
use crate::measure::summary::{LevelSummary, RunSummary};
use crate::plan::Plan;
use crate::report::console;

/// One level of concurrency 1 over HTTP.
pub(crate) fn plan() -> Plan {
    match cli::parse(["triton-bench", "-m", "m", "--seed", "1"].map(Into::into)) {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("a plain command line is a plan: {other:?}"),
    }
}

/// All that a level prints; where windows are listed, `windows` of them, each like the level's result.
pub(crate) fn printed(plan: &Plan, run: &RunSummary, level: &LevelSummary, windows: usize) -> String {
    let listed = if plan.output.verbosity > 0 { windows } else { 0 };
    let passes = (1..=listed).map(|trial| console::pass(trial, &level.client, plan.measurement.percentile));
    let header = console::header(level.load).into_iter();
    header.chain(passes).chain([console::results(plan, run, level)]).collect()
}
