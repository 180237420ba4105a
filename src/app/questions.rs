//! What is to be decided of a level before it ends.

use crate::app::job::Job;
use crate::gate::is_about;
use crate::measure::gate::{Question, Questions};
use crate::plan::Plan;
use crate::result::RunResult;
use crate::result::summary::LevelSummary;
use crate::terms::MeasurementPlan;

/// The requirements of a level, where it consists of windows at one start. A sweep goes past saturation on purpose.
pub fn open_questions(
    plan: &Plan,
    measurement: &MeasurementPlan,
    job: &Job,
    baseline: Option<&RunResult>,
) -> Questions {
    let mode = &plan.load.mode;
    let has_windows = measurement.request_count.is_none() && mode.has_windows() && mode.sweep().is_none();
    if !plan.gate.goes_on() || !has_windows || measurement.restarts > 1 {
        return Questions::default();
    }
    let is_meant = |level: &&LevelSummary| (level.load, level.client.batch_size) == (job.load, plan.data.batch_size);
    let baseline = baseline.and_then(|baseline| baseline.levels.iter().find(is_meant));
    let asked = plan.gate.requirements.iter().filter(|requirement| is_about(requirement, job.load));
    let all = asked.map(|requirement| Question { requirement: requirement.clone(), baseline: baseline.cloned() });
    let time = measurement.level_time.map_or(plan.gate.time, |most| most.min(plan.gate.time));
    Questions { all: all.collect(), time }
}
