//! Requests that left too late.

use crate::record::DELAYED_AFTER_NS;
use crate::summary::ClientSummary;

/// Maximum share of requests that may leave too late.
const DELAYED_TOLERANCE: f64 = 0.01;
/// A request leaves too late where its delay matters to what is measured: above 1 ms ([`ClientSummary::delayed`]), and above this
/// share of what half of the answers take. Less is lost in what three windows may differ by.
const DELAY_SHARE: f64 = 0.05;

impl ClientSummary {
    /// The share of requests that left too late, 0 to 1, where it is too large: the same rule for rates, schedules, stages and
    /// sweeps.
    pub fn lateness(&self) -> Option<f64> {
        self.open_loop.as_ref()?;
        lateness_of(self.too_late(), self.sent)
    }

    /// How many requests left too late.
    pub fn too_late(&self) -> u64 {
        let Some(open) = &self.open_loop else { return self.delayed };
        let limit = (open.service_time.percentile_ns(50.0) as f64 * DELAY_SHARE) as u64;
        if limit <= DELAYED_AFTER_NS {
            return self.delayed;
        }
        let delays = &open.schedule_delay;
        self.delayed.min(delays.count().saturating_sub(delays.histogram.count_between(0, limit)))
    }
}

/// The share of so many late requests of `sent`, where it is too large. Of few requests, one alone is chance.
pub fn lateness_of(late: u64, sent: u64) -> Option<f64> {
    let share = if sent > 0 { late as f64 / sent as f64 } else { 0.0 };
    (late > 1 && share > DELAYED_TOLERANCE).then_some(share)
}
