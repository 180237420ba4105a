//! Each kind of run and the sentence that answers it.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::backend::InferError;
use crate::compare::changes;
use crate::reasons::{InvalidReason, Verdict};
use crate::record::Generated;
use crate::rounds::{Round, Unit as Turn, Value};
use crate::setup::sample as plans;
use crate::summary::{
    AtStarts, Ending, LevelSummary, LimitCheck, MissingStarts, OpenLoopSummary, StatisticEstimate, sample,
};
use crate::sweep::SweepResult;
use crate::terms::{Flag, GapDistribution, LoadMode, Order, Precision, Range, Rounds, Spacing, StageEdges, Statistic};
use crate::variants::{Cell, VariantIdentity, VariantsResult};
use crate::{RunResult, Setup};

/// A level whose p99 is known to within a tenth, `ms` and judged against 50 ms.
fn level(concurrency: u32, rate: u64, ms: u64) -> LevelSummary {
    let mut level = sample::level(LevelLoad::Concurrency(concurrency), rate, ms * 1_000_000);
    let around = |statistic, value: f64| {
        StatisticEstimate::new(statistic, Some(Interval { low: 0.9 * value, high: 1.1 * value }))
    };
    let ns = ms as f64 * 1e6;
    level.intervals = vec![
        around(Statistic::Throughput, rate as f64),
        around(Statistic::MeanLatency, ns),
        around(Statistic::Percentile(99.0), ns),
    ];
    let (limit, over) = (Duration::from_millis(50), ms >= 50);
    level.limit = Some(LimitCheck { limit, over, certain: true });
    level.ending = if over { Ending::OverThreshold } else { Ending::Stable };
    level
}

fn setup(limit: bool, most: u32) -> Setup {
    let mut setup = plans::setup();
    setup.measurement.percentile = Some(99.0);
    setup.measurement.latency_threshold = limit.then_some(Duration::from_millis(50));
    setup.mode = LoadMode::Concurrency(Range::with_step(1, Some(most), 1));
    setup
}

fn answer(setup: &Setup, levels: &[LevelSummary]) -> Answer {
    plans::result(setup, levels).answer().unwrap()
}

#[test]
fn paced_streams_are_counted() {
    let mut setup = setup(true, 4);
    setup.mode = LoadMode::Paced { range: Range::with_step(1, Some(12), 1), interval: Duration::from_millis(100) };
    let streams = |count, ms| LevelSummary { load: LevelLoad::Streams(count), ..level(1, 10 * u64::from(count), ms) };
    let found = answer(&setup, &[streams(4, 20), streams(8, 41), streams(12, 76)]);
    assert_eq!(found.words, "Most streams within p99 < 50 ms: 8 (p99 36.9 to 45.1 ms, 80 infer/s)");
    let found = answer(&setup, &[streams(4, 20), streams(8, 41)]);
    assert!(found.words.starts_with("At least 8 streams within p99 < 50 ms (p99 "), "{}", found.words);
    setup.measurement.latency_threshold = None;
    let mut late = LevelSummary { ending: Ending::Stable, ..streams(12, 76) };
    late.verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(120.0, 90.0)]);
    let found = answer(&setup, &[streams(4, 20), streams(8, 41), late]);
    assert_eq!(found.words, "Most streams kept in time: 8 (p99 36.9 to 45.1 ms)");
    let found = answer(&setup, &[streams(4, 20), streams(8, 41)]);
    assert!(found.words.starts_with("At least 8 streams kept in time ("), "{}", found.words);
    assert!(found.missing.unwrap().command.unwrap().contains("--concurrency-range 24:1536:*2"));
}

#[test]
fn a_range_with_a_limit_is_answered_by_the_most_load_within_it() {
    let found = answer(&setup(true, 4), &[level(1, 130, 20), level(2, 228, 41), level(4, 242, 76)]);
    let expected = "Most load within p99 < 50 ms: 228 infer/s at concurrency 2 (p99 36.9 to 45.1 ms)";
    assert_eq!((found.words.as_str(), found.sure), (expected, Sureness::Sure));
    assert_eq!((found.figures[0].value, found.figures[1].key.as_str()), (228.0, "p99"));
}

#[test]
fn a_latency_is_shown_with_the_bound_that_is_below_the_limit() {
    let mut close = level(2, 228, 47);
    close.intervals[2].bounds = Bounds { low: None, high: Some(49e6) };
    let found = answer(&setup(true, 4), &[close, level(4, 242, 76)]);
    let expected = "Most load within p99 < 50 ms: 228 infer/s at concurrency 2 (p99 47 ms, at most 49 ms)";
    assert_eq!((found.words.as_str(), found.sure), (expected, Sureness::Sure));
}

#[test]
fn one_load_says_how_it_stands_to_the_limit() {
    let one = |level: LevelSummary| answer(&setup(true, 1), &[level]);
    let found = one(level(1, 130, 20));
    assert!(
        found.words.ends_with(": p99 is within the limit of 50 ms") && found.sure == Sureness::Sure,
        "{}",
        found.words
    );
    let found = one(level(1, 130, 76));
    assert!(
        found.words.ends_with(": p99 is over the limit of 50 ms") && found.sure == Sureness::Sure,
        "{}",
        found.words
    );
    let mut close = level(1, 130, 49);
    close.limit = close.limit.map(|check| LimitCheck { certain: false, ..check });
    let found = one(close);
    assert!(found.words.contains("not surely within") && found.sure == Sureness::Undecided, "{}", found.words);
    assert!(found.missing.unwrap().command.unwrap().contains("--max-trials"));
}

#[test]
fn what_is_not_sure_says_what_would_settle_it() {
    let mut close = level(2, 228, 49);
    close.limit = close.limit.map(|check| LimitCheck { certain: false, ..check });
    let found = answer(&setup(true, 4), &[close, level(4, 242, 76)]);
    let missing = found.missing.unwrap();
    assert_eq!(found.sure, Sureness::Undecided);
    assert_eq!(missing.problem, "the interval of p99 at concurrency 2 contains the limit");
    let command = missing.command.unwrap();
    assert!(command.contains("--concurrency-range 2 --max-trials 60") && missing.seconds == Some(20), "{command}");
    let found = answer(&setup(true, 4), &[level(1, 130, 20), level(2, 228, 41)]);
    assert!(found.words.starts_with("At least 228 infer/s within p99 < 50 ms, at concurrency 2 ("), "{}", found.words);
    assert!(found.missing.unwrap().command.unwrap().contains("--concurrency-range 8:512:*2"));
    let mut listed = setup(true, 4);
    listed.mode = LoadMode::Concurrency(Range { listed: vec![1, 2, 4], ..Range::with_step(1, Some(4), 1) });
    let found = answer(&listed, &[level(1, 130, 20), level(4, 228, 41)]);
    assert!(found.missing.unwrap().command.unwrap().contains("--concurrency-range 8:256:*2"));
    let mut close = level(4, 228, 49);
    close.limit = close.limit.map(|check| LimitCheck { certain: false, ..check });
    let problem = answer(&setup(true, 4), &[level(1, 130, 20), close]).missing.unwrap().problem;
    assert_eq!(problem, "the interval of p99 at concurrency 4 contains the limit", "more load is no answer to that");
    listed.mode = LoadMode::RequestRate {
        range: Range::with_step(100.0, Some(500.0), 200.0),
        distribution: GapDistribution::Constant,
    };
    let found = answer(&listed, &[level(1, 130, 20)]);
    assert!(found.missing.unwrap().command.unwrap().contains("--request-rate-range 700:0:200"));
    // Without a limit a range must end.
    let further = command::beyond(&Setup { mode: listed.mode.clone(), ..setup(false, 4) }).command.unwrap();
    assert!(further.contains("--request-rate-range 700:1700:200"), "{further}");
    let none = answer(&setup(true, 4), &[level(4, 242, 76)]);
    assert!(none.words.starts_with("No load within p99 < 50 ms: 76 ms (68.4 to 83.6 ms) at concurrency 4"));
}

#[test]
fn a_limit_that_so_few_requests_leave_open_takes_more_of_them() {
    let mut setup = setup(true, 1);
    setup.measurement.request_count = Some(40);
    let mut few = LevelSummary { intervals: Vec::new(), ..level(1, 40, 20) };
    few.limit = few.limit.map(|check| LimitCheck { certain: false, ..check });
    let missing = answer(&setup, &[few.clone()]).missing.unwrap();
    assert_eq!(missing.problem, "too little is known of p99 at concurrency 1 to tell its side of the limit");
    let command = missing.command.unwrap();
    assert!(command.ends_with("--concurrency-range 1 --request-count 80"), "{command}");
    setup.mode = LoadMode::FixedSchedule;
    let missing = answer(&setup, &[few]).missing.unwrap();
    assert_eq!((missing.command, missing.seconds), (None, None), "it has the requests that it has");
}

#[test]
fn a_command_that_goes_on_leaves_the_files_of_the_run_alone() {
    let mut setup = setup(true, 4);
    setup.command_line = ["-m", "m", "-f", "levels.csv", "--concurrency-range", "1:2"].map(str::to_owned).to_vec();
    let (name, values) = ("-f".to_owned(), vec!["levels.csv".to_owned()]);
    setup.flags = vec![Flag { name, values, given: true, file: true }];
    let command = answer(&setup, &[level(1, 130, 20)]).missing.unwrap().command.unwrap();
    assert!(command.ends_with("-m m --concurrency-range 8:512:*2"), "{command}");
}

#[test]
fn an_undecided_gate_is_not_failed_and_says_its_bound() {
    let mut result = plans::result(&setup(false, 1), &[level(1, 130, 20)]);
    let outcome = |result: &RunResult| result.answer().unwrap().gate.unwrap();
    result.requirements = vec![checked("p50<9ms", true, Judgement::Passed)];
    assert_eq!(outcome(&result).outcome, Judgement::Passed);
    result.requirements = vec![checked("p50<9ms", false, Judgement::Failed)];
    assert_eq!(outcome(&result).outcome, Judgement::Failed);
    let bounds = Bounds { low: Some(2e6), high: None };
    let undecided = checked("p50<9ms", false, Judgement::Undecided);
    result.requirements = vec![Checked { open: true, bounds, interval: None, ..undecided }];
    let gate = outcome(&result);
    assert_eq!((gate.passed, gate.outcome), (false, Judgement::Undecided));
    assert!(gate.words.ends_with("(at least 2 ms)"), "{}", gate.words);
    let answer = result.answer().unwrap();
    assert_eq!(answer.sure, Sureness::Undecided);
    assert!(answer.missing.unwrap().command.unwrap().contains("--gate-time 240s"));
    result.requirements[0].vague_baseline = true;
    let missing = result.answer().unwrap().missing.unwrap();
    assert!(missing.command.is_none() && missing.problem.starts_with("the baseline "), "{missing:?}");
    result.requirements[0].vague_baseline = false;
    let mut changed = setup(false, 1);
    changed.measurement.restarts = 3;
    result.setup = Arc::new(changed.clone());
    assert!(result.answer().unwrap().missing.unwrap().command.unwrap().contains("--restarts 12"));
    changed.measurement.restarts = 1;
    changed.mode = LoadMode::Stages {
        stages: Vec::new(),
        distribution: GapDistribution::Constant,
        edges: StageEdges::default(),
        trace: None,
    };
    result.setup = Arc::new(changed);
    assert_eq!(result.answer().unwrap().missing.unwrap().command, None, "stages are not measured on");
}

#[test]
fn a_run_that_was_broken_off_is_not_sure() {
    let levels = [level(1, 130, 20), level(2, 260, 20), level(3, 290, 30)];
    let mut result = plans::result(&setup(false, 4), &levels);
    assert_eq!(result.answer().unwrap().sure, Sureness::Sure);
    result.server_gone = true;
    assert!(result.answer().unwrap().missing.unwrap().problem.starts_with("the server went away"));
    result.interrupted = true;
    assert!(result.answer().unwrap().missing.unwrap().problem.starts_with("the run was broken off"));
}

#[test]
fn a_reason_that_is_the_outcomes_own_word_is_said_once() {
    let verdict = Verdict::Invalid(vec![InvalidReason::Interrupted]);
    let broken_off = LevelSummary { limit: None, ending: Ending::Interrupted, verdict, ..level(1, 130, 20) };
    let found = answer(&setup(false, 1), &[broken_off]);
    assert_eq!(found.missing.unwrap().problem, "concurrency 1 is interrupted; let it run to its end");
    assert_eq!(found.sure, Sureness::Undecided);
}

#[test]
fn with_limits_of_requests_the_answer_is_the_most_good_load() {
    let good = |concurrency, rate: u64, share: f64| {
        let mut level = level(concurrency, rate, 20);
        level.client.good = Some((level.client.requests as f64 * share) as u64);
        level
    };
    let found = answer(&setup(false, 4), &[good(1, 100, 1.0), good(2, 200, 0.99), good(4, 300, 0.68)]);
    assert!(found.words.starts_with("Most good load: 198 requests/s at concurrency 2 ("), "{}", found.words);
    assert_eq!((found.sure, found.figures[0].key.as_str(), found.figures[0].value), (Sureness::Sure, "goodput", 198.0));
    let found = answer(&setup(false, 2), &[good(1, 100, 1.0), good(2, 200, 0.99)]);
    assert!(found.words.starts_with("At least 198 requests/s are good, at concurrency 2"), "{}", found.words);
    assert_eq!(found.sure, Sureness::Undecided);
    let found = answer(&setup(false, 4), &[good(1, 100, 0.9), good(2, 200, 0.5)]);
    assert!(
        found.words.starts_with("No load was kept up with and 95 % good; most is at concurrency 2"),
        "{}",
        found.words
    );
}

#[test]
fn whether_a_load_is_good_takes_requests_enough() {
    let good = |concurrency, requests: u64, good| {
        let mut level = level(concurrency, requests, 20);
        level.client.good = Some(good);
        level
    };
    let mut setup = setup(false, 4);
    setup.command_line = ["-m", "m", "--measurement-interval", "123"].map(str::to_owned).to_vec();
    for (second, open) in [(good(2, 200, 192), "concurrency 2: 96 % ("), (good(2, 200, 188), "concurrency 2: 94 % (")] {
        let found = answer(&setup, &[good(1, 100, 100), second, good(4, 300, 200)]);
        let missing = found.missing.unwrap_or_else(|| panic!("{}", found.words));
        assert!(missing.problem.contains(open), "{}", missing.problem);
        let command = missing.command.unwrap();
        assert!(command.contains(" 2 --measurement-interval ") && !command.contains("123"), "{command}");
    }
    let sure = answer(&setup, &[good(1, 100, 100), good(2, 2000, 1960), good(4, 300, 200)]);
    assert_eq!(sure.missing, None, "{}", sure.words);
}

#[test]
fn among_batch_sizes_the_most_load_is_what_is_inferred() {
    let batched = |concurrency, rate, ms, batch_size| {
        let mut level = level(concurrency, rate, ms);
        level.client.batch_size = batch_size;
        level
    };
    let levels = [batched(1, 100, 10, 1), batched(4, 300, 20, 1), batched(1, 90, 30, 8), batched(4, 91, 90, 8)];
    let found = answer(&setup(true, 4), &levels);
    assert!(found.words.starts_with("Most load within p99 < 50 ms: 720 infer/s"), "{}", found.words);
    assert_eq!(found.sure, Sureness::Sure, "one level is over the limit");
}

#[test]
fn a_rate_that_was_not_sustained_when_measured_is_no_sure_answer() {
    let mut setup = setup(false, 4);
    setup.mode = LoadMode::Sweep { spacing: Spacing::Linear, points: 2, distribution: GapDistribution::Constant };
    let rate = |rate: f64, sustained: bool| {
        let mut level = LevelSummary { load: LevelLoad::RequestRate(rate), ..level(1, rate as u64, 20) };
        if !sustained {
            level.verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(rate, 0.9 * rate)]);
        }
        level
    };
    let swept = |last_sustained| {
        let mut result = plans::result(&setup, &[rate(720.0, true), rate(940.0, last_sustained)]);
        result.sweep = Some(SweepResult { saturation: 941.0, unsustained: Some(964.0), knee: None });
        result.answer().unwrap()
    };
    assert_eq!(
        (swept(true).sure, swept(true).words.starts_with("Highest sustained rate: 941")),
        (Sureness::Sure, true)
    );
    let open = swept(false);
    assert_eq!((open.sure, open.words.starts_with("Saturation: about 941")), (Sureness::Undecided, true));
    assert!(open.missing.unwrap().problem.contains("nothing above 720 requests/s"));
}

#[test]
fn what_did_not_settle_is_not_called_over_the_limit() {
    let mut wandering = level(2, 228, 2);
    wandering.ending = Ending::Unstable;
    wandering.verdict = Verdict::Invalid(vec![InvalidReason::Unstable(None)]);
    let found = answer(&setup(true, 2), &[wandering.clone()]);
    assert!(found.words.starts_with("At least 228 infer/s within p99 < 50 ms, at concurrency 2"), "{}", found.words);
    wandering.limit = wandering.limit.map(|check| LimitCheck { certain: false, ..check });
    wandering.intervals.clear();
    let found = answer(&setup(true, 2), &[wandering]);
    assert_eq!(found.words, "No load settled within p99 < 50 ms: 2 ms at concurrency 2");
    let missing = found.missing.unwrap();
    assert_eq!(found.sure, Sureness::Undecided);
    assert!(missing.problem.starts_with("concurrency 2 is unstable"), "{}", missing.problem);
}

#[test]
fn a_load_above_that_did_not_settle_may_be_within_the_limit_too() {
    let mut wandering = level(3, 240, 45);
    wandering.ending = Ending::Unstable;
    wandering.limit = wandering.limit.map(|check| LimitCheck { certain: false, ..check });
    wandering.verdict = Verdict::Invalid(vec![InvalidReason::Unstable(None)]);
    let found = answer(&setup(true, 4), &[level(2, 228, 41), wandering.clone(), level(4, 242, 76)]);
    assert!(found.words.starts_with("Most load within p99 < 50 ms: 228 infer/s at concurrency 2"), "{}", found.words);
    let missing = found.missing.unwrap();
    assert!(missing.problem.starts_with("concurrency 3 is unstable"), "{}", missing.problem);
    assert!(missing.command.unwrap().contains("--concurrency-range 3 "));
    let above = LevelSummary { load: LevelLoad::Concurrency(8), ..wandering.clone() };
    let found = answer(&setup(true, 8), &[level(2, 228, 41), level(4, 242, 76), above]);
    assert_eq!(found.sure, Sureness::Sure, "more than what is too much is too much: {:?}", found.missing);
    let found = answer(&setup(true, 3), &[level(2, 228, 41), wandering]);
    assert!(found.words.starts_with("At least 228 infer/s within p99 < 50 ms, at concurrency 2"), "{}", found.words);
    assert!(found.missing.unwrap().problem.starts_with("concurrency 3 is unstable"));
}

#[test]
fn a_range_without_one_is_answered_by_its_knee_and_one_level_by_its_figures() {
    let levels = [level(1, 130, 20), level(2, 260, 20), level(3, 290, 40), level(4, 300, 60)];
    let found = answer(&setup(false, 4), &levels);
    assert_eq!(found.figures.len(), 4, "of the knee and of the least latency");
    let expected = "Knee: 260 infer/s at concurrency 2 (p99 18 to 22 ms); least p99: 20 ms at concurrency 1";
    assert_eq!(found.words, expected);
    let mut odd = levels.clone();
    (odd[0], odd[1]) = (level(1, 130, 25), LevelSummary { ending: Ending::Unstable, ..level(2, 260, 20) });
    let found = answer(&setup(false, 4), &odd);
    assert!(found.words.starts_with("Knee: 260 infer/s at concurrency 2"), "{}", found.words);
    assert!(!found.words.contains("least"), "it is more than the knee's: {}", found.words);
    let nearly = [level(1, 130, 20), level(2, 260, 20), level(3, 290, 30), level(4, 300, 60)];
    let found = answer(&setup(false, 4), &nearly);
    let open = "; as far as is known it may be anywhere from concurrency 2 to concurrency 3; least p99: ";
    assert!(found.words.contains(open), "{}", found.words);
    let found = answer(&setup(false, 3), &[level(1, 130, 10), level(2, 140, 20), level(3, 150, 30)]);
    assert!(found.words.starts_with("Knee: 130 infer/s at concurrency 1 "), "{}", found.words);
    assert_eq!(found.figures.len(), 2, "the least latency is that of the knee: {:?}", found.figures);
    let found = answer(&setup(false, 1), &levels[..1]);
    assert_eq!(found.words, "130 infer/s (117 to 143 infer/s) at concurrency 1, p99 20 ms (18 to 22 ms)");
}

#[test]
fn of_loads_that_follow_each_other_the_one_that_is_not_valid_is_named() {
    let mut setup = setup(false, 1);
    setup.mode = LoadMode::FixedSchedule;
    let rate = |rate: u64, ms| LevelSummary {
        load: LevelLoad::RequestRate(rate as f64),
        limit: None,
        ending: Ending::Stable,
        ..level(1, rate, ms)
    };
    let found = answer(&setup, &[rate(100, 20), rate(150, 41)]);
    assert_eq!(found.words, "2 of 2 loads are valid; the slowest is 150 requests/s: p99 41 ms (36.9 to 45.1 ms)");
    let mut late = rate(300, 560);
    late.verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(300.0, 200.0)]);
    let found = answer(&setup, &[rate(100, 20), late]);
    let expected = "1 of 2 loads are valid (300 requests/s: overloaded); the slowest is 300 requests/s: p99 560 ms";
    assert!(found.words.starts_with(expected), "{}", found.words);
    // Nobody doubts that it is overloaded.
    assert!(found.line().contains("; note: 300 requests/s is overloaded") && found.sure == Sureness::Sure, "{found:?}");
}

#[test]
fn of_several_loads_that_are_not_valid_one_that_is_open_counts_before_one_that_nobody_doubts() {
    let mut setup = setup(false, 1);
    setup.mode = LoadMode::FixedSchedule;
    let rate = |rate: f64, ms, reason| LevelSummary {
        load: LevelLoad::RequestRate(rate),
        limit: None,
        ending: Ending::Stable,
        verdict: Verdict::Invalid(vec![reason]),
        ..level(1, rate as u64, ms)
    };
    let overloaded = || rate(300.0, 400, InvalidReason::Overloaded(300.0, 200.0));
    let unstable = |ms| rate(200.0, ms, InvalidReason::Unstable(None));
    for ms in [560, 20] {
        let found = answer(&setup, &[overloaded(), unstable(ms)]);
        let problem = found.missing.unwrap().problem;
        assert!(found.sure == Sureness::Undecided && problem.starts_with("200 requests/s is unstable"), "{problem}");
    }
    let found = answer(&setup, &[overloaded(), rate(310.0, 560, InvalidReason::Overloaded(310.0, 200.0))]);
    assert!(found.missing.unwrap().problem.starts_with("310 requests/s"), "the slowest is what is told of");
    let failed = |reason| {
        let verdict = Verdict::Invalid(vec![reason]);
        answer(&self::setup(false, 1), &[LevelSummary { ending: Ending::Failed, verdict, ..level(1, 100, 20) }]).sure
    };
    assert_eq!(failed(InvalidReason::Errors(1, 101)), Sureness::Sure);
    assert_eq!(failed(InvalidReason::BrokenOff), Sureness::Undecided, "a client of our own broke");
}

/// Every request of the first start was good, and of three starts this share.
fn good_at_starts(concurrency: u32, shares: [f64; 3]) -> LevelSummary {
    let mut level = LevelSummary { limit: None, ..level(concurrency, 100, 20) };
    level.client.good = Some(100);
    let at = |key: &str, values: Vec<f64>, cases| AtStarts { key: key.to_owned(), values, cases, as_one: 1.0 };
    let rates = shares.map(|share| 100.0 * share).to_vec();
    level.at_starts = vec![at("goodput_share", shares.to_vec(), Some(vec![100; 3])), at("goodput", rates, None)];
    level
}

#[test]
fn what_is_good_is_told_over_all_starts() {
    let found = answer(&setup(false, 1), &[good_at_starts(1, [1.0, 0.8, 0.9])]);
    assert!(found.words.ends_with(", 90 % good"), "{}", found.words);
    let mut spoken = good_at_starts(1, [1.0, 0.8, 0.9]);
    let mut generated = Generated::empty();
    (generated.tokens, generated.counted) = (500, 5);
    spoken.client.generated = Some(Box::new(generated));
    let found = answer(&setup(false, 1), &[spoken]);
    assert!(found.words.starts_with("At concurrency 1: ") && found.words.ends_with(", 90 % good"), "{}", found.words);
    let [first, second] = [1, 2].map(|concurrency| good_at_starts(concurrency, [1.0, 0.8, 0.9]));
    let found = answer(&setup(false, 2), &[first, second]);
    assert!(found.words.starts_with("No load was kept up with and 95 % good"), "{}", found.words);
    assert_eq!((found.figures[0].key.as_str(), found.figures[0].value), ("goodput", 90.0));
    let [first, second] = [1, 2].map(|concurrency| good_at_starts(concurrency, [1.0, 0.94, 0.94]));
    let problem = answer(&setup(false, 2), &[first, second]).missing.unwrap().problem;
    assert!(problem.starts_with("it is not known whether 95 % are good"), "{problem}");
}

#[test]
fn what_is_certain_of_a_load_is_sure_unless_the_run_leaves_something_open() {
    let late = || {
        let verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(300.0, 200.0)]);
        let load = LevelLoad::RequestRate(300.0);
        LevelSummary { load, limit: None, ending: Ending::Stable, verdict, ..level(1, 200, 560) }
    };
    let mut result = plans::result(&setup(false, 1), &[late()]);
    let found = |result: &RunResult| {
        let answer = result.answer().unwrap();
        (answer.sure, answer.missing.unwrap().problem)
    };
    let (sure, note) = found(&result);
    assert!(sure == Sureness::Sure && note.starts_with("300 requests/s is overloaded"), "{note}");
    let open = Checked { open: true, interval: None, ..checked("p50<9ms", false, Judgement::Undecided) };
    result.requirements = vec![open];
    assert_eq!(found(&result), (Sureness::Undecided, note.clone()), "a gate that is open");
    result.requirements.clear();
    result.interrupted = true;
    assert_eq!(found(&result), (Sureness::Undecided, note), "a run that was broken off");
    let mut undelivered = late();
    undelivered.verdict = Verdict::Invalid(vec![InvalidReason::RateNotReached(300.0, 200.0)]);
    let result = plans::result(&setup(false, 1), &[undelivered]);
    assert_eq!(found(&result).0, Sureness::Undecided, "nothing is known of a load that was not sent");
}

/// What makes a level of a rate another one.
type Change = fn(&mut LevelSummary);

/// A range of rates, each with its mean latency in milliseconds, and what its level comes to.
fn of_rates(levels: &[(u64, u64, Change)]) -> Answer {
    let mut setup = setup(false, 1);
    let range = Range::with_step(100.0, Some(300.0), 100.0);
    setup.mode = LoadMode::RequestRate { range, distribution: GapDistribution::Constant };
    let level = |(rate, ms, change): &(u64, u64, Change)| {
        let load = LevelLoad::RequestRate(*rate as f64);
        let mut level = LevelSummary { load, limit: None, ending: Ending::Stable, ..level(1, *rate, *ms) };
        change(&mut level);
        level
    };
    answer(&setup, &levels.iter().map(level).collect::<Vec<_>>())
}

#[test]
fn no_rate_is_kept_up_with_above_one_that_is_too_much() {
    let valid: Change = |_| {};
    let overloaded: Change = |level| level.verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(200.0, 180.0)]);
    let found = of_rates(&[(100, 20, valid), (200, 90, overloaded), (300, 40, valid)]);
    assert!(found.words.starts_with("Highest rate kept up with: 100 requests/s"), "{}", found.words);
    assert!(found.words.contains("200 requests/s: overloaded"), "{}", found.words);
    // Its windows do not agree, and a tenth of what was sent is missing.
    let behind: Change = |level| {
        level.ending = Ending::Unstable;
        let open = sample::open_loop(200.0, &level.client.latency);
        level.client.open_loop = Some(OpenLoopSummary { completed_rate: 180.0, ..open });
    };
    let found = of_rates(&[(100, 20, valid), (200, 90, behind)]);
    assert!(found.words.starts_with("Highest rate kept up with: 100 requests/s"), "{}", found.words);
}

#[test]
fn the_least_latency_is_that_of_the_smallest_load_that_may_have_it() {
    let valid: Change = |_| {};
    let found = of_rates(&[(100, 21, valid), (200, 20, valid), (300, 40, valid)]);
    assert!(found.words.ends_with("at 100 requests/s"), "their intervals overlap: {}", found.words);
    let found = of_rates(&[(100, 40, valid), (200, 20, valid), (300, 60, valid)]);
    assert!(found.words.ends_with("at 200 requests/s"), "{}", found.words);
    // Of levels that did not settle, nobody knows.
    let unsettled = |ms| LevelSummary { ending: Ending::Unstable, ..level(1, 100, ms) };
    let found = answer(&setup(false, 2), &[unsettled(20), unsettled(40)]);
    assert!(!found.words.contains("least "), "{}", found.words);
}

#[test]
fn what_is_wrong_with_a_level_is_the_reason_of_its_outcome() {
    let mut level = level(4, 300, 60);
    level.ending = Ending::Unstable;
    let drifts = InvalidReason::Drifting(Statistic::Throughput, 0.5);
    level.verdict = Verdict::Invalid(vec![InvalidReason::IssuersLate(0.02), drifts]);
    let missing = answer(&setup(false, 1), &[level]).missing.unwrap();
    assert!(
        missing.label() == "Not sure"
            && missing.problem.starts_with("concurrency 4 is unstable: throughput changed by +50%"),
        "{}",
        missing.problem
    );
    assert_eq!(missing.command, None, "nothing is known to end a drift");
}

#[test]
fn what_a_longer_measurement_would_settle_has_the_command_for_it() {
    let command = |reason| {
        let mut level = level(4, 300, 60);
        (level.ending, level.limit) = (Ending::Unstable, None);
        level.verdict = Verdict::Invalid(vec![reason]);
        answer(&setup(false, 1), &[level]).missing.unwrap().command.unwrap_or_default()
    };
    let wanted = Precision { statistic: Statistic::Throughput, share: 0.02 };
    let windows = command(InvalidReason::Unsettled(wanted, Some(0.05)));
    assert!(windows.ends_with("--concurrency-range 4 --max-trials 63"), "{windows}");
    assert!(
        command(InvalidReason::TooFewSamples(99.0, 100, 662))
            .ends_with("--concurrency-range 4 --measurement-interval 34000")
    );
    assert!(command(InvalidReason::Unstable(None)).ends_with("--max-trials 10"));
    assert_eq!(command(InvalidReason::Overloaded(300.0, 200.0)), "", "no measurement makes the server faster");
}

#[test]
fn language_models_are_answered_in_their_own_figures() {
    let mut level = level(5, 5, 900);
    let mut generated = Generated::empty();
    generated.first_token = sample::distribution(100, 210_000_000);
    generated.inter_token = sample::distribution(100, 18_000_000);
    (generated.tokens, generated.counted) = (500, 5);
    (level.client.generated, level.client.good) = (Some(Box::new(generated)), Some(4));
    level.load = LevelLoad::RequestRate(5.0);
    let found = answer(&setup(false, 1), &[level]);
    assert_eq!(found.words, "At 5 requests/s: TTFT p99 210 ms, ITL p99 18 ms, 500 tokens/s, 80 % good");
}

#[test]
fn a_percentile_of_texts_that_is_their_slowest_is_not_sure() {
    let mut setup = setup(false, 1);
    setup.command_line = ["-m", "m", "--request-count", "20"].map(str::to_owned).to_vec();
    setup.measurement.request_count = Some(20);
    let texts = |[first, between]: [u64; 2]| {
        let mut level = level(5, 20, 900);
        let mut generated = Generated::empty();
        generated.first_token = sample::distribution(first, 210_000_000);
        generated.inter_token = sample::distribution(between, 18_000_000);
        (generated.tokens, generated.counted) = (500, 20);
        level.client.generated = Some(Box::new(generated));
        level
    };
    let of = |setup: &Setup, samples| answer(setup, &[texts(samples)]);
    let found = of(&setup, [20, 20]);
    let missing = found.missing.unwrap();
    let problem = "TTFT p99 at concurrency 5 is that of the slowest of 20 requests; 200 tell more";
    assert_eq!((found.sure, missing.problem.as_str(), missing.is_certain), (Sureness::Undecided, problem, false));
    let command = missing.command.unwrap();
    assert!(command.ends_with("-m m --concurrency-range 5 --request-count 200"), "{command}");
    assert_eq!(found.words, "At concurrency 5: TTFT p99 210 ms, ITL p99 18 ms, 500 tokens/s");
    let problem = of(&setup, [120, 99]).missing.unwrap().problem;
    assert_eq!(problem, "ITL p99 at concurrency 5 is that of the slowest of 99 requests; 200 tell more");
    assert_eq!(of(&setup, [100, 100]).sure, Sureness::Sure);
    assert_eq!(of(&setup, [0, 0]).sure, Sureness::Sure, "no percentile is told of answers that are not streamed");
    setup.measurement.percentile = Some(95.0);
    assert_eq!(of(&setup, [20, 20]).sure, Sureness::Sure);
    assert!(of(&setup, [19, 19]).missing.unwrap().problem.ends_with(" of 19 requests; 40 tell more"));
    setup.measurement.percentile = Some(99.9);
    assert_eq!(of(&setup, [1000, 1000]).sure, Sureness::Sure);
    setup.measurement.request_count = None;
    let command = of(&setup, [20, 20]).missing.unwrap().command.unwrap();
    assert!(command.contains("--concurrency-range 5 --measurement-interval "), "{command}");
    setup.mode = LoadMode::FixedSchedule;
    assert_eq!(of(&setup, [20, 20]).missing.unwrap().command, None, "it has the requests that it has");
    let latency = answer(&setup, &[texts([0, 0]), texts([0, 0])]).missing.unwrap().problem;
    assert!(
        latency.starts_with("p99.9 at ") && latency.ends_with(" the slowest of 20 requests; 2000 tell more"),
        "{latency}"
    );
}

#[test]
fn what_so_few_requests_came_to_is_not_sure() {
    let mut setup = setup(false, 1);
    setup.command_line = ["-m", "m", "--request-count", "50"].map(str::to_owned).to_vec();
    setup.measurement.request_count = Some(50);
    let timed =
        |concurrency, rate, ms| LevelSummary { intervals: Vec::new(), limit: None, ..level(concurrency, rate, ms) };
    let bare = |concurrency, rate| timed(concurrency, rate, 20);
    let found = answer(&setup, &[bare(1, 50)]);
    assert_eq!((found.words.as_str(), found.sure), ("50 infer/s at concurrency 1, p99 20 ms", Sureness::Undecided));
    let missing = found.missing.unwrap();
    assert_eq!(missing.problem, "50 requests do not tell how well p99 is known at concurrency 1; more may");
    assert!(missing.command.unwrap().ends_with("-m m --concurrency-range 1 --request-count 500"));
    let knee = answer(&setup, &[timed(1, 130, 10), timed(2, 140, 20), timed(3, 150, 30)]);
    assert!(knee.words.starts_with("Knee: ") && knee.sure == Sureness::Undecided, "{knee:?}");
    setup.mode = LoadMode::FixedSchedule;
    let missing = answer(&setup, &[bare(1, 1)]).missing.unwrap();
    assert_eq!(missing.problem, "1 request does not tell how well p99 is known at concurrency 1");
    assert_eq!(missing.command, None, "it has the requests that it has");
    // A moment has stretches without any request, however many it has in all.
    let mut short = LevelSummary { limit: None, ..level(1, 20_000, 20) };
    short.client.duration = Duration::from_millis(360);
    let throughput = short.intervals.iter_mut().find(|estimate| estimate.statistic == Statistic::Throughput).unwrap();
    *throughput = StatisticEstimate::new(Statistic::Throughput, Some(Interval { low: 58.0, high: 1.8e9 }));
    assert_eq!((throughput.interval, throughput.bounds), (None, Bounds::default()));
    setup.mode = LoadMode::one_concurrency(1);
    let missing = answer(&setup, &[short]).missing.unwrap();
    assert_eq!(
        missing.problem,
        "360 ms of measuring do not tell how well throughput is known at concurrency 1; more may"
    );
}

#[test]
fn two_results_are_answered_by_how_they_differ() {
    let result = |ms| plans::result(&setup(false, 1), &[level(1, 1_000 / ms, ms)]);
    let (old, new) = (result(20), result(40));
    let found = compared(&changes(&old, &new, 0.05), ["old", "new"], &new.setup).unwrap();
    assert!(found.words.starts_with("new is 100 % slower than old (p99, 73.5 to 1"), "{}", found.words);
    let found = compared(&changes(&new, &old, 0.05), ["new", "old"], &new.setup).unwrap();
    assert!(found.words.starts_with("old is 50 % faster than new (p99, 42."), "{}", found.words);
    let found = compared(&changes(&old, &old, 0.05), ["old", "old"], &new.setup).unwrap();
    assert!(found.words.contains("undecided") && found.missing.is_some(), "a tenth hides a twentieth: {}", found.words);
}

fn variants(sizes: &[u64], ms: impl Fn(u64, usize) -> f64) -> VariantsResult {
    let figure = crate::rounds::Figure::Client(Statistic::MeanLatency);
    let turn = |ms: f64| Some(Turn { values: vec![Value { figure, value: ms * 1e6 }], requests: 9, ..Turn::default() });
    let round = |size: u64, number: usize| Round {
        number: number + 1,
        order: vec![0, 1],
        units: (0..2).map(|variant| turn(ms(size, variant) * (1.0 + 0.001 * (number % 3) as f64))).collect(),
        start: 1,
        set_aside: false,
    };
    let cell = |size: &u64| Cell {
        loads: vec![LevelLoad::Concurrency(1); 2],
        size: (*size > 0).then_some(*size),
        input_bytes: vec![None; 2],
        output_bytes: vec![None; 2],
        bare: None,
        window_times: 1,
        rounds: (0..10).map(|number| round(*size, number)).collect(),
        measured_s: 0.0,
    };
    let name = |name: &str| VariantIdentity { name: name.to_owned(), flags: String::new(), problem: None };
    VariantsResult {
        matrix: None,
        variants: vec![name("old"), name("new")],
        rounds: Rounds { count: 10, order: Order::Abba, margin: 0.05, until_decided: None },
        starts: 1,
        seed: 1,
        primary: figure,
        cells: sizes.iter().map(cell).collect(),
    }
}

fn answered(variants: VariantsResult) -> Answer {
    let result = plans::result(&plans::setup(), &[]);
    RunResult { variants: Some(variants), ..result }.answer().unwrap()
}

#[test]
fn variants_are_answered_by_the_change_and_studies_by_the_fastest() {
    let found = answered(variants(&[0], |_, variant| 10.0 + variant as f64));
    assert!(found.words.starts_with("new is 10 % slower than old (mean latency, "), "{}", found.words);
    assert_eq!(found.sure, Sureness::Sure);
    let ms = |size: u64, variant: usize| if (size > 64) == (variant == 1) { 1.0 } else { 2.0 };
    let study = VariantsResult { matrix: Some("memory".to_owned()), ..variants(&[64, 1024, 1 << 20], ms) };
    let found = answered(study);
    assert_eq!(found.words, "Fastest: old at 64 B (mean latency 1 ms); new from 1 KiB to 1 MiB");
    assert_eq!((found.question, found.sure), (Question::Study, Sureness::Sure));
}

#[test]
fn a_study_is_answered_load_by_load_and_from_the_smallest_size_up() {
    let ms = |size: u64, variant: usize| if (size > 64) == (variant == 1) { 1.0 } else { 2.0 };
    let mut study = VariantsResult { matrix: Some("memory".to_owned()), ..variants(&[1 << 20, 64, 1024], ms) };
    let found = answered(study.clone());
    assert_eq!(found.words, "Fastest: old at 64 B (mean latency 1 ms); new from 1 KiB to 1 MiB");
    assert_eq!(found.figures[0].subject, "old at 64 B");
    // At another load the other way is the faster one.
    let mut loaded = variants(&[1 << 20, 64, 1024], |size, variant| ms(size, 1 - variant)).cells;
    loaded.iter_mut().for_each(|cell| cell.loads = vec![LevelLoad::Concurrency(4); 2]);
    study.cells = study.cells.into_iter().zip(loaded).flat_map(|(one, four)| [one, four]).collect();
    let found = answered(study);
    let words = "Fastest: old at 64 B, concurrency 1 (mean latency 1 ms); new from 1 KiB to 1 MiB, concurrency 1; \
        new at 64 B, concurrency 4 (mean latency 1 ms); old from 1 KiB to 1 MiB, concurrency 4";
    assert_eq!(found.words, words);
    assert_eq!(found.figures[1].subject, "old at 1 MiB, concurrency 4");
}

#[test]
fn ways_that_are_as_fast_are_named_together_and_only_open_ones_need_more_rounds() {
    let study =
        |ms: fn(u64, usize) -> f64| VariantsResult { matrix: Some("memory".to_owned()), ..variants(&[64, 1024], ms) };
    let found = answered(study(|_, variant| 1.0 + 0.01 * variant as f64));
    assert!(found.words.starts_with("Fastest: old and new from 64 B to 1 KiB"), "{}", found.words);
    assert_eq!((found.sure, found.missing), (Sureness::Sure, None), "nothing is open");
    let other_order = answered(study(|size, variant| if (size > 64) == (variant == 1) { 1.0 } else { 1.01 })).words;
    assert!(other_order.starts_with("Fastest: old and new from 64 B to 1 KiB"), "{other_order}");
    let mut open = study(|_, _| 1.0);
    for (number, round) in open.cells[1].rounds.iter_mut().enumerate() {
        let turn = round.units[1].as_mut().unwrap();
        turn.values[0].value *= if number % 2 == 0 { 1.2 } else { 0.85 };
    }
    let found = answered(open);
    let missing = found.missing.unwrap();
    let problem = missing.problem.strip_prefix("in 1 of 2 cells another is not known to be slower; ").unwrap();
    assert!(problem.ends_with(" rounds would probably decide"), "{problem}");
    assert!(missing.command.unwrap().contains("--rounds ") && found.sure == Sureness::Undecided);
    let mut close = study(|_, _| 1.0);
    for (number, round) in close.cells[1].rounds.iter_mut().enumerate() {
        let turn = round.units[1].as_mut().unwrap();
        turn.values[0].value *= if number % 2 == 0 { 1.3 } else { 0.8 };
    }
    let missing = answered(close).missing.unwrap();
    assert!(missing.problem.ends_with("told apart within an hour") && missing.command.is_none(), "{missing:?}");
}

#[test]
fn a_throughput_that_changed_alone_is_told_of_two_results_as_well() {
    let level = |rate: u64| {
        let mut level = level(1, rate, 20);
        level.intervals[2].interval = None;
        level
    };
    let result = |rate| plans::result(&setup(false, 1), &[level(rate)]);
    let (old, new) = (result(100), result(300));
    let found = compared(&changes(&old, &new, 0.05), ["old", "new"], &new.setup).unwrap();
    assert!(
        found.words.starts_with("new against old is undecided (p99 0 %), with 200 % more throughput ("),
        "{found:?}"
    );
    let values: Vec<f64> = found.figures.iter().map(|figure| figure.value).collect();
    assert_eq!(values[3..5], [100.0, 300.0], "the tiles of a page show both");
    assert_eq!(found.sure, Sureness::Undecided);
}

#[test]
fn failures_are_told_beside_the_latency() {
    let failing = |failed: u64| {
        let mut level = level(1, 100_000, 20);
        (level.client.failed, level.client.requests) = (failed, 100_000 - failed);
        plans::result(&setup(false, 1), &[level])
    };
    let (old, new) = (failing(0), failing(900));
    let found = compared(&changes(&old, &new, 0.5), ["old", "new"], &new.setup).unwrap();
    assert!(
        found.words.starts_with("new is as fast as old (p99 ")
            && found.words.ends_with(" %), with 0.9 % of requests failed instead of 0 %"),
        "{}",
        found.words
    );
    let mut broken = variants(&[0], |_, _| 10.0);
    for round in &mut broken.cells[0].rounds {
        round.units.iter_mut().flatten().for_each(|unit| unit.requests = 1_000);
        round.units[1].as_mut().unwrap().failed = 1_000;
    }
    let words = answered(broken).words;
    assert!(words.ends_with(", with 50 % of requests failed instead of 0 %"), "{words}");
}

#[test]
fn a_throughput_that_changed_otherwise_is_told_beside_the_latency() {
    let words = |slower: f64, rates: [f64; 2]| {
        let mut found = variants(&[0], |_, variant| 10.0 + slower * variant as f64);
        let figure = crate::rounds::Figure::Client(Statistic::Throughput);
        for round in &mut found.cells[0].rounds {
            for (variant, turn) in round.units.iter_mut().flatten().enumerate() {
                turn.values.push(Value { figure, value: rates[variant] });
            }
        }
        answered(found).words
    };
    let alone = words(0.0, [200.0, 800.0]);
    assert!(
        alone.starts_with("new is as fast as old (mean latency ") && alone.contains("with 300 % more throughput"),
        "{alone}"
    );
    let batch = words(5.0, [200.0, 800.0]);
    assert!(
        batch.starts_with("new is 50 % slower than old") && batch.contains("with 300 % more throughput"),
        "{batch}"
    );
    let slow = words(5.0, [200.0, 100.0]);
    assert!(slow.starts_with("new is 50 % slower than old") && !slow.contains("throughput"), "{slow}");
}

#[test]
fn a_variant_that_failed_is_not_left_out_of_the_answer() {
    let broken = |variant: usize| {
        let mut found = variants(&[0], |_, variant| 10.0 + variant as f64);
        found.variants.push(VariantIdentity { name: "third".to_owned(), flags: String::new(), problem: None });
        for cell in &mut found.cells {
            cell.loads.push(LevelLoad::Concurrency(1));
            for round in &mut cell.rounds {
                round.order.push(2);
                round.units.push(round.units[1].clone());
                round.units[variant] = Some(Turn { problem: Some("it broke".to_owned()), ..Turn::default() });
            }
        }
        found
    };
    let found = answered(broken(2));
    assert!(found.words.contains("third cannot be compared with old (it broke)"), "{}", found.words);
    assert!(found.words.contains("new is 10 % slower than old"), "{}", found.words);
    let none = answered(broken(0));
    assert!(none.words.starts_with("new cannot be compared with old (it broke); third cannot"), "{}", none.words);
    assert_eq!((none.sure, none.missing), (Sureness::NotMeasured, None));
    let mut empty = variants(&[0], |_, _| 10.0);
    empty.cells[0].rounds.clear();
    let result = RunResult { variants: Some(empty), ..plans::result(&plans::setup(), &[]) };
    assert_eq!(result.answer(), None, "nothing was measured yet");
}

#[test]
fn a_level_that_is_no_longer_valid_is_said_before_those_that_are_compared() {
    let levels = || [level(1, 100, 20), level(2, 200, 20)];
    let old = plans::result(&setup(false, 2), &levels());
    let [first, mut second] = levels();
    second.ending = Ending::Failed;
    let new = plans::result(&setup(false, 2), &[first, second]);
    let words = compared(&changes(&old, &new, 0.05), ["old", "new"], &new.setup).unwrap().words;
    assert!(
        words.starts_with("concurrency 2 is not compared (valid in old, failed in new); new against old"),
        "{words}"
    );
    let [first, _] = levels();
    let alone = |ending| plans::result(&setup(false, 1), &[LevelSummary { ending, ..first.clone() }]);
    let (fine, failed) = (alone(Ending::Stable), alone(Ending::Failed));
    let none = compared(&changes(&fine, &failed, 0.05), ["old", "new"], &failed.setup).unwrap();
    assert_eq!(none.words, "new and old cannot be compared: no level is valid in both");
}

#[test]
fn every_variant_is_named_before_one_is_named_twice() {
    let mut found = variants(&[64, 128, 256], |_, variant| 10.0 + variant as f64);
    found.variants.push(VariantIdentity { name: "third".to_owned(), flags: String::new(), problem: None });
    for cell in &mut found.cells {
        cell.loads.push(LevelLoad::Concurrency(1));
        for round in &mut cell.rounds {
            round.order.push(2);
            round.units.push(round.units[1].clone());
        }
    }
    let words = answered(found).words;
    assert!(words.contains("third is ") && words.contains("; and 3 more comparisons"), "{words}");
}

/// A requirement at concurrency 4 that came to 18 to 22 ms.
fn checked(text: &str, passes: bool, outcome: Judgement) -> Checked {
    Checked {
        text: text.to_owned(),
        variant: None,
        level: Some(LevelLoad::Concurrency(4)),
        distinction: Distinction::default(),
        unit: Unit::Nanoseconds,
        value: Some(20e6),
        interval: Some(Interval { low: 18e6, high: 22e6 }),
        bounds: crate::stats::Bounds::default(),
        bound: Some(19e6),
        outcome,
        measured_s: None,
        passes,
        open: false,
        vague_baseline: false,
        note: None,
    }
}

#[test]
fn a_gate_that_is_decided_needs_no_further_rounds() {
    // Too few rounds to tell anything.
    let mut few = variants(&[0], |_, variant| 10.0 + variant as f64);
    few.cells[0].rounds.truncate(3);
    let result = RunResult { variants: Some(few), ..plans::result(&plans::setup(), &[]) };
    let missing = |outcome| {
        let requirements = vec![checked("p50<+5%", outcome == Judgement::Passed, outcome)];
        RunResult { requirements, ..result.clone() }.answer().unwrap().missing
    };
    assert!(result.answer().unwrap().missing.is_some() && missing(Judgement::Undecided).is_some());
    assert!(missing(Judgement::Passed).is_none() && missing(Judgement::Failed).is_none());
}

#[test]
fn a_gate_says_the_one_condition_that_decided() {
    let mut result = plans::result(&setup(false, 1), &[level(4, 100, 20)]);
    let condition = checked;
    result.requirements =
        vec![condition("p99<30ms", true, Judgement::Passed), condition("p99<19ms", true, Judgement::Undecided)];
    let words = |result: &RunResult| result.answer().unwrap().gate.unwrap().words;
    assert_eq!(words(&result), "Passed, undecided: p99<19ms at concurrency 4: 20 ms (18 to 22 ms), and 1 more");
    result.requirements.push(Checked { open: true, ..condition("p99<18ms", false, Judgement::Undecided) });
    assert_eq!(words(&result), "Undecided: p99<18ms at concurrency 4: 20 ms (18 to 22 ms)");
    result.requirements.push(condition("p99<10ms", false, Judgement::Failed));
    assert_eq!(words(&result), "Failed: p99<10ms at concurrency 4: 20 ms (18 to 22 ms)");
    let note = Some(crate::checked::STILL_UNDER_WAY.to_owned());
    let waits = Checked { note, interval: None, open: true, ..condition("p99<19ms", false, Judgement::Undecided) };
    result.requirements = vec![waits];
    let expected =
        "Undecided: p99<19ms at concurrency 4: 20 ms; requests are still under way that have waited for long";
    assert!(words(&result).starts_with(expected), "{}", words(&result));
    let interval = Some(Interval { low: 0.621, high: 1.558 });
    let ratio = condition("throughput>-10%", false, Judgement::Undecided);
    result.requirements = vec![Checked { unit: Unit::Ratio, value: Some(0.952), interval, open: true, ..ratio }];
    let expected = "Undecided: throughput>-10% at concurrency 4: 0.952 of the baseline's (0.621 to 1.558)";
    assert_eq!(words(&result), expected, "a ratio says of what it is one");
}

#[test]
fn a_value_that_looks_like_its_bound_is_told_from_it() {
    let mut result = plans::result(&setup(false, 1), &[level(4, 100, 20)]);
    let interval = Some(Interval { low: 19_998_000.0, high: 20_100_000.0 });
    let close = checked("p99<20ms", false, Judgement::Undecided);
    result.requirements = vec![Checked { value: Some(20_004_000.0), bound: Some(2e7), interval, open: true, ..close }];
    let words = result.answer().unwrap().gate.unwrap().words;
    assert_eq!(words, "Undecided: p99<20ms at concurrency 4: 20.004 ms (19.998 to 20.1 ms)");
}

#[test]
fn a_single_load_is_not_searched() {
    let mut setup = setup(true, 4);
    setup.command_line = ["-m", "m", "--binary-search", "-l", "50"].map(str::to_owned).to_vec();
    let flag = setup.mode.flag();
    let with = |load: &str| command::command(&setup, &[(flag, load.to_owned())]);
    assert!(!with("3").contains("--binary-search") && with("3").contains("-l 50"), "{}", with("3"));
    assert!(with("1:9").contains("--binary-search"));
}

#[test]
fn a_level_that_failed_says_why() {
    let mut failed = LevelSummary { ending: Ending::Failed, ..level(1, 100, 20) };
    failed.verdict = Verdict::Invalid(vec![InvalidReason::Errors(1, 101)]);
    failed.client.failed = 1;
    let unlisted = InferError::new("Internal", crate::record::FURTHER_REASONS);
    failed.client.errors = vec![(InferError::new("Internal", "no weights for this tenant"), 1), (unlisted, 7)];
    let found = answer(&setup(false, 1), std::slice::from_ref(&failed));
    assert!(
        found.words.starts_with("Failed: Internal: no weights for this tenant; before, 100 infer/s"),
        "{}",
        found.words
    );
    assert!(found.missing.unwrap().problem.starts_with("concurrency 1 failed: 1 of 101"));
    failed.client.requests = 0;
    let found = answer(&setup(false, 1), &[failed]);
    let words = "Nothing was measured: no request succeeded at concurrency 1 (Internal: no weights for this tenant)";
    assert_eq!(found.words, words);
}

#[test]
fn several_rates_are_answered_by_the_highest_that_was_kept_up_with() {
    let mut setup = setup(false, 1);
    let (distribution, range) = (GapDistribution::Constant, Range::with_step(100.0, Some(300.0), 100.0));
    setup.mode = LoadMode::RequestRate { range, distribution };
    let rate = |rate: u64, ms| LevelSummary { load: LevelLoad::RequestRate(rate as f64), ..level(1, rate, ms) };
    let behind = |rate: f64, ms| {
        let mut level = LevelSummary { load: LevelLoad::RequestRate(rate), ..level(1, 240, ms) };
        level.verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(rate, 240.0)]);
        (level.limit, level.ending) = (None, Ending::Stable);
        level
    };
    let found = answer(&setup, &[rate(100, 20), rate(200, 25), behind(300.0, 400)]);
    let words = "Highest rate kept up with: 200 requests/s (p99 22.5 to 27.5 ms); 300 requests/s: overloaded; \
        least p99: 20 ms at 100 requests/s";
    assert_eq!(found.words, words);
    let found = answer(&setup, &[rate(100, 20), rate(200, 25)]);
    assert!(found.words.starts_with("Every rate was kept up with, up to 200 requests/s (p99 22.5"), "{}", found.words);
    let found = answer(&setup, &[behind(250.0, 300), behind(300.0, 400)]);
    let words = "No rate was kept up with, not even 250 requests/s (p99 ";
    assert!(found.words.starts_with(words) && found.missing.is_some(), "{}", found.words);
    let descending = answer(&setup, &[behind(300.0, 400), behind(250.0, 300)]).words;
    assert!(descending.starts_with(words), "{descending}");
}

#[test]
fn a_rate_whose_answers_grow_longer_is_kept_up_with_while_the_server_is_idle_at_times() {
    let slower = |ms: u64| {
        let mut level = LevelSummary { load: LevelLoad::RequestRate(100.0), ..level(1, 100, ms) };
        level.client.open_loop = Some(sample::open_loop(100.0, &level.client.latency));
        let drifts = InvalidReason::Drifting(Statistic::MeanLatency, 3.0);
        (level.ending, level.verdict, level.limit) = (Ending::Unstable, Verdict::Invalid(vec![drifts]), None);
        level
    };
    let mut setup = setup(false, 1);
    let (distribution, range) = (GapDistribution::Constant, Range::with_step(50.0, Some(100.0), 50.0));
    setup.mode = LoadMode::RequestRate { range, distribution };
    let low = LevelSummary { load: LevelLoad::RequestRate(50.0), ..level(1, 50, 2) };
    let words = |ms| answer(&setup, &[low.clone(), slower(ms)]).words;
    // Four fifths of the time it has a request to answer, and then two at a time.
    assert!(words(8).starts_with("Every rate was kept up with, up to 100 requests/s"), "{}", words(8));
    assert!(words(20).starts_with("Highest rate kept up with: 50 requests/s"), "{}", words(20));
}

#[test]
fn a_range_that_ends_with_its_first_load_names_the_others() {
    let over = [level(1, 130, 76)];
    let noted = |mode: LoadMode| {
        let found = answer(&Setup { mode, ..setup(true, 4) }, &over);
        assert!(found.words.starts_with("No load within p99 < 50 ms") && found.sure == Sureness::Sure, "{found:?}");
        found.missing.map(|missing| (missing.problem, missing.command.unwrap()))
    };
    let listed = Range { listed: vec![1, 2, 8], ..Range::with_step(1, Some(8), 1) };
    let (problem, command) = noted(LoadMode::Concurrency(listed)).unwrap();
    assert!(problem.contains("waits until it has a batch"), "{problem}");
    assert!(command.ends_with("--concurrency-range 2,8"), "{command}");
    let (_, command) = noted(LoadMode::Concurrency(Range::with_step(1, Some(9), 4))).unwrap();
    assert!(command.ends_with("--concurrency-range 5:9:4"), "{command}");
    let (_, command) = noted(LoadMode::Concurrency(Range::with_step(1, None, 2))).unwrap();
    assert!(command.ends_with("--concurrency-range 3:0:2"), "{command}");
    let two = answer(&setup(true, 4), &[level(1, 130, 76), level(2, 130, 90)]);
    assert_eq!(two.missing, None, "more was measured");
}

#[test]
fn a_percentile_that_is_not_known_asks_for_the_requests_that_it_needs() {
    let wanted = Precision { statistic: Statistic::Percentile(99.0), share: 0.1 };
    let reasons = vec![InvalidReason::Unsettled(wanted, None), InvalidReason::TooFewSamples(99.0, 100, 662)];
    let unknown = LevelSummary { ending: Ending::Unstable, limit: None, ..level(1, 100, 20) };
    let unknown = LevelSummary { verdict: Verdict::Invalid(reasons), ..unknown };
    let missing = answer(&setup(false, 1), &[unknown]).missing.unwrap();
    assert!(missing.problem.starts_with("concurrency 1 is unstable: the windows do not tell the p99"), "{missing:?}");
    let command = missing.command.unwrap();
    assert!(command.contains("--measurement-interval 34000"), "{command}");
}

#[test]
fn a_load_that_the_client_did_not_send_is_not_too_much_for_the_server() {
    let mut setup = setup(true, 1);
    setup.mode = LoadMode::RequestRate {
        range: Range::with_step(300.0, Some(400.0), 100.0),
        distribution: GapDistribution::Constant,
    };
    let rate = |rate: u64| LevelSummary { load: LevelLoad::RequestRate(rate as f64), ..level(1, rate, 20) };
    let late = LevelSummary { verdict: Verdict::Invalid(vec![InvalidReason::IssuersLate(0.2)]), ..rate(400) };
    let found = answer(&setup, &[rate(300), late]);
    assert!(found.words.starts_with("At least 300 infer/s within p99 < 50 ms"), "{}", found.words);
    assert!(found.missing.unwrap().problem.contains("400 requests/s was not delivered"), "{}", found.words);
}

#[test]
fn rates_that_differ_in_their_last_digit_have_names_of_their_own() {
    let mut setup = setup(false, 1);
    setup.command_line = ["-m", "m", "-t", "4"].map(str::to_owned).to_vec();
    let unstable = LevelSummary { ending: Ending::Unstable, ..level(4, 100, 20) };
    let reasons = vec![InvalidReason::TooFewSamples(99.0, 100, 662)];
    let unstable = LevelSummary { verdict: Verdict::Invalid(reasons.clone()), ..unstable };
    let command = answer(&setup, &[unstable]).missing.unwrap().command.unwrap();
    assert!(command.contains("--concurrency-range 4 ") && !command.contains("-t"), "{command}");
    setup.mode = LoadMode::RequestRate {
        range: Range::with_step(100.2, Some(100.4), 0.2),
        distribution: GapDistribution::Constant,
    };
    let rate = |rate: f64| LevelSummary { load: LevelLoad::RequestRate(rate), ..level(1, 100, 20) };
    let over = Verdict::Invalid(vec![InvalidReason::Overloaded(100.4, 90.0)]);
    let found = answer(&setup, &[rate(100.2), LevelSummary { verdict: over, ..rate(100.4) }]);
    assert!(
        found.words.contains("kept up with: 100.2 requests/s (") && found.words.contains("; 100.4 requests/s: "),
        "{found:?}"
    );
    let few = LevelSummary { verdict: Verdict::Invalid(reasons), ..rate(250.123) };
    let command = answer(&setup, &[rate(100.2), few]).missing.unwrap().command.unwrap();
    assert!(command.contains("--request-rate-range 250.123 "), "{command}");
}

#[test]
fn a_start_that_failed_is_said() {
    let reason = "the model could not be loaded".to_owned();
    let missing = MissingStarts { planned: 5, measured: 2, reason, requests_failed: false };
    let found = answer(&setup(false, 1), &[LevelSummary { missing_starts: Some(missing), ..level(1, 100, 20) }]);
    assert!(found.line().ends_with("; note: start 3 of 5 failed: the model could not be loaded"), "{}", found.line());
    assert_eq!(found.sure, Sureness::Undecided);
}
