//! What happens before a level's first window, and after its last one.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::backend::Oddities;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::history::WindowSet;
use crate::interrupt;
use crate::level::{COUNT_POLL, Trials, WINDOW_POLL, left_out};
use crate::level_run::{MeasuredLevel, says_nothing};
use crate::load::RunningLoad;
use crate::machine::pauses;
use crate::measurement::Measurement;
use crate::record::LoadReport;
use crate::result::remark::Remark;
use crate::result::summary::{Ending, LevelSummary};
use crate::still::short_pauses;
use crate::terms::MeasurementPlan;
use crate::waiting::wait;
use crate::warm_up::WarmUp;
use crate::window_sets::Windows;
use crate::window_summary::{about_answers, summarize};
use ::ranks::Ranks;

/// Whoever interrupts waits for outstanding requests no longer than this.
const INTERRUPTED_DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// The start of a load is left out for at most this long, or a tenth of a window.
const RAMP_LIMIT: Duration = Duration::from_millis(500);
/// Where its first answers take longer, for at most this long, or a window: they would be missing from the first one.
const SLOW_RAMP_LIMIT: Duration = Duration::from_secs(5);

/// A server that gets so many times as good has warmed up; a machine that others use gets a little better now and then.
const WORTH_A_REMARK: f64 = 1.25;

/// How much of the start of a load is left out at most.
pub(super) fn ramp_limit(plan: &MeasurementPlan) -> Duration {
    plan.window.length().map_or(RAMP_LIMIT, |length| RAMP_LIMIT.min(length / 10))
}

/// Windows grow to this many times the length that was asked for at most.
const MOST_TIMES: u32 = 32;

/// The error where the user interrupts before anything was to be measured.
pub(super) fn while_it_warmed_up() -> Error {
    Error::machine("interrupted while it warmed up: nothing was measured")
}

/// Stops a load, whose server still answers, or gives it up. Whoever has asked for the end does not wait long for what is
/// outstanding.
pub(super) fn stop(measurement: &Measurement<'_>, mut running: RunningLoad, answers: bool) -> Result<LoadReport> {
    if measurement.interrupts.load(Ordering::Relaxed) > 0 {
        running.limit_drain(INTERRUPTED_DRAIN_LIMIT);
    }
    if measurement.ranks.is_some() && interrupt::is_terminated() {
        running.limit_drain(Duration::ZERO);
    }
    if answers { running.stop() } else { running.abandon() }
}

/// Fails where an interrupt, or a server that would have ended the process, came too early for any figure. Several processes must
/// end alike: those that share a load have the same result, unless one is lost; of others each may have some.
pub(super) fn check_that_something_was_measured(measurement: &Measurement<'_>, measured: &MeasuredLevel) -> Result<()> {
    let differs = |ranks: &Ranks| !ranks.is_joint() || ranks.over().is_some();
    if measurement.ranks.is_some_and(differs) || !says_nothing(&measured.summary) {
        return Ok(());
    }
    let error = Error::machine("the run ended before any request was over: nothing was measured");
    Err(match measured.requests.outstanding {
        0 => error,
        outstanding => error.advice(format_args!("{outstanding} requests had no answer")),
    })
}

/// What is worth a remark of a level.
pub(super) struct Noted<'a> {
    /// What was odd about answers.
    pub(super) oddities: &'a Oddities,
    /// When the load began.
    pub(super) began: Stamp,
    /// When windows began and ended.
    pub(super) boundaries: &'a [Stamp],
    /// All of them.
    pub(super) windows: &'a Windows,
}

/// Adds what contradicts itself in a level, and what is not in its result, besides a time in which this process stood still.
pub(super) fn remark(summary: &mut LevelSummary, measurement: &Measurement<'_>, noted: &Noted<'_>) {
    if measurement.ranks.is_some() {
        // The server has counted the requests of the other processes, too.
        summary.remarks.clear();
    }
    let Noted { oddities, began, boundaries, windows } = *noted;
    let end = boundaries.last().copied().unwrap_or(Stamp::NEVER);
    let counted = pauses::total(summary.client.start, end);
    let further = pauses::total(began, end).saturating_sub(counted);
    // All processes of a load say the same.
    let joint = measurement.joint().map(|_| measurement.plan.warmup + ramp_limit(measurement.plan));
    let before_first = joint.unwrap_or_else(|| boundaries.first().map_or(Duration::ZERO, |first| *first - began));
    let warm_up = windows.warm_up().filter(|_| summary.ending != Ending::Unstable);
    let warm_up = warm_up.filter(|warm_up| warm_up.gain() >= WORTH_A_REMARK);
    let warm_up = warm_up.map(|WarmUp { statistic, step }| {
        Remark::of_warm_up(before_first + step.over, statistic, [step.before, step.after])
    });
    let answers = about_answers(summary, measurement.ranks.is_none());
    let short = short_pauses(&summary.client, end);
    summary.remarks.extend(
        Remark::of_replies(oddities).chain(Remark::of_pauses(further)).chain(short).chain(answers).chain(warm_up),
    );
}

impl Trials<'_> {
    /// The open window ends: if fewer requests have ended in it than are outstanding, requests are longer than windows, and
    /// the next one is twice as long.
    pub(super) fn outgrow(&mut self) {
        let plan = self.measurement.plan;
        let is_short = self.run.recorder.completed().all() < self.run.ramp && plan.window.length().is_some();
        let goes_on = !self.is_interrupted() && !self.running.is_finished();
        if plan.settles_by_interval() && is_short && goes_on && self.times < MOST_TIMES {
            self.times *= 2;
        }
    }

    /// Waits for the load to ramp up: until every slot has been used, or the time limit for that has passed. Returns when what
    /// comes before the first window has ended.
    ///
    /// # Errors
    /// If the user interrupts while it warms up: nothing of it was to be measured.
    pub(super) fn leave_out_start(&self) -> Result<Stamp> {
        let started = Stamp::now();
        let plan = self.measurement.plan;
        let (warmup, usual) = (plan.warmup, ramp_limit(plan));
        let slow =
            plan.window.length().filter(|_| plan.settles_by_interval()).map(|length| length.min(SLOW_RAMP_LIMIT));
        let limit = slow.map_or(usual, |slow| slow.max(usual));
        let over = |length: Duration| Stamp::now() - started >= length;
        wait(|| {
            let ramped = self.run.recorder.completed().all() >= self.run.ramp || over(warmup + limit);
            match self.is_interrupted() || self.running.is_finished() || (over(warmup) && ramped) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(COUNT_POLL.min(usual)),
            }
        });
        match self.measurement.interrupts.load(Ordering::Relaxed) > 0 && !over(warmup) {
            true => Err(while_it_warmed_up()),
            false => Ok(self.end_now()),
        }
    }

    /// Waits for the last reading of the server's counters. A run that was interrupted does without it where it fails; one that comes
    /// too late costs nothing else, for the load is measured by then.
    pub(super) fn read_to_the_end(&mut self, ended: Result<Ending>) -> Result<Ending> {
        let ending = ended?;
        match self.counters.wait() {
            Err(error) if ending != Ending::Interrupted && self.counters.was_late() => left_out(&error),
            Err(error) if ending != Ending::Interrupted => return Err(error),
            _ => {}
        }
        Ok(ending)
    }

    /// The level ends at `start`, because the server does not answer: what has failed since is the count of what that cost.
    pub(super) fn close_tail(&mut self, start: Stamp) {
        thread::sleep(WINDOW_POLL);
        self.running.settle_if_stranded();
        let end = self.end_now();
        let client = summarize(self.run.recorder.close(), start, end - start, &self.run.facts);
        if client.failed > 0 {
            let readings = self.measurement.readings();
            self.keep(WindowSet::uncut(client, readings), None);
            self.boundaries.push(end);
        }
    }
}
