//! How the time that a search may take is spent.

/// Shares of the budget: calibration ends at the first, racing at the second, steps at the third; confirmation has the rest.
const CALIBRATION: f64 = 0.30;
const RACE: f64 = 0.70;
const STEPS: f64 = 0.80;
/// What is kept for confirmation at most, where its rounds take more than their share.
const MOST_CONFIRMATION: f64 = 0.45;

/// What was spent, and what trials cost beside their unit.
#[derive(Clone, Debug)]
pub struct Budget {
    limit_s: f64,
    spent_s: f64,
    trials: u32,
    extra_s: f64,
}

impl Budget {
    /// Nothing is spent yet.
    pub fn new(limit_s: f64) -> Self {
        Self { limit_s, spent_s: 0.0, trials: 0, extra_s: 0.0 }
    }

    /// A trial with this unit took so long in all.
    pub fn spend(&mut self, unit_s: f64, seconds: f64) {
        self.spent_s += seconds;
        self.trials += 1;
        self.extra_s += (seconds - unit_s).max(0.0);
    }

    /// What a trial with this unit is expected to take.
    pub fn price(&self, unit_s: f64) -> f64 {
        unit_s + if self.trials > 0 { self.extra_s / f64::from(self.trials) } else { 0.1 }
    }

    /// Seconds left for calibration.
    pub fn for_calibration(&self) -> f64 {
        self.limit_s * CALIBRATION - self.spent_s
    }

    /// Seconds left for racing, where confirmation needs `reserve`.
    pub fn for_race(&self, reserve: f64) -> f64 {
        self.limit_s * RACE.min(1.0 - self.reserved(reserve)) - self.spent_s
    }

    /// Seconds left for steps.
    pub fn for_steps(&self, reserve: f64) -> f64 {
        self.limit_s * STEPS.min(1.0 - self.reserved(reserve)) - self.spent_s
    }

    /// Seconds left in all.
    pub fn left(&self) -> f64 {
        self.limit_s - self.spent_s
    }

    /// Seconds that were spent.
    pub fn spent(&self) -> f64 {
        self.spent_s
    }

    fn reserved(&self, reserve: f64) -> f64 {
        (reserve / self.limit_s).clamp(1.0 - STEPS, MOST_CONFIRMATION)
    }
}
