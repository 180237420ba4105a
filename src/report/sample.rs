//! A plain setup, and what is printed of a level, for the tests of the reports.

use std::sync::Arc;

use crate::backend::{Capabilities, Threading};
use crate::backends::kserve_http;
use crate::cli::{self, Command};
use crate::measure::summary::{Headline, LevelSummary};
use crate::plan::Plan;
use crate::report::console;
use crate::result::{RunResult, Setup};

/// One level of concurrency 1 of a plain model over HTTP.
pub(crate) fn setup() -> Setup {
    Setup {
        plan: plan(),
        synchronous: true,
        capabilities: Capabilities {
            service_kind: "TRITON",
            threading: Threading::Driven,
            client_times: Some(kserve_http::CLIENT_TIMES),
            cancels_alone: false,
            statistics: true,
        },
        decoupled: false,
        sequences: false,
        headline: Headline::ServiceTime,
        client_cost_ns: 123.4,
        entries: Vec::new(),
    }
}

fn plan() -> Plan {
    match cli::parse(["triton-bench", "-m", "m", "--seed", "1"].map(Into::into)) {
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
    let listed = if setup.plan.output.verbosity > 0 { windows } else { 0 };
    let passes = (1..=listed).map(|trial| console::pass(trial, &level.client, setup.plan.measurement.percentile));
    let header = console::header(level.load).into_iter();
    header.chain(passes).chain([console::results(setup, level)]).collect()
}
