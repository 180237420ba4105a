//! One level: starts a load, watches it window by window until the numbers are stable, and stops it.

use std::hint;
use std::mem;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use base::debug;

use crate::clock::{Stamp, TimeSpan};
use crate::cost::CostMeter;
use crate::counters::{Counted, Counters};
use crate::decision::{check_with, complete};
use crate::disturbance::Sentry;
use crate::end_barrier::EndBarrier;
use crate::error::{Error, Result};
use crate::gate::Looks;
use crate::history::{Conclusion, WindowSet};
use crate::level::edges::Noted;
use crate::level_run::{LevelRun, MeasuredLevel};
use crate::load::RunningLoad;
use crate::log::Log;
use crate::measurement::Measurement;
use crate::ranks::Edge;
use crate::result::disturbance::Disturbance;
use crate::result::summary::{ClientSummary, Distribution, Ending, LevelLoad};
use crate::silence::Silence;
use crate::slicer::Slicer;
use crate::stdio::note;
use crate::still::time_that_counts;
use crate::verdict::{Evidence, Flows, closed_loop_gap, judge, more_wait};
use crate::waiting::{Sample, Sampled, Sampler};
use crate::window_sets::Windows;
use crate::window_summary::summarize;

/// Poll interval of a waiting measurement.
const WINDOW_POLL: Duration = Duration::from_millis(20);
/// How often completed requests are counted where their number ends the window.
const COUNT_POLL: Duration = Duration::from_millis(1);

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
    /// Looks at the load while a window is open.
    sampler: Sampler,
    /// Requests that had found no free slot when the open window began.
    held_back: u64,
    /// How long nothing has succeeded.
    silence: Silence,
    /// The looks at what is to be decided of it.
    looks: Looks,
    /// Holds until other processes, if there are any, have what they need.
    barrier: EndBarrier<'a>,
}

/// Measures a load that has just been started, and stops it.
///
/// # Errors
/// If no window could be measured: a client broke, the server's statistics cannot be read, or the user interrupted before any
/// request was over.
pub fn measure(measurement: &Measurement<'_>, run: &LevelRun, running: RunningLoad) -> Result<MeasuredLevel> {
    thread::scope(|scope| {
        let counters = Counters::start(scope, measurement.backend, measurement.models.specs)?;
        let measured = measure_with(measurement, run, running, counters)?;
        edges::check_that_something_was_measured(measurement, &measured).map(|()| measured)
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
    let (began, usage) = (running.started(), trials.sentry.usage());
    let (oddities, beside_others) = (running.oddities(), trials.sentry.others_at_work());
    let Trials { history, log, boundaries, counters, mut cost, looks, .. } = trials;
    let stopped = edges::stop(measurement, running, ended.is_ok());
    // Its connections are gone by now, so that those of the next level are counted from none.
    let connections = measurement.backend.connections();
    let Some(result) = history.result() else {
        return Err(ended
            .err()
            .or(stopped.err())
            .unwrap_or_else(|| Error::server("the load ended before its first window")));
    };
    let is_interrupted = measurement.interrupts.load(Ordering::Relaxed) > 0;
    let (ending, mut trouble) = outcome(is_interrupted, ended, stopped.as_ref().err());
    let mut evidence = Evidence {
        percentile: measurement.plan.percentile,
        precision: measurement.plan.precision,
        disagreement: history.unsettled(measurement.plan),
        max_errors: measurement.plan.max_errors,
        gap_variation: run.gap_variation,
        over: history.over(),
        flows: history.flows(),
        outstanding: result.outstanding.mean(),
        held_back: result.held_back,
        still: time_that_counts(&result.client, boundaries.last().copied().unwrap_or(began)),
        beside_others,
    };
    let (parts, intervals) = (result.ranks.clone(), result.intervals(measurement.plan));
    let limit = check_with(measurement.plan, &result.client, &intervals);
    let ending = if ending == Ending::Complete { complete(limit) } else { ending };
    let counted = counted(&counters, &result, &boundaries, run.finite);
    let mut summary = result.summarize(&measurement.models, run.load, counted, Conclusion { ending, limit, intervals });
    let end = boundaries.last().copied().unwrap_or(Stamp::NEVER);
    run.tracing.fill(&mut summary, end, &run.facts, *run.recorder.spec());
    (summary.cost, summary.disturbances) = (cost.as_mut().and_then(CostMeter::result), history.disturbances());
    (summary.windows, summary.timeline) = log.finish(began, &summary.disturbances);
    (summary.client_usage, summary.server_usage) = usage;
    (summary.threads, summary.connections, summary.looks) = (Some(run.facts.issuers), connections, looks.count);
    let noted = Noted { oddities: &oddities, began, boundaries: &boundaries, windows: &history };
    edges::remark(&mut summary, measurement, &noted);
    summary.verdict = judge(&summary, &evidence);
    let mut requests = stopped.unwrap_or_default();
    if let Some(ranks) = measurement.joint().filter(|ranks| ranks.over().is_none()) {
        let finished = joint::finish(&mut summary, &mut evidence, &mut requests, &parts, ranks);
        trouble = trouble.or(finished.err());
    }
    Ok(MeasuredLevel { summary, requests, boundaries, trouble })
}

/// What the server counted in the windows of the result.
fn counted(counters: &Counters, result: &WindowSet, boundaries: &[Stamp], is_whole: bool) -> Option<Counted> {
    let (start, end) = (result.client.start, *boundaries.last()?);
    let counted = counters.difference(start, end)?;
    Some(if is_whole { counted.of_whole_load() } else { counted.of_windows(result.client.duration, end - start) })
}

/// What a level ends with, and the error that ended it: that of its windows, or else of stopping its load. What fails for an
/// interrupt alone is neither a failure nor an error.
fn outcome(is_interrupted: bool, ended: Result<Ending>, stopped: Option<&Error>) -> (Ending, Option<Error>) {
    match (ended, stopped) {
        (Ok(Ending::Failed), Some(error)) if error.is_of_an_interrupt() => (Ending::Interrupted, None),
        (Ok(ending), Some(error)) if error.is_of_an_interrupt() => (ending, None),
        (Ok(ending), None) => (ending, None),
        (Ok(_), Some(error)) => (Ending::Failed, Some(error.clone())),
        (Err(error), _) if error.is_of_an_interrupt() => (Ending::Interrupted, None),
        (Err(error), _) if is_interrupted => (Ending::Interrupted, Some(error)),
        (Err(error), _) => (Ending::Failed, Some(error)),
    }
}

impl<'a> Trials<'a> {
    fn new(measurement: &'a Measurement<'a>, run: &'a LevelRun, running: &'a RunningLoad, counters: Counters) -> Self {
        Self {
            measurement,
            run,
            running,
            history: Windows::new(measurement.plan),
            log: Log::default(),
            sentry: Sentry::new(measurement.host_monitor),
            cost: None,
            counters,
            boundaries: Vec::new(),
            times: 1,
            sampler: Sampler::of_windows(Slicer::new(Stamp::now(), Stamp::NEVER)),
            held_back: 0,
            silence: Silence::new(if measurement.joint().is_some() { Stamp(0) } else { Stamp::now() }),
            looks: Looks::default(),
            barrier: EndBarrier::for_level(measurement),
        }
    }

    /// What the level ends with; `None` if it needs another window, for itself or for what is to be decided of it.
    /// It follows from `edge` and from the windows alone, so that several processes that have the same decide the same.
    fn decide(&mut self, edge: Edge) -> Option<Ending> {
        let ending = self.history.decide(self.measurement.plan)?;
        if ending == Ending::Stable && (self.waits_unseen(edge.under_way) || self.may_catch_up(edge.beside_others)) {
            return None;
        }
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

    /// What is to be seen of this process' load now.
    fn edge(&self) -> Edge {
        Edge { under_way: self.running.under_way(), beside_others: self.sentry.others_at_work() }
    }

    /// Whether requests have been under way for so long that the latencies so far lack their time, and windows are left that may
    /// have it. If the server stalls, earlier answers do not show it; if slow requests are still under way, the quick answers
    /// alone mislead.
    fn waits_unseen(&self, under_way: u64) -> bool {
        let plan = self.measurement.plan;
        let waits = |client: &ClientSummary| match self.run.load {
            LevelLoad::Concurrency(concurrency) => closed_loop_gap(concurrency, client).is_some_and(|gap| gap < 0.0),
            _ => more_wait(under_way, client),
        };
        let is_asked = plan.settles_by_interval() && self.history.has_windows_left(plan);
        is_asked && self.history.result().is_some_and(|result| waits(&result.client))
    }

    /// Whether the server has fallen behind, and windows are left that tell whether it goes on to: what takes longer than the windows
    /// so far is missing from their answers.
    fn may_catch_up(&self, beside_others: bool) -> bool {
        let plan = self.measurement.plan;
        let is_asked = plan.settles_by_interval() && self.history.has_windows_left(plan);
        let falls_behind = |flows: Flows| flows.fall_behind(self.run.gap_variation, beside_others);
        is_asked && self.history.flows().is_some_and(falls_behind)
    }

    /// The first window begins at `start`, where what the load did before it was closed.
    fn open_first(&mut self, start: Stamp, planned_end: Stamp) {
        self.counters.ask();
        drop(self.measurement.readings());
        self.boundaries.push(start);
        // What is wrong with earlier requests is said before the window that would have to count it.
        (self.measurement.settle)();
        let mut slicer = Slicer::new(start, planned_end);
        let (_, block_end) = self.run.recorder.next_window(slicer.end());
        slicer.put_off(block_end);
        self.sampler.slicer = slicer;
        self.held_back = self.running.report().held_back;
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

    /// One look at the load, in a window that began at `start`.
    fn look(&mut self, start: Stamp) -> Result<Sample> {
        let (watcher, load) = (self.measurement.watcher, Sampled { run: self.run, load: self.running });
        self.running.settle_if_stranded();
        self.poll_counters()?;
        let sample = self.sampler.look(load, watcher);
        let window = (!self.run.finite).then_some(self.history.closed() + 1);
        watcher.progress(&|| load.moment(window, start));
        Ok(sample)
    }

    /// Takes what has been read of the server's counters. A server that answers requests, and not in time what it counted, has too
    /// much to do: that costs its own figures, and not the level.
    fn poll_counters(&mut self) -> Result<()> {
        match self.counters.poll() {
            Err(error) if self.counters.was_late() && self.run.recorder.completed().all() > 0 => left_out(&error),
            read => drop(read?),
        }
        Ok(())
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
        let blocks = mem::replace(&mut self.sampler.slicer, next).blocks(&client);
        let held_back = self.running.report().held_back;
        let waited = held_back - mem::replace(&mut self.held_back, held_back);
        (WindowSet::new(client, readings, blocks).sampled(self.sampler.end_window(), waited), disturbance)
    }

    /// Remembers a window that has ended.
    fn keep(&mut self, window: WindowSet, disturbance: Option<Disturbance>) {
        let (watcher, plan) = (self.measurement.watcher, self.measurement.plan);
        watcher.window(self.history.closed() + 1, &window.client, disturbance);
        window.blocks.each().last().into_iter().for_each(|block| watcher.block(block));
        self.log.push(&window.client, &window.blocks, disturbance, plan);
        self.history.push(window, disturbance, plan);
    }

    /// Whether there is nothing more to wait for: the user has asked for the end, or other processes are done, too.
    fn is_interrupted(&self) -> bool {
        self.barrier.is_over() || self.measurement.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Whether too many requests have failed with the window that has just been closed.
    fn fails_with(&self, window: &ClientSummary) -> bool {
        match self.run.finite {
            true => self.measurement.exceeds_errors(window.requests, window.failed),
            false => self.has_failed(),
        }
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
        } else if self.fails_with(window) || self.measurement.breaker.is_open() || unasked {
            Some(Ending::Failed)
        } else {
            None
        }
    }
}

/// Says that a reading of the server's counters is missing.
fn left_out(error: &Error) {
    note!("{error}; the server's own figures from that time are left out");
}

mod edges;
mod joint;
mod whole;
mod window_loop;

#[cfg(test)]
mod tests;
