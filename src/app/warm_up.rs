//! Loads that are not measured: `--warm-up`, before the first level, and the warm-up of a level.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::load::RunningLoad;
use crate::measure::waiting::wait;
use crate::stdio::note;
use crate::terms::{GapDistribution, MeasurementPlan, Stage, StageLength, StageLoad};

/// How often to look whether it is over.
const POLL: Duration = Duration::from_millis(1);

/// Plays the plan's warm-up, one load after the other, and discards its results.
///
/// # Errors
/// If a load cannot be started, or a client breaks.
pub fn run(runner: &Runner<'_>) -> Result<()> {
    runner.plan().load.warm_up.iter().try_for_each(|stage| play(runner, stage))
}

impl Runner<'_> {
    /// Warms up with the load of `job`, unless the measurement does so itself, and discards the results.
    ///
    /// # Errors
    /// If the load cannot be started or breaks, or the user interrupts. Of several processes, all hear of that before the load
    /// that is measured begins.
    pub fn warm_up(&self, job: &Job, plan: &MeasurementPlan) -> Result<()> {
        let job = job.warm_up.as_deref().unwrap_or(job);
        let quota = (plan.warmup_requests > 0).then_some(plan.warmup_requests);
        if quota.is_none() && plan.warmup.is_zero() {
            return Ok(());
        }
        let running = self.start(&self.level_run(job).recorder, job, quota)?;
        let end = if quota.is_some() { Stamp::NEVER } else { Stamp::now().plus_duration(plan.warmup) };
        self.let_run(&running, end);
        let stopped = running.stop();
        match self.context.ranks.is_none() && self.is_interrupted() {
            true => Err(Error::machine("interrupted while it warmed up: nothing was measured")),
            false => stopped.map(drop),
        }
    }

    /// Lets a load run that is not measured: until it has ended, `end` has come, or the user has interrupted, which other
    /// processes hear of only later.
    pub fn let_run(&self, running: &RunningLoad, end: Stamp) {
        wait(|| match running.is_finished() || self.is_to_end(end) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(POLL),
        });
    }

    /// Whether what is not measured is over: `end` has come, or the user has interrupted.
    pub fn is_to_end(&self, end: Stamp) -> bool {
        Stamp::now() >= end || self.is_interrupted() || interrupt::counter().load(Ordering::Relaxed) > 0
    }
}

fn play(runner: &Runner<'_>, stage: &Stage) -> Result<()> {
    let gaps = runner.plan().load.mode.gaps().unwrap_or(GapDistribution::Constant);
    let job = Job::stage(runner.session, stage, gaps, &mut 0)?;
    let length = match stage.length {
        // The schedule of a ramp ends by itself.
        StageLength::Time(length) if !matches!(stage.load, StageLoad::Ramp(_)) => Some(length),
        _ => None,
    };
    let quota = match stage.length {
        StageLength::Requests(requests) => Some(requests),
        _ => None,
    };
    let idle_until = Stamp::now().plus_duration(stage.pause);
    wait(|| match runner.is_to_end(idle_until) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(POLL),
    });
    let running = runner.start(&runner.level_run(&job).recorder, &job, quota)?;
    runner.let_run(&running, length.map_or(Stamp::NEVER, |length| Stamp::now().plus_duration(length)));
    let report = running.stop()?;
    if report.failed > 0 {
        note!("--warm-up: {} of {} requests failed", report.failed, report.sent);
    }
    Ok(())
}
