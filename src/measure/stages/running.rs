//! [`RunningStage`]: a stage under way.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::Error;
use crate::load::{LoadReport, RunningLoad};
use crate::machine::pauses::Vigil;
use crate::measure::backlog::BacklogTrend;
use crate::measure::level::{LevelRun, MeasuredLevel};
use crate::measure::measurement::{Measurement, Moment, Watcher};
use crate::measure::sending::Sending;
use crate::measure::slicer::Slicer;
use crate::measure::stages::{STAGE_POLL, StageRun, boundaries};
use crate::measure::stall::{LONGEST_SILENCE, StallWatch, say_given_up};
use crate::measure::summary::{Ending, LevelSummary};
use crate::plan::StageLength;

/// A stage under way, or over.
pub(super) struct RunningStage {
    pub(super) trend: Cell<BacklogTrend>,
    pub(super) stall: RefCell<StallWatch>,
    pub(super) slicer: RefCell<Slicer>,
    pub(super) level: LevelRun,
    pub(super) load: RunningLoad,
    pub(super) planned_end: Stamp,
}

impl RunningStage {
    /// Begins at `start`, for which it waits, or at once.
    pub(super) fn begin(run: StageRun, start: Option<Stamp>) -> Self {
        let StageRun { level, length, prepared, rest: _ } = run;
        let load = match start {
            Some(start) => prepared.go_at(start),
            None => prepared.go(),
        };
        let planned_end = match length {
            StageLength::Time(length) => load.started().plus_duration(length),
            StageLength::Requests(_) | StageLength::Sessions(_) => Stamp::NEVER,
        };
        let timed = if let StageLength::Time(length) = length { Some(length) } else { None };
        let mut slicer = Slicer::of_about(load.started(), timed.unwrap_or_default());
        slicer.put_off(level.recorder.end_window(slicer.end()));
        let trend = BacklogTrend::of(level.sending.or(timed.map(Sending::steady)));
        level.recorder.keep_early(load.started().plus_duration(trend.early_until()));
        let stall = RefCell::new(StallWatch::of(level.load, level.recorder.spec().sessions));
        Self { trend: Cell::new(trend), stall, slicer: RefCell::new(slicer), level, load, planned_end }
    }

    /// Waits until the stage is over, or must not continue.
    pub(super) fn wait(&self, measurement: &Measurement<'_>, mut may_go_on: impl FnMut() -> bool) -> Ending {
        let is_counted = self.planned_end == Stamp::NEVER;
        let mut vigil = Vigil::begin();
        while Stamp::now() < self.planned_end {
            let silence = self.look(measurement.watcher);
            let may_go_on = may_go_on();
            if measurement.interrupts.load(Ordering::Relaxed) > 0 {
                return Ending::Interrupted;
            }
            if !may_go_on {
                return Ending::Failed;
            }
            if self.fails_too_often(measurement) {
                return Ending::Failed;
            }
            if is_counted && silence >= LONGEST_SILENCE {
                say_given_up(silence);
                self.load.give_up();
                return Ending::Failed;
            }
            if self.load.is_finished() {
                self.load.settle_if_stranded();
                // The last requests may all have failed since the last poll.
                let fails = self.fails_too_often(measurement);
                let complete = is_counted && !self.load.is_stranded() && !fails;
                return if complete { Ending::Complete } else { Ending::Failed };
            }
            self.show(measurement);
            vigil.sleep(STAGE_POLL.min(self.planned_end.from_now()));
        }
        Ending::Complete
    }

    /// Whether more of its requests have failed than may, so that no further stage is to begin.
    pub(super) fn has_failed(&self, measurement: &Measurement<'_>) -> bool {
        measurement.has_failed(&self.level.recorder, self.load.started())
    }

    fn fails_too_often(&self, measurement: &Measurement<'_>) -> bool {
        let LevelRun { recorder, requests, .. } = &self.level;
        measurement.fails_too_often(recorder, self.load.started(), *requests)
    }

    /// Opens the next block when one is over, and counts the requests under way. Returns for how long no request has ended.
    pub(super) fn look(&self, watcher: &dyn Watcher) -> Duration {
        self.slicer.borrow_mut().poll(&self.level.recorder, &self.level.facts, watcher);
        let (elapsed, under_way) = (Stamp::now() - self.load.started(), self.load.under_way());
        let mut trend = self.trend.get();
        trend.poll(elapsed, under_way);
        self.trend.set(trend);
        self.stall.borrow_mut().poll(elapsed, self.level.recorder.completed().all(), under_way)
    }

    /// Shows how far it is.
    pub(super) fn show(&self, measurement: &Measurement<'_>) {
        measurement.watcher.progress(&|| Moment {
            window: None,
            elapsed: Stamp::now() - self.load.started(),
            completed: self.level.recorder.completed(),
            under_way: self.load.under_way(),
        });
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
            Err(error) => (LoadReport::default(), Some(error)),
        };
        MeasuredLevel { summary, requests, boundaries, trouble: trouble.or(broken) }
    }
}
