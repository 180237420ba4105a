//! `--sweep`: finds the rate that the server sustains, then measures rates up to it and just past it.

use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::error::{Error, Result};
use crate::measure::sweep::{Replay, Sweep, SweepPlan};
use crate::report::{console, significant};
use crate::result::RunResult;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::{Ending, LevelSummary};
use crate::result::sweep::{StepTaken, SweepObservation, SweepResult, SweepStep};
use crate::stdio::note;
use crate::terms::{GapDistribution, MeasurementPlan, WindowRule};

/// Requests outstanding in the burst that gives the first guess.
const BURST: u32 = 256;
/// Shortest and longest window of a search step.
const SEARCH_WINDOW: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// Searches, then measures and prints each rate, then reports what was found. Steps that an earlier run has taken are
/// answered from its result.
pub fn run(runner: &Runner<'_>, plan: SweepPlan, distribution: GapDistribution, result: &mut RunResult) -> Result<()> {
    let mut sweep = Sweep::new(plan);
    let mut replay = Replay::new(runner.earlier.sweep_steps());
    runner.context.screen.at("search", None);
    let may_go_on = || !runner.is_interrupted() && !runner.session.backend.is_gone();
    while let Some(step) = sweep.next() {
        let answer = replay.answer(step);
        if answer.is_none() && !may_go_on() {
            break;
        }
        let observed = match (step, answer) {
            (SweepStep::Measure(rate), answer) => {
                runner.level(&Job::rate(runner.session, rate, distribution)?, result)?;
                answer.unwrap_or_else(|| observe(result.levels.last().expect("was added just now"), runner))
            }
            (_, Some(answer)) => answer,
            (SweepStep::Again(index, rate), None) => {
                note!("sweep: {} requests/sec: contradicts the other rates; measured once more", significant(rate));
                let level = &mut result.levels[index];
                runner.again(&Job::rate(runner.session, rate, distribution)?, &runner.plan().measurement, level)?;
                observe(level, runner)
            }
            (SweepStep::Burst, None) => match first_guess(runner, result)? {
                Some(observed) => observed,
                None => return Ok(()),
            },
            (SweepStep::Confirm(rate), None) => confirm(runner, rate)?,
        };
        // A step that was broken off is repeated.
        let counts = answer.is_some() || may_go_on();
        if let SweepStep::Confirm(rate) = step
            && counts
        {
            say_confirmed(rate, observed, answer.is_some());
        }
        sweep.observe(observed);
        if counts {
            result.sweep_steps.push(StepTaken { step, observed });
        }
        if answer.is_none() {
            runner.save(result);
        }
    }
    conclude(runner, sweep.result(), result)
}

/// The throughput of many requests at once; `None` if they fail, which is reported and in the result.
fn first_guess(runner: &Runner<'_>, result: &mut RunResult) -> Result<Option<SweepObservation>> {
    let level = runner.measure_quietly(&burst(runner), &search_plan(&runner.plan().measurement))?;
    if level.ending != Ending::Failed {
        return Ok(Some(observe(&level, runner)));
    }
    say_no_rate(runner, Some(&level));
    result.levels.push(level);
    runner.show(&result.levels).map(|()| None)
}

/// Whether a rate of the search is sustained.
fn confirm(runner: &Runner<'_>, rate: f64) -> Result<SweepObservation> {
    // Even gaps: random ones would bring a short window more or fewer requests than the rate, and the search would take
    // that for the server's capacity.
    let job = Job::rate(runner.session, rate, GapDistribution::Constant)?;
    let level = runner.measure_quietly(&job, &search_plan(&runner.plan().measurement))?;
    Ok(observe(&level, runner))
}

fn say_confirmed(rate: f64, observed: SweepObservation, before: bool) {
    let word = if observed.sustained { "sustained" } else { "not sustained" };
    let when = if before { ", measured before (--resume)" } else { "" };
    note!("sweep: {} requests/sec: {word}{when}", significant(rate));
}

/// Reports what was found, or why nothing was.
fn conclude(runner: &Runner<'_>, found: Option<SweepResult>, result: &mut RunResult) -> Result<()> {
    match found.filter(|_| !runner.is_interrupted()) {
        Some(found) => {
            let found = result.sweep.insert(found);
            runner.context.screen.print(&console::sweep(found))
        }
        None if runner.is_interrupted() => {
            note!("--sweep: interrupted before the saturation rate was known");
            Ok(())
        }
        None if runner.session.backend.is_gone() => {
            say_no_rate(runner, None);
            Ok(())
        }
        None => Err(Error::server(
            "--sweep: the server sustained no rate that was tried; see its log, or name rates with --request-rate-range",
        )),
    }
}

/// `level` is what was measured, if anything was.
fn say_no_rate(runner: &Runner<'_>, level: Option<&LevelSummary>) {
    let why = match level {
        _ if runner.session.backend.is_gone() => "the server went away before its rate was found",
        Some(level) if level.client.completed() == 0 => "no request ended, so there is no rate to search for",
        _ => "requests fail before there is any rate to search for",
    };
    note!("--sweep: {why}");
}

/// One short window per search step.
fn search_plan(plan: &MeasurementPlan) -> MeasurementPlan {
    let length = plan.window.length().map_or(SEARCH_WINDOW.1, |length| length.clamp(SEARCH_WINDOW.0, SEARCH_WINDOW.1));
    MeasurementPlan { window: WindowRule::of_length(length), ..plan.clone().once() }
}

fn burst(runner: &Runner<'_>) -> Job {
    // More sequences than may be active would wait for each other, and need more correlation IDs.
    let sequences = u32::try_from(runner.plan().load.sequences.concurrent).unwrap_or(BURST);
    let outstanding = if runner.session.setup.sequences { BURST.min(sequences) } else { BURST };
    Job::burst(runner.session, outstanding)
}

fn observe(level: &LevelSummary, runner: &Runner<'_>) -> SweepObservation {
    let client = &level.client;
    let completed_rate = client.request_rate();
    let lost = |reason: &InvalidReason| {
        matches!(
            reason,
            InvalidReason::Nothing
                | InvalidReason::NoneEnded
                | InvalidReason::AllCancelled(_)
                | InvalidReason::Errors(..)
                | InvalidReason::RateNotReached(..)
                | InvalidReason::Overloaded(..)
                | InvalidReason::HeldBack(_)
        )
    };
    let refused = matches!(&level.verdict, Verdict::Invalid(reasons) if reasons.iter().any(lost));
    let over = matches!(level.ending, Ending::OverThreshold | Ending::Failed | Ending::Interrupted);
    let latency_ns = client.key_latency_ns(runner.plan().measurement.percentile);
    let settled = level.ending != Ending::Unstable;
    SweepObservation { completed_rate, sustained: !refused && !over, settled, latency_ns }
}
