//! The comparison on simulated rounds with a known truth: how often it is wrong, and what it detects.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use std::time::Duration;

use super::*;
use crate::result::rounds::Value;
use crate::terms::{Order, Statistic};

const MEAN: Figure = Figure::Client(Statistic::MeanLatency);
const ORDER: Rounds = Rounds { count: 10, order: Order::Abba, margin: 0.05, until_decided: None };

const READING: Reading = Reading { margin: 0.05, seed: 1, sequential: false };

/// How a simulated machine behaves.
#[derive(Clone, Copy)]
pub(crate) struct World {
    /// The true ratio of the variant to the reference.
    pub(crate) ratio: f64,
    /// Deviation of a unit, as a share.
    pub(crate) noise: f64,
    /// Deviation of a request, as a share.
    pub(crate) scatter: f64,
    /// How much of its deviation a request has from the request before, 0 to 1.
    pub(crate) correlation: f64,
    /// By how much the machine gets slower over the run.
    pub(crate) drift: f64,
    pub(crate) rounds: usize,
    pub(crate) order: Order,
}

/// One on which little happens.
pub(crate) const QUIET: World =
    World { ratio: 1.0, noise: 0.02, scatter: 0.0, correlation: 0.0, drift: 0.0, rounds: 10, order: Order::Abba };

/// Requests of a unit, where they are correlated.
const REQUESTS: usize = 100;

fn unit(ns: f64) -> Option<Unit> {
    Some(Unit { values: vec![Value { of: MEAN, value: ns }], requests: 1_000, ..Unit::default() })
}

pub(crate) fn cell(rounds: Vec<Round>) -> Cell {
    Cell {
        loads: vec![LevelLoad::Concurrency(1); 2],
        size: None,
        input_bytes: vec![None; 2],
        output_bytes: vec![None; 2],
        bare: None,
        window_times: 1,
        measured_s: 0.0,
        rounds,
    }
}

/// The rounds of a run in such a world.
pub(crate) fn run(world: World, seed: u64) -> Cell {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = || -> f64 { StandardNormal.sample(&mut random) };
    let plan = Rounds { count: world.rounds, order: world.order, ..ORDER };
    let (mut state, mut turn, turns) = (draw(), 0.0, 2.0 * world.rounds as f64);
    let fresh = (1.0 - world.correlation.powi(2)).sqrt();
    let rounds = (0..world.rounds).map(|number| {
        let order = plan.order_of(number, 2, seed);
        let mut units = vec![None; 2];
        for &subject in &order {
            // The queue of one unit is that with which the next begins.
            let mut sum = 0.0;
            for _ in 0..if world.scatter > 0.0 { REQUESTS } else { 0 } {
                state = world.correlation * state + fresh * draw();
                sum += state;
            }
            turn += 1.0;
            let machine = 1.0 + world.drift * turn / turns;
            let truth = if subject == 1 { world.ratio } else { 1.0 };
            let chance = world.noise * draw() + world.scatter * sum / REQUESTS as f64;
            units[subject] = unit(1e6 * truth * machine * chance.exp());
        }
        Round { start: 1, number: number + 1, order, units, set_aside: false }
    });
    cell(rounds.collect())
}

/// How many of so many runs come to one of these words, at each of the margins.
fn counts<const N: usize>(world: World, margins: [f64; N], runs: u64, words: &[Direction]) -> [usize; N] {
    let mut found = [0; N];
    for seed in 0..runs {
        let paired = run(world, seed).ratio(1, MEAN, Reading { seed, ..READING }).unwrap();
        for (count, margin) in found.iter_mut().zip(margins) {
            *count += usize::from(words.contains(&verdict(MEAN, &paired, margin)));
        }
    }
    found
}

fn count(world: World, margin: f64, runs: u64, words: &[Direction]) -> usize {
    counts(world, [margin], runs, words)[0]
}

const ALARMS: [Direction; 2] = [Direction::Worse, Direction::Better];

#[test]
fn what_is_alike_raises_an_alarm_in_less_than_six_of_a_hundred_runs() {
    let worlds = [
        QUIET,
        World { drift: 0.2, ..QUIET },
        World { scatter: 0.3, correlation: 0.9, ..QUIET },
        World { scatter: 0.3, correlation: 0.9, drift: 0.1, noise: 0.0, ..QUIET },
        World { drift: 0.1, order: Order::Random, ..QUIET },
        World { drift: 0.2, noise: 0.1, rounds: 12, ..QUIET },
    ];
    for (number, world) in worlds.into_iter().enumerate() {
        // Without a margin every difference counts: the test alone must hold.
        let [without, with] = counts(world, [0.0, 0.05], 2_000, &ALARMS);
        assert!(without <= 120 && with <= 120, "world {number}: {without} without a margin, {with} with one");
    }
}

#[test]
fn a_true_tenth_is_found() {
    let world = World { ratio: 1.1, noise: 0.03 / std::f64::consts::SQRT_2, ..QUIET };
    let found = count(world, 0.05, 2_000, &[Direction::Worse]);
    assert!(found >= 1_900, "{found} of 2000");
    let drifting = count(World { drift: 0.2, ..world }, 0.05, 2_000, &[Direction::Worse]);
    assert!(drifting >= 1_900, "{drifting} of 2000 with a drift");
    let better = count(World { ratio: 1.0 / 1.1, ..world }, 0.05, 500, &[Direction::Better]);
    assert!(better >= 475, "{better} of 500");
}

#[test]
fn what_is_alike_is_told_to_be_the_same() {
    let same = count(World { noise: 0.02 / std::f64::consts::SQRT_2, ..QUIET }, 0.05, 1_000, &[Direction::Same]);
    assert!(same >= 980, "{same} of 1000");
}

#[test]
fn one_stall_does_not_decide() {
    for seed in 0..50 {
        let mut stalled = run(QUIET, seed);
        stalled.rounds[4].units[1] = unit(5e6);
        let found = compare(&stalled, 1, READING, MEAN).figures[0];
        assert_eq!(found.verdict, Direction::Undecided, "{found:?}");
        assert!(found.rounds_to_decide.is_none_or(|rounds| rounds > 10), "{found:?}");
    }
}

#[test]
fn few_rounds_decide_nothing() {
    let few = World { ratio: 2.0, noise: 0.001, rounds: 5, ..QUIET };
    assert_eq!(count(few, 0.05, 50, &[Direction::Undecided]), 50, "five pairs have no p below 0.0625");
    assert_eq!(count(World { rounds: 6, ..few }, 0.05, 50, &[Direction::Worse]), 50);
}

#[test]
fn rounds_without_both_do_not_count() {
    let mut broken = run(World { rounds: 8, ..QUIET }, 1);
    broken.rounds[0].units[1] = Some(Unit { failed: 10, ..Unit::failed("gone") });
    broken.rounds[1].set_aside = true;
    broken.rounds[2].units[0] = None;
    broken.rounds[3].units[1].as_mut().unwrap().disturbed = true;
    let found = compare(&broken, 1, READING, MEAN);
    assert_eq!((found.rounds, found.disturbed), (5, 1));
    let errors = found.errors.unwrap();
    // 10 failed beside 6 times 1000 that succeeded.
    assert!((errors.value - 10.0 / 6_010.0).abs() < 1e-9 && errors.verdict == Direction::Worse, "{errors:?}");
}

#[test]
fn a_figure_that_slow_rounds_lack_is_not_told_of_the_others() {
    let p50 = Figure::Client(Statistic::Percentile(50.0));
    let mut partial = run(World { rounds: 9, ..QUIET }, 1);
    for (number, round) in partial.rounds.iter_mut().enumerate() {
        for unit in round.units.iter_mut().flatten().filter(|_| number < 3) {
            unit.values.push(Value { of: p50, value: 1e6 });
        }
    }
    let found = compare(&partial, 1, READING, MEAN);
    assert_eq!(found.figures.iter().map(|figure| figure.of).collect::<Vec<_>>(), [MEAN]);
    assert_eq!((partial.value(1, p50, READING), partial.ratio(1, p50, READING)), (None, None));
    // Where rounds go on, one that lacks it costs that round.
    let sequential = Reading { sequential: true, ..READING };
    assert_eq!(partial.ratio(1, p50, sequential).map(|paired| paired.units), Some(3));
    assert_eq!(partial.ratios(1, p50).lacking, 6);
    partial.rounds.truncate(3);
    assert_eq!(compare(&partial, 1, READING, MEAN).figures.len(), 2);
}

/// Two variants, measured in rounds that go on for that long at most if it is given.
pub(crate) fn of_two(cell: Cell, until_decided: Option<Duration>) -> VariantsResult {
    let identity = |name: &str| VariantIdentity { name: name.to_owned(), flags: String::new(), problem: None };
    VariantsResult {
        matrix: None,
        variants: ["a", "b"].map(identity).to_vec(),
        rounds: Rounds { count: 8, until_decided, ..ORDER },
        starts: 1,
        seed: 1,
        primary: MEAN,
        cells: vec![cell],
    }
}

#[test]
fn whoever_comes_first_may_matter() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let rounds = (0..10).map(|number| {
        let order = ORDER.order_of(number, 2, 1);
        let mut units = vec![None; 2];
        for (place, &subject) in order.iter().enumerate() {
            units[subject] = unit(1e6 * (1.0 + 0.1 * place as f64) * (1.0 + 0.01 * random.random::<f64>()));
        }
        Round { start: 1, number: number + 1, order, units, set_aside: false }
    });
    assert!(compare(&cell(rounds.collect()), 1, READING, MEAN).order_matters());
    let alarms = (0..500).filter(|&seed| compare(&run(QUIET, seed), 1, READING, MEAN).order_matters());
    assert!(alarms.count() < 15);
}

#[test]
fn starts_widen_what_differs_between_them() {
    let mut all = run(World { noise: 0.001, rounds: 8, ..QUIET }, 3);
    for (number, round) in all.rounds.iter_mut().enumerate() {
        round.start = 1 + number as u32 / 4;
        let shift = if round.start == 1 { 0.9 } else { 1.1 };
        let value = &mut round.units[1].as_mut().unwrap().values[0].value;
        *value *= shift;
    }
    let found = compare(&all, 1, READING, MEAN).figures[0];
    let interval = found.interval.unwrap();
    assert!(interval.low < 0.5 && interval.high > 2.0 && found.restart_share.unwrap() > 0.9, "{found:?}");
}
