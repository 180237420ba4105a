//! How a search spends its time.

use std::collections::BTreeMap;

use crate::race::median;

/// Shares of the budget: the ends of all settings are measured until the first, calibration ends at the second, racing
/// at the third, steps at the fourth; confirmation has the rest.
const ENDS: f64 = 0.50;
const CALIBRATION: f64 = 0.30;
const RACE: f64 = 0.70;
const STEPS: f64 = 0.80;
/// Maximum share reserved for confirmation, if its rounds take more than their share.
pub const MAX_CONFIRMATION: f64 = 0.45;

/// Assumed overhead of a trial beyond its unit, before there was any.
const USUAL_EXTRA_S: f64 = 0.1;

/// Time spent, and the overhead of trials beyond their unit.
#[derive(Clone, Debug)]
pub struct Budget {
    limit_s: f64,
    /// Time spent when the search was resumed: shares are those of the rest.
    from_s: f64,
    spent_s: f64,
    /// For each measured candidate, the overhead of its last trial beyond its unit: slow ones need long windows.
    extras_s: BTreeMap<usize, f64>,
}

impl Budget {
    /// Nothing is spent yet.
    pub fn new(limit_s: f64) -> Self {
        Self { limit_s, from_s: 0.0, spent_s: 0.0, extras_s: BTreeMap::new() }
    }

    /// Sets the total seconds; the shares are those of the total.
    pub fn set_limit(&mut self, limit_s: f64) {
        self.limit_s = limit_s;
    }

    /// Sets the total seconds; the shares are those of what is not spent yet.
    pub fn extend(&mut self, limit_s: f64) {
        (self.limit_s, self.from_s) = (limit_s, self.spent_s);
    }

    /// A trial of `candidate` with this unit took `seconds` in all.
    pub fn spend(&mut self, candidate: usize, unit_s: f64, seconds: f64) {
        self.spent_s += seconds;
        self.extras_s.insert(candidate, (seconds - unit_s).max(0.0));
    }

    /// Minimum time of a trial of `candidate` with this unit, as far as is known: an unmeasured candidate may be as
    /// quick as the quickest.
    pub fn least_price_of(&self, candidate: usize, unit_s: f64) -> f64 {
        self.extras_s.get(&candidate).map_or_else(|| self.least_price(unit_s), |extra_s| unit_s + extra_s)
    }

    /// Time of a trial with this unit for the quickest measured candidate.
    pub fn least_price(&self, unit_s: f64) -> f64 {
        unit_s + self.extras_s.values().copied().min_by(f64::total_cmp).unwrap_or(USUAL_EXTRA_S)
    }

    /// Expected time of a trial of `candidate` with this unit.
    pub fn price_of(&self, candidate: usize, unit_s: f64) -> f64 {
        self.extras_s.get(&candidate).map_or_else(|| self.price(unit_s), |extra_s| unit_s + extra_s)
    }

    /// Expected time of a trial of any candidate with this unit: the median of the measured ones.
    pub fn price(&self, unit_s: f64) -> f64 {
        let extras: Vec<f64> = self.extras_s.values().copied().collect();
        unit_s + if extras.is_empty() { USUAL_EXTRA_S } else { median(&extras) }
    }

    /// Seconds left to measure the far ends of all settings.
    pub fn for_ends(&self) -> f64 {
        self.until(ENDS)
    }

    /// Seconds left for calibration.
    pub fn for_calibration(&self) -> f64 {
        self.until(CALIBRATION)
    }

    /// Seconds left for racing, if confirmation needs `reserve`.
    pub fn for_race(&self, reserve: f64) -> f64 {
        self.until(RACE.min(1.0 - self.reserved(reserve)))
    }

    /// Seconds left for steps.
    pub fn for_steps(&self, reserve: f64) -> f64 {
        self.until(STEPS.min(1.0 - self.reserved(reserve)))
    }

    /// Seconds left in all.
    pub fn left(&self) -> f64 {
        self.limit_s - self.spent_s
    }

    /// Seconds that were spent.
    pub fn spent(&self) -> f64 {
        self.spent_s
    }

    /// Seconds left until this share of the budget is spent.
    fn until(&self, share: f64) -> f64 {
        self.from_s + (self.limit_s - self.from_s) * share - self.spent_s
    }

    fn reserved(&self, reserve: f64) -> f64 {
        (reserve / (self.limit_s - self.from_s)).clamp(1.0 - STEPS, MAX_CONFIRMATION)
    }
}
