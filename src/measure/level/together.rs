//! A level whose load several processes share: windows at agreed stamps, judged from everybody's values.
//!
//! Windows are adjacent and nobody waits: while window `k + 1` runs, all exchange their values of window `k`, and each
//! decides from the same sums. So the load runs everywhere until the last window that counts has ended; what comes
//! after it is dropped.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::clock::{Stamp, TimeSpan};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::load::LoadReport;
use crate::measure::disturbance::Disturbance;
use crate::measure::history::WindowSet;
use crate::measure::level::edges::ramp_limit;
use crate::measure::level::{COUNT_POLL, GRACE, Trials, WINDOW_POLL};
use crate::measure::metrics::MetricsFold;
use crate::measure::rank_part::RankPart;
use crate::measure::ranks::{Closing, EarlyEnd, Span, Told, close, joined};
use crate::measure::summary::{Ending, LevelSummary};
use crate::measure::verdict::Evidence;
use crate::plan::WindowRule;
use crate::ranks::{ANSWER_LIMIT, Ranks};

/// How long outstanding requests may be waited for before a process must report how its load has ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(90);

/// Windows of this process that it has not reported yet, the server's metrics of each, and those that it has reported.
#[derive(Default)]
struct Untold {
    waiting: VecDeque<Told>,
    readings: VecDeque<Option<MetricsFold>>,
    under_way: bool,
}

impl Trials<'_> {
    /// Measures until there is enough; alone or together with others.
    pub(super) fn until_ended(&mut self) -> Result<Ending> {
        let ended = match (self.measurement.joint(), self.run.finite) {
            (_, true) => self.until_finished(),
            (None, false) => self.until_stable(),
            (Some(ranks), false) => self.until_all_agree(ranks),
        };
        // Those with loads of their own are in touch, too, until all have what they need.
        if let (Some(ranks), Err(error)) = (self.measurement.ranks, &ended) {
            match interrupt::is_terminated() {
                // There is no time left for that.
                true => ranks.fall_silent(error),
                false => ranks.give_up(error),
            }
        }
        ended
    }

    /// The one window of a load that has ended by itself: waits until the others have ended, too, and takes in theirs where they
    /// share the load. Returns what the level ends with.
    pub(super) fn whole(&mut self, window: WindowSet, disturbance: Option<Disturbance>) -> Result<Ending> {
        let Some(ranks) = self.measurement.joint() else {
            self.keep(window, disturbance);
            let ending = self.early_ending().unwrap_or(Ending::Complete);
            return self.pulse.wait_with(ending);
        };
        self.running.halt();
        self.pulse.wait_with(Ending::Complete)?;
        let early_end = EarlyEnd { interrupted: self.is_interrupted_here(), broken: self.is_stopped() };
        let told = Told::of(ranks, &window, disturbance, early_end);
        let told = ranks.exchange(&told, ANSWER_LIMIT)?;
        Ok(self.hear(ranks, told, window.readings).unwrap_or(Ending::Complete))
    }

    /// Windows that abut, until those of all together agree or there are enough.
    fn until_all_agree(&mut self, ranks: &Ranks) -> Result<Ending> {
        self.pulse.rest();
        self.sentry.prepare();
        let first =
            self.running.started().plus_duration(self.measurement.plan.warmup + ramp_limit(self.measurement.plan));
        let mut start = self.run.recorder.end_window(first);
        while Stamp::now() < start {
            self.check_terminated()?;
            thread::sleep(WINDOW_POLL.min(start.from_now()));
        }
        let length = match self.measurement.plan.window {
            WindowRule::Time(length) => length,
            WindowRule::Count(requests) => return self.until_counts_agree(ranks, requests, start),
        };
        let (grid, mut untold) = (|number: u32| first.plus_duration(length * number), Untold::default());
        self.open_first(start, grid(1));
        for number in 2.. {
            let end = match self.wait_for_all(ranks, &mut untold, start)? {
                (Some(ending), _) => return Ok(ending),
                (None, end) => end,
            };
            self.counters.ask();
            thread::sleep(GRACE);
            let (window, disturbance) = self.cut(TimeSpan { start, end }, grid(number), |_, _| ());
            let broken = self.is_stopped() || self.running.is_finished();
            let early_end = EarlyEnd { interrupted: self.is_interrupted_here(), broken };
            untold.waiting.push_back(Told::of(ranks, &window, disturbance, early_end));
            untold.readings.push_back(window.readings);
            self.boundaries.push(end);
            self.tell(ranks, &mut untold)?;
            start = end;
        }
        Ok(Ending::Unstable)
    }

    /// Waits for the end of the open window, and meanwhile receives what the others have reported about the last one.
    /// Returns what the level ends with, or when the window ended.
    fn wait_for_all(&mut self, ranks: &Ranks, untold: &mut Untold, start: Stamp) -> Result<(Option<Ending>, Stamp)> {
        loop {
            self.running.settle_if_stranded();
            self.counters.poll()?;
            self.check_terminated()?;
            // Its result is sent with the window.
            self.fails_too_often();
            if untold.under_way
                && let Some(told) = ranks.poll::<Told>()?
            {
                untold.under_way = false;
                let readings = untold.readings.pop_front().flatten();
                let ending = self.hear(ranks, told, readings);
                if ending.is_some() {
                    return Ok((ending, start));
                }
                self.tell(ranks, untold)?;
            }
            if let Some(end) = self.slicer.poll(&self.run.recorder, &self.run.facts, self.measurement.watcher) {
                return Ok((None, end));
            }
            self.measurement.watcher.progress(&|| self.moment(Some(self.history.closed() + 1), start));
            let looks = self.under_way.get().and(self.running.under_way());
            self.under_way.set(looks);
            // Exchanges between processes make progress only while they are polled.
            let look_up = if untold.under_way { COUNT_POLL } else { WINDOW_POLL };
            thread::sleep(looks.uneven(look_up).min(self.slicer.end().from_now()));
        }
    }

    /// Sends the next window that has ended, unless the previous one is still being exchanged.
    fn tell(&self, ranks: &Ranks, untold: &mut Untold) -> Result<()> {
        let WindowRule::Time(length) = self.measurement.plan.window else { return Ok(()) };
        if !untold.under_way
            && let Some(told) = untold.waiting.pop_front()
        {
            ranks.begin(&told, length + ANSWER_LIMIT)?;
            untold.under_way = true;
        }
        Ok(())
    }

    /// Processes a window that all have reported; returns what the level ends with, if it does.
    pub(super) fn hear(&mut self, ranks: &Ranks, told: Vec<Told>, readings: Option<MetricsFold>) -> Option<Ending> {
        let interrupted = told.iter().any(|one| one.interrupted);
        let broken = told.iter().any(|one| one.broken);
        let span = if self.run.finite { Span::Whole } else { Span::Window };
        let (window, disturbance) = joined(ranks, told, readings, span)?;
        let failed = self.measurement.exceeds_errors(window.client.requests, window.client.failed);
        self.keep(window, disturbance);
        if interrupted {
            self.measurement.interrupts.fetch_max(1, Ordering::Relaxed);
            return Some(Ending::Interrupted);
        }
        if failed || broken {
            return Some(Ending::Failed);
        }
        if self.run.finite { Some(Ending::Complete) } else { self.history.decide(self.measurement.plan) }
    }

    /// Whether this process's load cannot or must not continue.
    fn is_stopped(&self) -> bool {
        self.running.is_stranded() || self.measurement.breaker.is_open()
    }

    /// Whether enough requests of this process fail to end the run.
    pub(super) fn fails_too_often(&self) -> bool {
        self.measurement.fails_too_often(&self.run.recorder, self.running.started(), self.run.requests)
    }

    pub(super) fn is_interrupted_here(&self) -> bool {
        interrupt::counter().load(Ordering::Relaxed) > 0
    }

    /// The launcher gives a process that it wants to end but a moment: no time for other processes.
    pub(super) fn check_terminated(&self) -> Result<()> {
        match interrupt::is_terminated() {
            true => Err(Error::machine(
                "the launcher is ending this process, because another has ended or the user asked for it",
            )),
            false => Ok(()),
        }
    }
}

/// Completes the level with what all report about its end, and gives all the same one: rank 0's. Where they cannot be
/// reached any more, it stays what this process knows.
///
/// # Errors
/// A process is lost, or cannot continue.
pub(super) fn finish(
    level: &mut LevelSummary,
    evidence: &mut Evidence,
    requests: &mut LoadReport,
    each: &[RankPart],
    ranks: &Ranks,
) -> Result<()> {
    let told = ranks.exchange(&Closing::of(level, evidence, *requests, ranks.owns_server()), CLOSE_LIMIT)?;
    *requests = close(level, evidence, ranks, &told, each);
    *level = ranks.hear_first(ranks.is_first().then_some(&*level), ANSWER_LIMIT)?;
    Ok(())
}
