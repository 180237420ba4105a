//! One level: a load is started, watched window by window until the numbers are stable, and stopped.

use std::cell::Cell;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::backend::Backend;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::load::{LoadReport, RunningLoad};
use crate::measure::blocks::Blocks;
use crate::measure::collect::Collector;
use crate::measure::complaint::Verdict;
use crate::measure::growth::{Growth, Looks, settle_rates};
use crate::measure::history::{History, Stretch};
use crate::measure::metrics::MetricsFold;
use crate::measure::server::{read_statistics, server_summary};
use crate::measure::silence::Silence;
use crate::measure::summary::{ClientSummary, Ending, LevelLoad, LevelSummary};
use crate::measure::verdict::{Circumstances, exceeds_errors, judge};
use crate::measure::window::{WindowFacts, summarize};
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::plan::{MeasurementPlan, Statistic, WindowRule};
use crate::record::{Completed, Recorder};
use crate::stats::Interval;

/// What a level is measured with; the same for all levels of a run.
pub struct Measurement<'a> {
    /// How long, and when to believe it.
    pub plan: &'a MeasurementPlan,
    /// Where the server's own counters come from.
    pub backend: &'a dyn Backend,
    /// The models that requests are for, each once.
    pub roots: &'a [ModelId],
    /// Those, and every model that they call.
    pub specs: &'a [ModelSpec],
    /// Models that a BLS model calls.
    pub bls: &'a [ModelId],
    /// Raised by the user's interrupts: how often.
    pub interrupts: &'a AtomicUsize,
    /// Reads the server's metrics, where they are asked for.
    pub metrics: Option<&'a Collector>,
    /// Told of every window as it ends.
    pub watcher: &'a dyn Watcher,
    /// Waits until everything that has completed is recorded, also by those who look at requests later.
    pub settle: &'a dyn Fn(),
}

/// Follows a measurement while it runs.
pub trait Watcher {
    /// Another window has ended; `trial` counts from 1.
    fn window(&self, trial: usize, window: &ClientSummary);

    /// Time goes by in window number `trial`.
    fn progress(&self, trial: usize);
}

/// A load that is to be measured.
pub struct LevelRun {
    /// How reports name it.
    pub load: LevelLoad,
    /// Where it records.
    pub recorder: Arc<Recorder>,
    /// What its windows' summaries need.
    pub facts: WindowFacts,
    /// Requests that must have completed before the first window, so that the start is not measured.
    pub ramp: u64,
    /// The load ends by itself: it is one window.
    pub finite: bool,
    /// The server's counters before such a load began, so that none of its requests is missing from their difference.
    pub baseline: Option<StatisticsSnapshot>,
    /// Standard deviation of the gaps between intended sends, as a multiple of their mean.
    pub gap_variation: f64,
    /// How long a rate is sent for, where that is known.
    pub sending: Option<Duration>,
}

/// A level, and what became of all its requests.
pub struct MeasuredLevel {
    /// What it came to.
    pub summary: LevelSummary,
    /// Requests of the whole load, those outside the windows included.
    pub requests: LoadReport,
    /// When its windows began and ended, in order.
    pub boundaries: Vec<Stamp>,
    /// What ended it early: a client broke, or the server does not answer any more.
    pub trouble: Option<Error>,
}

/// How often a waiting measurement looks around.
const LOOK_UP: Duration = Duration::from_millis(20);
/// How often completed requests are counted where their number ends the window.
const COUNT_LOOK_UP: Duration = Duration::from_millis(1);
/// A window of requests lasts at least so long: a few fast requests are over within the time slice of one thread, and such
/// windows never agree. (perf_analyzer looks once a second.)
const COUNT_WINDOW_LEAST: Duration = Duration::from_millis(500);
/// Threads that were recording when a window ended get this long to finish.
const GRACE: Duration = Duration::from_micros(200);
/// Errors are judged before a window's end only after so much of it.
const ERROR_PATIENCE: Duration = Duration::from_millis(1000);
/// The start of a load is left out for at most this long, or a tenth of a window.
const RAMP_LIMIT: Duration = Duration::from_millis(500);

/// Whoever interrupts waits for outstanding requests no longer than this.
const INTERRUPTED_DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// The trials of one level.
struct Trials<'a> {
    measurement: &'a Measurement<'a>,
    run: &'a LevelRun,
    running: &'a RunningLoad,
    history: History,
    /// The server's counters at the last boundary, where it keeps any.
    snapshot: Option<StatisticsSnapshot>,
    boundaries: Vec<Stamp>,
    /// The pace of a load that is measured whole; without it, windows tell.
    blocks: Blocks,
    /// Looks at the requests under way in an open loop.
    under_way: Cell<Looks>,
}

/// Measures a load that has just been started, and stops it.
///
/// # Errors
/// Where no window could be measured: a client broke, or the server's statistics cannot be read.
pub fn measure(measurement: &Measurement<'_>, run: &LevelRun, mut running: RunningLoad) -> Result<MeasuredLevel> {
    let mut trials = Trials::new(measurement, run, &running);
    let ended = if run.finite { trials.until_finished() } else { trials.until_stable() };
    let held_back = running.report().held_back;
    let Trials { history, boundaries, under_way, blocks, .. } = trials;
    if measurement.interrupts.load(Ordering::Relaxed) > 0 {
        running.limit_drain(INTERRUPTED_DRAIN_LIMIT);
    }
    let stopped = if ended.is_ok() { running.stop() } else { running.abandon() };
    let Some(result) = history.result() else {
        return Err(ended
            .err()
            .or(stopped.err())
            .unwrap_or_else(|| Error::server("the load ended before its first window")));
    };
    let (ending, trouble) = match (ended, &stopped) {
        (Ok(ending), Ok(_)) => (ending, None),
        (Ok(_), Err(error)) => (Ending::Failed, Some(error.clone())),
        (Err(error), _) if measurement.interrupts.load(Ordering::Relaxed) > 0 => (Ending::Interrupted, Some(error)),
        (Err(error), _) => (Ending::Failed, Some(error)),
    };
    let circumstances = Circumstances {
        percentile: measurement.plan.percentile,
        precision: measurement.plan.precision,
        max_errors: measurement.plan.max_errors,
        gap_variation: run.gap_variation,
        outstanding: under_way.get().mean(),
        held_back,
    };
    let whole = blocks.throughput(result.client.batch_size).map(|interval| (Statistic::Throughput, interval));
    let intervals = whole.into_iter().chain(history.intervals(&result.client, measurement.plan.percentile)).collect();
    let mut summary = result.summarize(measurement, run.load, (ending, intervals));
    summary.verdict = judge(&summary, &circumstances);
    Ok(MeasuredLevel { summary, requests: stopped.unwrap_or_default(), boundaries, trouble })
}

impl Stretch {
    /// The summary of a level whose result this is; not judged yet.
    pub(super) fn summarize(
        self,
        measurement: &Measurement<'_>,
        load: LevelLoad,
        (ending, intervals): (Ending, Vec<(Statistic, Interval)>),
    ) -> LevelSummary {
        let Self { client, before, after, readings } = self;
        let failed = client.requests == 0 && ending != Ending::Interrupted;
        let ending = if failed { Ending::Failed } else { ending };
        // Where the server went away during the last window, its counters are those of other windows.
        let delta = before.zip(after).map(|(before, after)| after.since(&before));
        let of = |id| server_summary(delta.as_ref()?, id, measurement.specs, measurement.bls);
        let mut servers = measurement.roots.iter().map(of);
        let server = servers.next().flatten();
        let further_servers = servers.flatten().collect();
        let (gpus, host) = readings.map(|metrics| (metrics.gpus(), metrics.host())).unzip();
        let verdict = Verdict::Valid;
        LevelSummary { load, client, server, further_servers, gpus, host, intervals, ending, verdict }
    }
}

impl Measurement<'_> {
    /// The server's metrics since the last call, where they are collected.
    pub(super) fn readings(&self) -> Option<MetricsFold> {
        self.metrics.map(Collector::advance)
    }

    /// Whether what was begun at `start` need not be waited for: too many of its requests failed.
    pub(super) fn fails_too_often(&self, recorder: &Recorder, start: Stamp) -> bool {
        let Completed { succeeded, failed, .. } = recorder.completed();
        failed > 0 && Stamp::now() - start > ERROR_PATIENCE && self.exceeds_errors(succeeded, failed)
    }

    /// Whether the latency is above the one allowed.
    pub(super) fn is_over_threshold(&self, client: &ClientSummary) -> bool {
        let limit = self.plan.latency_threshold;
        limit.is_some_and(|limit| client.key_latency_ns(self.plan.percentile) >= limit.as_nanos() as f64)
    }

    /// Whether more requests failed than may.
    pub(super) fn exceeds_errors(&self, succeeded: u64, failed: u64) -> bool {
        exceeds_errors(self.plan.max_errors, succeeded, failed)
    }

    /// The server's counters of every model that takes part, or `None` where it keeps none.
    pub(super) fn statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        read_statistics(self.backend, self.specs)
    }
}

impl<'a> Trials<'a> {
    fn new(measurement: &'a Measurement<'a>, run: &'a LevelRun, running: &'a RunningLoad) -> Self {
        Self {
            measurement,
            run,
            running,
            history: History::new(measurement.plan),
            snapshot: None,
            boundaries: Vec::new(),
            blocks: Blocks::new(),
            under_way: Cell::default(),
        }
    }

    /// One window over the whole load, which ends by itself.
    fn until_finished(&mut self) -> Result<Ending> {
        self.snapshot = self.run.baseline.clone();
        drop(self.measurement.readings());
        let start = self.running.started();
        self.boundaries.push(start);
        let (mut growth, mut silence) = (Growth::of(self.run.sending), Silence::of(self.run.load));
        while !self.running.is_finished()
            && !self.is_interrupted()
            && !self.measurement.fails_too_often(&self.run.recorder, start)
        {
            let (elapsed, completed) = (Stamp::now() - start, self.run.recorder.completed());
            growth.look(elapsed, self.running.under_way());
            self.blocks.look(elapsed, completed.succeeded);
            silence.look(elapsed, completed.all(), self.running.under_way());
            self.measurement.watcher.progress(1);
            thread::sleep(COUNT_LOOK_UP);
        }
        self.running.settle_if_stranded();
        let end = self.running.ended().unwrap_or_else(Stamp::now);
        thread::sleep(GRACE);
        let sends = self.running.sends();
        self.close((start, end), Stamp::NEVER, |client| settle_rates(client, sends, &growth))?;
        let over = self.over_threshold().then_some(Ending::OverThreshold);
        Ok(self.early_ending().or(over).unwrap_or(Ending::Complete))
    }

    /// Windows that abut, until they agree or there are enough.
    fn until_stable(&mut self) -> Result<Ending> {
        self.leave_out_start();
        let plan = self.measurement.plan;
        self.snapshot = self.measurement.statistics()?;
        drop(self.measurement.readings());
        let mut start = Stamp::now();
        self.boundaries.push(start);
        drop(self.run.recorder.advance(self.planned_end(start)));
        loop {
            let end = self.wait_for_end(start);
            thread::sleep(GRACE);
            self.close((start, end), self.planned_end(end), |_| ())?;
            start = end;
            if let Some(ending) = self.early_ending() {
                return Ok(ending);
            }
            if self.over_threshold() {
                return Ok(Ending::OverThreshold);
            }
            if self.history.is_settled(plan) {
                return Ok(Ending::Stable);
            }
            if self.history.closed() >= plan.max_trials {
                return Ok(Ending::Unstable);
            }
        }
    }

    /// Lets the load get going: every slot has been used, or the patience for that is over.
    fn leave_out_start(&self) {
        let started = Stamp::now();
        let warmup = self.measurement.plan.warmup;
        let limit = match self.measurement.plan.window {
            WindowRule::Time(length) => RAMP_LIMIT.min(length / 10),
            WindowRule::Count(_) => RAMP_LIMIT,
        };
        let over = |length: Duration| Stamp::now() - started >= length;
        while !self.is_interrupted() && !self.running.is_finished() {
            let ramped = self.run.recorder.completed().all() >= self.run.ramp || over(warmup + limit);
            if over(warmup) && ramped {
                break;
            }
            thread::sleep(COUNT_LOOK_UP.min(limit));
        }
    }

    fn planned_end(&self, start: Stamp) -> Stamp {
        match self.measurement.plan.window {
            WindowRule::Time(length) => start.plus_duration(length),
            WindowRule::Count(_) => Stamp::NEVER,
        }
    }

    /// Waits until the window that began at `start` is over; returns when it ended.
    fn wait_for_end(&self, start: Stamp) -> Stamp {
        let planned = self.planned_end(start);
        loop {
            self.running.settle_if_stranded();
            let now = Stamp::now();
            if now >= planned {
                return planned;
            }
            if self.is_full(start)
                || self.is_interrupted()
                || self.running.is_finished()
                || self.measurement.fails_too_often(&self.run.recorder, start)
            {
                self.run.recorder.set_boundary(now);
                return now;
            }
            let look_up = if planned == Stamp::NEVER { COUNT_LOOK_UP } else { LOOK_UP };
            self.measurement.watcher.progress(self.history.closed() + 1);
            let looks = self.under_way.get().and(self.running.under_way());
            self.under_way.set(looks);
            thread::sleep(looks.uneven(look_up).min(planned.from_now()));
        }
    }

    /// Whether a window of requests, which began at `start`, has them.
    fn is_full(&self, start: Stamp) -> bool {
        let WindowRule::Count(requests) = self.measurement.plan.window else { return false };
        self.run.recorder.completed().all() >= requests && Stamp::now() - start >= COUNT_WINDOW_LEAST
    }

    /// Ends the window in the recorder and remembers it, as `correct` leaves it.
    fn close(
        &mut self,
        (start, end): (Stamp, Stamp),
        next_end: Stamp,
        correct: impl FnOnce(&mut ClientSummary),
    ) -> Result<()> {
        (self.measurement.settle)();
        let tally = self.run.recorder.advance(next_end);
        let readings = self.measurement.readings();
        let read = self.measurement.statistics();
        let (after, taken) = read.map_or_else(|error| (None, Err(error)), |after| (after, Ok(())));
        let mut client = summarize(tally, start, end - start, &self.run.facts);
        correct(&mut client);
        self.measurement.watcher.window(self.history.closed() + 1, &client);
        let before = mem::replace(&mut self.snapshot, after.clone());
        self.history.push(Stretch { client, before, after, readings });
        self.boundaries.push(end);
        taken.inspect_err(|_| self.close_tail(end))
    }

    /// The level ends at `start`, because the server does not answer: what has failed since is the count of what that cost.
    fn close_tail(&mut self, start: Stamp) {
        thread::sleep(LOOK_UP);
        self.running.settle_if_stranded();
        let end = Stamp::now();
        let client = summarize(self.run.recorder.advance(Stamp::NEVER), start, end - start, &self.run.facts);
        if client.failed > 0 {
            let readings = self.measurement.readings();
            self.history.push(Stretch { client, before: None, after: None, readings });
            self.boundaries.push(end);
        }
    }

    fn is_interrupted(&self) -> bool {
        self.measurement.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Why the level ends with the window that has just been closed, whatever its numbers are.
    fn early_ending(&self) -> Option<Ending> {
        let window = self.history.latest()?;
        let unasked = self.running.is_stranded() || (!self.run.finite && self.running.is_finished());
        if self.is_interrupted() {
            Some(Ending::Interrupted)
        } else if self.measurement.exceeds_errors(window.requests, window.failed) || unasked {
            Some(Ending::Failed)
        } else {
            None
        }
    }

    fn over_threshold(&self) -> bool {
        self.history.latest().is_some_and(|window| self.measurement.is_over_threshold(window))
    }
}
