//! The part of a level's windows that is kept: as much as stability, the result and a precision need, however many
//! windows there are.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backlog::OutstandingSamples;
use crate::blocks::{Block, Blocks};
use crate::bounds::{estimate, figures, is_precise};
use crate::counters::Counted;
use crate::drift::{Step, drift, ends, goes_on, step};
use crate::metrics::MetricsFold;
use crate::rank_part::RankPart;
use crate::record::Completed;
use crate::result::disagreement::{Disagreement, STABLE_WINDOWS};
use crate::result::reasons::Verdict;
use crate::result::statistic::value;
use crate::result::summary::{
    ClientSummary, Disturbances, Ending, LevelLoad, LevelSummary, LimitCheck, StatisticEstimate,
};
use crate::result::timeline::Timeline;
use crate::server::Models;
use crate::stability::{disagreement, is_stable, is_throughput_stable};
use crate::stats::Bounds;
use crate::terms::{MeasurementPlan, Statistic};
use crate::verdict::{Flow, Flows};
use crate::warm_up::WarmUp;
use crate::window_summary::merge;

/// Blocks end a little earlier or later than windows do, as their seconds are rounded: by less than such a part of three windows.
const EDGE: f64 = 0.01;

/// A window, or several that abut, as one.
#[derive(Clone)]
pub(super) struct WindowSet {
    /// What the client saw.
    pub(super) client: ClientSummary,
    /// The server's metrics meanwhile, where they are collected.
    pub(super) readings: Option<MetricsFold>,
    /// The same, in blocks of time.
    pub(super) blocks: Blocks,
    /// What each process has of it, where several have measured it.
    pub(super) ranks: Vec<RankPart>,
    /// Looks at the requests under way meanwhile; at other windows they say nothing of this one.
    pub(super) outstanding: OutstandingSamples,
    /// Requests that found no free slot meanwhile, and not while the server warmed up.
    pub(super) held_back: u64,
    /// All windows of the level up to its end, where those before a drift are no part of it.
    since_start: Option<Box<Stretch>>,
}

/// A stretch of a level.
#[derive(Clone)]
struct Stretch {
    client: ClientSummary,
    blocks: Blocks,
}

impl Stretch {
    fn absorb(&mut self, later: &WindowSet) {
        self.client = merge(self.client.clone(), &later.client);
        self.blocks.extend(&later.blocks);
    }
}

impl WindowSet {
    /// A window with its blocks.
    pub(super) fn new(client: ClientSummary, readings: Option<MetricsFold>, blocks: Blocks) -> Self {
        let outstanding = OutstandingSamples::default();
        Self { client, readings, blocks, ranks: Vec::new(), outstanding, held_back: 0, since_start: None }
    }

    /// The same, of which each process has a part.
    pub(super) fn of_ranks(self, ranks: Vec<RankPart>) -> Self {
        Self { ranks, ..self }
    }

    /// The same, at which these looks were taken, and in which so many requests found no free slot.
    pub(super) fn sampled(self, outstanding: OutstandingSamples, held_back: u64) -> Self {
        Self { outstanding, held_back, ..self }
    }

    /// A window that was not cut into blocks: it is one.
    pub(super) fn uncut(client: ClientSummary, readings: Option<MetricsFold>) -> Self {
        let mut blocks = Blocks::default();
        blocks.push(Block::new(&client));
        Self::new(client, readings, blocks)
    }

    /// Takes the stretch that follows into this one.
    fn absorb(mut self, later: &Self) -> Self {
        self.since_start.iter_mut().for_each(|all| all.absorb(later));
        self.blocks.extend(&later.blocks);
        let readings = match (self.readings, &later.readings) {
            (Some(mut all), Some(more)) => {
                all.absorb(more);
                Some(all)
            }
            (all, more) => all.or_else(|| more.clone()),
        };
        let mut ranks = self.ranks;
        ranks.iter_mut().zip(&later.ranks).for_each(|(rank, more)| rank.absorb(more));
        let outstanding = self.outstanding.plus(later.outstanding);
        let held_back = self.held_back + later.held_back;
        Self { client: merge(self.client, &later.client), readings, ranks, outstanding, held_back, ..self }
    }

    /// The summary of a level whose result this is; not judged yet.
    pub(super) fn summarize(
        self,
        models: &Models<'_>,
        load: LevelLoad,
        counted: Option<Counted>,
        conclusion: Conclusion,
    ) -> LevelSummary {
        let Conclusion { ending, limit, intervals } = conclusion;
        let Self { client, readings, blocks, .. } = self;
        let failed = client.requests == 0 && ending != Ending::Interrupted;
        let ending = if failed { Ending::Failed } else { ending };
        let mut servers = models.roots.iter().map(|id| models.summary(&counted.as_ref()?.delta, id));
        let server = servers.next().flatten();
        let further_servers: Vec<_> = servers.flatten().collect();
        // The counts of several models of one load may have each other's in them.
        let only = server.as_ref().zip(counted.as_ref()).filter(|_| models.roots.len() == 1);
        let remarks = only.and_then(|(server, counted)| counted.remark(&client, server));
        let hosts = readings.as_ref().map(MetricsFold::hosts).unwrap_or_default();
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
            breakdown: Vec::new(),
            cost: None,
            gpus,
            host,
            hosts,
            intervals,
            bursts: Some(blocks.bursts()),
            ending,
            limit,
            disturbances,
            looks: 0,
            restarts: None,
            at_starts: Vec::new(),
            missing_starts: None,
            verdict,
            remarks: remarks.into_iter().collect(),
            windows: Vec::new(),
            timeline: Timeline::default(),
            ranks: Vec::new(),
            client_usage: None,
            server_usage: None,
            threads: None,
            connections: None,
        }
    }
}

/// What is known of a level once it is over.
pub(super) struct Conclusion {
    pub(super) ending: Ending,
    /// How it stands to `--latency-threshold`.
    pub(super) limit: Option<LimitCheck>,
    /// How well its figures are known.
    pub(super) intervals: Vec<StatisticEstimate>,
}

/// The windows of a level so far. Whole distributions stay of the last three, and of all that make the result together; of
/// these by themselves blocks of time, whose number does not grow.
#[derive(Clone)]
pub(super) struct History {
    closed: usize,
    /// How long all windows lasted.
    measured: Duration,
    /// The requests of all windows.
    over: Completed,
    /// What each window of an open loop sent and completed.
    flows: Vec<Flow>,
    last: VecDeque<WindowSet>,
    /// The windows that make the result as one: those since three agreed, or all where intervals decide, less those before
    /// a figure drifted. Without it, the last three do.
    kept: Option<WindowSet>,
    /// How many they are.
    kept_windows: usize,
    whole: bool,
    /// What was left out of them because the server warmed up.
    warm_up: Option<WarmUp>,
}

#[cfg(test)]
impl WindowSet {
    /// A window of this many requests, a multiple of 16, that all took this long: 16 blocks of a second.
    pub(super) fn sample(requests: u64, latency_ns: u64) -> Self {
        use crate::result::summary::sample;
        let mut blocks = Blocks::default();
        (0..16).for_each(|_| blocks.push(Block::new(&sample::client(requests / 16, latency_ns))));
        Self::new(sample::client(requests, latency_ns), None, blocks)
    }
}

impl WindowSet {
    /// How well its figures are known.
    pub(super) fn intervals(&self, plan: &MeasurementPlan) -> Vec<StatisticEstimate> {
        figures(plan.asked_percentiles()).into_iter().map(|statistic| self.estimate(statistic)).collect()
    }

    /// How well a figure is known: latencies in nanoseconds, throughput in inferences a second. After a drift few windows
    /// are left, which alone would leave a limit undecided that no request of the level came near. A bound of a percentile
    /// that they do not tell is that over all windows, moved by as much as the figure of the last ones is beyond that of all.
    pub(super) fn estimate(&self, statistic: Statistic) -> StatisticEstimate {
        let base = estimate(statistic, &self.blocks, &self.client);
        let all = self.since_start.as_ref().filter(|_| matches!(statistic, Statistic::Percentile(_)));
        let Some(Stretch { client, blocks }) = all.map(Box::as_ref) else { return base };
        let (theirs, moved) =
            (estimate(statistic, blocks, client).bounds, value(statistic, &self.client) / value(statistic, client));
        let low = base.bounds.low.or_else(|| theirs.low.map(|low| low * moved.min(1.0)));
        let high = base.bounds.high.or_else(|| theirs.high.map(|high| high * moved.max(1.0)));
        StatisticEstimate { bounds: Bounds { low, high }, ..base }
    }

    /// Which figure goes on to change after windows were left out for that, and by how much over the whole level.
    pub(super) fn goes_on_drifting(&self, plan: &MeasurementPlan) -> Option<(Statistic, f64)> {
        let Stretch { blocks, .. } = self.since_start.as_deref()?;
        let figures = [Statistic::Throughput, plan.key_latency()];
        let change = |statistic| goes_on(statistic, blocks, &self.blocks, plan.stability);
        figures.into_iter().find_map(|statistic| Some((statistic, change(statistic)?)))
    }

    /// What is left of a stretch that drifts: its last windows, which are the first of what comes after it.
    fn after_drift(self, last: Option<Self>) -> Option<Self> {
        let Self { client, blocks, since_start, .. } = self;
        let since_start = since_start.or_else(|| Some(Box::new(Stretch { client, blocks })));
        last.map(|last| Self { since_start, ..last })
    }
}

impl History {
    /// No window yet.
    pub(super) fn new(plan: &MeasurementPlan) -> Self {
        let whole = plan.precision.is_some() || plan.settles_by_interval();
        let (over, measured) = (Completed::default(), Duration::ZERO);
        let (flows, last) = (Vec::new(), VecDeque::new());
        Self { closed: 0, measured, over, flows, last, kept: None, kept_windows: 0, whole, warm_up: None }
    }

    /// Adds the window that has just ended.
    pub(super) fn push(&mut self, window: WindowSet, plan: &MeasurementPlan) {
        self.closed += 1;
        self.measured += window.client.duration;
        let ClientSummary { requests, failed, cancelled, .. } = window.client;
        self.over = self.over.plus(Completed { succeeded: requests, failed, cancelled });
        self.flows.extend(Flow::of(&window.client));
        if self.last.len() == STABLE_WINDOWS {
            self.last.pop_front();
        }
        self.last.push_back(window.clone());
        if let Some(kept) = self.kept.take() {
            let kept = kept.absorb(&window);
            self.kept_windows += 1;
            match drifts(plan, &kept.blocks).filter(|_| plan.settles_by_interval()) {
                Some((statistic, _)) => {
                    self.warm_up = Some(self.drifted(statistic, &kept, plan));
                    (self.kept, self.kept_windows) = (kept.after_drift(self.last_as_one()), self.last.len());
                }
                None => self.kept = Some(kept),
            }
        } else if self.whole {
            self.kept = Some(window);
            self.kept_windows = 1;
        } else {
            let last: Vec<_> = self.last.iter().map(|window| &window.client).collect();
            if is_stable(&last, plan.stability, plan.percentile) {
                self.kept = self.last_as_one();
                self.kept_windows = self.last.len();
            }
        }
    }

    /// What is left out of windows in which a figure drifted, before the last ones; no more than what came before a step, if it was
    /// one.
    fn drifted(&self, statistic: Statistic, kept: &WindowSet, plan: &MeasurementPlan) -> WarmUp {
        let earlier = self.measured.saturating_sub(kept.client.duration);
        let last: Duration = self.last.iter().map(|window| window.client.duration).sum();
        let found = step(statistic, &kept.blocks, plan.stability).filter(|_| self.warm_up.is_none());
        if let Some(found) = found.filter(|found| earlier + found.over + last.mul_f64(1.0 - EDGE) <= self.measured) {
            return WarmUp { statistic, step: Step { over: earlier + found.over, ..found } };
        }
        let [first, after] = ends(statistic, &kept.blocks);
        let before = self.warm_up.filter(|earlier| earlier.statistic == statistic);
        let before = before.map_or(first, |earlier| earlier.step.before);
        let over = self.measured.saturating_sub(last);
        WarmUp { statistic, step: Step { over, share: 1.0, lasting: true, before, after, clarity: 0.0 } }
    }

    /// The same with its last windows as the result, if a figure took one step before them and has been steady since.
    pub(super) fn since_step(&self, plan: &MeasurementPlan) -> Option<Self> {
        let kept = self.kept.as_ref().filter(|_| plan.settles_by_interval())?;
        let of_last: f64 = self.last.iter().map(|window| window.blocks.seconds()).sum();
        let before_last = kept.blocks.seconds() - of_last * (1.0 - EDGE);
        let found = |statistic| Some(WarmUp { statistic, step: step(statistic, &kept.blocks, plan.stability)? });
        let is_over = |warm_up: &WarmUp| warm_up.step.over.as_secs_f64() <= before_last;
        let figures = [Statistic::Throughput, plan.key_latency()];
        let steps: Vec<WarmUp> = figures.into_iter().filter_map(found).filter(is_over).collect();
        // One figure may tell more clearly than another.
        let beyond_doubt = steps.iter().find(|warm_up| warm_up.is_beyond_doubt());
        let &WarmUp { statistic, step } = beyond_doubt.or(steps.first())?;
        let earlier = self.measured.saturating_sub(kept.client.duration);
        let warm_up = Some(WarmUp { statistic, step: Step { over: earlier + step.over, ..step } });
        let kept = kept.clone().after_drift(self.last_as_one());
        Some(Self { kept, kept_windows: self.last.len(), warm_up, ..self.clone() })
    }

    /// The step before the windows of the result, if what came before it was left out.
    pub(super) fn warm_up(&self) -> Option<WarmUp> {
        self.warm_up
    }

    /// How many windows there were.
    pub(super) fn closed(&self) -> usize {
        self.closed
    }

    /// How long they lasted.
    pub(super) fn measured(&self) -> Duration {
        self.measured
    }

    /// The requests of all windows.
    pub(super) fn over(&self) -> Completed {
        self.over
    }

    /// How many more windows like the last one the level may have.
    pub(super) fn windows_left(&self, plan: &MeasurementPlan) -> usize {
        let another = self.latest().map_or(Duration::ZERO, |window| window.duration);
        plan.windows_left(self.closed, self.measured, another)
    }

    /// The window that ended last.
    pub(super) fn latest(&self) -> Option<&ClientSummary> {
        self.last.back().map(|window| &window.client)
    }

    /// The two windows that ended last.
    pub(super) fn last_two(&self) -> Option<[&ClientSummary; 2]> {
        let mut latest = self.last.iter().rev().map(|window| &window.client);
        Some([latest.next()?, latest.next()?])
    }

    /// Whether the windows are enough: three agreed, or the figure that was asked for is known well enough.
    pub(super) fn is_settled(&self, plan: &MeasurementPlan) -> bool {
        match (plan.precision, &self.kept) {
            // Fewer windows do not tell what neighbouring requests have in common.
            (Some(wanted), Some(kept)) if self.closed >= STABLE_WINDOWS => {
                is_precise(wanted, &kept.blocks, &kept.client)
            }
            (Some(_), _) => false,
            (None, kept) => kept.is_some(),
        }
    }

    /// The windows that make the result as one, where there are several for sure.
    pub(super) fn kept(&self) -> Option<&WindowSet> {
        self.kept.as_ref()
    }

    /// What was sent and completed in all windows.
    pub(super) fn flows(&self) -> Option<Flows> {
        Flows::of(&self.flows)
    }

    /// Whether the last windows agree at least in what the server completed.
    pub(super) fn is_throughput_stable(&self, plan: &MeasurementPlan) -> bool {
        let last: Vec<_> = self.last.iter().map(|window| &window.client).collect();
        is_throughput_stable(&last, plan.stability)
    }

    /// The windows that make the result, as one; `None` if there was none.
    pub(super) fn result(&self) -> Option<WindowSet> {
        self.kept.clone().or_else(|| self.last_as_one())
    }

    /// How many windows make the result.
    pub(super) fn in_result(&self) -> usize {
        if self.kept.is_some() { self.kept_windows } else { self.last.len() }
    }

    /// In what the last windows do not agree.
    pub(super) fn disagreement(&self, plan: &MeasurementPlan) -> Option<Disagreement> {
        let last: Vec<_> = self.last.iter().map(|window| &window.client).collect();
        disagreement(&last, plan.stability, plan.percentile)
    }

    fn last_as_one(&self) -> Option<WindowSet> {
        let mut last = self.last.iter();
        last.next().map(|first| last.fold(first.clone(), WindowSet::absorb))
    }
}

/// Which figure drifts, and by how much.
pub(super) fn drifts(plan: &MeasurementPlan, blocks: &Blocks) -> Option<(Statistic, f64)> {
    let figures = [Statistic::Throughput, plan.key_latency()];
    figures.into_iter().find_map(|statistic| Some((statistic, drift(statistic, blocks, plan.stability)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;
    use crate::terms::Precision;

    fn plan(precision: Option<Precision>) -> MeasurementPlan {
        MeasurementPlan { precision, ..sample::plan() }
    }

    fn window(requests: u64) -> WindowSet {
        WindowSet::sample(requests, 1_000_000)
    }

    #[test]
    fn memory_does_not_grow_with_windows_that_do_not_agree() {
        let plan = plan(None);
        let mut history = History::new(&plan);
        (0..100).for_each(|number| history.push(window(10_u64.pow(number % 4)), &plan));
        assert_eq!((history.closed(), history.last.len()), (100, 3));
        assert_eq!(history.result().unwrap().blocks.each().len(), 48);
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
        assert_eq!(history.result().unwrap().blocks.each().len(), 5 * 16 / 2);
    }

    #[test]
    fn the_requests_under_way_are_those_of_the_windows_in_the_result() {
        let plan = MeasurementPlan { stability_rule: Some(crate::terms::StabilityRule::Interval), ..plan(None) };
        let looked = |under_way: u64| (0..600).fold(OutstandingSamples::default(), |all, _| all.and(under_way));
        let mut history = History::new(&plan);
        // A server that warms up; as many requests wait as the number of the window.
        for number in 0..10 {
            let latency_ns = if number < 6 { 10_000_000 - 1_500_000 * number } else { 1_000_000 };
            history.push(WindowSet::sample(1_600, latency_ns).sampled(looked(number), number), &plan);
        }
        let (result, windows) = (history.result().unwrap(), history.in_result() as u64);
        assert!(windows < 10, "{windows}");
        let of_result = (10 - windows..10).sum::<u64>() as f64 / windows as f64;
        assert_eq!(result.outstanding.mean(), Some((of_result, 600 * windows)));
        assert_eq!(result.held_back, (10 - windows..10).sum::<u64>());
    }

    #[test]
    fn a_precision_takes_three_windows_at_least() {
        let wanted = plan(Some(Precision { statistic: Statistic::Percentile(50.0), share: 0.5 }));
        let mut history = History::new(&wanted);
        let settled = |history: &mut History| {
            history.push(window(10_000), &wanted);
            history.is_settled(&wanted)
        };
        let answers: Vec<bool> = (0..3).map(|_| settled(&mut history)).collect();
        assert_eq!(answers, [false, false, true]);
    }

    #[test]
    fn a_precision_is_measured_from_all_windows() {
        let wanted = plan(Some(Precision { statistic: Statistic::Throughput, share: 0.2 }));
        let mut history = History::new(&wanted);
        assert!(history.result().is_none());
        (0..100).for_each(|_| history.push(window(16), &wanted));
        let result = history.result().unwrap();
        assert!(history.last.len() == 3 && (32..=64).contains(&result.blocks.each().len()));
        assert_eq!((result.client.requests, result.client.latency.count()), (1600, 1600));
        assert!(history.is_settled(&wanted));
    }
}
