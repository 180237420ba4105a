//! `--warm-up`: loads before the first level that are not measured.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::clock::Stamp;
use crate::error::Result;
use crate::measure::waiting::wait;
use crate::plan::{GapDistribution, Stage, StageLength, StageLoad};
use crate::stdio::note;

/// How often to look whether it is over.
const POLL: Duration = Duration::from_millis(1);

/// Plays the plan's warm-up, one load after the other, and discards its results.
///
/// # Errors
/// If a load cannot be started, or a client breaks.
pub fn run(runner: &Runner<'_>) -> Result<()> {
    runner.plan().load.warm_up.iter().try_for_each(|stage| play(runner, stage))
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
