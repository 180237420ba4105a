//! `--stage`: one load after the other, a row of results for each.

use std::cell::RefCell;
use std::sync::Arc;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::app::session::IdBlock;
use crate::error::Result;
use crate::load::{LoadContext, LoadShape, prepare};
use crate::measure::stages::{Director, StageRun, boundaries, measure_stages};
use crate::measure::summary::LevelSummary;
use crate::plan::{Distribution, SequencePlan, Stage, StageLength};
use crate::report;
use crate::result::RunResult;

/// Plays the stages and prints each one's results when all are over.
pub fn run(runner: &Runner<'_>, stages: &[Stage], distribution: Distribution, result: &mut RunResult) -> Result<()> {
    let jobs = stages.iter().map(|stage| Job::stage(runner.session, stage.load, distribution));
    let mut jobs = jobs.collect::<Result<Vec<_>>>()?;
    deal_ids(&runner.plan().load.sequences, &mut jobs);
    let plan = &runner.plan().measurement;
    runner.warm_up(&jobs[0], plan)?;
    let play = Play { runner, stages, jobs: &jobs, result: RefCell::new(result) };
    let played =
        runner.with_measurement(&jobs[0], plan, |measurement| measure_stages(measurement, jobs.len(), &play))?;
    for measured in played {
        runner.account(measured);
    }
    runner.show(&play.result.borrow().levels)
}

/// Gives every stage correlation IDs of its own: sequences of the stage before are still open when it starts. A rule has
/// seen to it that there is one for each sequence.
fn deal_ids(sequences: &SequencePlan, jobs: &mut [Job]) {
    let needed: u64 = jobs.iter().map(|job| job.lanes.count as u64).sum();
    let Some(spare) = sequences.ids.checked_sub(needed) else { return };
    let each = spare / (jobs.len() as u64).max(1);
    let mut first = sequences.first_id;
    for job in jobs {
        let count = job.lanes.count as u64 + each;
        job.lanes.ids = Some(IdBlock { first, count });
        first += count;
    }
}

/// The stages, and the export's experiment of each.
struct Play<'a> {
    runner: &'a Runner<'a>,
    stages: &'a [Stage],
    jobs: &'a [Job],
    result: RefCell<&'a mut RunResult>,
}

impl Director for Play<'_> {
    fn prepare(&self, number: usize) -> Result<StageRun> {
        let (runner, length) = (self.runner, self.stages[number].length);
        let quota = match length {
            StageLength::Time(_) => None,
            StageLength::Requests(requests) => Some(requests),
        };
        let mut job = Job { quota, ..self.jobs[number].clone() };
        if let (LoadShape::Open(shape), StageLength::Time(length)) = (&mut job.shape, length) {
            shape.until = Some(length);
        }
        let level = runner.level_run(&job);
        let observer = runner.observers.map(|observers| observers.of_stage(&level.recorder, number));
        let context = runner.session.context(job.lanes, &Arc::clone(&level.recorder), observer)?;
        let prepared = prepare(LoadContext { quota, ..context }, job.shape.clone())?;
        Ok(StageRun { level, length, prepared })
    }

    fn begun(&self, number: usize) {
        if let Some(observers) = self.runner.observers {
            observers.begin(self.jobs[number].load);
        }
    }

    fn ended(&self, summary: &LevelSummary) {
        if let Some(observers) = self.runner.observers {
            observers.end(boundaries(summary), summary, &self.runner.session.setup);
        }
        let mut result = self.result.borrow_mut();
        result.levels.push(summary.clone());
        report::summary::save(self.runner.plan(), self.runner.interrupts, &result);
    }
}
