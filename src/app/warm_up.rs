//! `--warm-up`: loads before the first level that are not measured.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::clock::Stamp;
use crate::error::Result;
use crate::interrupt;
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
    // Other processes hear of an interrupt only after the warm-up.
    let goes_on = |until: Stamp| {
        let is_interrupted = runner.is_interrupted() || interrupt::counter().load(Ordering::Relaxed) > 0;
        !is_interrupted && Stamp::now() < until
    };
    let idle_until = Stamp::now().plus_duration(stage.pause);
    while goes_on(idle_until) {
        thread::sleep(POLL);
    }
    let running = runner.start(&runner.level_run(&job).recorder, &job, quota)?;
    let until = length.map_or(Stamp::NEVER, |length| Stamp::now().plus_duration(length));
    while !running.is_finished() && goes_on(until) {
        thread::sleep(POLL);
    }
    let report = running.stop()?;
    if report.failed > 0 {
        note!("--warm-up: {} of {} requests failed", report.failed, report.sent);
    }
    Ok(())
}
