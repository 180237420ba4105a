//! Stages that several processes share: they begin at agreed stamps, and each is summed up from everybody's values.
//!
//! A stage with a fixed time begins where the one before it ends, on rank 0's clock. If the end is not known
//! beforehand, because it comes with the last of a number of requests or after a pause, the next begins a moment after
//! all have reported that they are done.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::breaker::Breaker;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::heartbeat::{Heartbeat, Progress};
use crate::history::Conclusion;
use crate::level_run::MeasuredLevel;
use crate::metrics::MetricsFold;
use crate::ranks::{Closing, EarlyEnd, Span, WindowReport, close, joined};
use crate::record::{Completed, LoadReport};
use crate::result::summary::Ending;
use crate::stages::over::EndingStage;
use crate::stages::running::RunningStage;
use crate::stages::{Play, STAGE_POLL, StageRun};
use crate::stdio::note;
use crate::waiting::wait;
use ::ranks::Ranks;

/// The next stage begins this long after the planned end of the previous one: its workers are released at that end, and
/// awake by then.
const STEP: Duration = Duration::from_millis(2);
/// A stage whose start was not known in advance begins this long after all have reported that they are ready.
const LEAD: Duration = Duration::from_millis(100);
/// Workers are woken this long before a stage begins.
const READY: Duration = Duration::from_millis(20);
/// How long outstanding requests of all stages may be waited for before a process must report their outcome.
const CLOSE_LIMIT: Duration = Duration::from_secs(180);

/// Time between two exchanges.
const INTERVAL: Duration = Duration::from_millis(50);

/// A stage that is over here, but that not all have reported.
struct Unreported {
    over: EndingStage,
    readings: Option<MetricsFold>,
}

/// What the processes exchange about the stages.
struct JointStages<'a> {
    ranks: &'a Ranks,
    heartbeat: Heartbeat<'a, (WindowReport, Closing)>,
    unreported: VecDeque<Unreported>,
    /// How far this process is.
    local_progress: Progress,
    /// How far all have said to be.
    all: Vec<Progress>,
    /// Why there are no further exchanges.
    trouble: Option<Error>,
}

impl<'a> JointStages<'a> {
    fn new(ranks: &'a Ranks, breaker: &'a Breaker<'a>) -> Self {
        Self {
            ranks,
            heartbeat: Heartbeat::every(INTERVAL, ranks, breaker),
            unreported: VecDeque::new(),
            local_progress: Progress::default(),
            all: Vec::new(),
            trouble: None,
        }
    }

    /// Whether somebody was interrupted or has failed: no further stage begins.
    fn must_end(&self) -> bool {
        self.trouble.is_some() || self.all.iter().any(|rank| rank.interrupted || rank.broken)
    }

    /// So much is over here of a stage, which the next exchange tells the others.
    fn is_at(&mut self, stage: usize, over: Completed) {
        let Progress { stage: current, requests, failed, .. } = &mut self.local_progress;
        (*current, *requests, *failed) = (stage, over.succeeded + over.failed, over.failed);
    }

    /// What is over of a stage in all other processes, as far as they have said so: only all together tell whether too much of it
    /// fails.
    fn others_at(&self, stage: usize) -> Completed {
        let own_rank = self.ranks.part().rank;
        let others = self.all.iter().enumerate().filter(|(rank, other)| *rank != own_rank && other.stage == stage);
        others.fold(Completed::default(), |sum, (_, &Progress { requests, failed, .. })| {
            sum.plus(Completed { succeeded: requests.saturating_sub(failed), failed, cancelled: 0 })
        })
    }

    /// Whether all have said that this holds.
    fn all_are(&self, is: impl Fn(&Progress) -> bool) -> bool {
        !self.all.is_empty() && self.all.iter().all(is)
    }
}

impl Play<'_> {
    /// Walks through the stages in step with the others.
    pub(super) fn all_together(
        &mut self,
        ranks: &Ranks,
        count: usize,
        first: StageRun,
        start: Option<Stamp>,
    ) -> Result<()> {
        self.barrier.remove();
        let measurement = self.measurement;
        let mut joint = JointStages::new(ranks, &measurement.breaker);
        let outcome =
            self.run_together(&mut joint, count, first, start).and_then(|()| self.exchange_the_last(&mut joint));
        let outcome = outcome.and_then(|()| joint.trouble.take().map_or(Ok(()), Err));
        outcome.inspect_err(|error| ranks.break_off(error))
    }

    fn run_together(
        &mut self,
        joint: &mut JointStages<'_>,
        count: usize,
        first: StageRun,
        start: Option<Stamp>,
    ) -> Result<()> {
        let mut current = Some(self.begin_first(first, start));
        let mut number = 0;
        while let Some(mut stage) = current.take() {
            number += 1;
            let prepared = (number < count).then(|| self.director.prepare(number)).transpose();
            if prepared.is_err() {
                self.report_all(joint);
            }
            let next = prepared?;
            let ending = stage.wait(self.measurement, |over| {
                joint.is_at(number, over);
                let may_go_on = self.exchange(joint);
                self.goes_on(may_go_on, joint.others_at(number))
            });
            // The counters must have come before they are asked for again.
            self.exchange_until(joint, |play, joint| joint.trouble.is_some() || play.counters.poll().unwrap_or(true));
            if joint.trouble.is_some() {
                drop(stage.load.abandon());
                return Ok(());
            }
            let stopped = stage.stopped();
            self.counters.ask();
            let goes_on = ending == Ending::Complete && !stage.has_failed(self.measurement);
            joint.local_progress.broken |= !goes_on && ending != Ending::Interrupted;
            let next = next.filter(|_| goes_on && !joint.must_end());
            let (planned_end, rest_time) = (stage.planned_end, next.as_ref().and_then(|next| next.rest));
            let mut later = None;
            match next {
                Some(next) if planned_end != Stamp::NEVER && rest_time.is_none() => {
                    self.director.begun(number);
                    current = Some(RunningStage::begin(next, Some(planned_end.plus_duration(STEP))));
                }
                next => later = next,
            }
            self.leave(stage, stopped, ending, current.is_some().then_some(number));
            if let Some(next) = later {
                let start = self.agree_on_next(joint, number, rest_time).filter(|start| self.wait_until(*start, joint));
                current = start.map(|start| self.begin_idle(next, number, Some(start)));
            }
        }
        Ok(())
    }

    /// Exchanges with the others until `done` is true.
    fn exchange_until(
        &mut self,
        joint: &mut JointStages<'_>,
        mut done: impl FnMut(&mut Self, &mut JointStages<'_>) -> bool,
    ) {
        wait(|| {
            if done(self, joint) {
                return ControlFlow::Break(());
            }
            self.exchange(joint);
            ControlFlow::Continue(STAGE_POLL)
        });
    }

    /// Waits until every process is done with the stages before `number` and, before a rest, has all answers; returns when the
    /// next one begins, if it does.
    fn agree_on_next(
        &mut self,
        joint: &mut JointStages<'_>,
        number: usize,
        rest_time: Option<Duration>,
    ) -> Option<Stamp> {
        let mut is_asked = false;
        self.exchange(joint);
        self.exchange_until(joint, |play, joint| {
            // Stages that are over here have been reported, with what was read at their end.
            if play.ending.is_empty() && !std::mem::replace(&mut is_asked, true) {
                play.counters.ask();
            } else if is_asked && play.counters.poll().unwrap_or(true) {
                // A reading that fails does so again at the stage's end.
                joint.local_progress.over = number;
            }
            joint.must_end() || joint.all_are(|rank| rank.over >= number)
        });
        (!joint.must_end()).then(|| joint.heartbeat.after(&joint.all, LEAD + rest_time.unwrap_or_default()))
    }

    /// Waits until a stage is about to begin; not to the end where it does not begin after all.
    fn wait_until(&mut self, start: Stamp, joint: &mut JointStages<'_>) -> bool {
        self.exchange_until(joint, |_, joint| start.from_now() <= READY || joint.must_end());
        !joint.must_end()
    }

    /// Exchanges until the stages that are over here are summed up.
    fn report_all(&mut self, joint: &mut JointStages<'_>) {
        self.exchange_until(joint, |play, joint| {
            joint.must_end() || (play.ending.is_empty() && joint.unreported.is_empty())
        });
    }

    /// Exchanges until every process knows all that there is to know.
    fn exchange_the_last(&mut self, joint: &mut JointStages<'_>) -> Result<()> {
        self.exchange_until(joint, |play, joint| {
            joint.local_progress.done = play.ending.is_empty();
            joint.trouble.is_some() || joint.all_are(|rank| rank.done)
        });
        if !joint.unreported.is_empty() && joint.trouble.is_none() {
            note!("a stage that ended before all processes had begun it is left out");
        }
        Ok(())
    }

    /// Makes progress with everything to send and receive. Returns whether the current stage may continue.
    fn exchange(&mut self, joint: &mut JointStages<'_>) -> bool {
        if joint.trouble.is_none()
            && let Err(error) = self.try_to_exchange(joint)
        {
            joint.trouble = Some(error);
        }
        !joint.must_end()
    }

    fn try_to_exchange(&mut self, joint: &mut JointStages<'_>) -> Result<()> {
        self.look_after()?;
        while self.ending.front().is_some_and(EndingStage::is_over) {
            self.report(joint);
        }
        // A process that is done has sent everything by then.
        let local_progress =
            Progress { done: joint.local_progress.done && joint.heartbeat.is_nearly_sent(), ..joint.local_progress };
        let Some(all) = joint.heartbeat.poll(|| local_progress)? else { return Ok(()) };
        if all.iter().any(|rank| rank.interrupted) {
            self.measurement.interrupts.fetch_max(1, Ordering::Relaxed);
        }
        joint.all = all;
        while let Some(reports) = joint.heartbeat.receive() {
            self.take_in(joint, reports);
        }
        Ok(())
    }

    /// Sends the others a stage that is over here and whose counters have arrived.
    fn report(&mut self, joint: &mut JointStages<'_>) {
        let Some(mut over) = self.ending.pop_front() else { return };
        let (mut window, disturbance) = over.window(self.measurement);
        let readings = window.readings.take();
        let early_end =
            EarlyEnd { interrupted: over.ending == Ending::Interrupted, broken: over.ending == Ending::Failed };
        let report = WindowReport::new(joint.ranks, &window, disturbance, early_end);
        let models = &self.measurement.models;
        let conclusion = Conclusion { ending: over.ending, limit: None, intervals: Vec::new() };
        let mut level = window.summarize(models, over.stage.level.load, over.counted(), conclusion);
        (level.client_usage, level.server_usage) = over.usage;
        over.note_client(&mut level, self.measurement);
        let (evidence, owns_server) = (over.evidence(self.measurement, &level.client), joint.ranks.owns_server());
        joint.heartbeat.send((report, Closing::new(&level, &evidence, LoadReport::default(), owns_server)));
        joint.unreported.push_back(Unreported { over, readings });
    }

    /// Sums up a stage that all have reported.
    fn take_in(&mut self, joint: &mut JointStages<'_>, all: Vec<(WindowReport, Closing)>) {
        let Some(Unreported { mut over, readings }) = joint.unreported.pop_front() else { return };
        let (reports, closings): (Vec<WindowReport>, Vec<Closing>) = all.into_iter().unzip();
        if reports.iter().any(|report| report.interrupted) {
            over.ending = Ending::Interrupted;
        } else if reports.iter().any(|report| report.broken) {
            over.ending = Ending::Failed;
        }
        let Some((window, disturbance)) = joined(joint.ranks, reports, readings, Span::Whole) else { return };
        let parts = window.ranks.clone();
        let (mut summary, mut evidence) = over.summarize(self.measurement, window, disturbance);
        close(&mut summary, &mut evidence, joint.ranks, &closings, &parts);
        self.keep(over, summary, None);
        // Nobody may be left to show it to.
        joint.local_progress.broken |= self.is_in_trouble();
    }
}

/// Adds up what became of the requests of all processes.
///
/// # Errors
/// One of them is lost, or cannot continue.
pub(super) fn account(ranks: &Ranks, mut measured: Vec<MeasuredLevel>) -> Result<Vec<MeasuredLevel>> {
    let own_reports: Vec<LoadReport> = measured.iter().map(|level| level.requests).collect();
    let all = ranks.exchange(&own_reports, CLOSE_LIMIT)?;
    for (number, level) in measured.iter_mut().enumerate() {
        let stage_reports = all.iter().filter_map(|reports| reports.get(number));
        level.requests = stage_reports.fold(LoadReport::default(), |sum, report| sum.and(*report));
    }
    Ok(measured)
}
