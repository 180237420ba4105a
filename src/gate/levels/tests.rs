//! Requirements checked against fully known levels.

use super::*;
use crate::exit::{self, Codes};
use crate::plan::{Figure, LevelName, Relation};
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::restarts::{at_starts, restarts};
use crate::result::setup::sample as plans;
use crate::result::summary::{AcrossStarts, AtStarts, Bursts, Ending, Restarts, StatisticEstimate, sample};
use crate::stats::{Interval, batch_means};
use crate::terms::{FigureName, GapDistribution, LoadMode, Precision, Spacing, Statistic};

/// 1 000 requests of 1 ms in a second, known to within `half` of both figures.
fn level(concurrency: u32, half: f64) -> LevelSummary {
    let mut level = sample::level(LevelLoad::Concurrency(concurrency), 1_000, 1_000_000);
    let around = |statistic, value: f64| {
        let interval = Some(Interval { low: value * (1.0 - half), high: value * (1.0 + half) });
        StatisticEstimate::new(statistic, interval)
    };
    level.intervals = vec![around(Statistic::Throughput, 1_000.0), around(Statistic::Percentile(99.0), 1e6)];
    level
}

const P99: Figure = Figure::Statistic(Statistic::Percentile(99.0));

fn require(figure: Figure, relation: Relation, bound: Bound) -> Requirement {
    Requirement { text: "x".to_owned(), figure, relation, bound, level: None }
}

fn judged(plan: &GatePlan, levels: &[LevelSummary], baseline: Option<&RunResult>) -> RunResult {
    let mut result = plans::result(&plans::setup(), levels);
    judge(&mut result, plan, baseline);
    result
}

fn outcome(requirement: Requirement, level: LevelSummary, baseline: Option<&RunResult>) -> (Judgement, bool) {
    let plan = GatePlan { requirements: vec![requirement], ..GatePlan::default() };
    let result = judged(&plan, &[level], baseline);
    let code = match result.requirements[0].outcome {
        Judgement::Passed => exit::OK,
        Judgement::Failed => exit::REQUIREMENT,
        Judgement::Undecided => exit::UNDECIDED,
    };
    assert_eq!(result.exit_code(Codes::Own), code);
    assert_eq!(Codes::PerfAnalyzers.spoken(code), exit::OK);
    (result.requirements[0].outcome, result.requirements[0].passes)
}

#[test]
fn the_interval_decides() {
    let below = |ms: f64| require(P99, Relation::Below, Bound::Value(ms * 1e6));
    assert_eq!(outcome(below(1.2), level(1, 0.1), None), (Judgement::Passed, true));
    assert_eq!(outcome(below(0.8), level(1, 0.1), None), (Judgement::Failed, false));
    assert_eq!(outcome(below(1.05), level(1, 0.1), None), (Judgement::Undecided, false));
    assert_eq!(outcome(below(0.95), level(1, 0.1), None), (Judgement::Undecided, false));
    let unknown = LevelSummary { intervals: Vec::new(), ..level(1, 0.1) };
    assert_eq!(outcome(below(5.0), unknown, None), (Judgement::Undecided, false));
    // One side of a figure is enough where its interval is not known.
    let with_bounds = |low, high| {
        let estimate =
            StatisticEstimate { statistic: Statistic::Percentile(99.0), interval: None, bounds: Bounds { low, high } };
        LevelSummary { intervals: vec![estimate], ..level(1, 0.1) }
    };
    assert_eq!(outcome(below(5.0), with_bounds(None, Some(4.9e6)), None), (Judgement::Passed, true));
    assert_eq!(outcome(below(5.0), with_bounds(None, Some(5.1e6)), None), (Judgement::Undecided, false));
    assert_eq!(outcome(below(0.5), with_bounds(Some(0.6e6), None), None), (Judgement::Failed, false));
    let fast = require(Figure::Statistic(Statistic::Throughput), Relation::AtLeast, Bound::Value(900.0));
    assert_eq!(outcome(fast, level(1, 0.05), None), (Judgement::Passed, true));
}

#[test]
fn undecided_counts_as_is_asked_for() {
    let cases = [
        (Decision::Pass, true, exit::OK),
        (Decision::Fail, false, exit::REQUIREMENT),
        (Decision::More, false, exit::UNDECIDED),
    ];
    for (undecided, passes, code) in cases {
        let requirements = vec![require(P99, Relation::Below, Bound::Value(1.01e6))];
        let plan = GatePlan { requirements, undecided: Some(undecided), ..GatePlan::default() };
        let result = judged(&plan, &[level(1, 0.1)], None);
        assert_eq!((result.requirements[0].outcome, result.requirements[0].passes), (Judgement::Undecided, passes));
        assert_eq!(result.exit_code(Codes::Own), code);
    }
}

#[test]
fn several_starts_are_judged_by_what_they_are_together() {
    let at_starts = |ms: &[f64]| {
        let values: Vec<f64> = ms.iter().map(|ms| ms * 1e6).collect();
        let interval = batch_means(&values, 0.95);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let p99 = AcrossStarts { statistic: Statistic::Percentile(99.0), values, mean, interval, share: None };
        let restarts = Some(Restarts { starts: ms.len(), figures: vec![p99] });
        // The first start alone is sure of 1 ms.
        LevelSummary { restarts, looks: 3, ..level(1, 0.01) }
    };
    let below = |ms: f64| require(P99, Relation::Below, Bound::Value(ms * 1e6));
    assert_eq!(outcome(below(1.1), level(1, 0.01), None).0, Judgement::Passed);
    assert_eq!(outcome(below(1.1), at_starts(&[1.0, 1.4, 1.2]), None).0, Judgement::Undecided);
    assert_eq!(outcome(below(1.1), at_starts(&[1.0, 1.2, 1.21, 1.2, 1.19, 1.22, 1.2]), None).0, Judgement::Failed);
    assert_eq!(outcome(below(1.1), at_starts(&[1.0, 1.01, 0.99, 1.0]), None).0, Judgement::Passed);
    let plan = GatePlan { requirements: vec![below(1.1)], ..GatePlan::default() };
    let open = judged(&plan, &[at_starts(&[1.0, 1.4, 1.2])], None).requirements[0].clone();
    assert!((open.value.unwrap() - 1.2e6).abs() < 1.0 && open.note.unwrap().contains("--restarts"));
    // A figure that starts do not tell is the first one's.
    let throughput = require(Figure::Statistic(Statistic::Throughput), Relation::Above, Bound::Value(900.0));
    assert_eq!(outcome(throughput, at_starts(&[1.0, 1.4, 1.2]), None).0, Judgement::Passed);
}

/// Each start had 1 000 requests, of which so many failed, and this rate of tokens.
fn started(failed: &[u64], rates: &[f64]) -> LevelSummary {
    let levels = failed.iter().map(|failed| {
        let mut level = level(1, 0.01);
        (level.client.requests, level.client.failed) = (1_000 - failed, *failed);
        level
    });
    let levels: Vec<LevelSummary> = levels.collect();
    let plan = sample::plan();
    let mut at_starts = at_starts(&levels, &plan);
    let (key, values) = ("goodput".to_owned(), rates.to_vec());
    at_starts.push(AtStarts { key, values, cases: None, as_one: 1.0 });
    LevelSummary { restarts: restarts(&levels, None), at_starts, ..levels[0].clone() }
}

#[test]
fn failures_and_named_figures_are_judged_over_all_starts() {
    let errors = |bound| require(Figure::Errors, Relation::Below, bound);
    let value = Bound::Value(0.01);
    // The first start alone had none.
    assert_eq!(outcome(errors(value), started(&[0, 300, 310, 290, 305], &[1.0; 5]), None).0, Judgement::Failed);
    assert_eq!(outcome(errors(value), started(&[0, 40], &[1.0; 2]), None).0, Judgement::Undecided);
    // Three starts tell what one of them does not.
    assert_eq!(outcome(errors(Bound::Value(0.002)), level(1, 0.01), None).0, Judgement::Undecided);
    assert_eq!(outcome(errors(Bound::Value(0.002)), started(&[0; 3], &[1.0; 3]), None).0, Judgement::Passed);
    let goodput = |bound| require(Figure::Named(FigureName { key: "goodput", point: None }), Relation::AtLeast, bound);
    let at_rates = |rates: &[f64]| started(&vec![0; rates.len()], rates);
    let judged_at = |rates: &[f64]| outcome(goodput(Bound::Value(90.0)), at_rates(rates), None).0;
    assert_eq!(judged_at(&[100.0, 101.0, 99.0, 100.0]), Judgement::Passed);
    let exceptional = [100.0, 70.0, 72.0, 69.0, 71.0, 70.0, 72.0, 69.0, 71.0];
    assert_eq!(judged_at(&exceptional), Judgement::Failed, "the first is the exception");
    assert_eq!(judged_at(&[100.0, 70.0, 99.0]), Judgement::Undecided);
    let baseline = plans::result(&plans::setup(), &[at_rates(&[100.0, 104.0, 97.0, 102.0])]);
    let change = |rates: &[f64]| outcome(goodput(Bound::Change(-0.1)), at_rates(rates), Some(&baseline)).0;
    assert_eq!(change(&[101.0, 99.0, 100.0, 102.0]), Judgement::Passed);
    assert_eq!(change(&[101.0, 61.0, 60.0, 62.0, 61.0, 60.0, 59.0]), Judgement::Failed);
    let plan = GatePlan { requirements: vec![errors(value), goodput(Bound::Value(90.0))], ..GatePlan::default() };
    let checked = judged(&plan, &[started(&[0, 40], &[100.0, 70.0])], None).requirements;
    assert!(checked.iter().all(|checked| checked.note.as_ref().unwrap().contains("(--restarts)")), "{checked:?}");
    assert!((checked[0].value.unwrap() - 0.02).abs() < 1e-9 && checked[1].value == Some(85.0), "{checked:?}");
}

/// Half of the requests under way are in no latency: a mean of 1 ms may be several times as much.
#[test]
fn latencies_that_lack_the_time_of_those_that_wait_are_not_sure_to_be_low() {
    let mean = Statistic::MeanLatency;
    let judged_at = |bound_ms: f64, gap: f64, statistic: Statistic| {
        let verdict = Verdict::Invalid(vec![InvalidReason::LittlesLaw(gap)]);
        let estimate = StatisticEstimate::new(statistic, Some(Interval { low: 0.99e6, high: 1.01e6 }));
        let level = LevelSummary { verdict, intervals: vec![estimate], ..level(1, 0.01) };
        let requirement = require(Figure::Statistic(statistic), Relation::Below, Bound::Value(bound_ms * 1e6));
        let plan = GatePlan { requirements: vec![requirement], ..GatePlan::default() };
        let checked = judged(&plan, &[level], None).requirements.remove(0);
        (checked.outcome, checked.note.is_some_and(|note| note.contains("still under way")))
    };
    assert_eq!(judged_at(1.5, -0.5, mean), (Judgement::Undecided, true));
    assert_eq!(judged_at(100.0, -0.5, mean), (Judgement::Passed, false), "far enough away");
    assert_eq!(judged_at(0.5, -0.5, mean), (Judgement::Failed, false), "it is too high as it is");
    assert_eq!(judged_at(1.5, 0.5, mean), (Judgement::Passed, false), "nothing is missing");
    let percentile = |p: f64| judged_at(1.5, -0.5, Statistic::Percentile(p));
    assert_eq!(percentile(50.0), (Judgement::Passed, false), "few that wait are beyond it");
    assert_eq!(percentile(99.9), (Judgement::Undecided, true), "one of a thousand waits");
}

/// One of 180 may wait: with those of the answers that are slow, which are one of eleven, more than one of ten is.
#[test]
fn those_that_wait_add_to_the_answers_that_are_slow() {
    let judged_at = |slow: u64| {
        let verdict = Verdict::Invalid(vec![InvalidReason::LittlesLaw(-0.5)]);
        let interval = Some(Interval { low: 0.99e6, high: 1.01e6 });
        let intervals = vec![StatisticEstimate::new(Statistic::Percentile(90.0), interval)];
        let mut level = LevelSummary { verdict, intervals, ..level(1, 0.01) };
        level.client.latency = sample::distribution(1_000 - slow, 1_000_000);
        (0..slow).for_each(|_| level.client.latency.histogram.record(5_000_000).unwrap());
        let below = require(Figure::Statistic(Statistic::Percentile(90.0)), Relation::Below, Bound::Value(1.5e6));
        let plan = GatePlan { requirements: vec![below], ..GatePlan::default() };
        judged(&plan, &[level], None)
    };
    assert!(judged_at(0).requirements[0].passes, "few that wait are beyond it");
    let result = judged_at(95);
    let open = &result.requirements[0];
    assert!(open.outcome == Judgement::Undecided && open.value.unwrap() < 1.01e6, "{open:?}");
    assert!(open.interval.is_none_or(|interval| interval.high > 4e6), "no narrow interval beside it: {open:?}");
    let words = result.answer().unwrap().gate.unwrap().words;
    assert!(words.contains("; requests are still under way"), "{words}");
}

#[test]
fn what_only_the_first_start_tells_is_said_to_be_so() {
    let at = |starts: usize, figure: Figure| {
        let restarts = Some(Restarts { starts, figures: Vec::new() });
        let plan = GatePlan {
            requirements: vec![require(figure, Relation::Below, Bound::Value(0.01))],
            ..GatePlan::default()
        };
        judged(&plan, &[LevelSummary { restarts, ..level(1, 0.01) }], None).requirements.remove(0).note
    };
    let note = at(3, Figure::Errors).unwrap();
    assert!(note.starts_with("judged by the first of 3 starts"), "{note}");
    assert_eq!(at(1, Figure::Errors), None);
    assert!(at(3, P99).is_none_or(|note| !note.contains("first of 3")));
}

#[test]
fn failures_that_come_together_count_as_one() {
    let of = |bursts, failed| {
        let mut level = LevelSummary { bursts, ..level(1, 0.1) };
        (level.client.requests, level.client.failed) = (20_000 - failed, failed);
        outcome(require(Figure::Errors, Relation::Below, Bound::Value(0.01)), level, None).0
    };
    let in_bursts = |failed| Some(Bursts { failed, good: 1.0 });
    assert_eq!([of(in_bursts(1.0), 100), of(in_bursts(1.0), 300)], [Judgement::Passed, Judgement::Failed]);
    assert_eq!([of(in_bursts(100.0), 100), of(in_bursts(100.0), 300)], [Judgement::Undecided; 2]);
    assert_eq!(of(in_bursts(100.0), 0), Judgement::Passed, "none failed");
    // Files of earlier versions do not tell.
    assert_eq!([of(None, 100), of(None, 170)], [Judgement::Passed, Judgement::Undecided]);
}

#[test]
fn good_requests_that_come_together_count_as_one() {
    let good = FigureName { key: "goodput_share", point: None };
    let of = |as_one, misses: u64| {
        let mut level = LevelSummary { bursts: Some(Bursts { failed: 1.0, good: as_one }), ..level(1, 0.1) };
        (level.client.requests, level.client.good) = (20_000, Some(20_000 - misses));
        outcome(require(Figure::Named(good), Relation::Above, Bound::Value(0.99)), level, None).0
    };
    assert_eq!([of(1.0, 100), of(100.0, 100)], [Judgement::Passed, Judgement::Undecided]);
}

#[test]
fn errors_are_a_share_with_an_interval() {
    let below = |share| require(Figure::Errors, Relation::Below, Bound::Value(share));
    assert_eq!(outcome(below(0.01), level(1, 0.1), None), (Judgement::Passed, true));
    assert_eq!(outcome(below(0.001), level(1, 0.1), None), (Judgement::Undecided, false), "none of 1000 may be 0.3 %");
    let mut failing = level(1, 0.1);
    failing.client.failed = 100;
    assert_eq!(outcome(below(0.01), failing, None), (Judgement::Failed, false));
}

#[test]
fn a_baseline_is_compared_with_its_own_uncertainty() {
    let baseline = plans::result(&plans::setup(), &[level(1, 0.01)]);
    let mut slower = level(1, 0.01);
    slower.client.latency = sample::distribution(1_000, 1_200_000);
    slower.intervals[1].interval = Some(Interval { low: 1.188e6, high: 1.212e6 });
    let within = |change| require(P99, Relation::Below, Bound::Change(change));
    assert_eq!(outcome(within(0.05), level(1, 0.01), Some(&baseline)), (Judgement::Passed, true));
    assert_eq!(outcome(within(0.05), slower.clone(), Some(&baseline)), (Judgement::Failed, false));
    assert_eq!(outcome(within(0.20), slower, Some(&baseline)).0, Judgement::Undecided);
    assert_eq!(outcome(within(0.05), level(2, 0.01), Some(&baseline)), (Judgement::Failed, false), "no such level");
}

#[test]
fn what_cannot_be_judged_fails() {
    let plan = |level| GatePlan {
        requirements: vec![Requirement { level, ..require(P99, Relation::Below, Bound::Value(1e9)) }],
        ..GatePlan::default()
    };
    let all = [level(1, 0.1), LevelSummary { ending: Ending::Failed, ..level(2, 0.1) }];
    let result = judged(&plan(None), &all, None);
    assert_eq!(result.requirements.iter().map(|checked| checked.passes).collect::<Vec<_>>(), [true, false]);
    assert!(result.requirements[1].note.as_ref().unwrap().contains("failed"));
    assert_eq!(result.exit_code(Codes::Own), exit::NO_VALID_REQUESTS, "a failed level is graver");
    let single = judged(&plan(Some(LevelName::Concurrency(1))), &all, None);
    assert_eq!(single.requirements.len(), 1);
    let none = judged(&plan(Some(LevelName::Rate(1.0))), &all[..1], None);
    assert!(!none.requirements[0].passes && none.exit_code(Codes::Own) == exit::REQUIREMENT);
}

#[test]
fn a_client_that_stood_still_says_nothing_against_the_server() {
    let still = |more: &[InvalidReason]| {
        let verdict = Verdict::Invalid([&[InvalidReason::StoodStill(2.1)], more].concat());
        LevelSummary { verdict, ..level(1, 0.1) }
    };
    let below = || require(P99, Relation::Below, Bound::Value(0.8e6));
    assert_eq!(outcome(below(), still(&[]), None), (Judgement::Undecided, false));
    assert_eq!(outcome(below(), still(&[InvalidReason::LittlesLaw(0.3)]), None), (Judgement::Undecided, false));
    let plan = |undecided| GatePlan { requirements: vec![below()], undecided, ..GatePlan::default() };
    let code = |undecided| judged(&plan(Some(undecided)), &[still(&[])], None).exit_code(Codes::Own);
    assert_eq!([Decision::Pass, Decision::Fail].map(code), [exit::OK, exit::REQUIREMENT]);
    let result = judged(&plan(None), &[still(&[])], None);
    let words = result.answer().unwrap().gate.unwrap().words;
    assert_eq!(words, "Undecided: x at concurrency 1: this process stood still while it was measured");
    let verdict = Verdict::Invalid(vec![InvalidReason::RankStoodStill(2, 2.1)]);
    let of_rank = judged(&plan(None), &[LevelSummary { verdict, ..level(1, 0.1) }], None).requirements.remove(0);
    assert_eq!(of_rank.outcome, Judgement::Undecided);
    assert_eq!(of_rank.note.unwrap(), "rank 2 stood still while it was measured");
}

#[test]
fn the_baseline_of_a_repeated_load_is_the_same_repetition() {
    let mut slow = level(1, 0.01);
    slow.client.latency = sample::distribution(1_000, 2_000_000);
    slow.intervals[1].interval = Some(Interval { low: 1.98e6, high: 2.02e6 });
    let stages = [level(1, 0.01), level(2, 0.01), slow];
    let baseline = plans::result(&plans::setup(), &stages);
    let requirements = vec![require(P99, Relation::Below, Bound::Change(0.05))];
    let plan = GatePlan { requirements, ..GatePlan::default() };
    let result = judged(&plan, &stages, Some(&baseline));
    let outcomes: Vec<_> = result
        .requirements
        .iter()
        .map(|requirement| (requirement.passes, requirement.distinction.repetition))
        .collect();
    assert_eq!(outcomes, [(true, Some(1)), (true, None), (true, Some(2))]);
}

#[test]
fn a_level_beyond_the_latency_threshold_is_judged_by_its_figures() {
    let over = LevelSummary { ending: Ending::OverThreshold, ..level(1, 0.01) };
    let plan = |ms: f64| GatePlan {
        requirements: vec![require(P99, Relation::Below, Bound::Value(ms * 1e6))],
        ..GatePlan::default()
    };
    assert!(judged(&plan(2.0), std::slice::from_ref(&over), None).requirements[0].passes);
    assert!(!judged(&plan(0.5), &[over], None).requirements[0].passes);
}

#[test]
fn the_rates_at_and_past_saturation_are_judged_only_by_name() {
    let mut setup = plans::setup();
    let distribution = GapDistribution::Constant;
    setup.mode = LoadMode::Sweep { spacing: Spacing::Linear, points: 2, distribution };
    let failed = |rate| LevelSummary { load: LevelLoad::RequestRate(rate), ending: Ending::Unstable, ..level(1, 0.1) };
    let fine = LevelSummary { load: LevelLoad::RequestRate(100.0), ..level(1, 0.1) };
    let mut result = plans::result(&setup, &[fine, failed(200.0), failed(220.0)]);
    let by_name = |name| Requirement { level: name, ..require(P99, Relation::Below, Bound::Value(2e6)) };
    judge(&mut result, &GatePlan { requirements: vec![by_name(None)], ..GatePlan::default() }, None);
    assert_eq!(result.requirements.iter().map(|one| one.passes).collect::<Vec<_>>(), [true]);
    let past = GatePlan { requirements: vec![by_name(Some(LevelName::Rate(220.0)))], ..GatePlan::default() };
    judge(&mut result, &past, None);
    assert_eq!(result.requirements.iter().map(|one| one.passes).collect::<Vec<_>>(), [false]);
}

#[test]
fn what_an_interrupted_run_did_not_measure_does_not_hold() {
    let below = |level| Requirement { level, ..require(P99, Relation::Below, Bound::Value(2e6)) };
    let passed = |level| {
        let mut result = plans::result(&plans::setup(), &[self::level(1, 0.1)]);
        result.interrupted = true;
        judge(&mut result, &GatePlan { requirements: vec![below(level)], ..GatePlan::default() }, None);
        result.requirements.iter().map(|requirement| requirement.passes).collect::<Vec<_>>()
    };
    assert_eq!(passed(None), [true, false]);
    assert_eq!(passed(Some(LevelName::Concurrency(1))), [true]);
    assert_eq!(passed(Some(LevelName::Concurrency(2))), [false]);
}

#[test]
fn a_change_of_errors_holds_where_there_are_none() {
    let baseline = |failed| {
        let mut level = level(1, 0.1);
        level.client.failed = failed;
        plans::result(&plans::setup(), &[level])
    };
    let mut failing = level(1, 0.1);
    failing.client.failed = 100;
    for relation in [Relation::Below, Relation::AtMost] {
        let within = || require(Figure::Errors, relation, Bound::Change(0.05));
        assert_eq!(outcome(within(), level(1, 0.1), Some(&baseline(0))), (Judgement::Passed, true));
        assert_eq!(outcome(within(), level(1, 0.1), Some(&baseline(10))), (Judgement::Passed, true));
        assert_eq!(outcome(within(), failing.clone(), Some(&baseline(0))), (Judgement::Failed, false));
        assert_eq!(outcome(within(), failing.clone(), Some(&baseline(100))).0, Judgement::Undecided);
    }
}

#[test]
fn a_level_that_is_not_known_well_enough_leaves_the_answer_to_the_gate() {
    let imprecise = InvalidReason::Unsettled(Precision { statistic: Statistic::Throughput, share: 0.1 }, Some(0.3));
    let exit_code = |reason, ms: f64| {
        let verdict = Verdict::Invalid(vec![reason]);
        let level = LevelSummary { ending: Ending::Unstable, verdict, ..level(1, 0.1) };
        let requirements = vec![require(P99, Relation::Below, Bound::Value(ms * 1e6))];
        judged(&GatePlan { requirements, ..GatePlan::default() }, &[level], None).exit_code(Codes::Own)
    };
    assert_eq!([1.2, 0.8, 1.05].map(|ms| exit_code(imprecise, ms)), [exit::OK, exit::REQUIREMENT, exit::UNDECIDED]);
    assert_eq!(exit_code(InvalidReason::Drifting(Statistic::Throughput, 0.3), 1.2), exit::UNSTABLE);
    let plain = LevelSummary { ending: Ending::Unstable, verdict: Verdict::Invalid(vec![imprecise]), ..level(1, 0.1) };
    assert_eq!(judged(&GatePlan::default(), &[plain], None).exit_code(Codes::Own), exit::UNSTABLE);
}

#[test]
fn a_level_that_fails_too_often_tells_how_often() {
    let mut failing = level(1, 0.1);
    (failing.client.failed, failing.ending) = (300, Ending::Failed);
    failing.verdict = Verdict::Invalid(vec![InvalidReason::Errors(300, 1_300)]);
    let result = |requirement| {
        let plan = GatePlan { requirements: vec![requirement], ..GatePlan::default() };
        let result = judged(&plan, std::slice::from_ref(&failing), None);
        (result.requirements[0].value, result.requirements[0].outcome, result.exit_code(Codes::Own))
    };
    let errors = |share| require(Figure::Errors, Relation::Below, Bound::Value(share));
    let found = Some(300.0 / 1_300.0);
    assert_eq!(result(errors(0.05)), (found, Judgement::Failed, exit::REQUIREMENT));
    // It has failed by the level's own rule.
    assert_eq!(result(errors(0.5)), (found, Judgement::Passed, exit::NO_VALID_REQUESTS));
    let latency = require(P99, Relation::Below, Bound::Value(1e9));
    assert_eq!(result(latency), (None, Judgement::Failed, exit::NO_VALID_REQUESTS));
}

#[test]
fn a_named_figure_is_held_against_that_of_the_baseline() {
    let within = |key: &'static str, change| {
        require(Figure::Named(FigureName { key, point: None }), Relation::Above, Bound::Change(change))
    };
    let held = |requirement: Requirement, ours: LevelSummary, theirs: LevelSummary| {
        let plan = GatePlan { requirements: vec![requirement], ..GatePlan::default() };
        let baseline = plans::result(&plans::setup(), &[theirs]);
        let checked = judged(&plan, &[ours], Some(&baseline)).requirements.remove(0);
        (checked.value.unwrap(), checked.bound.unwrap(), checked.unit, checked.outcome)
    };
    let good = |misses: u64| {
        let mut level = level(1, 0.1);
        (level.client.requests, level.client.good) = (20_000, Some(20_000 - misses));
        level
    };
    let share = |misses, before| held(within("goodput_share", -0.05), good(misses), good(before));
    assert_eq!(share(10_000, 4_000), (0.625, 0.95, Unit::Ratio, Judgement::Failed));
    assert_eq!(share(4_000, 4_000), (1.0, 0.95, Unit::Ratio, Judgement::Passed));
    // Nothing has no ratio.
    assert_eq!(share(10_000, 20_000), (0.5, 0.0, Unit::Share, Judgement::Passed));
    // A rate is taken as it is, or as starts differ in it.
    let rate = |misses, before| held(within("goodput", -0.05), good(misses), good(before));
    assert_eq!((rate(10_000, 4_000).3, rate(4_200, 4_000).3), (Judgement::Failed, Judgement::Passed));
    let at_starts = |rates: [f64; 3]| {
        let figure = AtStarts { key: "goodput".to_owned(), values: rates.to_vec(), cases: None, as_one: 1.0 };
        LevelSummary { at_starts: vec![figure], ..good(0) }
    };
    let started = |ours, theirs| held(within("goodput", -0.05), at_starts(ours), at_starts(theirs)).3;
    assert_eq!(started([80.0, 81.0, 79.0], [100.0, 101.0, 99.0]), Judgement::Failed);
    assert_eq!(started([100.0, 101.0, 99.0], [100.0, 101.0, 99.0]), Judgement::Passed);
    assert_eq!(started([60.0, 140.0, 100.0], [100.0, 101.0, 99.0]), Judgement::Undecided);
}
