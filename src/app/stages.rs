//! `--stage`: one load after the other, a row of results for each.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::app::context::RunContext;
use crate::app::job::Job;
use crate::app::peers;
use crate::app::runner::Runner;
use crate::app::session::IdBlock;
use crate::clock::Stamp;
use crate::error::Result;
use crate::load::schedule::Arrivals;
use crate::load::{LoadContext, LoadShape, prepare};
use crate::measure::level_run::says_nothing;
use crate::measure::stages::{Director, StageRun, boundaries, measure_stages};
use crate::plan::SequencePlan;
use crate::report;
use crate::result::RunResult;
use crate::result::summary::LevelSummary;
use crate::stdio::note;
use crate::terms::{GapDistribution, Stage, StageEdges, StageLength};

/// Plays the stages and prints each one's results as it ends.
pub fn run(
    runner: &Runner<'_>,
    stages: &[Stage],
    distribution: GapDistribution,
    edges: StageEdges,
    result: &mut RunResult,
) -> Result<()> {
    // Stages that an earlier run has finished are already there.
    let done = runner.earlier.levels().len().min(stages.len());
    for level in &runner.earlier.levels()[..done] {
        note!("{}: measured before (--resume)", report::level_name(level.load));
        runner.context.screen.next();
        result.levels.push(level.clone());
    }
    let mut begun = 0;
    let session = runner.session;
    let job =
        |(number, stage)| Job::stage(session, stage, distribution, &mut begun).map(|job| job.in_stage(session, number));
    let jobs = stages.iter().enumerate().map(job);
    let mut jobs = jobs.collect::<Result<Vec<_>>>()?.split_off(done);
    let stages = &stages[done..];
    if stages.is_empty() {
        return Ok(());
    }
    deal_ids(&runner.plan().load.sequences, &mut jobs);
    let plan = &runner.plan().measurement;
    let began = Stamp::now();
    runner.warm_up(&jobs[0], plan)?;
    let play = Play {
        runner,
        stages,
        edges,
        jobs: &jobs,
        began,
        places: RefCell::default(),
        over: Cell::new(0),
        result: RefCell::new(result),
        printed: RefCell::new(Ok(())),
    };
    let played =
        runner.with_measurement(&jobs[0], plan, |measurement| measure_stages(measurement, jobs.len(), &play))?;
    play.printed.into_inner()?;
    for measured in played {
        runner.account(measured);
    }
    Ok(())
}

/// Gives every stage its own correlation IDs, because sequences of the previous stage are still open when it starts. A
/// rule has ensured that there is one for each sequence.
fn deal_ids(sequences: &SequencePlan, jobs: &mut [Job]) {
    let needed: u64 = jobs.iter().map(|job| job.request_streams.whole as u64).sum();
    let Some(spare) = sequences.ids.checked_sub(needed) else { return };
    let share = spare / (jobs.len() as u64).max(1);
    let mut first = sequences.first_id;
    for job in jobs {
        let count = job.request_streams.whole as u64 + share;
        job.request_streams.ids = Some(IdBlock { first, count });
        first += count;
    }
}

/// Whether a stage is left out of the result, because an interrupt came before any figure of it. One of several processes that has a
/// result of its own keeps a first stage nevertheless, as `is_alone` says: all must end alike, and others may have figures.
fn is_left_out(summary: &LevelSummary, is_alone: bool, is_first: bool) -> bool {
    says_nothing(summary) && !(is_alone && is_first)
}

/// The stages, and each one's experiment in the export.
struct Play<'a> {
    runner: &'a Runner<'a>,
    stages: &'a [Stage],
    edges: StageEdges,
    jobs: &'a [Job],
    /// When the warm-up began, or the first stage.
    began: Stamp,
    /// The names of those that have begun.
    places: RefCell<Vec<String>>,
    /// How many are over.
    over: Cell<usize>,
    result: RefCell<&'a mut RunResult>,
    /// What kept a stage from being printed.
    printed: RefCell<Result<()>>,
}

impl Play<'_> {
    /// The experiment of a stage that has begun follows those of the stages before it, once these are over.
    fn export(&self, number: usize) {
        if let Some(observers) = self.runner.observers.filter(|_| number == self.over.get()) {
            observers.begin(self.jobs[number].load);
        }
    }
}

impl Play<'_> {
    /// How long a stage is: one with a schedule of its own, as ramps and replays have, until all of that is sent.
    fn length(&self, number: usize) -> StageLength {
        let planned = self.stages[number].length;
        let arrivals = match &self.jobs[number].shape {
            LoadShape::Open(shape) => Some(&shape.arrivals),
            LoadShape::Turns(shape) => shape.arrivals.as_ref().map(|(arrivals, _)| arrivals),
            _ => None,
        };
        arrivals.and_then(Arrivals::len).map_or(planned, |count| StageLength::Requests(count as u64))
    }
}

impl Director for Play<'_> {
    fn prepare(&self, number: usize) -> Result<StageRun> {
        let (runner, length) = (self.runner, self.length(number));
        let quota = match length {
            StageLength::Time(_) | StageLength::Sessions(_) | StageLength::Recorded => None,
            StageLength::Requests(requests) => Some(requests),
        };
        let mut job = Job { quota, ..self.jobs[number].clone() };
        match (&mut job.shape, length) {
            (LoadShape::Open(shape), StageLength::Time(length)) => shape.until = Some(length),
            (LoadShape::Turns(shape), StageLength::Time(length)) if shape.arrivals.is_some() => {
                shape.until = Some(length);
            }
            _ => {}
        }
        let level = runner.level_run(&job);
        let observer = runner.observers.map(|observers| observers.of_stage(&level.recorder, number));
        let context = runner.session.context(job.request_streams, &Arc::clone(&level.recorder), observer)?;
        let quota = quota.map(|quota| job.local_requests(quota));
        let prepared = prepare(LoadContext { quota, ..context }, job.shape.clone())?;
        Ok(StageRun { level, length, prepared, rest: self.stages[number].rest(self.edges) })
    }

    fn agree(&self) -> Result<Option<Stamp>> {
        let RunContext { ranks: Some(ranks), interrupts, .. } = self.runner.context else { return Ok(None) };
        peers::agree_on_start(ranks, self.runner.plan(), &self.jobs[0], interrupts).map(Some)
    }

    fn begun(&self, number: usize) {
        self.runner.context.screen.stage(self.jobs[number].load, &self.stages[number]);
        self.places.borrow_mut().push(self.runner.context.screen.position());
        self.export(number);
    }

    fn ended(&self, summary: &LevelSummary) -> Result<()> {
        let ranks = self.runner.context.ranks;
        let is_alone = ranks.is_some_and(|ranks| !ranks.is_joint() || ranks.over().is_some());
        let is_empty = is_left_out(summary, is_alone, self.result.borrow().levels.is_empty());
        match self.runner.observers {
            Some(observers) if is_empty => observers.discard(),
            Some(observers) => observers.end(boundaries(summary), summary, &self.runner.session.setup),
            None => {}
        }
        let number = self.over.replace(self.over.get() + 1);
        if self.places.borrow().len() > self.over.get() {
            self.export(self.over.get());
        }
        if is_empty {
            return Ok(());
        }
        let mut result = self.result.borrow_mut();
        let (mut level, index) = (summary.clone(), result.levels.len());
        if index == self.runner.earlier.levels().len() {
            level.timeline.began = self.began;
        }
        result.levels.push(self.runner.earlier.better_stage(index, level));
        self.runner.save_summary(&result);
        let printed = self.runner.show(std::slice::from_ref(summary));
        let position = self.places.borrow().get(number).cloned().unwrap_or_default();
        self.runner.context.screen.finished_at(&position, summary);
        self.printed.borrow_mut().clone_from(&printed);
        printed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::{Ending, LevelLoad, sample};

    #[test]
    fn stages_without_figures_are_left_out_in_every_process() {
        let mut level = sample::level(LevelLoad::Concurrency(1), 100, 1_000);
        let left_out = |level: &LevelSummary| {
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(is_alone, is_first)| is_left_out(level, is_alone, is_first))
        };
        level.ending = Ending::Interrupted;
        assert_eq!(left_out(&level), [false; 4], "it has figures");
        (level.client.requests, level.client.cancelled) = (0, 0);
        level.client.errors.clear();
        assert_eq!(left_out(&level), [true, true, true, false]);
        level.ending = Ending::Failed;
        assert_eq!(left_out(&level), [false; 4], "no interrupt");
    }
}
