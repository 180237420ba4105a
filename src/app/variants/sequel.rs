//! Whether rounds that go on until every requirement is decided need another one, and have the time for it.

use std::cell;
use std::time::Duration;

use crate::clock::Stamp;
use crate::gate;
use crate::plan::{GatePlan, Plan};
use crate::result::RunResult;
use crate::result::rounds::Round;
use crate::result::variants::{Cell, VariantsResult};

/// Windows of rounds that lack a figure of a requirement grow to this many times their length.
const MOST_TIMES: u32 = 32;
/// They grow after so many such rounds in a row: one may be a stall's.
const PATIENCE: u32 = 2;

/// What the rounds of a cell begin with.
#[derive(Clone, Copy)]
pub struct Beginning {
    /// How many of them an earlier run has measured.
    pub kept: usize,
    /// How long they may go on.
    pub time: Duration,
}

/// The rounds of a cell at one start, from now on.
pub struct Sequel<'a> {
    gate: &'a GatePlan,
    began: Stamp,
    kept: usize,
    /// How many seconds those before took.
    earlier_s: f64,
    /// How many times as long as planned windows are.
    times: cell::Cell<u32>,
    /// How many rounds in a row lacked a figure.
    lacking: cell::Cell<u32>,
    time: Duration,
    /// What is compared, in one cell without rounds.
    bare: Option<VariantsResult>,
}

impl<'a> Sequel<'a> {
    /// Those of cell number `cell`.
    pub fn new(plan: &'a Plan, result: &RunResult, cell: usize, beginning: Beginning) -> Self {
        let variants = result.variants.as_ref();
        let bare = variants.map(|all| {
            let cells = vec![Cell { rounds: Vec::new(), ..all.cells[cell].clone() }];
            VariantsResult { cells, matrix: all.matrix.clone(), variants: all.variants.clone(), ..*all }
        });
        let earlier_s = variants.map_or(0.0, |all| all.cells[cell].measured_s);
        let times = variants.map_or(1, |all| all.cells[cell].window_times).max(1);
        Self {
            gate: &plan.gate,
            began: Stamp::now(),
            kept: beginning.kept,
            earlier_s,
            times: cell::Cell::new(times),
            lacking: cell::Cell::new(0),
            time: beginning.time,
            bare,
        }
    }

    /// For how many seconds rounds were measured by now.
    pub fn measured_s(&self) -> f64 {
        self.earlier_s + (Stamp::now() - self.began).as_secs_f64()
    }

    /// How many times as long as planned the next windows are.
    pub fn times(&self) -> u32 {
        self.times.get()
    }

    /// Windows had to be this many times as long as planned: the next are, too.
    pub fn lengthen(&self, times: u32) {
        self.times.set(self.times.get().max(times));
    }

    /// Looks at these rounds: where the last ones lack a figure that is to be decided, the next are longer.
    pub fn see(&self, rounds: &[Round]) {
        let goes_on = self.bare.as_ref().is_some_and(|bare| bare.rounds.until_decided.is_some());
        let lacks = goes_on && rounds.last().is_some_and(|round| gate::lacks_figure(self.gate, round));
        self.lacking.set(if lacks { self.lacking.get() + 1 } else { 0 });
        if self.lacking.get() == PATIENCE {
            self.lacking.set(0);
            self.times.set(self.times.get().max((2 * self.times.get()).min(MOST_TIMES)));
        }
    }

    /// Whether another round is wanted after these.
    pub fn is_wanted(&self, rounds: Vec<Round>) -> bool {
        let Some(bare) = &self.bare else { return false };
        let spent = Stamp::now() - self.began;
        let measured = u32::try_from(rounds.len().saturating_sub(self.kept)).unwrap_or(u32::MAX);
        let has_time = measured == 0 || spent + spent / measured <= self.time;
        has_time && gate::is_undecided(bare, self.gate, &Cell { rounds, ..bare.cells[0].clone() })
    }
}
