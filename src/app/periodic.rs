//! `--periodic-concurrency-range`: requests join as those under way make progress. No windows: the profile export holds the
//! records, and a table says what each batch came to.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::error::Result;
use crate::exit;
use crate::load::{LoadShape, PeriodicLoop, StageBook};
use crate::measure::summary::LevelLoad;
use crate::measure::verdict::exceeds_errors;
use crate::plan::Periodic;
use crate::report::periodic::{table, write};
use crate::stdio::note;

/// How often it is looked whether the load has ended.
const INTERRUPT_POLL: Duration = Duration::from_millis(5);

/// Plays the load to its end and prints the table. Returns the exit code.
///
/// # Errors
/// Where it cannot be started, or a client breaks.
pub fn run(runner: &Runner<'_>, periodic: &Periodic) -> Result<u8> {
    let shape = PeriodicLoop {
        start: periodic.start,
        end: periodic.end,
        step: periodic.step,
        period: periodic.request_period,
        book: Arc::new(StageBook::new(periodic.end)),
    };
    let base = Job::closed(runner.plan, runner.session, periodic.end);
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
        observers.end_periodic(&shape.stages(), &stopped.as_ref().copied().unwrap_or_default());
    }
    let requests = stopped?;
    let tally = level.recorder.close();
    let stages = shape.stages();
    let written = runner.plan.output.csv.as_ref().map_or(Ok(()), |path| write((path, runner.interrupts), &stages));
    runner.screen.print(&table(&stages))?;
    let mut errors: Vec<_> = tally.errors.iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (error, count) in errors {
        note!("{count} requests failed: {error}");
    }
    let (sent, completed, failed) = (requests.sent, requests.completed, requests.failed);
    let counts = format!("Requests: {sent} sent, {completed} completed, {failed} failed");
    let allowed = runner.plan.measurement.max_errors;
    let (verdict, code) = if stranded || completed == 0 || exceeds_errors(allowed, completed, failed) {
        (format!("invalid: {failed} of {sent} requests failed"), exit::NO_VALID_REQUESTS)
    } else if runner.is_interrupted() {
        ("invalid: interrupted".to_owned(), exit::OK)
    } else {
        ("valid".to_owned(), exit::OK)
    };
    runner.screen.print(&format!("{counts}\nVerdict: {verdict}\n{}", runner.losses()))?;
    written.map(|()| code)
}
