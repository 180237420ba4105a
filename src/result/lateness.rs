//! Requests that left too late.

use crate::record::DELAYED_AFTER_NS;
use crate::summary::ClientSummary;

/// Maximum share of requests that may leave too late.
const DELAYED_TOLERANCE: f64 = 0.01;
/// And so many standard deviations of their number more: of 150 requests, two late ones are no proof of more than one in a hundred.
const CHANCE_DEVIATIONS: f64 = 3.0;
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

/// The share of so many late requests of `sent`, where it is too large, beyond what chance explains.
pub fn lateness_of(late: u64, sent: u64) -> Option<f64> {
    let allowed = DELAYED_TOLERANCE * sent as f64;
    (late as f64 > (allowed + CHANCE_DEVIATIONS * allowed.sqrt()).max(1.0)).then(|| late as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_late_requests_are_chance() {
        assert_eq!([(2, 150), (5, 150), (1, 10), (0, 0)].map(|(late, sent)| lateness_of(late, sent)), [None; 4]);
        assert_eq!(lateness_of(6, 150), Some(0.04));
        assert_eq!([lateness_of(1094, 100_000), lateness_of(1095, 100_000)], [None, Some(0.01095)]);
    }
}
