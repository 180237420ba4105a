//! A level whose load several processes share: windows at agreed stamps, judged from everybody's values.
//!
//! While one window runs, all exchange their values of those before it, and each decides from the same sums. So the load
//! runs everywhere until the last window that counts has ended; what comes after it is dropped. Only all of them together
//! know when a window of requests has them, or that somebody was interrupted, so they report their progress while it is
//! open; it ends a moment after all know.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backlog::OutstandingSamples;
use crate::clock::Stamp;
use crate::error::Result;
use crate::heartbeat::{Heartbeat, Progress};
use crate::history::WindowSet;
use crate::interrupt;
use crate::level::{Trials, edges};
use crate::measurement::{Measurement, Outlook};
use crate::metrics::MetricsFold;
use crate::rank_part::RankPart;
use crate::ranks::{Closing, EarlyEnd, Edge, Span, WindowReport, close, joined};
use crate::record::LoadReport;
use crate::result::disturbance::Disturbance;
use crate::result::summary::{Ending, LevelSummary};
use crate::terms::WindowRule;
use crate::verdict::Evidence;
use ::ranks::{ANSWER_LIMIT, Ranks};

/// Time between two exchanges, where their progress decides when a window ends.
const COUNT_INTERVAL: Duration = Duration::from_millis(50);
/// The same where only an interrupt or a failure ends one early.
const TIME_INTERVAL: Duration = Duration::from_millis(200);
/// A window ends this long after all have reported their progress.
const LEAD: Duration = Duration::from_millis(50);
/// How long outstanding requests may be waited for before a process must report how its load has ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(90);

/// What is exchanged about the windows of a joint load.
pub(super) struct JointWindows<'a> {
    pub(super) ranks: &'a Ranks,
    heartbeat: Heartbeat<'a, WindowReport>,
    /// When the first one begins for all.
    pub(super) first: Stamp,
    /// What ends a window.
    rule: WindowRule,
    /// Windows that are over here.
    over: usize,
    /// The open window's end is known to all.
    is_ending: bool,
    /// The windows that not all have reported.
    local: VecDeque<LocalPart>,
}

/// What this process alone knows of a window.
pub(super) struct LocalPart {
    readings: Option<MetricsFold>,
    outstanding: OutstandingSamples,
    held_back: u64,
}

impl LocalPart {
    pub(super) fn new(window: WindowSet) -> Self {
        let WindowSet { readings, outstanding, held_back, .. } = window;
        Self { readings, outstanding, held_back }
    }
}

impl<'a> JointWindows<'a> {
    pub(super) fn new(ranks: &'a Ranks, measurement: &'a Measurement<'a>) -> Self {
        let plan = measurement.plan;
        let interval = if plan.window.requests().is_some() { COUNT_INTERVAL } else { TIME_INTERVAL };
        Self {
            ranks,
            heartbeat: Heartbeat::every(interval, ranks, &measurement.breaker),
            first: Stamp::NEVER,
            rule: plan.window,
            over: 0,
            is_ending: false,
            local: VecDeque::new(),
        }
    }

    /// The number of the open window, from 1.
    pub(super) fn next_number(&self) -> u32 {
        u32::try_from(self.over + 1).unwrap_or(u32::MAX)
    }

    /// Whether an exchange is under way.
    pub(super) fn is_exchanging(&self) -> bool {
        self.heartbeat.is_under_way()
    }

    /// The open window has ended here, and the next one begins.
    pub(super) fn begin_next(&mut self) {
        (self.over, self.is_ending) = (self.over + 1, false);
    }

    /// Sends what the window came to that has just ended.
    pub(super) fn send(&mut self, report: WindowReport, local: LocalPart) {
        self.heartbeat.send(report);
        self.local.push_back(local);
    }
}

impl Trials<'_> {
    /// Measures until there is enough; alone or together with others.
    pub(super) fn until_ended(&mut self) -> Result<Ending> {
        let ended = if self.run.finite { self.until_finished() } else { self.until_settled() };
        // Those with loads of their own are in touch, too, until all have what they need.
        if let (Some(ranks), Err(error)) = (self.measurement.ranks, &ended) {
            ranks.break_off(error);
        }
        ended
    }

    /// The one window of a load that has ended by itself: waits until the others have ended, too, and takes in theirs where they
    /// share the load. Returns what the level ends with.
    pub(super) fn whole(&mut self, window: WindowSet, disturbance: Option<Disturbance>) -> Result<Ending> {
        let Some(ranks) = self.measurement.joint() else {
            self.keep(window, disturbance);
            let ending = self.early_ending().unwrap_or(Ending::Complete);
            return self.barrier.wait_with(ending);
        };
        self.running.halt();
        self.barrier.wait_with(Ending::Complete)?;
        // The server counts everybody's requests, and the last of them are over only now.
        self.counters.ask();
        let early_end = EarlyEnd { broken: self.is_stopped(), ..self.early_end() };
        let report = WindowReport::new(ranks, &window, disturbance, early_end);
        let all = ranks.exchange(&report, ANSWER_LIMIT)?;
        Ok(self.receive(ranks, all, LocalPart::new(window)).unwrap_or(Ending::Complete))
    }

    /// Exchanges with the others what is known while the window is open that began at `start`. Returns what the level ends with,
    /// if it does.
    pub(super) fn exchange(&mut self, joint: &mut JointWindows<'_>, start: Stamp) -> Result<Option<Ending>> {
        // Its result is sent with the progress.
        let outlook = Outlook::planned(self.run.requests);
        self.measurement.fails_too_often(&self.run.recorder, self.running.started(), outlook);
        let over = joint.over;
        let progress = || Progress {
            over,
            requests: self.run.recorder.completed().all(),
            long_enough: self.is_long_enough(start),
            broken: self.early_end().broken,
            ..Progress::default()
        };
        let Some(all) = joint.heartbeat.poll(progress)? else { return Ok(None) };
        // Here the first window may have begun just after all had said so.
        self.check_warm_up(&all)?;
        while let Some(reports) = joint.heartbeat.receive() {
            let Some(local) = joint.local.pop_front() else { break };
            if let Some(ending) = self.receive(joint.ranks, reports, local) {
                return Ok(Some(ending));
            }
        }
        if !joint.is_ending && is_over(&all, joint.over, joint.rule) {
            joint.is_ending = true;
            self.sampler.slicer.end_at(&self.run.recorder, joint.heartbeat.after(&all, LEAD));
        }
        Ok(None)
    }

    /// Exchanges with the others while the load warms up.
    ///
    /// # Errors
    /// The user of one has asked for the end: nothing of it was to be measured. Or one is lost.
    pub(super) fn warm_up_together(&self, joint: &mut JointWindows<'_>) -> Result<()> {
        let progress = || Progress { warming: true, ..Progress::default() };
        joint.heartbeat.poll(progress)?.map_or(Ok(()), |all| self.check_warm_up(&all))
    }

    /// Fails where all have said that they warm up, and that one was interrupted. All know the same of that: where one had begun its
    /// first window, that is ended.
    fn check_warm_up(&self, all: &[Progress]) -> Result<()> {
        if !all.iter().all(|rank| rank.warming) || !all.iter().any(|rank| rank.interrupted) {
            return Ok(());
        }
        self.measurement.interrupts.fetch_max(1, Ordering::Relaxed);
        Err(edges::while_it_warmed_up())
    }

    /// Processes a window that all have reported; returns what the level ends with, if it does.
    fn receive(&mut self, ranks: &Ranks, all: Vec<WindowReport>, local: LocalPart) -> Option<Ending> {
        let interrupted = all.iter().any(|report| report.interrupted);
        let broken = all.iter().any(|report| report.broken);
        let edge = all.iter().map(|report| report.edge).fold(Edge::default(), Edge::and);
        let span = if self.run.finite { Span::Whole } else { Span::Window };
        let (window, disturbance) = joined(ranks, all, local.readings, span)?;
        self.keep(window.sampled(local.outstanding, local.held_back), disturbance);
        self.silence.note(self.history.over(), self.silence_clock());
        let failed = self.history.latest().is_some_and(|window| self.fails_with(window));
        if interrupted {
            self.measurement.interrupts.fetch_max(1, Ordering::Relaxed);
            return Some(Ending::Interrupted);
        }
        if failed || broken {
            return Some(Ending::Failed);
        }
        if self.run.finite { Some(Ending::Complete) } else { self.decide(edge) }
    }

    /// What ends a window or the level early in this process.
    pub(super) fn early_end(&self) -> EarlyEnd {
        EarlyEnd {
            interrupted: interrupt::counter().load(Ordering::Relaxed) > 0,
            broken: self.is_stopped() || self.running.is_finished(),
        }
    }

    /// Whether this process's load cannot or must not continue.
    fn is_stopped(&self) -> bool {
        self.running.is_stranded() || self.measurement.breaker.is_open()
    }
}

/// Whether the window with that number ends before its planned end: all processes are in it, and together they have what its rule
/// asks for, or one cannot continue. It follows from what all have said, and from nothing else, so that all find
/// the same.
fn is_over(all: &[Progress], number: usize, rule: WindowRule) -> bool {
    let sum: u64 = all.iter().map(|rank| rank.requests).sum();
    let is_full = rule.is_full(sum) && all.iter().all(|rank| rank.long_enough);
    let ends_early = all.iter().any(|rank| rank.interrupted || rank.broken);
    all.iter().all(|rank| rank.over == number && !rank.warming) && (is_full || ends_early)
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
    parts: &[RankPart],
    ranks: &Ranks,
) -> Result<()> {
    let all = ranks.exchange(&Closing::new(level, evidence, *requests, ranks.owns_server()), CLOSE_LIMIT)?;
    *requests = close(level, evidence, ranks, &all, parts);
    *level = ranks.receive_first(ranks.is_first().then_some(&*level), ANSWER_LIMIT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_over_when_all_together_have_its_requests() {
        let progress = |over, requests| Progress { over, requests, long_enough: true, ..Progress::default() };
        let is_over = |all: &[Progress]| is_over(all, 3, WindowRule::Count(100));
        assert!(is_over(&[progress(3, 60), progress(3, 40)]));
        let late = Progress { long_enough: false, ..progress(3, 40) };
        assert!(!is_over(&[progress(3, 60), late]), "one has opened it later than the other");
        assert!(!is_over(&[progress(3, 60), progress(3, 39)]));
        assert!(!is_over(&[progress(3, 60), progress(2, 90)]), "one still has the window before");
        let interrupted = Progress { interrupted: true, ..late };
        assert!(is_over(&[progress(3, 1), interrupted]));
        assert!(
            !is_over(&[progress(3, 1), Progress { warming: true, ..interrupted }]),
            "it does not know of the window"
        );
    }

    #[test]
    fn a_window_of_time_ends_early_only_where_one_process_cannot_go_on() {
        let progress = Progress { over: 1, requests: 1_000, long_enough: true, ..Progress::default() };
        let is_over = |all: &[Progress]| is_over(all, 1, WindowRule::of_length(LEAD));
        assert!(!is_over(&[progress; 2]));
        assert!(is_over(&[progress, Progress { interrupted: true, ..progress }]));
        assert!(is_over(&[progress, Progress { broken: true, ..progress }]));
    }
}
