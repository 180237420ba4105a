//! Variants of a run, which are measured in rounds that take turns.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::seed::{self, Purpose};

/// How variants take turns, and what a change must exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rounds {
    /// How often every variant is measured.
    pub count: usize,
    /// Order within a round.
    pub order: Order,
    /// Changes up to this share count as no change.
    pub margin: f64,
    /// Rounds go on until all requirements of a level are decided, for this long at most, and then `count` is the most of them.
    #[serde(
        rename = "until_decided_s",
        with = "crate::seconds::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<f64>")]
    pub until_decided: Option<Duration>,
}

/// In which order the variants of a round are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// There and back: AB, BA, AB and so on, so that a drift affects all alike.
    Abba,
    /// Drawn for each round.
    Random,
}

impl Rounds {
    /// The order of the `variants` in round `number` (from 0), as their numbers. Every second round reverses the order
    /// of the one before it, so that each variant is as often early as late, and neither drift nor the effects of a
    /// predecessor look like a difference.
    pub fn order_of(&self, number: usize, variants: usize, run_seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..variants).collect();
        if self.order == Order::Random {
            let stream = seed::hash(seed::derive(run_seed, Purpose::Rounds), number as u64 / 2);
            order.sort_by_key(|&variant| seed::hash(stream, variant as u64));
        }
        if number % 2 == 1 {
            order.reverse();
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: Rounds = Rounds { count: 10, order: Order::Abba, margin: 0.05, until_decided: None };

    #[test]
    fn rounds_go_there_and_back() {
        let orders: Vec<_> = (0..3).map(|number| ROUNDS.order_of(number, 3, 1)).collect();
        assert_eq!(orders, [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }

    #[test]
    fn drawn_orders_are_the_seeds_and_even() {
        let random = Rounds { order: Order::Random, ..ROUNDS };
        let orders = |seed| (0..1_000).map(|number| random.order_of(number, 2, seed)).collect::<Vec<_>>();
        assert_eq!(orders(5), orders(5));
        assert_ne!(orders(5), orders(6));
        let there = orders(5).iter().step_by(2).filter(|order| order[0] == 0).count();
        assert!((210..=290).contains(&there), "{there}");
        let first = orders(5)[..8].iter().filter(|order| order[0] == 0).count();
        assert_eq!(first, 4, "each is first as often as last");
    }
}
