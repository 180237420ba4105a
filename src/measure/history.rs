//! What is kept of a level's windows: as much as stability, the result and a precision need, however many there are.

use std::collections::VecDeque;

use crate::measure::complaint::Verdict;
use crate::measure::counters::Counted;
use crate::measure::metrics::MetricsFold;
use crate::measure::precision::{WindowFigures, intervals, is_precise};
use crate::measure::server::Models;
use crate::measure::stability::{STABLE_WINDOWS, is_stable};
use crate::measure::summary::{ClientSummary, Ending, LevelLoad, LevelSummary};
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
        (ending, intervals): (Ending, Vec<(Statistic, Interval)>),
    ) -> LevelSummary {
        let Self { client, readings } = self;
        let failed = client.requests == 0 && ending != Ending::Interrupted;
        let ending = if failed { Ending::Failed } else { ending };
        let mut servers = models.roots.iter().map(|id| models.summary(&counted.as_ref()?.delta, id));
        let server = servers.next().flatten();
        let further_servers = servers.flatten().collect();
        let (gpus, host) = readings.map(|metrics| (metrics.gpus(), metrics.host())).unzip();
        let verdict = Verdict::Valid;
        let server_span = counted.as_ref().and_then(|counted| counted.other_span);
        LevelSummary { load, client, server, further_servers, server_span, gpus, host, intervals, ending, verdict }
    }
}

/// The windows of a level so far. Of each only the throughput and the mean latency stay, and only where a precision is
/// measured for; whole distributions stay of the last three, and of all together where all make the result.
pub(super) struct History {
    closed: usize,
    last: VecDeque<Stretch>,
    /// All windows as one, where all of them make the result.
    all: Option<Stretch>,
    figures: VecDeque<WindowFigures>,
    whole: bool,
}

impl History {
    /// No window yet. Where a precision is measured for, all windows make the result, else the last three.
    pub(super) fn new(plan: &MeasurementPlan) -> Self {
        let whole = plan.precision.is_some();
        Self { closed: 0, last: VecDeque::new(), all: None, figures: VecDeque::new(), whole }
    }

    /// Adds the window that has just ended.
    pub(super) fn push(&mut self, window: Stretch) {
        self.closed += 1;
        if self.whole {
            self.all = Some(match self.all.take() {
                Some(all) => all.absorb(&window),
                None => window.clone(),
            });
        } else if self.figures.len() == STABLE_WINDOWS {
            self.figures.pop_front();
        }
        self.figures.push_back(WindowFigures::of(&window.client));
        if self.last.len() == STABLE_WINDOWS {
            self.last.pop_front();
        }
        self.last.push_back(window);
    }

    /// How many windows there were.
    pub(super) fn closed(&self) -> usize {
        self.closed
    }

    /// The window that ended last.
    pub(super) fn latest(&self) -> Option<&ClientSummary> {
        self.last.back().map(|window| &window.client)
    }

    /// Whether the windows are enough: they agree, or the figure that was asked for is known well enough.
    pub(super) fn is_settled(&self, plan: &MeasurementPlan) -> bool {
        match (plan.precision, &self.all) {
            // Fewer windows do not tell what neighbouring requests have in common.
            (Some(wanted), Some(all)) if self.closed >= STABLE_WINDOWS => is_precise(wanted, &self.each(), &all.client),
            (Some(_), _) => false,
            (None, _) => {
                let last: Vec<_> = self.last.iter().map(|window| &window.client).collect();
                is_stable(&last, plan.stability, plan.percentile)
            }
        }
    }

    /// The windows that make the result, as one; `None` where there was none.
    pub(super) fn result(&self) -> Option<Stretch> {
        let mut last = self.last.iter();
        match &self.all {
            Some(all) => Some(all.clone()),
            None => last.next().map(|first| last.fold(first.clone(), Stretch::absorb)),
        }
    }

    /// How well the figures of the result are known.
    pub(super) fn intervals(&self, result: &ClientSummary, percentile: Option<f64>) -> Vec<(Statistic, Interval)> {
        intervals(&self.each(), result, percentile)
    }

    fn each(&self) -> Vec<WindowFigures> {
        self.figures.iter().copied().collect()
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
    fn memory_does_not_grow_with_the_windows() {
        let mut history = History::new(&plan(None));
        (1..=1000).for_each(|requests| history.push(window(requests)));
        assert_eq!((history.closed(), history.last.len(), history.figures.len()), (1000, 3, 3));
        let last: Vec<u64> = history.last.iter().map(|window| window.client.requests).collect();
        assert_eq!((last, history.latest().unwrap().requests), (vec![998, 999, 1000], 1000));
        assert_eq!(history.result().unwrap().client.requests, 998 + 999 + 1000);
    }

    #[test]
    fn a_precision_takes_three_windows_at_least() {
        let wanted = plan(Some(Precision { of: Statistic::Percentile(50.0), share: 0.5 }));
        let mut history = History::new(&wanted);
        let settled = |history: &mut History| {
            history.push(window(10_000));
            history.is_settled(&wanted)
        };
        let each: Vec<bool> = (0..3).map(|_| settled(&mut history)).collect();
        assert_eq!(each, [false, false, true]);
    }

    #[test]
    fn a_precision_is_measured_from_all_windows() {
        let mut history = History::new(&plan(Some(Precision { of: Statistic::Throughput, share: 0.2 })));
        assert!(history.result().is_none());
        (0..100).for_each(|_| history.push(window(10)));
        assert_eq!((history.last.len(), history.figures.len()), (3, 100));
        let result = history.result().unwrap().client;
        assert_eq!((result.requests, result.latency.count()), (1000, 1000));
        assert!(history.is_settled(&plan(Some(Precision { of: Statistic::Throughput, share: 0.2 }))));
    }
}
