//! What is kept of a level's windows: as much as stability, the result and a precision need, however many there are.

use std::collections::VecDeque;
use std::time::Duration;

use crate::measure::complaint::Verdict;
use crate::measure::counters::Counted;
use crate::measure::disagreement::{Disagreement, STABLE_WINDOWS};
use crate::measure::metrics::MetricsFold;
use crate::measure::precision::{WindowFigures, intervals, is_precise};
use crate::measure::server::Models;
use crate::measure::stability::{disagreement, is_stable};
use crate::measure::summary::{ClientSummary, Disturbances, Ending, LevelLoad, LevelSummary, LimitCheck};
use crate::measure::window::merge;
use crate::plan::{MeasurementPlan, Statistic};
use crate::stats::Interval;

/// A window, or several that abut, as one.
#[derive(Clone)]
pub(super) struct Stretch {
    /// What the client saw.
    pub(super) client: ClientSummary,
    /// The server's metrics meanwhile, where they are collected.
    pub(super) readings: Option<MetricsFold>,
}

impl Stretch {
    /// Takes the stretch that follows into this one.
    fn absorb(self, later: &Self) -> Self {
        let readings = match (self.readings, &later.readings) {
            (Some(mut all), Some(more)) => {
                all.absorb(more);
                Some(all)
            }
            (all, more) => all.or_else(|| more.clone()),
        };
        Self { client: merge(self.client, &later.client), readings }
    }

    /// The summary of a level whose result this is; not judged yet.
    pub(super) fn summarize(
        self,
        models: &Models<'_>,
        load: LevelLoad,
        counted: Option<Counted>,
        (ending, limit, intervals): (Ending, Option<LimitCheck>, Vec<(Statistic, Interval)>),
    ) -> LevelSummary {
        let Self { client, readings } = self;
        let failed = client.requests == 0 && ending != Ending::Interrupted;
        let ending = if failed { Ending::Failed } else { ending };
        let mut servers = models.roots.iter().map(|id| models.summary(&counted.as_ref()?.delta, id));
        let server = servers.next().flatten();
        let further_servers = servers.flatten().collect();
        let (gpus, host) = readings.map(|metrics| (metrics.gpus(), metrics.host())).unzip();
        let verdict = Verdict::Valid;
        let disturbances = Disturbances::default();
        let server_span = counted.as_ref().and_then(|counted| counted.other_span);
        LevelSummary {
            load,
            client,
            server,
            further_servers,
            server_span,
            gpus,
            host,
            intervals,
            ending,
            limit,
            disturbances,
            verdict,
        }
    }
}

/// The windows of a level so far. Whole distributions stay of the last three, and of all that make the result together; of
/// each of these by itself only the throughput and the mean latency.
pub(super) struct History {
    closed: usize,
    /// How long all windows lasted.
    measured: Duration,
    last: VecDeque<Stretch>,
    /// The windows that make the result as one: those since three agreed, or all where a precision is measured for. Without
    /// it, the last three do.
    kept: Option<Stretch>,
    figures: Vec<WindowFigures>,
    whole: bool,
}

impl History {
    /// No window yet.
    pub(super) fn new(plan: &MeasurementPlan) -> Self {
        let whole = plan.precision.is_some();
        Self { closed: 0, measured: Duration::ZERO, last: VecDeque::new(), kept: None, figures: Vec::new(), whole }
    }

    /// Adds the window that has just ended.
    pub(super) fn push(&mut self, window: Stretch, plan: &MeasurementPlan) {
        self.closed += 1;
        self.measured += window.client.duration;
        let figures = WindowFigures::of(&window.client);
        if self.last.len() == STABLE_WINDOWS {
            self.last.pop_front();
        }
        self.last.push_back(window.clone());
        if let Some(kept) = self.kept.take() {
            self.kept = Some(kept.absorb(&window));
            self.figures.push(figures);
        } else if self.whole {
            self.kept = Some(window);
            self.figures.push(figures);
        } else {
            self.figures = self.last.iter().map(|window| WindowFigures::of(&window.client)).collect();
            let last: Vec<_> = self.last.iter().map(|window| &window.client).collect();
            if is_stable(&last, plan.stability, plan.percentile) {
                self.kept = self.last_as_one();
            }
        }
    }

    /// How many windows there were.
    pub(super) fn closed(&self) -> usize {
        self.closed
    }

    /// How long they lasted.
    pub(super) fn measured(&self) -> Duration {
        self.measured
    }

    /// The window that ended last.
    pub(super) fn latest(&self) -> Option<&ClientSummary> {
        self.last.back().map(|window| &window.client)
    }

    /// Whether the windows are enough: three agreed, or the figure that was asked for is known well enough.
    pub(super) fn is_settled(&self, plan: &MeasurementPlan) -> bool {
        match (plan.precision, &self.kept) {
            // Fewer windows do not tell what neighbouring requests have in common.
            (Some(wanted), Some(kept)) if self.closed >= STABLE_WINDOWS => {
                is_precise(wanted, &self.figures, &kept.client)
            }
            (Some(_), _) => false,
            (None, kept) => kept.is_some(),
        }
    }

    /// The windows that make the result, as one; `None` where there was none.
    pub(super) fn result(&self) -> Option<Stretch> {
        self.kept.clone().or_else(|| self.last_as_one())
    }

    /// In what the last windows do not agree.
    pub(super) fn disagreement(&self, plan: &MeasurementPlan) -> Option<Disagreement> {
        let last: Vec<_> = self.last.iter().map(|window| &window.client).collect();
        disagreement(&last, plan.stability, plan.percentile)
    }

    fn last_as_one(&self) -> Option<Stretch> {
        let mut last = self.last.iter();
        last.next().map(|first| last.fold(first.clone(), Stretch::absorb))
    }

    /// How well the figures of the result are known.
    pub(super) fn intervals(&self, result: &ClientSummary, percentile: Option<f64>) -> Vec<(Statistic, Interval)> {
        intervals(&self.figures, result, percentile)
    }

    /// The figures of each window that makes the result.
    pub(super) fn each(&self) -> &[WindowFigures] {
        &self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::sample;
    use crate::plan::Precision;

    fn plan(precision: Option<Precision>) -> MeasurementPlan {
        MeasurementPlan { precision, ..sample::plan() }
    }

    fn window(requests: u64) -> Stretch {
        Stretch { client: sample::client(requests, 1_000_000), readings: None }
    }

    #[test]
    fn memory_does_not_grow_with_windows_that_do_not_agree() {
        let plan = plan(None);
        let mut history = History::new(&plan);
        (0..1000).for_each(|number| history.push(window(10_u64.pow(number % 4)), &plan));
        assert_eq!((history.closed(), history.last.len(), history.figures.len()), (1000, 3, 3));
        assert_eq!(history.latest().unwrap().requests, 1_000);
        assert_eq!(history.result().unwrap().client.requests, 10 + 100 + 1_000);
        assert!(!history.is_settled(&plan));
    }

    #[test]
    fn windows_since_three_agreed_make_the_result() {
        let plan = plan(None);
        let mut history = History::new(&plan);
        for requests in [10, 500, 505, 510, 9_000, 495] {
            history.push(window(requests), &plan);
        }
        assert!(history.is_settled(&plan));
        assert_eq!(history.result().unwrap().client.requests, 500 + 505 + 510 + 9_000 + 495);
        assert_eq!(history.each().len(), 5);
    }

    #[test]
    fn a_precision_takes_three_windows_at_least() {
        let wanted = plan(Some(Precision { of: Statistic::Percentile(50.0), share: 0.5 }));
        let mut history = History::new(&wanted);
        let settled = |history: &mut History| {
            history.push(window(10_000), &wanted);
            history.is_settled(&wanted)
        };
        let each: Vec<bool> = (0..3).map(|_| settled(&mut history)).collect();
        assert_eq!(each, [false, false, true]);
    }

    #[test]
    fn a_precision_is_measured_from_all_windows() {
        let wanted = plan(Some(Precision { of: Statistic::Throughput, share: 0.2 }));
        let mut history = History::new(&wanted);
        assert!(history.result().is_none());
        (0..100).for_each(|_| history.push(window(10), &wanted));
        assert_eq!((history.last.len(), history.each().len()), (3, 100));
        let result = history.result().unwrap().client;
        assert_eq!((result.requests, result.latency.count()), (1000, 1000));
        assert!(history.is_settled(&wanted));
    }
}
