//! The levels of a run, one after the other.

use crate::app::job::Job;
use crate::app::outcome::exit_code;
use crate::app::runner::Runner;
use crate::app::{periodic, stages, sweep};
use crate::error::{Error, Result};
use crate::exit;
use crate::measure::summary::{Ending, LevelSummary};
use crate::plan::{LevelValue, LoadMode, Outcome, Plan, Range, Search};
use crate::stdio::note;

/// An error in the middle of a run, and the levels that were measured before it.
pub struct Stopped {
    /// What happened.
    pub error: Error,
    /// Measured before.
    pub levels: Vec<LevelSummary>,
}

impl Stopped {
    fn at_once(error: Error) -> Self {
        Self { error, levels: Vec::new() }
    }
}

/// Measures every level that the plan asks for, and prints each as it is done. With the levels comes the exit code. A
/// periodic load has no levels.
///
/// # Errors
/// What keeps a level from being measured, with the levels before it.
pub fn run(runner: &Runner<'_>) -> Result<(Vec<LevelSummary>, u8), Stopped> {
    let mut levels = Vec::new();
    if let LoadMode::Periodic(periodic) = &runner.plan.load.mode {
        return periodic::run(runner, periodic).map(|code| (levels, code)).map_err(Stopped::at_once);
    }
    match walk(runner, &mut levels) {
        Ok(()) => {
            // A sweep may have no level to show for it.
            let gone = runner.session.backend.is_gone();
            let code = if gone { exit::NO_VALID_REQUESTS } else { exit_code(&runner.plan.load.mode, &levels) };
            Ok((levels, code))
        }
        // A level that an interrupt kept from starting is no fault of the others.
        Err(error) if runner.is_interrupted() && !levels.is_empty() => {
            note!("{error}");
            let code = exit_code(&runner.plan.load.mode, &levels);
            Ok((levels, code))
        }
        Err(error) => Err(Stopped { error, levels }),
    }
}

fn walk(runner: &Runner<'_>, levels: &mut Vec<LevelSummary>) -> Result<()> {
    let (plan, session) = (runner.plan, runner.session);
    match &plan.load.mode {
        LoadMode::Concurrency(range) => {
            let limit = plan.load.most_concurrency();
            let bounded = Range { end: range.end.or(Some(limit)), ..*range };
            search(runner, bounded, levels, |concurrency| Ok(Job::closed(plan, session, concurrency)))?;
            if range.end.is_none() && !runner.is_interrupted() && levels.last().is_some_and(passes) {
                note!("{}", end_of_growth(plan, *range, limit));
            }
            Ok(())
        }
        LoadMode::RequestRate { range, distribution } => {
            search(runner, *range, levels, |rate| Job::rate(plan, session, rate, *distribution))
        }
        LoadMode::Intervals(_) | LoadMode::TraceReplay { .. } | LoadMode::FixedSchedule => {
            runner.level(&Job::schedule(plan, session, session.schedule()), levels)
        }
        LoadMode::Stages { stages, distribution } => stages::run(runner, stages, *distribution, levels),
        LoadMode::Sweep { spacing, points, distribution } => {
            sweep::run(runner, (*spacing, *points), *distribution, levels)
        }
        LoadMode::Periodic(_) => Ok(()),
    }
}

fn search<T: LevelValue>(
    runner: &Runner<'_>,
    range: Range<T>,
    levels: &mut Vec<LevelSummary>,
    job: impl Fn(T) -> Result<Job>,
) -> Result<()> {
    let mut search = Search::new(range, runner.plan.measurement.binary_search);
    let mut last = None;
    while let Some(value) = search.next(last) {
        runner.level(&job(value)?, levels)?;
        last = levels.last().map(|level| if passes(level) { Outcome::Pass } else { Outcome::Fail });
        if runner.is_interrupted() || runner.session.backend.is_gone() {
            break;
        }
    }
    Ok(())
}

/// What is said where a range without an end met the limit of its growth before the latency threshold.
fn end_of_growth(plan: &Plan, range: Range<u32>, limit: u32) -> String {
    let reason = if plan.load.synchronous {
        format!("synchronous requests have a thread each, and --max-threads allows {limit}; raise it, or use --async")
    } else {
        format!("no more than {limit} requests may be outstanding")
    };
    let Range { start, step, .. } = range;
    format!("--concurrency-range {start}:0:{step} ended before the latency threshold was met: {reason}")
}

/// Whether a search may go on above this level.
fn passes(level: &LevelSummary) -> bool {
    matches!(level.ending, Ending::Stable | Ending::Complete)
}
