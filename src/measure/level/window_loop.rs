//! Windows that abut, until they agree or there are enough: of a load of this process alone, or of one that several share.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use base::debug;

use crate::clock::{Stamp, TimeSpan};
use crate::error::Result;
use crate::level::edges::ramp_limit;
use crate::level::joint::{JointWindows, LocalPart};
use crate::level::{COUNT_POLL, Trials, WINDOW_POLL};
use crate::measurement::Outlook;
use crate::ranks::WindowReport;
use crate::record::Completed;
use crate::result::summary::Ending;
use crate::waiting::{GRACE, try_wait};

/// Minimum length of a window of requests: a few fast requests fit into one time slice of a thread, and such windows
/// never agree.
const COUNT_WINDOW_LEAST: Duration = Duration::from_millis(500);
/// The same for perf_analyzer's, by its documentation.
const UPSTREAM_COUNT_WINDOW_LEAST: Duration = Duration::from_secs(1);

/// What has ended while a window was open.
enum Ended {
    /// The window, then.
    Window(Stamp),
    /// The level.
    Level(Ending),
}

impl Trials<'_> {
    /// Windows that abut, until they agree or there are enough; those of all together, where several processes share the load.
    pub(super) fn until_settled(&mut self) -> Result<Ending> {
        let measurement = self.measurement;
        let mut joint = measurement.joint().map(|ranks| JointWindows::new(ranks, measurement));
        if joint.is_some() {
            self.barrier.remove();
        }
        self.sentry.prepare();
        let mut start = match &mut joint {
            Some(joint) => self.first_of_all(joint)?,
            None => self.leave_out_start()?,
        };
        self.open_first(start, self.planned_end(start, joint.as_ref()));
        loop {
            let end = match self.wait_for_end(joint.as_mut(), start) {
                Ok(Ended::Window(end)) => end,
                Ok(Ended::Level(ending)) => return Ok(ending),
                Err(error) => {
                    if joint.is_none() {
                        self.close_tail(start);
                    }
                    return Err(error);
                }
            };
            let span = TimeSpan { start, end };
            match &mut joint {
                Some(joint) => self.report(joint, span),
                None => {
                    if let Some(ending) = self.close(span)? {
                        return Ok(ending);
                    }
                }
            }
            start = end;
        }
    }

    /// When the first window of a joint load begins: at a moment that all know, if this process is not late for it. Meanwhile they
    /// are in touch, so that an interrupt of one ends the warm-up of all, however long it is.
    fn first_of_all(&self, joint: &mut JointWindows<'_>) -> Result<Stamp> {
        let plan = self.measurement.plan;
        joint.first = self.running.started().plus_duration(plan.warmup + ramp_limit(plan));
        let start = self.run.recorder.end_window(joint.first);
        try_wait(|| {
            self.warm_up_together(joint)?;
            let pause = if joint.is_exchanging() { COUNT_POLL } else { WINDOW_POLL };
            Ok(match start.from_now() {
                Duration::ZERO => ControlFlow::Break(start),
                left => ControlFlow::Continue(pause.min(left)),
            })
        })
    }

    /// When a window ends that begins at `start`, if nothing ends it earlier.
    fn planned_end(&self, start: Stamp, joint: Option<&JointWindows<'_>>) -> Stamp {
        match (self.measurement.plan.window.length(), joint) {
            (None, _) => Stamp::NEVER,
            (Some(length), None) => start.plus_duration(length * self.times),
            // By a grid that is the same for all, also for one that was late.
            (Some(length), Some(joint)) => joint.first.plus_duration(length * joint.next_number()),
        }
    }

    /// Waits until the window that began at `start` is over, as planned if nothing ends it earlier.
    fn wait_for_end(&mut self, mut joint: Option<&mut JointWindows<'_>>, start: Stamp) -> Result<Ended> {
        let is_counted = self.measurement.plan.window.requests().is_some();
        try_wait(|| {
            let sample = self.look(start)?;
            if joint.is_none() {
                self.silence.note(self.history.over().plus(self.run.recorder.completed()), self.silence_clock());
            }
            let mut is_exchanging = false;
            if let Some(joint) = joint.as_deref_mut() {
                if let Some(ending) = self.exchange(joint, start)? {
                    return Ok(ControlFlow::Break(Ended::Level(ending)));
                }
                is_exchanging = joint.is_exchanging();
            }
            if let Some(end) = sample.ended {
                return Ok(ControlFlow::Break(Ended::Window(end)));
            }
            if joint.is_none() && self.ends_early(start) {
                return Ok(ControlFlow::Break(Ended::Window(self.end_now())));
            }
            let about = if is_counted || is_exchanging { COUNT_POLL } else { WINDOW_POLL };
            Ok(ControlFlow::Continue(self.sampler.pause(about)))
        })
    }

    /// Whether the open window of a load of this process alone ends before its planned end.
    fn ends_early(&self, start: Stamp) -> bool {
        let outlook = self.outlook(Stamp::now() - start);
        self.measurement.fails_too_often(&self.run.recorder, start, outlook)
            || self.is_silent(outlook)
            || self.is_full(start)
            || self.is_interrupted()
            || self.running.is_finished()
    }

    /// What the level's requests are, besides those of the window that has been open for so long.
    pub(super) fn outlook(&self, open: Duration) -> Outlook {
        let (plan, history) = (self.measurement.plan, &self.history);
        let latest = history.latest().map_or(COUNT_WINDOW_LEAST, |window| window.duration);
        let length = plan.window.length().map_or(latest, |length| length * self.times);
        let windows = plan.windows_left(history.closed(), history.measured(), length);
        let left = length.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX)).saturating_sub(open);
        let (earlier, measured) = (history.over(), history.measured());
        Outlook { planned: self.run.requests, earlier, measured, left: Some(left) }
    }

    /// Whether the level has failed with the windows that are over, whatever becomes of further requests.
    pub(super) fn has_failed(&self) -> bool {
        let outlook = self.outlook(Duration::ZERO);
        self.measurement.will_fail(Completed::default(), Duration::ZERO, outlook) || self.is_silent(outlook)
    }

    /// Whether the server answers nothing any more, and too many requests will have failed if it goes on like this.
    fn is_silent(&self, outlook: Outlook) -> bool {
        let left = outlook.left.filter(|_| outlook.planned.is_none());
        let outcome = left.and_then(|left| self.silence.outcome(self.silence_clock(), left));
        outcome.is_some_and(|over| self.measurement.exceeds_errors(over.succeeded, over.failed))
    }

    /// The time by which it is silent. Processes that share a load must find the same: they have the windows that all have reported.
    pub(super) fn silence_clock(&self) -> Stamp {
        match self.measurement.joint() {
            Some(_) => Stamp(0).plus_duration(self.history.measured()),
            None => Stamp::now(),
        }
    }

    /// Whether the open window, which began at `start`, has what its rule asks for.
    fn is_full(&self, start: Stamp) -> bool {
        self.measurement.plan.window.is_full(self.run.recorder.completed().all()) && self.is_long_enough(start)
    }

    /// Whether a window of requests that began at `start` has reached its least length.
    pub(super) fn is_long_enough(&self, start: Stamp) -> bool {
        let long = self.measurement.plan.long_count_windows;
        Stamp::now() - start >= if long { UPSTREAM_COUNT_WINDOW_LEAST } else { COUNT_WINDOW_LEAST }
    }

    /// Closes the window in the recorder and remembers it; returns what the level ends with, if it does.
    fn close(&mut self, span: TimeSpan) -> Result<Option<Ending>> {
        if let Some(ending) = self.barrier.is_over_with()? {
            return Ok(Some(ending));
        }
        if !self.barrier.has_arrived() {
            self.counters.ask();
        }
        thread::sleep(GRACE);
        self.outgrow();
        let (window, disturbance) = self.cut(span, self.planned_end(span.end, None), |_, _| ());
        // What is measured only because others need more is shown.
        match self.barrier.further() {
            Some(further) => {
                self.measurement.watcher.window(self.history.closed() + further, &window.client, disturbance)
            }
            None => {
                self.keep(window, disturbance);
                self.boundaries.push(span.end);
            }
        }
        let ending = self.early_ending().or_else(|| self.decide(self.edge()));
        debug!("after {} windows: {ending:?}", self.history.closed());
        self.barrier.arrive(ending)
    }

    /// Closes the window in the recorder, and sends the others what it came to. The next one has begun: nobody waits.
    fn report(&mut self, joint: &mut JointWindows<'_>, span: TimeSpan) {
        self.counters.ask();
        thread::sleep(GRACE);
        joint.begin_next();
        let next_end = self.planned_end(span.end, Some(joint));
        let (window, disturbance) = self.cut(span, next_end, |_, _| ());
        let report = WindowReport::new(joint.ranks, &window, disturbance, self.early_end()).at(self.edge());
        joint.send(report, LocalPart::new(window));
        self.boundaries.push(span.end);
    }
}
