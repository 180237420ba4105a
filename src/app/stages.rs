//! `--stage`: one load after the other, a row of results for each.

use std::sync::Arc;

use crate::app::job::Job;
use crate::app::levels::Runner;
use crate::error::Result;
use crate::load::{LoadContext, prepare};
use crate::measure::stages::{StageRun, measure_stages};
use crate::measure::summary::LevelSummary;
use crate::plan::{Distribution, Stage, StageLength};
use crate::report::console;

/// Plays the stages and prints each one's results when all are over.
pub fn run(
    runner: &Runner<'_>,
    stages: &[Stage],
    distribution: Distribution,
    levels: &mut Vec<LevelSummary>,
) -> Result<()> {
    let jobs = stages.iter().map(|stage| Job::stage(runner.plan, runner.session, stage.load, distribution));
    let jobs = jobs.collect::<Result<Vec<_>>>()?;
    let prepare_stage = |number: usize| {
        let (job, length) = (&jobs[number], stages[number].length);
        let level = runner.level_run(job);
        let observer = runner.observers.map(|observers| observers.of_level(&level.recorder));
        let context = runner.session.context(runner.plan, job, &Arc::clone(&level.recorder), observer)?;
        let quota = match length {
            StageLength::Time(_) => None,
            StageLength::Requests(requests) => Some(requests),
        };
        let prepared = prepare(LoadContext { quota, ..context }, job.shape.clone())?;
        Ok(StageRun { level, length, prepared })
    };
    runner.warm_up(&jobs[0], &runner.plan.measurement)?;
    if let Some(observers) = runner.observers {
        observers.begin(jobs[0].load);
    }
    let plan = &runner.plan.measurement;
    let played = runner
        .with_measurement(&jobs[0], plan, |measurement| measure_stages(measurement, jobs.len(), prepare_stage))?;
    for measured in played {
        let summary = runner.finish(measured);
        let header = console::header(summary.load).unwrap_or_default();
        runner.screen.print(&(header + &console::results(runner.plan, &runner.session.run, &summary)))?;
        levels.push(summary);
    }
    Ok(())
}
