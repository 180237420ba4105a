//! Stages that several processes share: they begin at agreed stamps, and each is summed up from everybody's values.
//!
//! A stage with a fixed time begins where the one before it ends, on rank 0's clock. If the end is not known
//! beforehand, because it comes with the last of a number of requests or after a pause, the next begins a moment after
//! all have reported that they are done.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::load::LoadReport;
use crate::measure::beats::{Beats, State};
use crate::measure::history::Conclusion;
use crate::measure::level::MeasuredLevel;
use crate::measure::metrics::MetricsFold;
use crate::measure::ranks::{Closing, EarlyEnd, Span, Told, close, joined};
use crate::measure::stages::over::EndingStage;
use crate::measure::stages::running::RunningStage;
use crate::measure::stages::{Play, STAGE_POLL, StageRun};
use crate::measure::summary::Ending;
use crate::ranks::Ranks;
use crate::stdio::note;

/// The next stage begins this long after the planned end of the previous one: its workers are released at that end, and
/// awake by then.
const STEP: Duration = Duration::from_millis(2);
/// A stage whose start was not known in advance begins this long after all have reported that they are ready.
const LEAD: Duration = Duration::from_millis(100);
/// Workers are woken this long before a stage begins.
const READY: Duration = Duration::from_millis(20);
/// How long outstanding requests of all stages may be waited for before a process must report their outcome.
const CLOSE_LIMIT: Duration = Duration::from_secs(180);

/// A stage that is over here, but that not all have reported.
struct Untold {
    over: EndingStage,
    readings: Option<MetricsFold>,
}

/// What the processes are about to hear of each other.
struct Talk<'a> {
    ranks: &'a Ranks,
    beats: Beats<'a, (Told, Closing)>,
    untold: VecDeque<Untold>,
    /// How far this process is.
    own: State,
    /// What all have said last.
    heard: Vec<State>,
    /// Why there are no further beats.
    trouble: Option<Error>,
}

impl Talk<'_> {
    /// Whether somebody was interrupted or has failed: no further stage begins.
    fn must_end(&self) -> bool {
        self.trouble.is_some() || self.heard.iter().any(|state| state.interrupted || state.broken)
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
        self.pulse.rest();
        let (beats, untold, heard) = (Beats::new(ranks), VecDeque::new(), Vec::new());
        let mut talk = Talk { ranks, beats, untold, own: State::default(), heard, trouble: None };
        let walked = self.walk_together(&mut talk, count, first, start).and_then(|()| self.hear_the_last(&mut talk));
        let walked = walked.and_then(|()| talk.trouble.take().map_or(Ok(()), Err));
        if let Err(error) = &walked {
            match interrupt::is_terminated() {
                // There is no time left for that.
                true => ranks.fall_silent(error),
                false => ranks.give_up(error),
            }
        }
        walked
    }

    fn walk_together(
        &mut self,
        talk: &mut Talk<'_>,
        count: usize,
        first: StageRun,
        start: Option<Stamp>,
    ) -> Result<()> {
        let mut current = Some(self.begin_first(first, start));
        let mut number = 0;
        while let Some(stage) = current.take() {
            number += 1;
            let prepared = (number < count).then(|| self.director.prepare(number)).transpose();
            if prepared.is_err() {
                self.tell_all(talk);
            }
            let next = prepared?;
            let ending = stage.wait(self.measurement, || self.hear(talk));
            // The counters must have come before they are asked for again.
            while talk.trouble.is_none() && !self.counters.poll().unwrap_or(true) {
                self.hear(talk);
                thread::sleep(STAGE_POLL);
            }
            if talk.trouble.is_some() {
                drop(stage.load.abandon());
                return Ok(());
            }
            let stopped = stage.stopped();
            self.counters.ask();
            let goes_on = ending == Ending::Complete && !stage.has_failed(self.measurement);
            talk.own.broken |= !goes_on && ending != Ending::Interrupted;
            let next = next.filter(|_| goes_on && !talk.must_end());
            let (planned_end, rest) = (stage.planned_end, next.as_ref().and_then(|next| next.rest));
            let mut later = None;
            match next {
                Some(next) if planned_end != Stamp::NEVER && rest.is_none() => {
                    self.director.begun(number);
                    current = Some(RunningStage::begin(next, Some(planned_end.plus_duration(STEP))));
                }
                next => later = next,
            }
            self.leave(stage, stopped, ending, current.is_some().then_some(number));
            if let Some(next) = later {
                let start = self.agree_on_next(talk, number, rest).filter(|start| self.wait_until(*start, talk));
                current = start.map(|start| self.begin_idle(next, number, Some(start)));
            }
        }
        Ok(())
    }

    /// Waits until every process is done with the stages before `number` and, before a rest, has all answers; returns when the
    /// next one begins, if it does.
    fn agree_on_next(&mut self, talk: &mut Talk<'_>, number: usize, rest: Option<Duration>) -> Option<Stamp> {
        let mut is_asked = false;
        loop {
            self.hear(talk);
            if talk.must_end() {
                return None;
            }
            // Stages that are over here have been told, with what was read at their end.
            if self.ending.is_empty() && !std::mem::replace(&mut is_asked, true) {
                self.counters.ask();
            } else if is_asked && self.counters.poll().unwrap_or(true) {
                // A reading that fails does so again at the stage's end.
                talk.own.over = number;
            }
            if !talk.heard.is_empty() && talk.heard.iter().all(|state| state.over >= number) {
                return Some(talk.beats.after(&talk.heard, LEAD + rest.unwrap_or_default()));
            }
            thread::sleep(STAGE_POLL);
        }
    }

    /// Waits until a stage is about to begin; not to the end where it does not begin after all.
    fn wait_until(&mut self, start: Stamp, talk: &mut Talk<'_>) -> bool {
        while start.from_now() > READY {
            if !self.hear(talk) {
                return false;
            }
            thread::sleep(STAGE_POLL.min(start.from_now()));
        }
        true
    }

    /// Tells and hears until the stages that are over here are summed up.
    fn tell_all(&mut self, talk: &mut Talk<'_>) {
        while (!self.ending.is_empty() || !talk.untold.is_empty()) && self.hear(talk) {
            thread::sleep(STAGE_POLL);
        }
    }

    /// Tells and hears until every process knows all that there is to know.
    fn hear_the_last(&mut self, talk: &mut Talk<'_>) -> Result<()> {
        let all_leave = |heard: &[State]| !heard.is_empty() && heard.iter().all(|state| state.leaves);
        while talk.trouble.is_none() && !all_leave(&talk.heard) {
            self.hear(talk);
            talk.own.leaves = self.ending.is_empty();
            thread::sleep(STAGE_POLL);
        }
        if !talk.untold.is_empty() && talk.trouble.is_none() {
            note!("a stage that ended before all processes had begun it is left out");
        }
        Ok(())
    }

    /// Makes progress with everything to send and receive. Returns whether the current stage may continue.
    fn hear(&mut self, talk: &mut Talk<'_>) -> bool {
        if talk.trouble.is_none()
            && let Err(error) = self.try_to_hear(talk)
        {
            talk.trouble = Some(error);
        }
        !talk.must_end()
    }

    fn try_to_hear(&mut self, talk: &mut Talk<'_>) -> Result<()> {
        self.look_after()?;
        while self.ending.front().is_some_and(EndingStage::is_over) {
            self.tell(talk);
        }
        talk.own.interrupted = interrupt::counter().load(Ordering::Relaxed) > 0;
        // A process that leaves has sent everything by then.
        let own = State { leaves: talk.own.leaves && talk.beats.told_but_one(), ..talk.own };
        let Some(heard) = talk.beats.poll(|| own)? else { return Ok(()) };
        if heard.iter().any(|state| state.interrupted) {
            self.measurement.interrupts.fetch_max(1, Ordering::Relaxed);
        }
        talk.heard = heard;
        while let Some(told) = talk.beats.take() {
            self.take_in(talk, told);
        }
        Ok(())
    }

    /// Sends the others a stage that is over here and whose counters have arrived.
    fn tell(&mut self, talk: &mut Talk<'_>) {
        let Some(mut over) = self.ending.pop_front() else { return };
        let (mut window, disturbance) = over.window(self.measurement);
        let readings = window.readings.take();
        let early_end =
            EarlyEnd { interrupted: over.ending == Ending::Interrupted, broken: over.ending == Ending::Failed };
        let told = Told::of(talk.ranks, &window, disturbance, early_end);
        let models = &self.measurement.models;
        let conclusion = Conclusion { ending: over.ending, limit: None, intervals: Vec::new() };
        let mut level = window.summarize(models, over.stage.level.load, over.counted(), conclusion);
        (level.client_usage, level.server_usage) = over.usage;
        let (evidence, owns_server) = (over.evidence(self.measurement), talk.ranks.owns_server());
        talk.beats.tell((told, Closing::of(&level, &evidence, LoadReport::default(), owns_server)));
        talk.untold.push_back(Untold { over, readings });
    }

    /// Sums up a stage that all have reported.
    fn take_in(&mut self, talk: &mut Talk<'_>, all: Vec<(Told, Closing)>) {
        let Some(Untold { mut over, readings }) = talk.untold.pop_front() else { return };
        let (told, closings): (Vec<Told>, Vec<Closing>) = all.into_iter().unzip();
        if told.iter().any(|one| one.interrupted) {
            over.ending = Ending::Interrupted;
        } else if told.iter().any(|one| one.broken) {
            over.ending = Ending::Failed;
        }
        let Some((window, disturbance)) = joined(talk.ranks, told, readings, Span::Whole) else { return };
        let each = window.ranks.clone();
        let (mut summary, mut evidence) = over.summarize(self.measurement, window, disturbance);
        close(&mut summary, &mut evidence, talk.ranks, &closings, &each);
        self.keep(over, summary, None);
        // Nobody may be left to show it to.
        talk.own.broken |= self.is_in_trouble();
    }
}

/// Adds up what became of the requests of all processes.
///
/// # Errors
/// One of them is lost, or cannot continue.
pub(super) fn account(ranks: &Ranks, mut measured: Vec<MeasuredLevel>) -> Result<Vec<MeasuredLevel>> {
    let own: Vec<LoadReport> = measured.iter().map(|level| level.requests).collect();
    let all = ranks.exchange(&own, CLOSE_LIMIT)?;
    for (number, level) in measured.iter_mut().enumerate() {
        let each = all.iter().filter_map(|reports| reports.get(number));
        level.requests = each.fold(LoadReport::default(), |sum, one| sum.and(*one));
    }
    Ok(measured)
}
