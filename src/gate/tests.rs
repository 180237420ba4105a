//! Gates on simulated runs with a known truth: how often they are wrong, and what they find.

use super::*;
use crate::plan::Relation;
use crate::result::summary::{AcrossStarts, Restarts, sample};
use crate::seed::{hash, unit};

const OF: Statistic = Statistic::MeanLatency;

fn below(bound: Bound) -> Requirement {
    Requirement { text: "avg".to_owned(), figure: Figure::Statistic(OF), relation: Relation::Below, bound, level: None }
}

/// How often each world is simulated.
const RUNS: u64 = 500;

/// Standard normal draws.
struct Draws(u64, u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.1 += 2;
        let [first, second] = [self.1, self.1 + 1].map(|number| unit(hash(self.0, number)));
        (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos()
    }
}

/// A machine, as far as means of runs on it go.
#[derive(Clone, Copy)]
struct World {
    /// Deviation of starts of the server.
    between_starts: f64,
    /// Deviation of a window's mean.
    within: f64,
    /// How much a window has of the deviation of the one before.
    correlation: f64,
}

/// A gate of 5 % on one run, against a baseline of five starts in the same world: what becomes of it after at most 60 windows,
/// of which the first three settle the level.
fn gate(world: World, truth: f64, seed: u64) -> (Judgement, u32) {
    let mut draws = Draws(seed, 0);
    let mut starts = |count: usize| -> Vec<f64> {
        (0..count)
            .map(|_| 1e6 * (world.between_starts * draws.next() + world.within * draws.next() / 3.0).exp())
            .collect()
    };
    let values = starts(5);
    let mean_latency = AcrossStarts { statistic: OF, values, mean: 1e6, interval: None, share: None };
    let baseline = Restarts { starts: 5, figures: vec![mean_latency] };
    let own_start = truth.ln() + world.between_starts * draws.next();
    let (mut state, mut sum, mut looks, mut next) = (draws.next(), 0.0, 0, 3.0);
    let fresh = (1.0 - world.correlation.powi(2)).sqrt();
    let client = sample::client(1_000, 1_000_000);
    let of_baseline =
        Figures { client: &client, estimates: &[], bursts: None, restarts: Some(&baseline), at_starts: &[], looks: 0 };
    for windows in 1..=60 {
        state = world.correlation * state + fresh * draws.next();
        sum += world.within * state;
        let n = f64::from(windows);
        if n < next && windows < 60 {
            continue;
        }
        (looks, next) = (looks + 1, 2.0 * n);
        let middle = 1e6 * (own_start + sum / n).exp();
        // What the intervals of a level tell of such windows.
        let error = world.within * ((1.0 + world.correlation) / (1.0 - world.correlation) / n).sqrt();
        let half = (1.96 * error).exp();
        let bounds = Bounds { low: Some(middle / half), high: Some(middle * half) };
        let theirs = of_baseline.side(OF).unwrap();
        let side = Side { value: middle, bounds, starts: None };
        let (ratio, bounds) = bounds_of_ratio(&side, &theirs, wider(looks));
        let judgement = Found::by(Unit::Ratio, ratio, bounds, 1.05).judge(&below(Bound::Change(0.05)));
        if judgement != Judgement::Undecided {
            return (judgement, looks);
        }
    }
    (Judgement::Undecided, looks)
}

fn counts(world: World, truth: f64) -> [usize; 3] {
    let mut counts = [0; 3];
    for seed in 0..RUNS {
        counts[gate(world, truth, seed).0 as usize] += 1;
    }
    counts
}

#[test]
fn a_gate_against_a_baseline_of_several_starts_is_right() {
    let quiet = World { between_starts: 0.008, within: 0.01, correlation: 0.3 };
    let busy = World { between_starts: 0.04, within: 0.06, correlation: 0.5 };
    for (name, world) in [("quiet", quiet), ("busy", busy)] {
        let [_, alarms, _] = counts(world, 1.0);
        let [held, found, _] = counts(world, 1.1);
        let [at_it_held, at_it_failed, _] = counts(world, 1.05);
        assert!(alarms <= 10 && held <= 5, "{name}: {alarms} alarms, {held} held");
        assert!(name != "quiet" || found >= 450, "{found} found");
        assert!(at_it_held <= 30 && at_it_failed <= 30, "{name}: {at_it_held} and {at_it_failed} at the bound");
    }
}

#[test]
fn all_looks_together_are_as_often_wrong_as_one_may_be() {
    assert!((wider(0) - 1.0).abs() < 1e-9 && (wider(1) - 1.0).abs() < 1e-9);
    assert!((wider(2) - 2.2414 / 1.96).abs() < 1e-3 && (wider(3) - 2.4977 / 1.96).abs() < 1e-3);
    // A walk that is looked at whenever it has twice as many steps; its end is at the bound.
    let widths: Vec<f64> = (0..8).map(wider).collect();
    let mut wrong = 0;
    for seed in 0..4_000 {
        let (mut draws, mut sum, mut looks) = (Draws(seed, 0), 0.0, 0);
        let mut is_wrong = false;
        for step in 1..=64_u32 {
            sum += draws.next();
            if step.is_power_of_two() {
                looks += 1;
                is_wrong |= sum / f64::from(step).sqrt() > 1.96 * widths[looks];
            }
        }
        wrong += usize::from(is_wrong);
    }
    assert!((60..=200).contains(&wrong), "{wrong} of 4000");
}

#[test]
fn further_bounds_are_further_on_the_scale_of_the_figure() {
    let found = |unit, value, bounds| Found::by(unit, value, bounds, 0.0).wider(2.0).bounds;
    let between = |low, high| Bounds { low: Some(low), high: Some(high) };
    let time = found(Unit::Nanoseconds, 100.0, between(80.0, 125.0));
    assert!((time.low.unwrap() - 64.0).abs() < 1e-9 && (time.high.unwrap() - 156.25).abs() < 1e-9, "{time:?}");
    let share = found(Unit::Share, 0.1, between(0.05, 0.2));
    assert!(share.low.unwrap().abs() < 1e-9 && (share.high.unwrap() - 0.3).abs() < 1e-9, "{share:?}");
}

#[test]
fn a_rate_that_nothing_else_tells_of_is_known_by_its_requests() {
    let judged = |requests: u64, bound: f64| {
        let client = sample::client(requests, 1_000_000);
        let figure = Figure::Statistic(Statistic::Throughput);
        let requirement = Requirement {
            text: String::new(),
            figure,
            relation: Relation::AtLeast,
            bound: Bound::Value(bound),
            level: None,
        };
        let figures =
            Figures { client: &client, estimates: &[], bursts: None, restarts: None, at_starts: &[], looks: 0 };
        find(figures, &requirement, None).unwrap().judge(&requirement)
    };
    let rate = sample::client(48, 1_000_000).throughput();
    assert_eq!(judged(48, rate / 2.0), Judgement::Passed);
    assert_eq!(judged(48, rate * 2.0), Judgement::Failed);
    assert_eq!(judged(48, rate * 1.1), Judgement::Undecided);
    assert_eq!(judged(2, 0.0), Judgement::Undecided);
}

#[test]
fn no_interval_that_is_widened_has_less_than_nothing_or_more_than_all() {
    let share = Interval { low: 0.0001, high: 0.02 };
    let found = Found::by(Unit::Share, 0.01, Some(share).into(), 0.05).wider(3.0);
    let interval = found.interval.unwrap();
    assert_eq!((interval.low, found.bounds.low), (0.0, Some(0.0)));
    let all = Found::by(Unit::Share, 0.99, Some(Interval { low: 0.9, high: 1.0 }).into(), 0.5).wider(3.0);
    assert_eq!(all.bounds.high, Some(1.0));
    let rate = Found::by(Unit::PerSecond, 5.0, Some(Interval { low: 0.0, high: 9.0 }).into(), 1.0).wider(2.0);
    assert_eq!(rate.bounds.low, Some(0.0));
}
