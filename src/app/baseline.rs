//! `--baseline`: says, before anything is measured, what a baseline cannot answer for.

use crate::app::levels;
use crate::app::session::Session;
use crate::error::{Error, Result};
use crate::gate::{self, Finding, Lack, Planned};
use crate::plan::Plan;
use crate::report;
use crate::result::RunResult;
use crate::stdio::note;

/// The baseline's path, for messages.
pub fn path(plan: &Plan) -> String {
    plan.gate.baseline.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
}

/// Names what is odd about the baseline.
///
/// # Errors
/// If it lacks what no measurement could make up for: the level, a valid one, or the figure.
pub fn check(session: &Session, baseline: &RunResult) -> Result<()> {
    let (plan, planned) = (&session.plan, planned(session)?);
    let path = path(plan);
    if baseline.interrupted {
        note!("--baseline {path}: it was interrupted, and may lack levels");
    }
    let lacks = gate::lacks(baseline, &plan.gate, &planned);
    if let Some(finding) = lacks.iter().find(|finding| finding.is_final) {
        let (problem, next) = sentence(finding, baseline, &planned);
        return Err(Error::input(format!(
            "--baseline {path}: {problem}, so '{}' has no answer; {next}",
            finding.requirement
        )));
    }
    let mut notes = Vec::new();
    for finding in &lacks {
        let (problem, next) = sentence(finding, baseline, &planned);
        let line = format!("--baseline {path}: {problem}; {next}");
        if !notes.contains(&line) {
            note!("{line}");
            notes.push(line);
        }
    }
    Ok(())
}

fn planned(session: &Session) -> Result<Planned> {
    let plan = &session.plan;
    let count = plan.load.mode.separate_levels().filter(|_| plan.load.mode.is_range() && !plan.load.mode.is_endless());
    let loads = count.map(|count| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        (0..count).map(|level| Ok(levels::nth(session, level)?.load)).collect::<Result<Vec<_>>>()
    });
    let measurement = &plan.measurement;
    Ok(Planned {
        loads: loads.transpose()?,
        batch_sizes: plan.data.batch_sizes.clone(),
        may_end_early: measurement.latency_threshold.is_some() || measurement.binary_search,
    })
}

/// What is wrong, and what to do.
fn sentence(finding: &Finding, baseline: &RunResult, planned: &Planned) -> (String, &'static str) {
    let name = |number: usize| report::level_name(baseline.levels[number].load);
    match finding.lack {
        Lack::Level(index) => {
            let load = index.and_then(|index| Some(*planned.loads.as_ref()?.get(index)?));
            let level = load.map_or_else(|| "a level that is meant".to_owned(), report::level_name);
            (format!("it lacks {level}"), "measure the same levels in both, or name one as in p99<+5%@concurrency:8")
        }
        Lack::Valid(number, word) => (
            format!("its {} is not valid ({word})", name(number)),
            "measure the baseline again, longer or more quietly",
        ),
        Lack::Figure(number) => {
            let next = "measure it longer, and name further percentiles by --percentiles";
            (format!("its {} does not tell how well that figure is known", name(number)), next)
        }
        Lack::Starts(_) => (
            "it is from one start of the server, and does not tell how starts differ".to_owned(),
            "make it with --restarts 5, or leave room for that in the bound",
        ),
    }
}
