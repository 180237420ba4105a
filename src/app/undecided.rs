//! `--undecided more`: measures a level with an undecided requirement again, with windows that are long enough to
//! decide it.

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::error::Result;
use crate::measure::summary::Ending;
use crate::plan::{Decision, MeasurementPlan, WindowRule};
use crate::report;
use crate::result::{RunResult, time_to_decide};
use crate::stdio::note;

/// How often a level is measured again at most.
const MAX_TIMES: usize = 2;

/// Measures the last level again as long as that may decide a requirement; the last measurement counts.
///
/// # Errors
/// As [`Runner::level`].
pub fn decide(runner: &Runner<'_>, job: &Job, result: &mut RunResult) -> Result<()> {
    let plan = runner.plan();
    let has_windows = plan.measurement.request_count.is_none() && plan.load.mode.has_windows();
    if plan.gate.undecided != Some(Decision::More) || !has_windows {
        return Ok(());
    }
    let mut measurement = plan.measurement.clone();
    for _ in 0..MAX_TIMES {
        let Some(level) = result.levels.last().filter(|_| !runner.must_stop()) else { break };
        let Some((text, times)) = time_to_decide(&plan.gate, level, runner.baseline) else { break };
        let name = report::level_name(job.load);
        note!("{name}: {text} is undecided; measured again, {times:.1} times as long (--undecided more)");
        measurement = MeasurementPlan { window: longer(measurement.window, times), ..measurement };
        runner.screen.again();
        runner.show_measured(job, &measurement, |level| {
            if level.ending != Ending::Interrupted
                && let Some(last) = result.levels.last_mut()
            {
                *last = level;
            }
        })?;
        runner.save(result);
    }
    Ok(())
}

fn longer(window: WindowRule, times: f64) -> WindowRule {
    match window {
        WindowRule::Time(time) => WindowRule::Time(time.mul_f64(times)),
        WindowRule::Count(count) => WindowRule::Count((count as f64 * times).ceil() as u64),
    }
}
