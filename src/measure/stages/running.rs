//! [`RunningStage`]: a stage under way.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::backlog::BacklogTrend;
use crate::clock::Stamp;
use crate::error::Error;
use crate::level_run::{LevelRun, MeasuredLevel};
use crate::load::RunningLoad;
use crate::measurement::{Measurement, Outlook, Watcher};
use crate::record::{Completed, LoadReport};
use crate::result::summary::{Ending, LevelSummary};
use crate::sending::Sending;
use crate::slicer::Slicer;
use crate::stages::{STAGE_POLL, StageRun, boundaries};
use crate::stall::{LONGEST_SILENCE, say_given_up};
use crate::terms::StageLength;
use crate::waiting::{Sampled, Sampler, wait};

/// A stage under way, or over.
pub(super) struct RunningStage {
    pub(super) sampler: Sampler,
    pub(super) level: LevelRun,
    pub(super) load: RunningLoad,
    pub(super) planned_end: Stamp,
    /// What other processes have done of it, where they share it.
    others: Completed,
}

impl RunningStage {
    /// Begins at `start`, for which it waits, or at once.
    pub(super) fn begin(run: StageRun, start: Option<Stamp>) -> Self {
        let StageRun { level, length, prepared, rest: _ } = run;
        let load = match start {
            Some(start) => prepared.go_at(start),
            None => prepared.go(),
        };
        let timed = if let StageLength::Time(length) = length { Some(length) } else { None };
        let planned_end = timed.map_or(Stamp::NEVER, |length| load.started().plus_duration(length));
        let slicer = Slicer::of_about(load.started(), timed.unwrap_or_default());
        let trend = BacklogTrend::new(level.sending.or(timed.map(Sending::steady)));
        let sampler = Sampler::of_whole(slicer, Sampled { run: &level, load: &load }, trend);
        Self { sampler, level, load, planned_end, others: Completed::default() }
    }

    fn sampled(&self) -> Sampled<'_> {
        Sampled { run: &self.level, load: &self.load }
    }

    /// Waits until the stage is over, or must not continue, which `others` also tell: they are told what is over here, and say what
    /// is over elsewhere. Returns what it ends with.
    pub(super) fn wait(
        &mut self,
        measurement: &Measurement<'_>,
        mut others: impl FnMut(Completed) -> ControlFlow<Ending, Completed>,
    ) -> Ending {
        wait(|| {
            if Stamp::now() >= self.planned_end {
                return ControlFlow::Break(Ending::Complete);
            }
            let silence = self.look(measurement.watcher);
            let ended = match others(self.level.recorder.completed()) {
                ControlFlow::Break(ending) => Some(ending),
                ControlFlow::Continue(others) => {
                    // One that is in the next stage already tells of that.
                    self.others = if others.all() > self.others.all() { others } else { self.others };
                    self.ends(measurement, silence)
                }
            };
            if let Some(ending) = ended {
                return ControlFlow::Break(ending);
            }
            self.show(measurement);
            ControlFlow::Continue(self.sampler.pause(STAGE_POLL).min(self.planned_end.from_now()))
        })
    }

    /// What the stage ends with before its time, or with its last request, if it does.
    fn ends(&self, measurement: &Measurement<'_>, silence: Duration) -> Option<Ending> {
        let is_counted = self.planned_end == Stamp::NEVER;
        if self.fails_too_often(measurement) {
            return Some(Ending::Failed);
        }
        if is_counted && silence >= LONGEST_SILENCE {
            say_given_up(silence);
            self.load.give_up();
            return Some(Ending::Failed);
        }
        if !self.load.is_finished() {
            return None;
        }
        self.load.settle_if_stranded();
        // The last requests may all have failed since the last look.
        let complete = is_counted && !self.load.is_stranded() && !self.fails_too_often(measurement);
        Some(if complete { Ending::Complete } else { Ending::Failed })
    }

    /// Whether more of its requests have failed than may, so that no further stage is to begin.
    pub(super) fn has_failed(&self, measurement: &Measurement<'_>) -> bool {
        measurement.has_failed(self.level.recorder.completed().plus(self.others), self.load.started())
    }

    fn fails_too_often(&self, measurement: &Measurement<'_>) -> bool {
        let LevelRun { recorder, requests, .. } = &self.level;
        let left = (self.planned_end != Stamp::NEVER).then(|| self.planned_end.from_now());
        let outlook = Outlook { left, earlier: self.others, ..Outlook::planned(*requests) };
        measurement.fails_too_often(recorder, self.load.started(), outlook)
    }

    /// Opens the next block when one is over, and counts the requests under way. Returns for how long no request has ended.
    pub(super) fn look(&mut self, watcher: &dyn Watcher) -> Duration {
        let load = Sampled { run: &self.level, load: &self.load };
        self.sampler.look(load, watcher).silence
    }

    /// Shows how far it is.
    pub(super) fn show(&self, measurement: &Measurement<'_>) {
        measurement.watcher.progress(&|| self.sampled().moment(None, self.load.started()));
    }

    /// When it stops sending: as planned, or now.
    pub(super) fn stopped(&self) -> Stamp {
        self.planned_end.min(Stamp::now())
    }

    /// When its last request was over, which may be now.
    pub(super) fn end(&self) -> Stamp {
        // What was recorded after the open block's end belongs to the stage, too.
        let now = self.level.recorder.end_window(Stamp::now());
        self.load.ended().unwrap_or(now)
    }

    /// Waits for what is outstanding and gives the account of all requests.
    pub(super) fn finish(self, summary: LevelSummary, trouble: Option<Error>) -> MeasuredLevel {
        let boundaries = boundaries(&summary);
        let stopped = if trouble.is_none() { self.load.stop() } else { self.load.abandon() };
        let (requests, broken) = match stopped {
            Ok(requests) => (requests, None),
            Err(error) => (LoadReport::default(), Some(error).filter(|error| !error.is_of_an_interrupt())),
        };
        MeasuredLevel { summary, requests, boundaries, trouble: trouble.or(broken) }
    }
}
