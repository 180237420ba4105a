//! The gate of variants on simulated rounds with a known truth: how often it is wrong, and how long it takes.

use std::time::Duration;

use super::*;
use crate::exit::{self, Codes};
use crate::plan::Relation;
use crate::result::rounds::{NamedValue, Unit as Turn};
use crate::result::setup::sample as plans;
use crate::result::variants::simulation::{QUIET, World, cell, of_two, run};
use crate::seed;
use crate::terms::{Order, Statistic};

/// A gate that allows 5 % more.
fn gate() -> GatePlan {
    let requirement = Requirement {
        text: "avg<+5%".to_owned(),
        figure: Figure::Statistic(Statistic::MeanLatency),
        relation: Relation::Below,
        bound: Bound::Change(0.05),
        level: None,
    };
    GatePlan { requirements: vec![requirement], ..GatePlan::default() }
}

/// How a gate judges so many runs in such a world, whose rounds go on until it is decided: how often it holds, and does not,
/// and the median of the rounds that took. Of `spoiled` hundredths of the rounds one side lacks the figure, and as many stall.
fn judged(world: World, spoiled: u64, runs: u64) -> ([usize; 2], usize) {
    let (plan, mut counts, mut lengths) = (gate(), [0; 2], Vec::new());
    for seed in 0..runs {
        let whole = run(World { rounds: 45, ..world }, seed);
        let mut result = of_two(cell(Vec::new()), Some(Duration::from_secs(60)));
        for (number, mut round) in whole.rounds.into_iter().enumerate() {
            let draw = seed::hash(seed, number as u64) % 100;
            let side = round.units[draw as usize % 2].as_mut().unwrap();
            match draw {
                _ if draw < spoiled => side.values.clear(),
                _ if draw < 2 * spoiled => side.values[0].value *= 1.6,
                _ => {}
            }
            result.cells[0].rounds.push(round);
            if !is_undecided(&result, &plan, &result.cells[0]) {
                break;
            }
        }
        lengths.push(result.cells[0].rounds.len());
        let mut all = RunResult { variants: Some(result), ..plans::result(&plans::setup(), &[]) };
        judge_variants(&mut all, &plan, false);
        match all.requirements[0].outcome {
            Judgement::Passed => counts[0] += 1,
            Judgement::Failed => counts[1] += 1,
            Judgement::Undecided => {}
        }
    }
    lengths.sort_unstable();
    (counts, lengths[lengths.len() / 2])
}

#[test]
fn a_gate_that_goes_on_is_right_however_often_it_looks() {
    let unit = |noise: f64| World { noise: noise / std::f64::consts::SQRT_2, ..QUIET };
    let worlds = [
        ("quiet", unit(0.005), 0, 7),
        ("busy", unit(0.03), 0, 10),
        ("drifting", World { drift: 0.3, ..unit(0.02) }, 0, 12),
        ("drawn order", World { drift: 0.3, order: Order::Random, ..unit(0.02) }, 0, 12),
        ("correlated", World { scatter: 0.05, correlation: 0.9, ..QUIET }, 0, 16),
        ("lacking and stalling", unit(0.02), 10, 12),
    ];
    for (name, world, spoiled, most) in worlds {
        let (alike, length) = judged(world, spoiled, 40);
        assert!(alike[1] <= 1 && alike[0] >= 37 && length <= most, "{name}, alike: {alike:?} after {length}");
        let (slower, length) = judged(World { ratio: 1.1, ..world }, spoiled, 40);
        assert!(slower[0] == 0 && slower[1] >= 37 && length <= most, "{name}, slower: {slower:?} after {length}");
    }
}

/// A requirement on a figure of the catalogue.
fn require(text: &str, relation: Relation, bound: Bound) -> GatePlan {
    let figure = match text {
        "errors" => Figure::Errors,
        text => Figure::Named(FigureAt::named(text).unwrap().name()),
    };
    let requirement = Requirement { text: text.to_owned(), figure, relation, bound, level: None };
    GatePlan { requirements: vec![requirement], ..GatePlan::default() }
}

/// What becomes of a gate on rounds that go on until it is decided, and how many there were. `turn` is a variant's turn in a round.
fn decided(plan: &GatePlan, turn: impl Fn(usize, u64) -> Turn) -> (Vec<Checked>, usize) {
    let mut result = of_two(cell(Vec::new()), Some(Duration::from_secs(60)));
    for number in 0..45 {
        let units = (0..2).map(|variant| Some(turn(variant, number as u64))).collect();
        let round = Round { start: 1, number: number + 1, order: vec![0, 1], units, set_aside: false };
        result.cells[0].rounds.push(round);
        if !is_undecided(&result, plan, &result.cells[0]) {
            break;
        }
    }
    let rounds = result.cells[0].rounds.len();
    let mut all = RunResult { variants: Some(result), ..plans::result(&plans::setup(), &[]) };
    judge_variants(&mut all, plan, false);
    (all.requirements, rounds)
}

fn outcomes(checked: &[Checked]) -> Vec<Judgement> {
    checked.iter().map(|checked| checked.outcome).collect()
}

/// A turn of a hundred requests with a figure that differs by 3 % from round to round.
fn with(key: &str, middle: f64, seed: u64) -> Turn {
    let value = Some(middle * (0.97 + 0.06 * seed::unit(seed::hash(7, seed))));
    let named = vec![NamedValue { key: key.to_owned(), value, of: None, absent: false }];
    Turn { named, requests: 100, ..Turn::default() }
}

#[test]
fn any_figure_of_the_catalogue_is_judged_by_itself() {
    use Judgement::{Failed, Passed};
    for (text, relation, bound, sides) in [
        ("ttft_p99", Relation::Below, 200e6, [150e6, 250e6]),
        ("goodput", Relation::Above, 40.0, [50.0, 30.0]),
        ("output_token_throughput", Relation::AtLeast, 1_000.0, [1_200.0, 0.0]),
    ] {
        let plan = require(text, relation, Bound::Value(bound));
        let turn = |variant: usize, round: u64| with(text, sides[variant], 2 * round + variant as u64);
        let (checked, rounds) = decided(&plan, turn);
        assert_eq!(outcomes(&checked), [Passed, Failed], "{text}");
        assert!(rounds <= 12, "{text}: {rounds}");
        let value = checked[0].value.unwrap();
        assert!((value / sides[0] - 1.0).abs() < 0.03, "{text}: {value}");
        assert_eq!(checked[0].bound, Some(bound));
    }
}

#[test]
fn any_figure_of_the_catalogue_is_judged_against_the_first_variant() {
    for (text, relation, change, other, outcome) in [
        ("ttft_p99", Relation::Below, 0.05, 1.0, Judgement::Passed),
        ("ttft_p99", Relation::Below, 0.05, 1.12, Judgement::Failed),
        ("goodput", Relation::Above, -0.05, 1.01, Judgement::Passed),
        ("goodput", Relation::Above, -0.05, 0.0, Judgement::Failed),
        ("output_token_throughput", Relation::Above, -0.05, 1.0, Judgement::Passed),
        ("output_token_throughput", Relation::Above, -0.05, 0.9, Judgement::Failed),
    ] {
        let plan = require(text, relation, Bound::Change(change));
        let turn = |variant: usize, round: u64| {
            let machine = 1.0 + 0.5 * seed::unit(round);
            with(text, machine * [100.0, 100.0 * other][variant], 2 * round + variant as u64)
        };
        let (checked, rounds) = decided(&plan, turn);
        assert_eq!(outcomes(&checked), [outcome], "{text} {other}");
        assert!(rounds <= 20, "{text} {other}: {rounds}");
    }
}

#[test]
fn a_figure_that_a_variant_does_not_have_is_missed_at_once_and_one_of_too_few_requests_waits() {
    let plan = require("ttft_p99", Relation::Below, Bound::Value(1e9));
    let without = |absent| NamedValue { key: "ttft_p99".to_owned(), value: None, of: None, absent };
    let of = |named| Turn { named, requests: 100, ..Turn::default() };
    let none = |_, _| of(vec![without(true)]);
    let (checked, rounds) = decided(&plan, none);
    assert_eq!((outcomes(&checked), rounds), (vec![Judgement::Failed; 2], 1));
    assert!(checked[0].note.as_ref().unwrap().contains("does not have this figure"), "{checked:?}");
    let few = |_, _| of(vec![without(false)]);
    let (checked, rounds) = decided(&plan, few);
    assert_eq!((outcomes(&checked), rounds), (vec![Judgement::Undecided; 2], 45));
    let round = |turn: Turn| Round { start: 1, number: 1, order: vec![0], units: vec![Some(turn)], set_aside: false };
    assert!(lacks_figure(&plan, &round(few(0, 0))) && !lacks_figure(&plan, &round(none(0, 0))));
    assert!(!lacks_figure(&plan, &round(with("ttft_p99", 1e6, 1))));
    // Rounds that an earlier run has measured without that requirement say nothing of it.
    let (checked, rounds) = decided(&plan, |_, _| of(Vec::new()));
    assert_eq!((outcomes(&checked), rounds), (vec![Judgement::Undecided; 2], 45));
}

#[test]
fn rounds_without_the_figure_are_counted_in_words() {
    let plan = require("ttft_p99", Relation::Below, Bound::Value(200e6));
    let lacking = |count: u64| {
        let without = NamedValue { key: "ttft_p99".to_owned(), value: None, of: None, absent: false };
        let (checked, _) = decided(&plan, |_, round| match round < count {
            true => Turn { named: vec![without.clone()], requests: 100, ..Turn::default() },
            false => with("ttft_p99", 100e6, round),
        });
        checked[0].note.clone()
    };
    assert_eq!(lacking(0), None);
    assert_eq!(lacking(1).as_deref(), Some("1 round lacks it and does not count"));
    assert_eq!(lacking(2).as_deref(), Some("2 rounds lack it and do not count"));
}

#[test]
fn values_are_within_the_intervals_that_they_are_told_with() {
    let mut stalled = run(World { rounds: 20, ..World { noise: 0.005, ..QUIET } }, 5);
    for number in [3, 9, 15] {
        stalled.rounds[number].units[1].as_mut().unwrap().values[0].value *= 30.0;
    }
    let below = Requirement { bound: Bound::Value(1e9), ..gate().requirements[0].clone() };
    let plan = GatePlan { requirements: vec![below, gate().requirements[0].clone()], ..GatePlan::default() };
    let result = of_two(stalled, Some(Duration::from_secs(60)));
    let mut all = RunResult { variants: Some(result), ..plans::result(&plans::setup(), &[]) };
    judge_variants(&mut all, &plan, false);
    assert_eq!(all.requirements.len(), 3);
    for checked in &all.requirements {
        let interval = checked.interval.unwrap();
        assert!((interval.low..=interval.high).contains(&checked.value.unwrap()), "{checked:?}");
    }
}

/// A turn of a thousand requests of which so many fail, or miss the limits of `--goodput`.
fn failing(count: u64) -> Turn {
    let share = NamedValue {
        key: "goodput_share".to_owned(),
        value: Some(1.0 - count as f64 / 1_000.0),
        of: Some(1_000),
        absent: false,
    };
    Turn { named: vec![share], requests: 1_000 - count, failed: count, ..Turn::default() }
}

#[test]
fn shares_of_rounds_are_judged_by_how_much_these_differ() {
    let gates = [
        require("errors", Relation::Below, Bound::Value(0.01)),
        require("goodput_share", Relation::Above, Bound::Value(0.99)),
    ];
    for plan in &gates {
        // Every round loses four requests.
        let (checked, rounds) = decided(plan, |_, _| failing(4));
        assert_eq!(outcomes(&checked), [Judgement::Passed; 2]);
        assert!(rounds <= 12, "{rounds}");
        // Others lose thirty: every second one, 1.5 % of all, or every fifth, 0.6 %.
        let mut wrong = [0; 2];
        for seed in 0..200 {
            let burst = |round: u64| seed::unit(seed::hash(seed, round)) < 0.5;
            let (checked, _) = decided(plan, |_, round| failing(if burst(round) { 30 } else { 0 }));
            wrong[0] += usize::from(checked[0].outcome == Judgement::Passed);
            let burst = |round: u64| seed::unit(seed::hash(seed, round)) < 0.2;
            let (checked, _) = decided(plan, |_, round| failing(if burst(round) { 30 } else { 0 }));
            wrong[1] += usize::from(checked[0].outcome == Judgement::Failed);
        }
        assert!(wrong.iter().all(|count| *count <= 10), "{wrong:?} of 200");
    }
    let (checked, rounds) =
        decided(&require("errors", Relation::Below, Bound::Change(0.5)), |variant, _| failing([10, 40][variant]));
    assert_eq!(outcomes(&checked), [Judgement::Failed]);
    assert!(rounds <= 10, "{rounds}");
    let change = require("goodput_share", Relation::Above, Bound::Change(-0.05));
    let (checked, _) = decided(&change, |variant, _| failing([10, 12][variant]));
    assert_eq!(outcomes(&checked), [Judgement::Passed]);
    let (checked, _) = decided(&change, |variant, _| failing([10, 200][variant]));
    assert_eq!(outcomes(&checked), [Judgement::Failed]);
}

#[test]
fn what_a_gate_has_no_figure_for_is_undecided() {
    let mut bare = run(World { rounds: 8, ..QUIET }, 1);
    bare.rounds.iter_mut().for_each(|round| round.units[1].as_mut().unwrap().values.clear());
    let mut all = RunResult {
        variants: Some(of_two(bare, Some(Duration::from_secs(60)))),
        ..plans::result(&plans::setup(), &[])
    };
    judge_variants(&mut all, &gate(), false);
    let checked = &all.requirements[0];
    assert!(checked.outcome == Judgement::Undecided && checked.open, "{checked:?}");
    assert_eq!(all.exit_code(Codes::Own), exit::UNDECIDED);
    // A round that fails costs that round, and a variant that was given up the run.
    let variants = all.variants.as_mut().unwrap();
    variants.cells[0] = run(World { rounds: 8, ..QUIET }, 1);
    variants.cells[0].rounds[3].units[1] = Some(Turn::failed("no"));
    assert!(!variants.has_failures());
    variants.cells[0].rounds[7].units[1] = Some(Turn::failed("no"));
    assert!(variants.has_failures());
}

#[test]
fn a_run_that_was_broken_off_holds_nothing_that_it_did_not_measure() {
    let result = of_two(run(World { rounds: 8, ..QUIET }, 1), None);
    let requirement = Requirement {
        text: "avg<1s".to_owned(),
        figure: Figure::Statistic(Statistic::MeanLatency),
        relation: Relation::Below,
        bound: Bound::Value(1e9),
        level: None,
    };
    let plan = GatePlan { requirements: vec![requirement], ..GatePlan::default() };
    let mut whole = RunResult { variants: Some(result), ..plans::result(&plans::setup(), &[]) };
    judge_variants(&mut whole, &plan, false);
    assert!(whole.requirements.iter().all(|checked| checked.passes) && whole.requirements.len() == 2);
    judge_variants(&mut whole, &plan, true);
    let last = whole.requirements.last().unwrap();
    assert!(!last.passes && last.note.as_deref().unwrap().contains("interrupted"), "{last:?}");
    let variants = whole.variants.as_mut().unwrap();
    assert!(variants.is_consistent());
    variants.cells[0].rounds[0].units.clear();
    assert!(!variants.is_consistent());
}
