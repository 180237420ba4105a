//! `--sweep`: finds the rate that the server sustains, then measures rates up to it and just past it.

use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::error::{Error, Result};
use crate::measure::sweep::{Replay, Sweep, SweepPlan};
use crate::report::{console, level_name, significant};
use crate::result::RunResult;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::{Ending, LevelSummary};
use crate::result::sweep::{StepTaken, SweepObservation, SweepResult, SweepStep};
use crate::stdio::note;
use crate::terms::{GapDistribution, MeasurementPlan, WindowRule};

/// Requests outstanding in the burst that gives the first guess; fewer where a server refuses what it cannot do at once.
const BURSTS: [u32; 4] = [256, 32, 4, 1];
/// Shortest and longest window of a search step, where answers and rates leave that open.
const SEARCH_WINDOW: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// A step waits no longer for the first answer to a burst.
const LONGEST_BURST: Duration = Duration::from_secs(60);
/// How many times longer the next burst may take, where nothing has ended in one.
const PATIENCE: u32 = 4;
/// In a window of as many requests a queue that grows is longer than chance makes one.
const ENOUGH_REQUESTS: f64 = 40.0;
/// But the steps of slow servers are no longer than this.
const LONGEST_STEP: Duration = Duration::from_secs(30);

/// Searches, then measures and prints each rate, then reports what was found. Steps that an earlier run has taken are
/// answered from its result.
pub fn run(runner: &Runner<'_>, plan: SweepPlan, distribution: GapDistribution, result: &mut RunResult) -> Result<()> {
    let mut sweep = Sweep::new(plan);
    let mut replay = Replay::new(runner.earlier.sweep_steps());
    // The last level of the search, which says what limited it if no rate was sustained.
    let mut searched = None;
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
            (step, None) => match look(runner, step, result) {
                Ok(Some(level)) => observe(searched.insert(level), runner),
                Ok(None) => return Ok(()),
                // Nothing had ended: the search says what it did not find.
                Err(_) if runner.is_interrupted() => break,
                Err(error) => return Err(error),
            },
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
    match sweep.result() {
        None if may_go_on() => explain(runner, sweep.searched(), searched, result),
        found => conclude(runner, found, result),
    }
}

/// A step of the search; `None` if it ends with that, which is reported.
fn look(runner: &Runner<'_>, step: SweepStep, result: &mut RunResult) -> Result<Option<LevelSummary>> {
    match step {
        SweepStep::Confirm(rate) => confirm(runner, rate).map(Some),
        _ => first_guess(runner, result),
    }
}

/// Many requests at once; `None` if they fail, however few they are, which is reported and in the result.
fn first_guess(runner: &Runner<'_>, result: &mut RunResult) -> Result<Option<LevelSummary>> {
    let (mut failed, mut length) = (None, usual_window(runner));
    for outstanding in BURSTS {
        let level = runner.measure_quietly(&burst(runner, outstanding), &search_plan(runner, length))?;
        if level.ending != Ending::Failed {
            return Ok(Some(level));
        }
        let (ended, may_go_on) =
            (level.client.completed(), !runner.is_interrupted() && !runner.session.backend.is_gone());
        let sheds = level.client.requests > 0;
        failed = Some(level);
        if !may_go_on || ended > 0 && !sheds || outstanding == 1 {
            break;
        }
        match ended {
            0 => {
                note!("sweep: of {outstanding} requests at once, none ended in {length:?}; fewer, for longer");
                length = LONGEST_BURST.min(length * PATIENCE);
            }
            _ => note!("sweep: of {outstanding} requests at once, more fail than --max-errors allows"),
        }
    }
    say_no_rate(runner, failed.as_ref());
    result.levels.extend(failed);
    runner.show(&result.levels).map(|()| None)
}

/// A rate of the search.
fn confirm(runner: &Runner<'_>, rate: f64) -> Result<LevelSummary> {
    // Even gaps: random ones would bring a short window more or fewer requests than the rate, and the search would take
    // that for the server's capacity.
    let job = Job::rate(runner.session, rate, GapDistribution::Constant)?;
    let enough = Duration::from_secs_f64(ENOUGH_REQUESTS / rate).min(LONGEST_STEP);
    runner.measure_quietly(&job, &search_plan(runner, usual_window(runner).max(enough)))
}

fn say_confirmed(rate: f64, observed: SweepObservation, before: bool) {
    let word = if observed.sustained { "sustained" } else { "not sustained" };
    let when = if before { ", measured before (--resume)" } else { "" };
    note!("sweep: {} requests/sec: {word}{when}", significant(rate));
}

/// Reports what was found, or what ended the search before.
fn conclude(runner: &Runner<'_>, found: Option<SweepResult>, result: &mut RunResult) -> Result<()> {
    match found.filter(|_| !runner.is_interrupted()) {
        Some(found) => {
            let found = result.sweep.insert(found);
            runner.context.screen.print(&console::sweep(found))
        }
        None => {
            if runner.is_interrupted() {
                note!("--sweep: interrupted before the saturation rate was known");
            } else {
                say_no_rate(runner, None);
            }
            Ok(())
        }
    }
}

/// Reports what kept every rate from being sustained. The levels of the result decide about the exit code: they are those that were
/// measured after the search had sustained `rate`, else the last one of the search.
fn explain(
    runner: &Runner<'_>,
    rate: Option<f64>,
    searched: Option<LevelSummary>,
    result: &mut RunResult,
) -> Result<()> {
    if let Some(rate) = rate {
        let lowest = result.levels.iter().find(|level| !observe(level, runner).sustained);
        let limited = lowest.map(|level| format!(", {} was not: {}", level_name(level.load), limit(level, runner)));
        note!(
            "--sweep: {} requests/sec were sustained in the search, but measured longer{}",
            significant(rate),
            limited.as_deref().unwrap_or(", they were not")
        );
        return Ok(());
    }
    // Where an earlier run has searched (--resume), its result has that level.
    let Some(level) = searched.or_else(|| runner.earlier.levels().last().cloned()) else {
        return Err(Error::server(
            "--sweep: no rate that was tried was sustained; see the server's log, or name rates with --request-rate-range",
        ));
    };
    note!(
        "--sweep: no rate that was tried was sustained, the last of them {}: {}; or name rates with --request-rate-range",
        level_name(level.load),
        limit(&level, runner)
    );
    result.levels.push(level);
    runner.show(&result.levels)
}

/// What kept a level from being sustained, and what to do about it.
fn limit(level: &LevelSummary, runner: &Runner<'_>) -> String {
    let reasons = if let Verdict::Invalid(reasons) = &level.verdict { &reasons[..] } else { &[] };
    // What the client holds back is missing from what the server completes, too.
    let held_back = reasons.iter().find(|reason| matches!(reason, InvalidReason::HeldBack(_)));
    match held_back.or_else(|| reasons.iter().find(|reason| is_lost(reason))) {
        Some(reason) => format!("{reason}; {}", reason.remedy(&runner.plan().measurement, false)),
        None if level.ending == Ending::OverThreshold => {
            "it is above the latency threshold; raise --latency-threshold".to_owned()
        }
        None => "see the errors and the server's log".to_owned(),
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

/// How long the window of a search step is, if nothing calls for a longer one.
fn usual_window(runner: &Runner<'_>) -> Duration {
    let length = runner.plan().measurement.window.length();
    length.map_or(SEARCH_WINDOW.1, |length| length.clamp(SEARCH_WINDOW.0, SEARCH_WINDOW.1))
}

/// One short window per search step.
fn search_plan(runner: &Runner<'_>, length: Duration) -> MeasurementPlan {
    MeasurementPlan { window: WindowRule::of_length(length), ..runner.plan().measurement.clone().once() }
}

fn burst(runner: &Runner<'_>, most: u32) -> Job {
    // More sequences than may be active would wait for each other, and need more correlation IDs.
    let sequences = u32::try_from(runner.plan().load.sequences.concurrent).unwrap_or(most);
    let outstanding = if runner.session.setup.sequences { most.min(sequences) } else { most };
    Job::burst(runner.session, outstanding)
}

fn observe(level: &LevelSummary, runner: &Runner<'_>) -> SweepObservation {
    let client = &level.client;
    let completed_rate = client.request_rate();
    let refused = matches!(&level.verdict, Verdict::Invalid(reasons) if reasons.iter().any(is_lost));
    let over = matches!(level.ending, Ending::OverThreshold | Ending::Failed | Ending::Interrupted);
    let latency_ns = client.key_latency_ns(runner.plan().measurement.percentile);
    let settled = level.ending != Ending::Unstable;
    SweepObservation { completed_rate, sustained: !refused && !over, settled, latency_ns }
}

/// Whether a reason against a level is one against its rate.
fn is_lost(reason: &InvalidReason) -> bool {
    reason.is_a_growing_latency()
        || matches!(
            reason,
            InvalidReason::Nothing
                | InvalidReason::NoneEnded
                | InvalidReason::AllCancelled(_)
                | InvalidReason::Errors(..)
                | InvalidReason::RateNotReached(..)
                | InvalidReason::Overloaded(..)
                | InvalidReason::HeldBack(_)
        )
}
