//! The comparison on simulated rounds with a known truth: how often it is wrong, and what it detects.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::simulation::{MEAN, ORDER, QUIET, World, cell, of_two, run, unit};
use super::*;
use crate::rounds::{NamedValue, Value};
use crate::terms::{Order, Statistic};

const READING: Reading =
    Reading { margin: 0.05, seed: 1, sequential: false, most_rounds: 10_000, state_s: ONE_STATE_S };

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

/// A second in which a scheduler keeps one variant beside others, in ten rounds of it, is one observation.
#[test]
fn rounds_within_a_second_say_one_thing_to_a_gate() {
    let sequential = Reading { sequential: true, ..READING };
    let bounds = |rounds: usize, seconds: Option<f64>| {
        let mut all = run(World { rounds, ..World { ratio: 1.2, noise: 0.002, ..QUIET } }, 1);
        all.rounds.iter_mut().flat_map(|round| &mut round.units).flatten().for_each(|unit| unit.seconds = seconds);
        all.ratios(1, MEAN).bounds(sequential).unwrap().1
    };
    assert!(bounds(6, Some(1.0)).low.is_some() && bounds(6, None).low.is_some());
    // Three rounds of two windows of a tenth make a state.
    assert_eq!(bounds(17, Some(0.1)), Bounds::default());
    assert!(bounds(18, Some(0.1)).low.is_some_and(|low| low > 1.15));
    // Once rounds have shown that each comes by itself, every one of them counts.
    let of_many = |rounds: usize, state: usize| {
        let mut all = run(World { rounds, ..World { ratio: 1.06, noise: 0.05, ..QUIET } }, 3);
        let moved = |number: usize| if (number / state).is_multiple_of(2) { 1.1 } else { 1.0 / 1.1 };
        for (number, round) in all.rounds.iter_mut().enumerate() {
            round.units.iter_mut().flatten().for_each(|unit| unit.seconds = Some(0.1));
            let value = &mut round.units[1].as_mut().unwrap().values[0].value;
            *value *= if state > 0 { moved(number) } else { 1.0 };
        }
        all.ratios(1, MEAN).states(sequential).concat().len()
    };
    assert!(of_many(24, 0) == 8 && of_many(60, 0) > 35, "{}", of_many(60, 0));
    assert_eq!(of_many(60, 6), 20);
    // A gate of three seconds has no time for six such states.
    let reading = |seconds| of_two(run(QUIET, 1), Some(Duration::from_secs(seconds))).reading();
    assert!((reading(3).state_s - 0.25).abs() < 1e-9 && reading(60).state_s == ONE_STATE_S);
    // Six rounds decide where there will be no more.
    let mut six = run(World { rounds: 6, ..World { ratio: 1.2, noise: 0.002, ..QUIET } }, 1);
    six.rounds.iter_mut().flat_map(|round| &mut round.units).flatten().for_each(|unit| unit.seconds = Some(0.1));
    assert!(six.ratios(1, MEAN).bounds(Reading { most_rounds: 6, ..sequential }).unwrap().1.low.is_some());
}

/// Of three rounds of twenty in which the machine stood still the bounds take no notice, so a mean would lie outside of them.
#[test]
fn values_and_ratios_of_rounds_that_go_on_are_within_their_intervals() {
    let sequential = Reading { sequential: true, ..READING };
    for starts in [1, 3] {
        let mut all = run(World { rounds: 20, ..World { noise: 0.005, ..QUIET } }, 5);
        for (number, round) in all.rounds.iter_mut().enumerate() {
            round.start = 1 + (number as u32) % starts;
        }
        [3, 9, 15].into_iter().for_each(|number| all.rounds[number].units[1] = unit(30e6));
        let (value, bounds) = all.estimate(1, MEAN, sequential).unwrap();
        assert!(bounds.low.unwrap() <= value && value <= bounds.high.unwrap(), "{value} {bounds:?}");
        assert_eq!(all.value(1, MEAN, sequential), Some(value));
        let found = compare(&all, 1, sequential, MEAN).figures[0];
        let interval = found.interval.unwrap();
        assert!((interval.low..=interval.high).contains(&found.ratio) && found.ratio < 1.02, "{found:?}");
        assert!((found.value / value - 1.0).abs() < 1e-9, "{found:?} {value}");
        // With a fixed number of rounds both are of the mean.
        let fixed = compare(&all, 1, READING, MEAN).figures[0];
        let interval = fixed.interval.unwrap();
        assert!((interval.low..=interval.high).contains(&fixed.ratio) && fixed.ratio > 1.3, "{fixed:?}");
    }
}

/// In each start of a server a model may have its own speed, which no number of rounds shows.
#[test]
fn most_of_several_starts_decide_a_gate() {
    let sequential = Reading { sequential: true, ..READING };
    let bounds = |ratios: &[f64]| {
        let mut all = run(QUIET, 1);
        let starts = ratios.iter().zip(1..).map(|(ratio, start)| {
            let rounds = run(World { rounds: 12, ..World { ratio: *ratio, noise: 0.005, ..QUIET } }, 7).rounds;
            rounds.into_iter().map(move |round| Round { start, ..round })
        });
        all.rounds = starts.flatten().collect();
        let (ratio, bounds) = all.ratios(1, MEAN).bounds(sequential).unwrap();
        let paired = all.ratio(1, MEAN, sequential).unwrap();
        assert!((ratio - paired.ratio).abs() < 1e-12);
        let ends = paired.interval.map(|interval| (interval.low, interval.high));
        assert_eq!(ends, bounds.low.zip(bounds.high), "{ratios:?}");
        (bounds.low.unwrap(), bounds.high.unwrap())
    };
    let is_below = |ratios: &[f64]| bounds(ratios).1 < 1.05;
    let is_above = |ratios: &[f64]| bounds(ratios).0 > 1.05;
    assert!(is_below(&[1.0]) && is_above(&[1.1]));
    assert!(is_below(&[1.0, 1.0]) && is_above(&[1.1, 1.1]));
    assert!(!is_below(&[1.0, 1.1]) && !is_above(&[1.0, 1.1]), "two that contradict each other decide nothing");
    assert!(is_below(&[1.1, 1.0, 1.0]) && is_above(&[1.1, 1.0, 1.1]));
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
    // 10 failed beside 6 times 1000 that succeeded, all of them at once.
    assert!((errors.value - 10.0 / 6_010.0).abs() < 1e-9 && errors.verdict == Direction::Undecided, "{errors:?}");
    broken.rounds.iter_mut().filter_map(|round| round.units[1].as_mut()).for_each(|unit| unit.failed = 10);
    assert_eq!(compare(&broken, 1, READING, MEAN).errors.unwrap().verdict, Direction::Worse, "in every round");
}

#[test]
fn a_figure_that_slow_rounds_lack_is_not_told_of_the_others() {
    let p50 = Figure::Client(Statistic::Percentile(50.0));
    let mut partial = run(World { rounds: 9, ..QUIET }, 1);
    for (number, round) in partial.rounds.iter_mut().enumerate() {
        for unit in round.units.iter_mut().flatten().filter(|_| number < 3) {
            unit.values.push(Value { figure: p50, value: 1e6 });
        }
    }
    let found = compare(&partial, 1, READING, MEAN);
    assert_eq!(found.figures.iter().map(|figure| figure.figure).collect::<Vec<_>>(), [MEAN]);
    assert_eq!((partial.value(1, p50, READING), partial.ratio(1, p50, READING)), (None, None));
    // Where rounds go on, one that lacks it costs that round.
    let sequential = Reading { sequential: true, ..READING };
    assert_eq!(partial.ratio(1, p50, sequential).map(|paired| paired.units), Some(3));
    assert_eq!(partial.ratios(1, p50).lacking, 6);
    partial.rounds.truncate(3);
    assert_eq!(compare(&partial, 1, READING, MEAN).figures.len(), 2);
}

#[test]
fn whoever_comes_first_may_matter() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let rounds = (0..10).map(|number| {
        let order = ORDER.order_of(number, 2, 1);
        let mut units = vec![None; 2];
        for (index, &subject) in order.iter().enumerate() {
            units[subject] = unit(1e6 * (1.0 + 0.1 * index as f64) * (1.0 + 0.01 * random.random::<f64>()));
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

#[test]
fn figures_that_only_requirements_are_about_are_in_the_file_and_its_catalogue() {
    let mut cell = run(World { rounds: 6, ..QUIET }, 1);
    for (number, unit) in cell.rounds.iter_mut().flat_map(|round| &mut round.units).flatten().enumerate() {
        let named = |key: &str, value, of| NamedValue { key: key.to_owned(), value: Some(value), of, absent: false };
        let good = if number % 4 < 2 { 1.0 } else { 0.5 };
        let cached = if number < 2 { 0.0 } else { 0.5 };
        unit.named = vec![
            named("ttft_p99", 2e6, None),
            named("goodput_share", good, Some(100)),
            named("cache_hit_rate", cached, None),
        ];
    }
    let result = of_two(cell, None);
    let figures = result.figures(&result.cells[0], 1);
    assert!((figures["ttft_p99"] / 2e6 - 1.0).abs() < 1e-9 && figures.contains_key("avg"), "{figures:?}");
    assert_eq!((figures["goodput_share"], figures["cache_hit_rate"]), (0.75, 0.0));
    let reported: Vec<String> = result.reported().into_iter().map(|figure| figure.key()).collect();
    assert!(["ttft_p99", "goodput_share", "cache_hit_rate"].iter().all(|key| reported.iter().any(|name| name == key)));
}
