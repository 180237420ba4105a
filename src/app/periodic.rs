//! `--periodic-concurrency-range`: requests join as those under way make progress. No windows: the profile export holds the
//! records, and a table says what each batch came to.

use std::cmp::Reverse;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::error::Result;
use crate::load::{BatchBook, LoadShape, PeriodicLoop};
use crate::measure::outcome::Outcome;
use crate::measure::summary::LevelLoad;
use crate::measure::verdict::exceeds_errors;
use crate::plan::Periodic;
use crate::report;
use crate::result::{PeriodicResult, RunResult};
use crate::stdio::note;

/// How often it is looked whether the load has ended.
const INTERRUPT_POLL: Duration = Duration::from_millis(5);

/// Plays the load to its end, and prints the table.
///
/// # Errors
/// Where it cannot be started, or a client breaks.
pub fn run(runner: &Runner<'_>, periodic: &Periodic, result: &mut RunResult) -> Result<()> {
    let shape = PeriodicLoop {
        start: periodic.start,
        end: periodic.end,
        step: periodic.step,
        period: periodic.request_period,
        book: Arc::new(BatchBook::new(periodic.end)),
    };
    let base = Job::closed(runner.session, periodic.end);
    // perf_analyzer's export names every periodic load so.
    let load = LevelLoad::Concurrency(1);
    let job = Job { load, shape: LoadShape::Periodic(shape.clone()), issuers: 1, quota: None, finite: true, ..base };
    let level = runner.level_run(&job);
    if let Some(observers) = runner.observers {
        observers.begin(load);
    }
    let running = runner.start(&level.recorder, &job, None)?;
    while !running.is_finished() && !runner.is_interrupted() {
        thread::sleep(INTERRUPT_POLL);
    }
    let stranded = running.is_stranded();
    let stopped = running.stop();
    if let Some(observers) = runner.observers {
        observers.settle();
        observers.end_periodic(&shape.results(), &stopped.as_ref().copied().unwrap_or_default());
    }
    let requests = stopped?;
    let mut errors: Vec<_> = level.recorder.close().errors.into_iter().collect();
    errors.sort_by_key(|(_, count)| Reverse(*count));
    let failed = exceeds_errors(runner.plan().measurement.max_errors, requests.completed, requests.failed);
    let outcome = if stranded || requests.completed == 0 || failed {
        Outcome::Failed
    } else if runner.is_interrupted() {
        Outcome::Interrupted
    } else {
        Outcome::Valid
    };
    let periodic = result.periodic.insert(PeriodicResult { batches: shape.results(), requests, errors, outcome });
    report::periodic::failures(periodic).for_each(|line| note!("{line}"));
    runner.screen.print(&(report::periodic::text(periodic) + &runner.losses()))
}
