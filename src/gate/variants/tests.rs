//! The gate of variants on simulated rounds with a known truth: how often it is wrong, and how long it takes.

use std::time::Duration;

use super::*;
use crate::exit::{self, Codes};
use crate::plan::Relation;
use crate::result::rounds::Unit as Turn;
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
