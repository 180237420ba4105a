//! Simulated rounds with a known truth, for the tests of whatever judges rounds.

use std::time::Duration;

use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Cell, VariantIdentity, VariantsResult};
use crate::rounds::{Figure, Round, Unit, Value};
use crate::summary::LevelLoad;
use crate::terms::{Order, Rounds, Statistic};

/// The main figure.
pub(super) const MEAN: Figure = Figure::Client(Statistic::MeanLatency);
/// How variants take turns.
pub(super) const ORDER: Rounds = Rounds { count: 10, order: Order::Abba, margin: 0.05, until_decided: None };

/// How a simulated machine behaves.
#[derive(Clone, Copy)]
pub struct World {
    /// The true ratio of the variant to the reference.
    pub ratio: f64,
    /// Deviation of a unit, as a share.
    pub noise: f64,
    /// Deviation of a request, as a share.
    pub scatter: f64,
    /// How much of its deviation a request has from the request before, 0 to 1.
    pub correlation: f64,
    /// By how much the machine gets slower over the run.
    pub drift: f64,
    /// How many rounds there are.
    pub rounds: usize,
    /// Who comes first in each.
    pub order: Order,
}

/// One on which little happens.
pub const QUIET: World =
    World { ratio: 1.0, noise: 0.02, scatter: 0.0, correlation: 0.0, drift: 0.0, rounds: 10, order: Order::Abba };

/// Requests of a unit, where they are correlated.
const REQUESTS: usize = 100;

pub(super) fn unit(ns: f64) -> Option<Unit> {
    Some(Unit { values: vec![Value { figure: MEAN, value: ns }], requests: 1_000, ..Unit::default() })
}

/// A cell of two variants at one level.
pub fn cell(rounds: Vec<Round>) -> Cell {
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
pub fn run(world: World, seed: u64) -> Cell {
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

/// Two variants, measured in rounds that go on for that long at most if it is given.
pub fn of_two(cell: Cell, until_decided: Option<Duration>) -> VariantsResult {
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
