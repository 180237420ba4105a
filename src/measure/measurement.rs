//! Everything needed to measure levels, and who follows the progress.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::backend::Backend;
use crate::blocks::Block;
use crate::breaker::Breaker;
use crate::clock::Stamp;
use crate::collect::Collector;
use crate::machine::host_monitor::HostMonitor;
use crate::metrics::MetricsFold;
use crate::record::{Completed, Recorder};
use crate::result::disturbance::Disturbance;
use crate::result::summary::ClientSummary;
use crate::server::Models;
use crate::terms::MeasurementPlan;
use crate::verdict::{exceeds_errors, will_exceed_errors};
use ::ranks::Ranks;

/// Errors are judged before a window's end only after this much of it.
const ERROR_PATIENCE: Duration = Duration::from_millis(1000);

/// What a level is measured with; the same for all levels of a run.
pub struct Measurement<'a> {
    /// How long, and when to believe it.
    pub plan: &'a MeasurementPlan,
    /// Where the server's own counters come from.
    pub backend: &'a dyn Backend,
    /// What it serves.
    pub models: Models<'a>,
    /// Raised by the user's interrupts: how often.
    pub interrupts: &'a AtomicUsize,
    /// Reads the server's metrics, where they are asked for.
    pub metrics: Option<&'a Collector>,
    /// Tells what others take from this machine, where that is to be seen.
    pub host_monitor: Option<&'a dyn HostMonitor>,
    /// Ends the run where too many requests fail.
    pub breaker: Breaker<'a>,
    /// Told of every window as it ends.
    pub watcher: &'a dyn Watcher,
    /// The other processes that measure with this one, if there are any.
    pub ranks: Option<&'a Ranks>,
    /// Waits until everything that has completed is recorded, also by those who look at requests later.
    pub settle: &'a dyn Fn(),
}

/// Follows a measurement while it runs.
pub trait Watcher {
    /// Another window has ended; `trial` counts from 1, and `disturbance` is what others took from it, where that counts.
    fn window(&self, trial: usize, window: &ClientSummary, disturbance: Option<Disturbance>);

    /// A block of the open window is over.
    fn block(&self, block: &Block);

    /// Time passes; `poll` returns how far the level is, for whoever shows that.
    fn progress(&self, poll: &dyn Fn() -> Moment);
}

/// Follows nothing.
pub(super) struct Unwatched;

impl Watcher for Unwatched {
    fn window(&self, _: usize, _: &ClientSummary, _: Option<Disturbance>) {}
    fn block(&self, _: &Block) {}
    fn progress(&self, _: &dyn Fn() -> Moment) {}
}

/// How far a level is at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The window that is open, from 1; none if the level is one window.
    pub window: Option<usize>,
    /// How long that has been open.
    pub elapsed: Duration,
    /// Requests that were over in it.
    pub completed: Completed,
    /// Requests under way, where the load follows a schedule.
    pub under_way: u64,
}

/// What else belongs to the requests by which it is judged whether too many fail.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outlook {
    /// How many there are in all, where that is known.
    pub(super) planned: Option<u64>,
    /// Those of earlier windows, or of other processes at the same time.
    pub(super) earlier: Completed,
    /// How long those windows were; no time at all of other processes.
    pub(super) measured: Duration,
    /// How much longer it may go on, where that is known.
    pub(super) left: Option<Duration>,
}

impl Outlook {
    /// So many requests in all, where that is known.
    pub(super) fn planned(planned: Option<u64>) -> Self {
        Self { planned, ..Self::default() }
    }

    /// How many requests there will be in all: if not known, as many in the time that is left as in what has passed.
    fn all(self, over: Completed, spent: Duration) -> Option<u64> {
        let passed = (self.measured + spent).as_secs_f64().max(1e-9);
        let expected = |left: Duration| (over.all() as f64 * (1.0 + left.as_secs_f64() / passed)).ceil() as u64;
        self.planned.or_else(|| self.left.map(expected))
    }
}

impl Measurement<'_> {
    /// The other processes, where all share one load.
    pub(super) fn joint(&self) -> Option<&Ranks> {
        self.ranks.filter(|ranks| ranks.is_joint())
    }

    /// The server's metrics since the last call, where they are collected.
    pub(super) fn readings(&self) -> Option<MetricsFold> {
        self.metrics.map(Collector::advance)
    }

    /// Whether what was begun at `start` need not be waited for: too many of its requests failed, whatever becomes of those that
    /// are still to come.
    pub(super) fn fails_too_often(&self, recorder: &Recorder, start: Stamp, outlook: Outlook) -> bool {
        let (completed, now) = (recorder.completed(), Stamp::now());
        self.breaker.poll(now, completed, recorder.failed_in_a_row())
            || (now - start > ERROR_PATIENCE && self.will_fail(completed, now - start, outlook))
    }

    /// The same of requests that are over after `spent`.
    pub(super) fn will_fail(&self, completed: Completed, spent: Duration, outlook: Outlook) -> bool {
        let over = completed.plus(outlook.earlier);
        will_exceed_errors(self.plan.max_errors, over, outlook.all(over, spent))
    }

    /// Whether too many requests failed of what was begun at `start`, of which so much is over now.
    pub(super) fn has_failed(&self, over: Completed, start: Stamp) -> bool {
        let Completed { succeeded, failed, .. } = over;
        Stamp::now() - start > ERROR_PATIENCE && self.exceeds_errors(succeeded, failed)
    }

    /// Whether more requests failed than may.
    pub(super) fn exceeds_errors(&self, succeeded: u64, failed: u64) -> bool {
        exceeds_errors(self.plan.max_errors, succeeded, failed)
    }
}
