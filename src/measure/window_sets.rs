//! The windows of a level, and the disturbed ones among them, which are replaced while there are windows left.

use std::time::Duration;

use crate::decision::{decide, is_hopeless, is_settled, leave_out_warm_up, unsettled};
use crate::history::{History, WindowSet};
use crate::record::Completed;
use crate::result::disagreement::{Disagreement, STABLE_WINDOWS};
use crate::result::disturbance::Disturbance;
use crate::result::reasons::InvalidReason;
use crate::result::summary::{ClientSummary, Disturbances, Ending};
use crate::stdio::note;
use crate::terms::{MeasurementPlan, OnDisturbance, Statistic};
use crate::verdict::Flows;
use crate::warm_up::WarmUp;

/// If this many windows were disturbed and no other was seen, the disturbance will not pass.
const PATIENCE: usize = 2 * STABLE_WINDOWS;
/// Where others use the machine, figures may be known so many times less well than asked for. How well is said, and a server
/// that is unstable by itself is not excused.
const BESIDE_OTHERS: f64 = 2.0;

/// The windows of a level so far.
pub(super) struct Windows {
    all: History,
    /// Those since the last disturbed one, or all undisturbed ones where intervals decide; absent until there is a
    /// disturbed one.
    calm: Option<History>,
    /// Numbers of the disturbed ones, from 0, and what it was.
    disturbed: Vec<(usize, Disturbance)>,
    /// The windows agreed at some time, disturbed ones among them.
    was_stable: bool,
    /// The calm ones make the result.
    is_calm: bool,
}

impl Windows {
    /// No window yet.
    pub(super) fn new(plan: &MeasurementPlan) -> Self {
        Self { all: History::new(plan), calm: None, disturbed: Vec::new(), was_stable: false, is_calm: false }
    }

    /// Adds the window that has just ended, and what others took from it.
    pub(super) fn push(&mut self, window: WindowSet, disturbance: Option<Disturbance>, plan: &MeasurementPlan) {
        if let Some(disturbance) = disturbance {
            self.disturbed.push((self.all.closed(), disturbance));
            let before = if plan.settles_by_interval() {
                self.calm.take().unwrap_or_else(|| self.all.clone())
            } else {
                History::new(plan)
            };
            self.calm = Some(before);
        } else if let Some(calm) = &mut self.calm {
            calm.push(window.clone(), plan);
        }
        self.all.push(window, plan);
        leave_out_warm_up(&mut self.all, plan);
        if let Some(calm) = &mut self.calm {
            leave_out_warm_up(calm, &plan_of_calm(&self.all, calm, plan));
        }
    }

    /// What the level ends with; `None` if it needs another window.
    pub(super) fn decide(&mut self, plan: &MeasurementPlan) -> Option<Ending> {
        let ending = self.choose(plan);
        if let Some(disagreement) = self.disagreement(plan).filter(|apart| apart.statistic != Statistic::Throughput)
            && plan.throughput_suffices
            && ending == Some(Ending::Stable)
            && !is_settled(self.chosen(), plan)
        {
            note!("{disagreement}; the throughput is stable, which is enough for asynchronous requests");
        }
        ending
    }

    /// The same, and from which windows. Without disturbances that is [`decide`]'s
    /// answer. With them, windows go on until enough of them are calm; if there will not be enough, that answer stands.
    fn choose(&mut self, plan: &MeasurementPlan) -> Option<Ending> {
        let usual = decide(&self.all, plan);
        let Some(calm) = &self.calm else { return usual };
        let left = plan_of_calm(&self.all, calm, plan);
        let ending = if calm.closed() >= STABLE_WINDOWS { decide(calm, &left) } else { None };
        if let Some(ending @ (Ending::Stable | Ending::OverThreshold)) = ending {
            self.is_calm = true;
            return Some(ending);
        }
        let usual = usual?;
        self.was_stable |= usual == Ending::Stable;
        if !is_hopeless(&self.all, plan) && self.may_be_replaced(plan) {
            return None;
        }
        // What would have done without further windows does with them.
        let is_enough = || self.was_stable || self.is_known_beside_others(plan);
        Some(if usual == Ending::Unstable && is_enough() { Ending::Stable } else { usual })
    }

    /// Whether the figures are known as well as a machine lets them that others use for most of the time.
    fn is_known_beside_others(&self, plan: &MeasurementPlan) -> bool {
        let Disturbances { windows, disturbed, .. } = self.disturbances();
        let beside_others = MeasurementPlan { stability: BESIDE_OTHERS * plan.stability, ..plan.clone() };
        plan.settles_by_interval() && 2 * disturbed >= windows && is_settled(self.chosen(), &beside_others)
    }

    /// Whether the result has disturbed windows, and there may yet be enough calm ones.
    fn may_be_replaced(&self, plan: &MeasurementPlan) -> bool {
        let (closed, calm) = (self.all.closed(), self.calm.as_ref().map_or(0, History::closed));
        // Where intervals decide, calm windows need not follow each other; if most are not calm, that is how the machine is.
        let patient = if plan.settles_by_interval() { closed / 2 } else { closed };
        let passes = closed < PATIENCE || self.disturbed.len() < patient;
        let wanted = plan.on_disturbance == Some(OnDisturbance::Replace) && self.disturbances().disturbed > 0;
        let left = self.all.windows_left(plan);
        wanted && passes && left > 0 && left + calm >= STABLE_WINDOWS
    }

    /// Whether there may be more windows.
    pub(super) fn has_windows_left(&self, plan: &MeasurementPlan) -> bool {
        self.all.windows_left(plan) > 0
    }

    /// How many windows there were.
    pub(super) fn closed(&self) -> usize {
        self.all.closed()
    }

    /// How long they lasted.
    pub(super) fn measured(&self) -> Duration {
        self.all.measured()
    }

    /// The requests of all windows.
    pub(super) fn over(&self) -> Completed {
        self.all.over()
    }

    /// The window that ended last.
    pub(super) fn latest(&self) -> Option<&ClientSummary> {
        self.all.latest()
    }

    /// What was sent and completed in all windows.
    pub(super) fn flows(&self) -> Option<Flows> {
        self.all.flows()
    }

    /// The windows that make the result, as one; `None` if there was none.
    pub(super) fn result(&self) -> Option<WindowSet> {
        self.chosen().result()
    }

    /// What was left out before them because the server warmed up.
    pub(super) fn warm_up(&self) -> Option<WarmUp> {
        // The calm ones lack the time of those between them.
        self.chosen().warm_up().map(|of_result| self.all.warm_up().unwrap_or(of_result))
    }

    /// Why the windows of the result are not enough, where that is known.
    pub(super) fn unsettled(&self, plan: &MeasurementPlan) -> Option<InvalidReason> {
        unsettled(self.chosen(), plan)
    }

    /// Which figure of the last windows disagreed most, where they did.
    fn disagreement(&self, plan: &MeasurementPlan) -> Option<Disagreement> {
        self.chosen().disagreement(plan)
    }

    /// How the result was disturbed, and how many windows were measured again because of that.
    pub(super) fn disturbances(&self) -> Disturbances {
        let windows = self.chosen().in_result();
        let first = self.closed() - windows.min(self.closed());
        let in_result =
            self.disturbed.iter().filter(|(number, _)| !self.is_calm && *number >= first).map(|(_, found)| found);
        let disturbed = in_result.clone().count();
        let worst = if disturbed > 0 { in_result.copied().reduce(|all, next| all.worst(&next)) } else { self.worst() };
        Disturbances { windows, disturbed, replaced: if self.is_calm { self.disturbed.len() } else { 0 }, worst }
    }

    fn worst(&self) -> Option<Disturbance> {
        self.disturbed.iter().map(|(_, found)| *found).reduce(|all, next| all.worst(&next)).filter(|_| self.is_calm)
    }

    fn chosen(&self) -> &History {
        self.calm.as_ref().filter(|_| self.is_calm).unwrap_or(&self.all)
    }
}

/// The plan for the calm windows, which lack what the others took.
fn plan_of_calm(all: &History, calm: &History, plan: &MeasurementPlan) -> MeasurementPlan {
    let (lost, lost_time) = (all.closed() - calm.closed(), all.measured().saturating_sub(calm.measured()));
    MeasurementPlan {
        max_trials: plan.max_trials.saturating_sub(lost),
        give_up_after: plan.give_up_after.map(|least| least.saturating_sub(lost_time)),
        level_time: plan.level_time.map(|most| most.saturating_sub(lost_time)),
        ..plan.clone()
    }
}

#[cfg(test)]
mod tests;
