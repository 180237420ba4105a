//! Whether a level's windows are enough, and the level's outcome: a function of its windows and the plan.
//!
//! A limit is judged by the bound of its figure over all windows of the result, so one noisy window decides nothing.
//! If the bounds leave both sides open, or a percentile has too few samples, further windows are added.

use crate::history::{History, WindowSet, drifts};
use crate::result::disagreement::STABLE_WINDOWS;
use crate::result::reasons::InvalidReason;
use crate::result::statistic::value;
use crate::result::summary::{ClientSummary, Ending, LimitCheck, OpenLoopSummary, StatisticEstimate};
use crate::stats::{Bounds, MIN_TERMS, early_stopping_floor};
use crate::terms::{MeasurementPlan, Precision, Statistic};
use crate::verdict::{CHANCE_DEVIATIONS, RATE_TOLERANCE};
use crate::warm_up::WarmUp;

/// A server that completes less than this share of what is sent does not keep up.
const FALLS_BEHIND: f64 = 0.9;

/// The relative half-width of a figure without an interval.
const UNKNOWN: f64 = 1.0;

/// What the level ends with; `None` if it needs another window.
pub(super) fn decide(history: &History, plan: &MeasurementPlan) -> Option<Ending> {
    if is_hopeless(history, plan) {
        return Some(Ending::OverThreshold);
    }
    let exhausted = history.windows_left(plan) == 0;
    if history.closed() < STABLE_WINDOWS && !exhausted {
        return None;
    }
    let result = history.result()?;
    let check = check_limit(plan, &result.client, || result.estimate(plan.key_latency()).bounds);
    let (settled, sampled) = (is_settled(history, plan), has_enough_samples(&result.client, plan.percentile));
    match check {
        Some(LimitCheck { over: true, certain: true, .. }) if sampled => Some(Ending::OverThreshold),
        Some(LimitCheck { over: false, certain: true, .. }) | None if settled && sampled => Some(Ending::Stable),
        _ if !exhausted => None,
        Some(LimitCheck { over: true, .. }) => Some(Ending::OverThreshold),
        _ if settled => Some(Ending::Stable),
        _ if plan.throughput_suffices && history.is_throughput_stable(plan) => Some(Ending::Stable),
        _ => Some(Ending::Unstable),
    }
}

/// Whether the windows are enough.
pub(super) fn is_settled(history: &History, plan: &MeasurementPlan) -> bool {
    match plan.settles_by_interval() {
        true => history.closed() >= STABLE_WINDOWS && unsettled(history, plan).is_none(),
        false => history.is_settled(plan),
    }
}

/// Why they are not, where that is known.
pub(super) fn unsettled(history: &History, plan: &MeasurementPlan) -> Option<InvalidReason> {
    let kept = history.kept().filter(|_| plan.settles_by_interval());
    let drifting = kept.and_then(|kept| drifts(plan, &kept.blocks).or_else(|| kept.goes_on_drifting(plan)));
    let drifting = drifting.map(|(statistic, by)| InvalidReason::Drifting(statistic, by));
    // Fewer blocks tell nothing of what neighbours have in common.
    let Some(kept @ WindowSet { client, .. }) = kept.filter(|kept| kept.blocks.each().len() >= MIN_TERMS) else {
        return history.disagreement(plan).map(|apart| InvalidReason::Unstable(Some(apart))).or(drifting);
    };
    let is_open = |statistic: &Statistic| {
        // On which side of a limit a latency is has been asked for, and not how large it is.
        let bounds = || kept.estimate(*statistic).bounds;
        *statistic == Statistic::Throughput || !check_limit(plan, client, bounds).is_some_and(|check| check.certain)
    };
    let rate = Some(Statistic::Throughput).filter(|_| !completes_what_is_sent(client));
    let mut imprecise = rate.into_iter().chain([plan.key_latency()]).filter(is_open).filter_map(|statistic| {
        let interval = kept.estimate(statistic).interval;
        let half_width = interval.map(|interval| interval.relative_half_width(value(statistic, client)));
        let is_known = half_width.unwrap_or(UNKNOWN) <= plan.stability;
        (!is_known).then_some(InvalidReason::Unsettled(Precision { statistic, share: plan.stability }, half_width))
    });
    imprecise.next_back().or(drifting)
}

/// Whether an open loop completed what it sent, to a hundredth: then its throughput is what was asked for, however few
/// requests that are. (At first answers are missing that take long.)
fn completes_what_is_sent(client: &ClientSummary) -> bool {
    let Some(open) = client.open_loop.as_ref().filter(|_| client.failed + client.cancelled == 0) else { return false };
    let seconds = client.duration.as_secs_f64();
    let sent = open.achieved_rate * seconds;
    let missing = (open.achieved_rate - open.completed_rate).abs() * seconds;
    // A load that waits for the server sends what that completes. What leaves on time was due then, however irregular the gaps.
    let held_back = open.requested_rate * seconds - sent;
    let is_on_time = 2 * client.delayed <= client.sent;
    let is_sent = is_on_time || held_back <= 1.0 + RATE_TOLERANCE * sent + CHANCE_DEVIATIONS * sent.sqrt();
    // Both are whole numbers.
    is_sent && missing <= 0.5 + RATE_TOLERANCE * sent
}

/// Leaves out what came before the one step that a figure took, in a level that has not settled with all its windows: the server
/// had to warm up. While there are windows left the step must be beyond doubt, because every window is a chance to see one that is
/// none; after the last one, the server must have become faster, and the windows after it must be enough.
pub(super) fn leave_out_warm_up(history: &mut History, plan: &MeasurementPlan) {
    if history.closed() <= STABLE_WINDOWS {
        return;
    }
    let Some(since) = history.since_step(plan) else { return };
    let is_due = match history.windows_left(plan) {
        0 => since.warm_up().is_some_and(|warm_up| warm_up.gain() > 1.0) && unsettled(&since, plan).is_none(),
        _ => since.warm_up().is_some_and(WarmUp::is_beyond_doubt),
    };
    if is_due && unsettled(history, plan).is_some() {
        *history = since;
    }
}

/// Whether requests pile up so fast that latencies, above the limit already, only grow: further windows would make the queue
/// longer that the next level has to wait for. After a pause of the server the next window completes more than it sent.
pub(super) fn is_hopeless(history: &History, plan: &MeasurementPlan) -> bool {
    history.last_two().is_some_and(|pair| pair.into_iter().all(|window| piles_up(window, plan)))
}

fn piles_up(window: &ClientSummary, plan: &MeasurementPlan) -> bool {
    let over = check_limit(plan, window, Bounds::default).is_some_and(|check| check.over);
    let falls_behind = |open: &OpenLoopSummary| open.completed_rate < FALLS_BEHIND * open.achieved_rate;
    over && window.requests > 0
        && has_enough_samples(window, plan.percentile)
        && window.open_loop.as_ref().is_some_and(falls_behind)
}

/// How the result compares with the plan's limit, if it has one: `bounds` are those of its key latency.
pub(super) fn check_limit(
    plan: &MeasurementPlan,
    result: &ClientSummary,
    bounds: impl FnOnce() -> Bounds,
) -> Option<LimitCheck> {
    let limit = plan.latency_threshold?;
    let limit_ns = limit.as_nanos() as f64;
    let over = result.key_latency_ns(plan.percentile) >= limit_ns;
    let Bounds { low, high } = bounds();
    let certain = if over { low.is_some_and(|low| low >= limit_ns) } else { high.is_some_and(|high| high < limit_ns) };
    Some(LimitCheck { limit, over, certain })
}

/// The same, where the intervals of the result are known already.
pub(super) fn check_with(
    plan: &MeasurementPlan,
    result: &ClientSummary,
    intervals: &[StatisticEstimate],
) -> Option<LimitCheck> {
    let key = plan.key_latency();
    check_limit(plan, result, || StatisticEstimate::find_bounds(intervals, key))
}

/// How a load that ended by itself is judged against the limit.
pub(super) fn complete(limit: Option<LimitCheck>) -> Ending {
    if limit.is_some_and(|check| check.over) { Ending::OverThreshold } else { Ending::Complete }
}

/// Whether there are enough samples to report the percentile at all.
fn has_enough_samples(result: &ClientSummary, percentile: Option<f64>) -> bool {
    let needed = percentile.and_then(early_stopping_floor).unwrap_or(0);
    // Without any, more of the same windows are no help.
    result.latency.count() >= needed || result.requests == 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::blocks::{Block, Blocks};
    use crate::bounds::estimate;
    use crate::result::summary::sample;
    use crate::seed::{hash, unit};
    use crate::terms::StabilityRule;

    const LIMIT: Duration = Duration::from_millis(5);

    fn plan(percentile: Option<f64>, max_trials: usize) -> MeasurementPlan {
        MeasurementPlan { percentile, max_trials, latency_threshold: Some(LIMIT), ..sample::plan() }
    }

    /// Windows of `requests` each, one after the other, until the level is decided: what it ended with, and after how many.
    fn decided(plan: &MeasurementPlan, requests: u64, windows: &[u64]) -> Option<(Ending, usize)> {
        let mut history = History::new(plan);
        windows.iter().enumerate().find_map(|(index, latency_us)| {
            history.push(WindowSet::sample(requests, latency_us * 1_000), plan);
            decide(&history, plan).map(|ending| (ending, index + 1))
        })
    }

    #[test]
    fn one_noisy_window_decides_nothing() {
        let plan = plan(None, 10);
        assert_eq!(decided(&plan, 1_000, &[4_000; 10]), Some((Ending::Stable, 3)));
        assert_eq!(decided(&plan, 1_000, &[9_000; 10]), Some((Ending::OverThreshold, 3)));
        let noisy = [4_000, 4_000, 9_000, 4_000, 4_000, 4_000, 4_000, 4_000, 4_000, 4_000];
        assert_eq!(decided(&plan, 1_000, &noisy), Some((Ending::Stable, 6)));
    }

    /// A window of 200 requests a second that all took so long, of which so many a second were completed.
    fn of_rate(completed_rate: f64, latency_ns: u64) -> WindowSet {
        let open = OpenLoopSummary {
            achieved_rate: 200.0,
            completed_rate,
            ..sample::open_loop(200.0, &sample::distribution(1, 1))
        };
        let mut window = WindowSet::sample(208, latency_ns);
        window.client.open_loop = Some(open);
        window
    }

    #[test]
    fn a_pause_that_is_worked_off_ends_no_level() {
        let plan = plan(None, 20);
        let ending = |windows: &[WindowSet]| {
            let mut history = History::new(&plan);
            windows.iter().for_each(|window| history.push(window.clone(), &plan));
            decide(&history, &plan)
        };
        let (usual, paused, late) = (of_rate(200.0, 3_000_000), of_rate(150.0, 9_000_000), of_rate(250.0, 9_000_000));
        assert_eq!(ending(&[usual.clone(), paused.clone()]), None);
        assert_eq!(ending(&[paused.clone(), late]), None);
        assert_eq!(ending(&[usual, paused.clone(), paused]), Some(Ending::OverThreshold));
    }

    /// A window of 16 blocks of so many requests: 3 ms and, exponential, 2.3 ms more. The true p99 is 13.6 ms.
    fn varied(stream: u64, requests: u64) -> WindowSet {
        let mut latency = crate::record::Distribution::empty();
        let mut blocks = Blocks::default();
        for block in 0..16_u64 {
            let draw = |number: u64| 3e6 - 2.3e6 * (1.0 - unit(hash(stream, 100 * block + number))).ln();
            let mut latencies: Vec<u64> = (0..requests).map(|number| draw(number) as u64).collect();
            blocks.push(Block::of_latencies(1.0, &mut latencies, &mut latency));
        }
        let client = ClientSummary { latency, ..sample::client(16 * requests, 0) };
        WindowSet::new(client, None, blocks)
    }

    #[test]
    fn a_limit_that_no_request_comes_near_is_decided_by_counting() {
        let check = |limit_us: u64, windows: u64| {
            let limit = Some(Duration::from_micros(limit_us));
            let plan = MeasurementPlan { latency_threshold: limit, ..plan(Some(99.0), 10) };
            let mut history = History::new(&plan);
            (0..windows).for_each(|stream| history.push(varied(stream, 33), &plan));
            let result = history.result().unwrap();
            let found = check_limit(&plan, &result.client, || result.estimate(plan.key_latency()).bounds).unwrap();
            (found.over, found.certain)
        };
        assert_eq!(check(50_000, 3), (false, true));
        assert_eq!(check(5_000, 1), (true, true));
        assert!(!check(13_600, 3).1, "it is at the limit");
    }

    /// A window of 16 blocks of none to two requests, which all take about 10 ms.
    fn now_and_then(stream: u64) -> WindowSet {
        let (mut latency, mut blocks, mut requests) = (crate::record::Distribution::empty(), Blocks::default(), 0);
        for block in 0..16 {
            let draw = |number: u64| hash(stream, 100 * block + number);
            let mut latencies: Vec<u64> =
                (0..draw(0) % 3).map(|number| 10_000_000 + draw(1 + number) % 100_000).collect();
            requests += latencies.len() as u64;
            blocks.push(Block::of_latencies(1.0, &mut latencies, &mut latency));
        }
        WindowSet::new(ClientSummary { latency, ..sample::client(requests, 0) }, None, blocks)
    }

    #[test]
    fn how_much_an_open_loop_sends_need_not_be_measured() {
        let rule = Some(StabilityRule::Interval);
        let plan = MeasurementPlan { stability_rule: rule, latency_threshold: None, ..plan(None, 10) };
        let reason = |change: fn(&mut ClientSummary)| {
            let mut history = History::new(&plan);
            for stream in 0..3 {
                let mut window = now_and_then(stream);
                change(&mut window.client);
                history.push(window, &plan);
            }
            unsettled(&history, &plan)
        };
        let opened: fn(&mut ClientSummary) = |client| client.open_loop = Some(sample::open_loop(16.0, &client.latency));
        let is_of_rate = |reason: Option<InvalidReason>| {
            let unsettled = |wanted: Precision| wanted.statistic == Statistic::Throughput;
            matches!(reason, Some(InvalidReason::Unsettled(wanted, _)) if unsettled(wanted))
        };
        assert!(is_of_rate(reason(|_| ())), "a closed loop sends as the server answers");
        assert_eq!(reason(opened), None);
        let failing: fn(&mut ClientSummary) = |client| {
            client.open_loop = Some(sample::open_loop(16.0, &client.latency));
            client.failed = 1;
        };
        assert!(is_of_rate(reason(failing)), "how much succeeds is the server's doing");
        let late: fn(&mut ClientSummary) = |client| {
            let open = sample::open_loop(16.0, &client.latency);
            client.open_loop = Some(OpenLoopSummary { completed_rate: 14.0, ..open });
        };
        assert!(is_of_rate(reason(late)), "answers are still to come");
    }

    #[test]
    fn windows_are_added_until_the_limit_is_on_one_side() {
        let plan = plan(None, 10);
        // They agree within 10 %, and their mean is as near to the limit as their spread.
        let near = [4_700, 5_100, 4_750, 4_800, 4_700, 4_750, 4_800, 4_700, 4_750, 4_800];
        let (ending, windows) = decided(&plan, 1_000, &near).unwrap();
        assert!(ending == Ending::Stable && (4..10).contains(&windows), "{ending:?} after {windows}");
        // Undecided to the end: the value decides.
        let at_it = [4_900, 5_150, 4_850, 5_100, 4_900, 5_150, 4_850, 5_100, 4_900, 5_150];
        assert_eq!(decided(&plan, 1_000, &at_it), Some((Ending::OverThreshold, 10)));
    }

    #[test]
    fn no_percentile_is_judged_on_fewer_samples_than_it_needs() {
        let plan = plan(Some(99.0), 20);
        for (latency, ending) in [(1_000, Ending::Stable), (9_000, Ending::OverThreshold)] {
            let (found, windows) = decided(&plan, 40, &[latency; 20]).unwrap();
            assert!(found == ending && windows * 40 >= 662, "{found:?} after {windows} windows");
        }
        let without_limit = MeasurementPlan { latency_threshold: None, ..plan };
        assert_eq!(decided(&without_limit, 40, &[1_000; 20]), Some((Ending::Stable, 17)), "662 samples");
        assert_eq!(decided(&without_limit, 10, &[1_000; 20]), Some((Ending::Stable, 20)), "there will not be as many");
    }

    #[test]
    fn windows_that_never_agree_are_unstable() {
        let plan = MeasurementPlan { latency_threshold: None, ..plan(None, 4) };
        assert_eq!(decided(&plan, 100, &[1_000, 2_000, 1_000, 2_000]), Some((Ending::Unstable, 4)));
        assert_eq!(
            decided(&MeasurementPlan { max_trials: 2, ..plan.clone() }, 100, &[1_000; 2]),
            Some((Ending::Unstable, 2))
        );
        // Throughput alone is enough for some.
        let asynchronous = MeasurementPlan { throughput_suffices: true, ..plan.clone() };
        assert_eq!(decided(&asynchronous, 100, &[1_000, 2_000, 1_000, 2_000]), Some((Ending::Stable, 4)));
        let limited = MeasurementPlan { latency_threshold: Some(LIMIT), ..asynchronous };
        let ending = decided(&limited, 100, &[7_000, 9_000, 7_000, 9_000]).map(|(ending, _)| ending);
        assert_eq!(ending, Some(Ending::OverThreshold));
        // A window is a second.
        let brief = MeasurementPlan { level_time: Some(Duration::from_millis(2_900)), ..plan.clone() };
        assert_eq!(decided(&brief, 100, &[1_000, 2_000, 1_000]), Some((Ending::Unstable, 2)));
        // Four windows, unless there is time for more.
        let apart = [1_000, 2_000].repeat(4);
        let patient = MeasurementPlan { give_up_after: Some(Duration::from_millis(6_500)), ..plan };
        assert_eq!(decided(&patient, 100, &apart), Some((Ending::Unstable, 7)));
        let patient = MeasurementPlan { level_time: Some(Duration::from_millis(5_500)), ..patient };
        assert_eq!(decided(&patient, 100, &apart), Some((Ending::Unstable, 5)));
    }

    fn by_interval() -> MeasurementPlan {
        MeasurementPlan { stability_rule: Some(StabilityRule::Interval), ..sample::plan() }
    }

    #[test]
    fn windows_that_differ_settle_a_level_once_all_of_them_tell_its_figures() {
        let plan = by_interval();
        let mut history = History::new(&plan);
        // Never three in a row that agree, and 8 % to either side of what they have in common.
        let mut settled = Vec::new();
        for requests in [1_600, 1_840, 1_600, 1_840, 1_600, 1_840, 1_600, 1_840] {
            history.push(WindowSet::sample(requests, 1_000_000), &plan);
            settled.push(is_settled(&history, &plan));
        }
        assert!(!settled[1] && settled[7], "{settled:?}");
        assert_eq!((history.in_result(), history.result().unwrap().client.requests), (8, 4 * 1_600 + 4 * 1_840));
    }

    #[test]
    fn a_level_that_warmed_up_settles_on_what_came_after() {
        let plan = MeasurementPlan { max_trials: 10, ..by_interval() };
        let result = |latencies_ms: [u64; 10]| {
            let mut history = History::new(&plan);
            for ms in latencies_ms {
                history.push(WindowSet::sample(16_000 / ms, ms * 1_000_000), &plan);
                leave_out_warm_up(&mut history, &plan);
            }
            let client = history.result().unwrap().client;
            (is_settled(&history, &plan), client.latency.mean_ns() / 1e6)
        };
        assert_eq!(result([50, 50, 10, 10, 10, 10, 10, 10, 10, 10]), (true, 10.0));
        let (settled, mean) = result([10, 50, 10, 10, 50, 10, 10, 50, 10, 10]);
        assert!(!settled && mean > 10.0, "it goes up and down: {mean}");
    }

    #[test]
    fn a_level_that_warmed_up_settles_as_soon_as_three_windows_came_after() {
        let plan = MeasurementPlan { max_trials: 10, ..by_interval() };
        let settled = |latencies_ms: &[u64]| {
            let mut history = History::new(&plan);
            let at = latencies_ms.iter().position(|ms| {
                history.push(WindowSet::sample(16_000 / ms, ms * 1_000_000), &plan);
                leave_out_warm_up(&mut history, &plan);
                decide(&history, &plan) == Some(Ending::Stable)
            });
            let mean = history.result().unwrap().client.latency.mean_ns() / 1e6;
            (at.map(|at| at + 1), mean, history.warm_up().map(|warm_up| warm_up.step.over.as_secs()))
        };
        // Blocks are of a second, 16 in a window.
        assert_eq!(settled(&[50, 10, 10, 10, 10, 10, 10, 10, 10, 10]), (Some(4), 10.0, Some(16)));
        assert_eq!(settled(&[50, 50, 10, 10, 10, 10, 10, 10, 10, 10]), (Some(5), 10.0, Some(32)));
        assert_eq!(settled(&[50, 50, 50, 50, 10, 10, 10, 10, 10, 10]).0, Some(3), "it is as slow as that");
        let (at, mean, _) = settled(&[10, 10, 50, 50, 50, 50, 50, 50, 50, 50]);
        assert!(at.is_none() && mean > 10.0, "it got worse: {at:?} {mean}");
        assert_eq!(settled(&[10; 10]), (Some(3), 10.0, None));
    }

    #[test]
    fn a_warm_up_is_told_by_the_figure_that_shows_it_most_clearly() {
        let plan = MeasurementPlan { max_trials: 10, ..by_interval() };
        let mut history = History::new(&plan);
        // Twice as many requests are too little to tell.
        for (requests, ms) in [(800, 50), (1_600, 10), (1_600, 10), (1_600, 10)] {
            history.push(WindowSet::sample(requests, ms * 1_000_000), &plan);
            leave_out_warm_up(&mut history, &plan);
        }
        assert_eq!(history.warm_up().map(|warm_up| warm_up.statistic), Some(Statistic::MeanLatency));
    }

    #[test]
    fn three_windows_that_agree_by_chance_are_no_proof() {
        let plan = by_interval();
        let mut history = History::new(&plan);
        // Each window is known to within 80 %: it has a burst in its middle.
        let bursts = |at: u64| {
            let mut blocks = Blocks::default();
            (0..16).for_each(|number| {
                let requests = if number / 4 == at { 640 } else { 20 };
                blocks.push(Block::new(&sample::client(requests, 1_000_000)));
            });
            WindowSet::new(sample::client(2_800, 1_000_000), None, blocks)
        };
        [0, 1, 2].into_iter().for_each(|at| history.push(bursts(at), &plan));
        let reason = unsettled(&history, &plan).unwrap();
        assert!(!is_settled(&history, &plan) && reason.name() == "unstable", "{reason:?}");
        assert!(!sample::plan().settles_by_interval(), "perf_analyzer's rule would have it");
    }

    #[test]
    fn windows_before_a_drift_are_left_out() {
        let plan = by_interval();
        let mut history = History::new(&plan);
        for requests in [160, 480, 800, 1_120, 1_440, 1_600, 1_600, 1_600, 1_600] {
            history.push(WindowSet::sample(requests, 1_000_000), &plan);
        }
        assert!(history.in_result() < 7, "{}", history.in_result());
    }

    #[test]
    fn what_changes_without_end_never_settles() {
        let plan = by_interval();
        let mut history = History::new(&plan);
        let mut settled = Vec::new();
        for number in 0..40 {
            history.push(WindowSet::sample(1_600, 10_000_000 + 3_300_000 * number), &plan);
            settled.push(is_settled(&history, &plan));
        }
        assert!(settled[3..].iter().all(|settled| !settled), "{settled:?}");
        let reason = unsettled(&history, &plan).unwrap();
        assert!(matches!(reason, InvalidReason::Drifting(Statistic::MeanLatency, share) if share > 0.5), "{reason:?}");
        // It comes to rest.
        (0..12).for_each(|_| history.push(WindowSet::sample(1_600, 140_000_000), &plan));
        assert!(is_settled(&history, &plan));
    }

    #[test]
    fn short_windows_that_agree_settle_no_level_that_goes_on_to_drift() {
        let plan = by_interval();
        let mut history = History::new(&plan);
        let mut settled = Vec::new();
        for number in 0..30 {
            let client = sample::client(60, 5_000_000 + 1_500_000 * number);
            let mut blocks = Blocks::default();
            (0..2).for_each(|_| blocks.push(Block::new(&sample::client(30, 5_000_000 + 1_500_000 * number))));
            history.push(WindowSet::new(client, None, blocks), &plan);
            settled.push(is_settled(&history, &plan));
        }
        assert!(!settled.contains(&true), "{settled:?}");
    }

    #[test]
    fn a_percentile_far_from_its_limit_stays_decided_after_a_drift() {
        let judged = |limit_ms: u64| {
            let limit = Some(Duration::from_millis(limit_ms));
            let plan = MeasurementPlan { percentile: Some(99.0), latency_threshold: limit, ..by_interval() };
            let mut history = History::new(&plan);
            // The rate falls until the last windows have too few requests to tell a p99, which is at 13.6 ms.
            let windows = (0..12).map(|number| varied(number, 14 - number));
            windows.for_each(|window| history.push(window, &plan));
            let last = history.result().unwrap();
            let (statistic, client) = (plan.key_latency(), &last.client);
            let bounds = (estimate(statistic, &last.blocks, client).bounds.high, last.estimate(statistic).bounds);
            assert!(bounds.0.is_none() && history.in_result() < 10, "{bounds:?} of {}", history.in_result());
            let check = check_limit(&plan, client, || bounds.1).unwrap();
            (check.over, check.certain)
        };
        assert_eq!(judged(50), (false, true));
        assert_eq!(judged(1), (true, true));
        assert!(!judged(13).1, "it is at the limit");
    }
}
