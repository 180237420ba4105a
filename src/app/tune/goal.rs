//! Objective and constraints as numbers that the planner compares.

use crate::app::tune::rate;
use crate::plan::{Bound, Figure, Relation, Requirement, TunePlan};
use crate::result::Figures;
use crate::result::figures::FigureAt;
use crate::terms::Statistic;
use crate::tune::Found;

/// The smallest share of failures that is distinguished from none.
const MIN_ERRORS: f64 = 1e-6;
/// The smallest value of a figure of the catalogue that is distinguished from none.
const MIN_NAMED: f64 = 1e-6;
/// Distance of a constraint that cannot be met, because the model does not have its figure.
const NEVER: f64 = 100.0;

/// Score and violation of a measurement's figures.
pub fn found(plan: &TunePlan, measured: &Figures) -> Found {
    let score = match plan.objective {
        Statistic::Throughput => measured.throughput.max(f64::MIN_POSITIVE).ln(),
        Statistic::MeanLatency => -measured.mean_ns.max(1.0).ln(),
        Statistic::Percentile(percentile) => -measured.latency_at(percentile).max(1.0).ln(),
    };
    let violations = plan.constraints.iter().map(|constraint| violation(constraint, measured));
    let violations = violations.chain(rate::violation(measured));
    Found {
        score,
        violation: violations.fold(f64::NEG_INFINITY, f64::max).max(-1e9),
        disturbed: false,
        bottleneck: None,
    }
}

/// Distance of a constraint from its limit, as a logarithm; above 0 it is violated.
fn violation(constraint: &Requirement, measured: &Figures) -> f64 {
    let Bound::Value(bound) = constraint.bound else { return 0.0 };
    let (value, least) = match constraint.figure {
        Figure::Statistic(Statistic::Throughput) => (measured.throughput, f64::MIN_POSITIVE),
        Figure::Statistic(Statistic::MeanLatency) => (measured.mean_ns, 1.0),
        Figure::Statistic(Statistic::Percentile(percentile)) => (measured.latency_at(percentile), 1.0),
        Figure::Errors => (measured.errors, MIN_ERRORS),
        Figure::Named(name) => {
            let Some(value) = measured.named.get(&FigureAt::new(name).key()) else { return NEVER };
            (*value, MIN_NAMED)
        }
    };
    let ratio = (value.max(least) / bound.max(least)).ln();
    match constraint.relation {
        Relation::Below | Relation::AtMost => ratio,
        Relation::Above | Relation::AtLeast => -ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tune::sample::plan;
    use crate::result::LatencyAt;

    /// p50 is 20 ms and p99 is 80 ms.
    fn measured(plan: &TunePlan) -> Figures {
        let at = |percentile: f64| LatencyAt { percentile, latency_ns: if percentile < 90.0 { 20e6 } else { 80e6 } };
        let percentiles: Vec<LatencyAt> = plan.percentiles().into_iter().map(at).collect();
        Figures { latency_ns: at(plan.percentile()).latency_ns, percentiles, ..Figures::default() }
    }

    #[test]
    fn who_falls_behind_the_rate_meets_nothing() {
        let plan = plan("--at-rate 100 --constraint p99<1s");
        let violation = |share: f64| {
            let named = [(rate::KEPT_UP.to_owned(), share)].into();
            found(&plan, &Figures { named, ..measured(&plan) }).violation
        };
        assert!(violation(0.8) > 0.2 && violation(1.2) < 0.0 && violation(0.0).is_finite());
    }

    #[test]
    fn each_percentile_is_judged_by_itself() {
        let violation = |flags: &str| found(&plan(flags), &measured(&plan(flags))).violation;
        for flags in ["--constraint p50<50ms --constraint p99<50ms", "--constraint p99<50ms --constraint p50<50ms"] {
            assert!((violation(flags) - (80.0_f64 / 50.0).ln()).abs() < 1e-9, "{flags}: p99 misses it");
        }
        assert!(violation("--constraint p50<50ms") < 0.0);
        let both_flags = "--objective p50 --constraint p99<1s";
        let of_both = found(&plan(both_flags), &measured(&plan(both_flags)));
        assert!((of_both.score + 20e6_f64.ln()).abs() < 1e-9 && of_both.violation < 0.0, "{of_both:?}");
    }
}
