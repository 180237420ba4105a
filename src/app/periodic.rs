//! `--periodic-concurrency-range`: requests join as those under way make progress. No windows: the profile export holds the
//! records, and a table says what each batch came to.

use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::clock::Stamp;
use crate::error::Result;
use crate::exit;
use crate::load::{LoadShape, PeriodicLoop, PeriodicStage, StageBook};
use crate::measure::summary::LevelLoad;
use crate::plan::Periodic;

/// How often it is looked whether the load has ended.
const LOOK_UP: Duration = Duration::from_millis(5);

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
        thread::sleep(LOOK_UP);
    }
    let stranded = running.is_stranded();
    let stopped = running.stop();
    if let Some(observers) = runner.observers {
        observers.settle();
        observers.end_periodic(&shape.stages(), &stopped.as_ref().copied().unwrap_or_default());
    }
    let requests = stopped?;
    let tally = level.recorder.advance(Stamp::NEVER);
    runner.screen.print(&table(&shape.stages()))?;
    let mut errors: Vec<_> = tally.errors.iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (error, count) in errors {
        eprintln!("triton-bench: {count} requests failed: {error}");
    }
    let (sent, completed, failed) = (requests.sent, requests.completed, requests.failed);
    let counts = format!("Requests: {sent} sent, {completed} completed, {failed} failed");
    let (verdict, code) =
        if stranded || completed == 0 || failed as f64 > runner.plan.measurement.max_errors * sent as f64 {
            (format!("invalid: {failed} of {sent} requests failed"), exit::NO_VALID_REQUESTS)
        } else if runner.is_interrupted() {
            ("invalid: interrupted".to_owned(), exit::OK)
        } else {
            ("valid".to_owned(), exit::OK)
        };
    runner.screen.print(&format!("{counts}\nVerdict: {verdict}\n"))?;
    Ok(code)
}

fn table(stages: &[PeriodicStage]) -> String {
    let mut text = "Periodic concurrency (times in usec)\n".to_owned();
    let columns =
        ["Concurrency", "Requests", "Responses", "First avg", "First p99", "Gap avg", "Gap p50", "Gap p99", "Gap max"];
    let _ = writeln!(text, "  {}", columns.map(|name| format!("{name:>12}")).join(""));
    for stage in stages {
        let us = |ns: f64| format!("{:.0}", ns / 1e3);
        let first = &stage.first_response;
        let cells = [
            stage.concurrency.to_string(),
            stage.requests.to_string(),
            stage.responses.to_string(),
            us(first.mean_ns()),
            us(first.percentile_ns(99.0) as f64),
            us(stage.gap.mean_ns()),
            us(stage.gap.percentile_ns(50.0).min(stage.gap_max_ns) as f64),
            us(stage.gap.percentile_ns(99.0).min(stage.gap_max_ns) as f64),
            us(stage.gap_max_ns as f64),
        ];
        let _ = writeln!(text, "  {}", cells.map(|cell| format!("{cell:>12}")).join(""));
    }
    text
}
