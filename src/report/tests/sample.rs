//! A plain setup, and what is printed of a level, for the tests of the reports.

use std::sync::Arc;

use crate::backend::ClientTimes;
use crate::cli::{self, Command};
use crate::exit::Codes;
use crate::plan::Plan;
use crate::report::console;
use crate::result::summary::LevelSummary;
use crate::result::{RunResult, Setup};

/// One level of concurrency 1 of a plain model over HTTP.
pub(crate) fn setup() -> Setup {
    Setup {
        service_kind: "TRITON".to_owned(),
        client_times: Some(ClientTimes::HTTP),
        times_transfers: true,
        client_cost_ns: 123.4,
        ..Setup::of(&plan())
    }
}

/// A plan like `setup`.
pub(crate) fn plan_of(setup: &Setup) -> Plan {
    let mut plan = plan();
    plan.measurement = setup.measurement.clone();
    plan.load.mode = setup.mode.clone();
    plan.data.batch_size = setup.batch_size;
    plan
}

/// What was asked for.
pub(crate) fn plan() -> Plan {
    match cli::parse(["triton-bench", "-m", "m", "--seed", "1"].map(Into::into), Codes::Own) {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("a plain command line is a plan: {other:?}"),
    }
}

/// What a run with such levels came to.
pub(crate) fn result(setup: &Setup, levels: &[LevelSummary]) -> RunResult {
    RunResult { levels: levels.to_vec(), ..RunResult::new(Arc::new(setup.clone())) }
}

/// All that a level prints; where windows are listed, `windows` of them, each like the level's result.
pub(crate) fn printed(setup: &Setup, level: &LevelSummary, windows: usize) -> String {
    let listed = if setup.detail.verbosity > 0 { windows } else { 0 };
    let passes = (1..=listed).map(|trial| console::pass(trial, &level.client, setup.measurement.percentile));
    let header = console::header(level.load).into_iter();
    header.chain(passes).chain([console::results(setup, level)]).collect()
}
