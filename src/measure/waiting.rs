//! The one loop in which a measurement waits, and what it looks at in each turn while a load runs.

use std::mem;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::backlog::{BacklogTrend, OutstandingSamples};
use crate::clock::Stamp;
use crate::error::Result;
use crate::level_run::LevelRun;
use crate::load::RunningLoad;
use crate::machine::pauses::Vigil;
use crate::measurement::{Moment, Watcher};
use crate::slicer::Slicer;
use crate::stall::StallWatch;

/// Threads that are recording when a window or a stage ends get this long to finish.
pub(super) const GRACE: Duration = Duration::from_micros(200);

/// Calls `turn` again and again until it breaks with what has ended the waiting; otherwise it says how long to sleep before the
/// next turn.
pub fn wait<T>(mut turn: impl FnMut() -> ControlFlow<T, Duration>) -> T {
    let mut vigil = Vigil::begin();
    loop {
        match turn() {
            ControlFlow::Break(end) => return end,
            ControlFlow::Continue(pause) => vigil.sleep(pause),
        }
    }
}

/// The same, for a turn that may fail.
///
/// # Errors
/// That of the turn.
pub(super) fn try_wait<T>(mut turn: impl FnMut() -> Result<ControlFlow<T, Duration>>) -> Result<T> {
    wait(|| match turn() {
        Ok(ControlFlow::Break(end)) => ControlFlow::Break(Ok(end)),
        Ok(ControlFlow::Continue(pause)) => ControlFlow::Continue(pause),
        Err(error) => ControlFlow::Break(Err(error)),
    })
}

/// A load under way.
#[derive(Clone, Copy)]
pub(super) struct Sampled<'a> {
    pub(super) run: &'a LevelRun,
    pub(super) load: &'a RunningLoad,
}

impl Sampled<'_> {
    /// How far it is in what began at `start`.
    pub(super) fn moment(&self, window: Option<usize>, start: Stamp) -> Moment {
        let completed = self.run.recorder.completed();
        Moment { window, elapsed: Stamp::now() - start, completed, under_way: self.load.under_way() }
    }
}

/// What one look at a load found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// When the open window ended, if its planned end has passed.
    pub(super) ended: Option<Stamp>,
    /// For how long no request has ended, in a load that is measured whole.
    pub(super) silence: Duration,
}

/// Samples a load while it runs: the blocks of the open window, and the requests under way.
pub(super) struct Sampler {
    pub(super) slicer: Slicer,
    /// All looks so far, and those at the open window.
    outstanding: OutstandingSamples,
    of_window: OutstandingSamples,
    whole: Option<WholeLoad>,
}

/// What is watched of a load that is measured from its first request to its last answer.
struct WholeLoad {
    trend: BacklogTrend,
    stall: StallWatch,
}

impl Sampler {
    /// Of a load that is measured window by window.
    pub(super) fn of_windows(slicer: Slicer) -> Self {
        let (outstanding, of_window) = Default::default();
        Self { slicer, outstanding, of_window, whole: None }
    }

    /// Of a load that has begun and is one window. Its first requests are kept apart, to be compared with those of its end.
    pub(super) fn of_whole(mut slicer: Slicer, load: Sampled<'_>, trend: BacklogTrend) -> Self {
        let recorder = &load.run.recorder;
        slicer.put_off(recorder.end_window(slicer.end()));
        recorder.keep_early(load.load.started().plus_duration(trend.early_until()));
        let stall = StallWatch::new(load.run.load, recorder.spec().sessions);
        Self { whole: Some(WholeLoad { trend, stall }), ..Self::of_windows(slicer) }
    }

    /// Looks at the load: opens the next block when one is over, which `watcher` is told of, and counts the requests under way.
    pub(super) fn look(&mut self, at: Sampled<'_>, watcher: &dyn Watcher) -> Sample {
        let LevelRun { recorder, facts, .. } = at.run;
        let ended = self.slicer.poll(recorder, facts, watcher);
        let under_way = at.load.under_way();
        self.outstanding = self.outstanding.and(under_way);
        self.of_window = self.of_window.and(under_way);
        let Some(WholeLoad { trend, stall }) = &mut self.whole else { return Sample { ended, ..Sample::default() } };
        let elapsed = Stamp::now() - at.load.started();
        trend.poll(elapsed, under_way);
        Sample { ended, silence: stall.poll(elapsed, recorder.completed().all(), under_way) }
    }

    /// How long to sleep before the next look, `about` that long and not past the open block's end.
    pub(super) fn pause(&self, about: Duration) -> Duration {
        self.outstanding.uneven(about).min(self.slicer.end().from_now())
    }

    /// The looks at the window that has just ended.
    pub(super) fn end_window(&mut self) -> OutstandingSamples {
        mem::take(&mut self.of_window)
    }

    /// How the backlog of a load that is measured whole has changed.
    pub(super) fn trend(&self) -> BacklogTrend {
        self.whole.as_ref().map_or_else(BacklogTrend::default, |whole| whole.trend)
    }
}
