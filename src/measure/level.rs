//! One level: starts a load, watches it window by window until the numbers are stable, and stops it.

use std::cell::Cell;
use std::hint;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use log::debug;

use crate::clock::{Stamp, TimeSpan};
use crate::error::{Error, Result};
use crate::load::{LoadReport, RunningLoad};
use crate::machine::pauses::{self, Vigil};
use crate::measure::backlog::OutstandingSamples;
use crate::measure::cost::CostMeter;
use crate::measure::counters::{Counted, Counters};
use crate::measure::decision::{check_with, complete};
use crate::measure::disturbance::{Disturbance, Sentry};
use crate::measure::gate::{Looks, Questions};
use crate::measure::history::{Conclusion, WindowSet};
use crate::measure::log::Log;
use crate::measure::measurement::{Measurement, Moment};
use crate::measure::pulse::Pulse;
use crate::measure::sending::Sending;
use crate::measure::slicer::Slicer;
use crate::measure::summary::{ClientSummary, Distribution, Ending, LevelLoad, LevelSummary};
use crate::measure::verdict::{Evidence, judge};
use crate::measure::waterfall::Tracing;
use crate::measure::window::{WindowFacts, summarize};
use crate::measure::windows::Windows;
use crate::model::statistics::StatisticsSnapshot;
use crate::plan::WindowRule;
use crate::record::Recorder;
use crate::stdio::note;

/// A load that is to be measured.
pub struct LevelRun {
    /// Its name in reports.
    pub load: LevelLoad,
    /// Where it records.
    pub recorder: Arc<Recorder>,
    /// What its windows' summaries need.
    pub facts: WindowFacts,
    /// Requests that must have completed before the first window, so that the start is not measured.
    pub ramp: u64,
    /// The load ends by itself: it is one window.
    pub finite: bool,
    /// How many requests such a load has, where that is known.
    pub requests: Option<u64>,
    /// The server's counters before such a load began, and when they were read, so that none of its requests is missing from
    /// their difference.
    pub baseline: Option<(Stamp, StatisticsSnapshot)>,
    /// Standard deviation of the gaps between intended sends, as a multiple of their mean.
    pub gap_variation: f64,
    /// How long an open loop sends, where that is known.
    pub sending: Option<Sending>,
    /// What is traced of its requests.
    pub tracing: Tracing,
    /// What is to be decided of it before it ends.
    pub questions: Questions,
}

/// A level, and what became of all its requests.
pub struct MeasuredLevel {
    /// Its result.
    pub summary: LevelSummary,
    /// Requests of the whole load, those outside the windows included.
    pub requests: LoadReport,
    /// When its windows began and ended, in order.
    pub boundaries: Vec<Stamp>,
    /// What ended it early: a client broke, or the server does not answer any more.
    pub trouble: Option<Error>,
}

/// Poll interval of a waiting measurement.
const WINDOW_POLL: Duration = Duration::from_millis(20);
/// How often completed requests are counted where their number ends the window.
const COUNT_POLL: Duration = Duration::from_millis(1);
/// Threads that were recording when a window ended get this long to finish.
const GRACE: Duration = Duration::from_micros(200);

/// The trials of one level.
struct Trials<'a> {
    measurement: &'a Measurement<'a>,
    run: &'a LevelRun,
    running: &'a RunningLoad,
    history: Windows,
    log: Log,
    sentry: Sentry<'a>,
    /// Measures what inferences cost, from the first window's start on, where that is asked for.
    cost: Option<CostMeter>,
    counters: Counters,
    boundaries: Vec<Stamp>,
    /// How many times as long as the plan says a window is, because requests are longer.
    times: u32,
    /// The open window's blocks.
    slicer: Slicer,
    /// The looks at what is to be decided of it.
    looks: Looks,
    /// Looks at the requests under way in an open loop.
    under_way: Cell<OutstandingSamples>,
    /// Keeps in touch with other processes, if there are any.
    pulse: Pulse<'a>,
}

/// Measures a load that has just been started, and stops it.
///
/// # Errors
/// If no window could be measured: a client broke, or the server's statistics cannot be read.
pub fn measure(measurement: &Measurement<'_>, run: &LevelRun, running: RunningLoad) -> Result<MeasuredLevel> {
    thread::scope(|scope| {
        let counters = Counters::start(scope, measurement.backend, measurement.models.specs)?;
        measure_with(measurement, run, running, counters)
    })
}

fn measure_with(
    measurement: &Measurement<'_>,
    run: &LevelRun,
    running: RunningLoad,
    counters: Counters,
) -> Result<MeasuredLevel> {
    let mut trials = Trials::new(measurement, run, &running, counters);
    let ended = trials.until_ended();
    let ended = trials.read_to_the_end(ended);
    let (held_back, began, usage) = (running.report().held_back, running.started(), trials.sentry.usage());
    let oddities = running.oddities();
    let Trials { history, log, boundaries, under_way, counters, mut cost, looks, .. } = trials;
    let stopped = edges::stop(measurement, running, ended.is_ok());
    // Its connections are gone by now, so that those of the next level are counted from none.
    let connections = measurement.backend.connections();
    let Some(result) = history.result() else {
        return Err(ended
            .err()
            .or(stopped.err())
            .unwrap_or_else(|| Error::server("the load ended before its first window")));
    };
    let (ending, mut trouble) = match (ended, &stopped) {
        (Ok(ending), Ok(_)) => (ending, None),
        (Ok(_), Err(error)) => (Ending::Failed, Some(error.clone())),
        (Err(error), _) if measurement.interrupts.load(Ordering::Relaxed) > 0 => (Ending::Interrupted, Some(error)),
        (Err(error), _) => (Ending::Failed, Some(error)),
    };
    let mut evidence = Evidence {
        percentile: measurement.plan.percentile,
        precision: measurement.plan.precision,
        disagreement: history.unsettled(measurement.plan),
        max_errors: measurement.plan.max_errors,
        gap_variation: run.gap_variation,
        outstanding: under_way.get().mean(),
        held_back,
        still: pauses::between(result.client.start, boundaries.last().copied().unwrap_or(began)),
    };
    let (each, intervals) = (result.ranks.clone(), result.intervals(measurement.plan));
    let limit = check_with(measurement.plan, &result.client, &intervals);
    let ending = if ending == Ending::Complete { complete(limit) } else { ending };
    let mut counted = boundaries.last().and_then(|end| counters.between(result.client.start, *end));
    if run.finite {
        counted = counted.map(Counted::of_whole_load);
    }
    let mut summary = result.summarize(&measurement.models, run.load, counted, Conclusion { ending, limit, intervals });
    let end = boundaries.last().copied().unwrap_or(Stamp::NEVER);
    run.tracing.fill(&mut summary, end, &run.facts, *run.recorder.spec());
    (summary.cost, summary.disturbances) = (cost.as_mut().and_then(CostMeter::result), history.disturbances());
    (summary.windows, summary.course) = log.finish(began, &summary.disturbances);
    (summary.client_usage, summary.server_usage) = usage;
    (summary.threads, summary.connections, summary.looks) = (Some(run.facts.issuers), connections, looks.count);
    edges::remark(&mut summary, measurement, &oddities, TimeSpan { start: began, end }, evidence.still);
    summary.verdict = judge(&summary, &evidence);
    let mut requests = stopped.unwrap_or_default();
    if let Some(ranks) = measurement.joint().filter(|ranks| ranks.over().is_none()) {
        let finished = together::finish(&mut summary, &mut evidence, &mut requests, &each, ranks);
        trouble = trouble.or(finished.err());
    }
    Ok(MeasuredLevel { summary, requests, boundaries, trouble })
}

impl<'a> Trials<'a> {
    fn new(measurement: &'a Measurement<'a>, run: &'a LevelRun, running: &'a RunningLoad, counters: Counters) -> Self {
        Self {
            measurement,
            run,
            running,
            history: Windows::new(measurement.plan),
            log: Log::default(),
            sentry: Sentry::new(measurement.gauge),
            cost: None,
            counters,
            boundaries: Vec::new(),
            times: 1,
            slicer: Slicer::new(Stamp::now(), Stamp::NEVER),
            looks: Looks::default(),
            under_way: Cell::default(),
            pulse: Pulse::of(measurement),
        }
    }

    /// Windows that abut, until they agree or there are enough.
    fn until_stable(&mut self) -> Result<Ending> {
        self.sentry.prepare();
        self.leave_out_start();
        let mut start = self.end_now();
        self.open_first(start, self.planned_end(start));
        loop {
            let end = match self.wait_for_end(start) {
                Ok(end) => end,
                Err(error) => {
                    self.close_tail(start);
                    return Err(error);
                }
            };
            if let Some(ending) = self.pulse.is_over_with()? {
                return Ok(ending);
            }
            if !self.pulse.has_settled() {
                self.counters.ask();
            }
            thread::sleep(GRACE);
            self.outgrow();
            self.close(TimeSpan { start, end }, self.planned_end(end));
            start = end;
            let ending = self.early_ending().or_else(|| self.decide());
            debug!("after {} windows: {ending:?}", self.history.closed());
            if let Some(ending) = self.pulse.settle(ending)? {
                return Ok(ending);
            }
        }
    }

    /// What the level ends with; `None` if it needs another window, for itself or for what is to be decided of it.
    fn decide(&mut self) -> Option<Ending> {
        let ending = self.history.decide(self.measurement.plan)?;
        if !matches!(ending, Ending::Stable | Ending::Unstable) {
            return Some(ending);
        }
        let (questions, first) = (&self.run.questions, self.looks.count == 0);
        let window = self.history.latest().map_or(Duration::ZERO, |window| window.duration);
        let measured = self.history.measured();
        let open = self.looks.open(questions, measured, window, || self.history.result());
        let Some(open) = open else { return Some(ending) };
        if first {
            let (text, most) = (&open.requirement.text, questions.time);
            note!("{text} is undecided: the level is measured on, for {most:?} at most (--gate-time)");
        }
        None
    }

    /// The first window begins at `start`, where what the load did before it was closed.
    fn open_first(&mut self, start: Stamp, planned_end: Stamp) {
        self.counters.ask();
        drop(self.measurement.readings());
        self.boundaries.push(start);
        self.slicer = Slicer::new(start, planned_end);
        let (_, block_end) = self.run.recorder.next_window(self.slicer.end());
        self.slicer.put_off(block_end);
        self.sentry.edge();
        self.cost = self.run.tracing.cost.then(CostMeter::begin);
    }

    /// Ends the open window at once; returns when that was.
    fn end_now(&self) -> Stamp {
        let end = self.run.recorder.end_window(Stamp::now());
        while Stamp::now() < end {
            hint::spin_loop();
        }
        end
    }

    /// Waits until the window that began at `start` is over, as planned if nothing ends it earlier; returns when it
    /// ended.
    fn wait_for_end(&mut self, start: Stamp) -> Result<Stamp> {
        let timed = matches!(self.measurement.plan.window, WindowRule::Time(_));
        let mut vigil = Vigil::begin();
        loop {
            self.running.settle_if_stranded();
            self.counters.poll()?;
            if let Some(end) = self.slicer.poll(&self.run.recorder, &self.run.facts, self.measurement.watcher) {
                return Ok(end);
            }
            let is_over = self.is_full(start) || self.is_interrupted() || self.running.is_finished();
            if self.measurement.fails_too_often(&self.run.recorder, start, self.run.requests) || is_over {
                return Ok(self.end_now());
            }
            let look_up = if timed { WINDOW_POLL } else { COUNT_POLL };
            self.measurement.watcher.progress(&|| self.moment(Some(self.history.closed() + 1), start));
            let looks = self.under_way.get().and(self.running.under_way());
            self.under_way.set(looks);
            vigil.sleep(looks.uneven(look_up).min(self.slicer.end().from_now()));
        }
    }

    /// Whether a window of requests, which began at `start`, has them.
    fn is_full(&self, start: Stamp) -> bool {
        let WindowRule::Count(requests) = self.measurement.plan.window else { return false };
        self.run.recorder.completed().all() >= requests && self.is_long_enough(start)
    }

    /// Closes the window in the recorder and remembers it; the next one ends at `next_end`, or later where that has passed
    /// meanwhile.
    fn close(&mut self, span: TimeSpan, next_end: Stamp) {
        let (window, disturbance) = self.cut(span, next_end, |_, _| ());
        // What is measured only because others need more is shown.
        if let Some(further) = self.pulse.further() {
            return self.measurement.watcher.window(self.history.closed() + further, &window.client);
        }
        self.keep(window, disturbance);
        self.boundaries.push(span.end);
    }

    /// Closes the window in the recorder, which `complete` completes with the times of the first requests, and opens the next one.
    fn cut(
        &mut self,
        span: TimeSpan,
        next_end: Stamp,
        complete: impl FnOnce(&mut ClientSummary, Option<&Distribution>),
    ) -> (WindowSet, Option<Disturbance>) {
        let TimeSpan { start, end } = span;
        (self.measurement.settle)();
        let mut next = Slicer::new(end, next_end);
        let (mut tally, block_end) = self.run.recorder.next_window(next.end());
        next.put_off(block_end);
        let early = tally.early.take();
        let readings = self.measurement.readings();
        let mut client = summarize(tally, start, end - start, &self.run.facts);
        complete(&mut client, early.as_ref());
        let disturbance = self.sentry.edge();
        debug!("a window of {:?} has {} requests; {disturbance:?}", end - start, client.requests);
        if let Some(cost) = &mut self.cost {
            cost.window(client.requests * client.batch_size);
        }
        let blocks = mem::replace(&mut self.slicer, next).blocks(&client);
        (WindowSet { client, readings, blocks, ranks: Vec::new() }, disturbance)
    }

    /// Remembers a window that has ended.
    fn keep(&mut self, window: WindowSet, disturbance: Option<Disturbance>) {
        let (watcher, plan) = (self.measurement.watcher, self.measurement.plan);
        watcher.window(self.history.closed() + 1, &window.client);
        window.blocks.each().last().into_iter().for_each(|block| watcher.block(block));
        self.log.push(&window.client, &window.blocks, disturbance, plan);
        self.history.push(window, disturbance, plan);
    }

    /// How far the level is in its window, which began at `start`.
    fn moment(&self, window: Option<usize>, start: Stamp) -> Moment {
        let completed = self.run.recorder.completed();
        Moment { window, elapsed: Stamp::now() - start, completed, under_way: self.running.under_way() }
    }

    /// Whether there is nothing more to wait for: the user has asked for the end, or other processes are done, too.
    fn is_interrupted(&self) -> bool {
        self.pulse.is_over() || self.measurement.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Why the level ends with the window that has just been closed, whatever its numbers are.
    fn early_ending(&self) -> Option<Ending> {
        let window = self.history.latest()?;
        let unasked = match self.run.finite {
            true => self.running.is_stranded() || self.running.report().outstanding > 0,
            false => self.running.is_finished(),
        };
        if self.measurement.interrupts.load(Ordering::Relaxed) > 0 {
            Some(Ending::Interrupted)
        } else if self.measurement.exceeds_errors(window.requests, window.failed)
            || self.measurement.breaker.is_open()
            || unasked
        {
            Some(Ending::Failed)
        } else {
            None
        }
    }
}

mod counted;
mod edges;
mod together;
mod whole;

#[cfg(test)]
mod tests;
