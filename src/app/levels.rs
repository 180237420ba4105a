//! The levels of a run, one after the other.

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::app::session::Session;
use crate::app::{periodic, stages, sweep, warm_up};
use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::measure::sweep::SweepPlan;
use crate::plan::{Outcome, Search};
use crate::report;
use crate::result::RunResult;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::{Ending, LevelLoad, LevelSummary};
use crate::stdio::note;
use crate::terms::LevelValue;
use crate::terms::{LoadMode, Range};

/// Why a run over a network ends early.
const GONE: &str = "the run ends here, because the server is gone: no connection to it can be made, or several in a row ended without \
    any answer; with --reconnect it goes on, and what fails meanwhile counts as failed";
/// Limit on the levels of a range that are measured once more at its end.
const MAX_REPEATED: usize = 4;

/// Limit on the levels that are measured in a row while requests wait for a batch longer than they may take.
const MAX_WAITING: usize = 16;
/// Who waits for a batch does so for at least this share of its time.
const MOSTLY: f64 = 0.5;
/// By how much a level may be slower by chance than one before it.
const AS_SLOW: f64 = 1.1;

/// Measures every level that the plan asks for, adds each to `result` and prints it as it is done.
///
/// # Errors
/// What keeps a level from being measured; those before it are in the result.
pub fn run(runner: &Runner<'_>, result: &mut RunResult) -> Result<()> {
    let outcome = run_levels(runner, result);
    // Whatever ended it: levels are missing.
    result.interrupted = runner.is_interrupted() || runner.is_deserted() || outcome.is_err();
    match outcome {
        Ok(()) => {
            let is_periodic = result.periodic.is_some();
            result.server_gone = !is_periodic && runner.session.backend.is_gone();
            if result.server_gone && !result.is_whole() && runner.session.backend.network().is_some() {
                note!("{GONE}");
            }
            Ok(())
        }
        // If an interrupt kept a level from starting, that does not invalidate the others.
        Err(error) if runner.is_interrupted() && !is_empty(result) => {
            note!("{error}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Whether nothing was measured.
pub fn is_empty(result: &RunResult) -> bool {
    result.levels.is_empty() && result.sweep_steps.is_empty() && result.periodic.is_none()
}

fn run_levels(runner: &Runner<'_>, result: &mut RunResult) -> Result<()> {
    let (plan, session) = (runner.plan(), runner.session);
    warm_up::run(runner)?;
    if runner.must_stop() {
        return Ok(());
    }
    match &plan.load.mode {
        LoadMode::Concurrency(range) => grow(runner, range, result, &|requests| Ok(Job::closed(session, requests))),
        LoadMode::Paced { range, interval } => {
            grow(runner, range, result, &|streams| Job::paced(session, streams, *interval))
        }
        LoadMode::RequestRate { range, distribution } => {
            search(runner, range, result, &|rate| Job::rate(session, rate, *distribution))
        }
        LoadMode::Stages { stages, distribution, edges, .. } => {
            stages::run(runner, stages, *distribution, *edges, result)
        }
        LoadMode::Sweep { spacing, points, distribution } => {
            let plan = SweepPlan { spacing: *spacing, rates: *points as usize };
            sweep::run(runner, plan, *distribution, result)
        }
        LoadMode::Periodic(periodic) => periodic::run(runner, periodic, result),
        LoadMode::Intervals(_) | LoadMode::TraceReplay { .. } | LoadMode::FixedSchedule | LoadMode::Sessions(_) => {
            runner.level(&nth(session, 0)?, result).map(drop)
        }
    }
}

/// The load of the level with that number, from 0, if the levels of the plan's load can be measured by themselves.
///
/// # Errors
/// If there is no such level, or as [`Job::rate`].
pub fn nth(session: &Session, level: u32) -> Result<Job> {
    let none = || Error::usage("there is no such level");
    match &session.plan.load.mode {
        LoadMode::Concurrency(range) => Ok(Job::closed(session, range.nth(level).ok_or_else(none)?)),
        LoadMode::Paced { range, interval } => Job::paced(session, range.nth(level).ok_or_else(none)?, *interval),
        LoadMode::RequestRate { range, distribution } => {
            Job::rate(session, range.nth(level).ok_or_else(none)?, *distribution)
        }
        LoadMode::Sessions(concurrency) => Ok(Job::sessions(session, *concurrency)),
        LoadMode::Intervals(_) | LoadMode::TraceReplay { .. } | LoadMode::FixedSchedule => {
            Ok(Job::schedule(session, session.schedule()))
        }
        LoadMode::Stages { .. } | LoadMode::Sweep { .. } | LoadMode::Periodic(_) => Err(none()),
    }
}

/// Walks through a range that need not have an end.
fn grow(
    runner: &Runner<'_>,
    range: &Range<u32>,
    result: &mut RunResult,
    job: &dyn Fn(u32) -> Result<Job>,
) -> Result<()> {
    let synchronous = runner.session.setup.synchronous;
    let limit = runner.plan().load.most_concurrency(synchronous);
    let bounded = Range { end: range.end.or(Some(limit)), ..range.clone() };
    search(runner, &bounded, result, job)?;
    let last = result.levels.last().filter(|_| range.end.is_none() && !runner.is_interrupted());
    if last.is_some_and(|level| passes(runner.context.codes, level)) {
        note!("{}", end_of_growth(synchronous, range, limit));
    }
    Ok(())
}

fn search<T: LevelValue>(
    runner: &Runner<'_>,
    range: &Range<T>,
    result: &mut RunResult,
    job: &dyn Fn(T) -> Result<Job>,
) -> Result<()> {
    if let Some(last) = range.listed.len().checked_sub(1) {
        // A list is searched by index.
        let places = Range::with_step(0, u32::try_from(last).ok(), 1);
        return search(runner, &places, result, &|index: u32| job(range.listed[index as usize]));
    }
    let is_binary = runner.plan().measurement.binary_search;
    let earlier = result.levels.len();
    let mut search = Search::new(range.clone(), is_binary);
    let mut unsettled = Vec::new();
    let (mut last, mut confirmed, mut measures, mut goes_on) = (None, false, false, false);
    while let Some(value) = search.next(last) {
        if goes_on && result.levels.len() == earlier + 1 {
            note!("{}: over the limit only while it waits for a batch; the range goes on", name(&result.levels));
        }
        let measured = runner.level(&job(value)?, result)?;
        // An earlier run may have been broken off before it measured its last level further.
        let measured = measured || result.levels.last().is_some_and(|level| runner.earlier.is_open_at(level));
        measures |= measured;
        let waits = |result: &RunResult| !is_binary && waits_for_batches(runner, &result.levels[earlier..]);
        // Whether the first of all is over the limit is looked at again where its last window was not.
        let may_end = result.levels.len() == 1 || !waits(result);
        if !confirmed && may_end && ends_a_range(runner, &result.levels) {
            confirmed = true;
            if measured {
                confirm(runner, &job(value)?, result)?;
            }
        }
        let Some(level) = result.levels.last() else { break };
        if level.ending == Ending::Unstable {
            unsettled.push((result.levels.len() - 1, value));
        }
        if is_binary && measured {
            // The next level hangs on this one.
            settle(runner, result, &mut unsettled, job)?;
        }
        let Some(level) = result.levels.last() else { break };
        let codes = runner.context.codes;
        // A queue that grows is too much, however low the latency still is.
        let is_too_much = is_binary && codes == Codes::Own && is_overloaded(level);
        goes_on = waits(result);
        let is_within = passes(codes, level) && !is_too_much;
        last = Some(if goes_on || is_within { Outcome::Pass } else { Outcome::Fail });
        if result.levels.len() == 1 && goes_on {
            // The level that ends the range is still to be looked at again.
            confirmed = false;
        }
        if runner.must_stop() {
            break;
        }
    }
    // If the resumed run had ended, these levels are already settled.
    if measures { settle(runner, result, &mut unsettled, job) } else { Ok(()) }
}

/// Measures levels whose windows did not agree once more, because the disturbance may be over; with more patience where the limit
/// is still open, which decides what the range is asked. perf_analyzer gives up at such a level.
fn settle<T: LevelValue>(
    runner: &Runner<'_>,
    result: &mut RunResult,
    unsettled: &mut Vec<(usize, T)>,
    job: &dyn Fn(T) -> Result<Job>,
) -> Result<()> {
    if runner.context.codes == Codes::PerfAnalyzers || result.levels.len() < 2 {
        return Ok(());
    }
    for (index, value) in unsettled.drain(..).take(MAX_REPEATED) {
        if runner.must_stop() {
            break;
        }
        note!("{}: its windows did not agree; measured once more", name(&result.levels[..=index]));
        let measurement = &runner.plan().measurement;
        // Processes that measure together have the same number of windows.
        let is_open = runner.context.ranks.is_none() && result.levels[index].limit.is_some_and(|check| !check.certain);
        let measurement = if is_open { &measurement.more_patient() } else { measurement };
        runner.again(&job(value)?, measurement, &mut result.levels[index])?;
        runner.save(result);
    }
    Ok(())
}

/// Measures the level that would end the range again, before it does. If it is within the threshold this time, a third
/// measurement decides, which reports and export have in place of the first.
fn confirm(runner: &Runner<'_>, job: &Job, result: &mut RunResult) -> Result<()> {
    let name = name(&result.levels);
    let why = match result.levels.len() {
        1 => ", but not in its last window; measured once more",
        _ => "; measured once more, because the range ends there",
    };
    note!("{name}: above the latency threshold{why}");
    let level = runner.measure_quietly(job, &runner.plan().measurement)?;
    let (Some(last), Ending::Stable | Ending::Complete) = (result.levels.last_mut(), level.ending) else {
        return Ok(());
    };
    if !runner.must_stop() {
        note!("{name}: within the latency threshold this time; a third measurement decides");
        runner.again(job, &runner.plan().measurement, last)?;
        runner.save(result);
    }
    Ok(())
}

/// Whether a range goes on although all its levels so far are over the limit: a lone request waits at the server until there is a
/// batch, without that wait it would be within the limit, and with more load none waits longer.
fn waits_for_batches(runner: &Runner<'_>, levels: &[LevelSummary]) -> bool {
    let percentile = runner.plan().measurement.percentile;
    let latency = |level: &LevelSummary| level.client.key_latency_ns(percentile);
    let waits = |level: &LevelSummary| {
        let queued = level.server.as_ref().map_or(0.0, |server| server.times().queue_us as f64 * 1e3);
        let limit = level.limit.map_or(0.0, |check| check.limit.as_nanos() as f64);
        let is_most = queued >= MOSTLY * level.client.latency.mean_ns();
        level.ending == Ending::OverThreshold && !is_overloaded(level) && is_most && latency(level) - queued < limit
    };
    let [first, ..] = levels else { return false };
    let is_lone = matches!(first.load, LevelLoad::Concurrency(1));
    is_lone
        && runner.context.codes == Codes::Own
        && levels.len() <= MAX_WAITING
        && levels.iter().all(|level| waits(level) && latency(level) <= AS_SLOW * latency(first))
}

/// The name of the last level.
fn name(levels: &[LevelSummary]) -> String {
    levels.last().map(|level| report::level_name(level.load)).unwrap_or_default()
}

/// Whether the last level is the first above the threshold, after others below it or while the server warmed up.
fn ends_a_range(runner: &Runner<'_>, levels: &[LevelSummary]) -> bool {
    // A growing queue is not chance.
    let by_chance = |level: &LevelSummary| {
        level.ending == Ending::OverThreshold
            && !is_overloaded(level)
            && (levels.len() > 1 || is_within_at_last(level, runner.plan().measurement.percentile))
    };
    levels.last().is_some_and(by_chance) && runner.context.codes == Codes::Own && !runner.must_stop()
}

/// Whether the last of several windows of a level is within its limit, whatever all of them are.
fn is_within_at_last(level: &LevelSummary, percentile: Option<f64>) -> bool {
    let [_, .., last] = level.windows.as_slice() else { return false };
    let latency_ns = match percentile {
        Some(percentile) => last.percentiles_ns.get(&percentile.to_string()).map(|ns| *ns as f64),
        None => Some(last.avg_ns),
    };
    latency_ns.zip(level.limit).is_some_and(|(latency, check)| latency < check.limit.as_nanos() as f64)
}

fn is_overloaded(level: &LevelSummary) -> bool {
    let Verdict::Invalid(reasons) = &level.verdict else { return false };
    reasons.iter().any(|reason| matches!(reason, InvalidReason::Overloaded(..) | InvalidReason::HeldBack(_)))
}

/// The note for a range without an end that reached the limit of its growth before the latency threshold.
fn end_of_growth(synchronous: bool, range: &Range<u32>, limit: u32) -> String {
    let reason = if synchronous {
        format!("synchronous requests have a thread each, and --max-threads allows {limit}; raise it, or use --async")
    } else {
        format!("no more than {limit} requests may be outstanding")
    };
    let Range { start, step, .. } = range;
    format!("--concurrency-range {start}:0:{step} ended before the latency threshold was met: {reason}")
}

/// Whether a search may continue above this level. A level whose windows do not agree says nothing about the next, but
/// ends perf_analyzer's ranges.
fn passes(codes: Codes, level: &LevelSummary) -> bool {
    match level.ending {
        Ending::Stable | Ending::Complete => true,
        Ending::Unstable => codes == Codes::Own && !level.limit.is_some_and(|check| check.over),
        Ending::OverThreshold | Ending::Interrupted | Ending::Failed => false,
    }
}
