//! The gate for variants: bounds hold for each of them, changes are relative to the first.

use crate::measure::precision::CONFIDENCE;
use crate::measure::rounds;
use crate::plan::{Bound, Figure, GatePlan, LevelName, Requirement};
use crate::result::gate::{Checked, Found, errors_against, is_named, judged, unit, unjudged, unmeasured};
use crate::result::variants::{Cell, VariantsResult};
use crate::result::{RunResult, Unit};
use crate::stats::{Paired, share_interval};

impl RunResult {
    /// Checks every variant at every level against the plan's requirements. A change, as in `p99<+5%`, is relative to
    /// the first variant and needs no baseline. Nothing holds for what was not measured because the run was
    /// `broken_off`.
    pub fn judge_variants(&mut self, plan: &GatePlan, broken_off: bool) {
        let Some(variants) = &self.variants else { return };
        let missing = |requirement| broken_off.then(|| unmeasured(requirement));
        let judged = plan
            .requirements
            .iter()
            .flat_map(|requirement| check(plan, requirement, variants).into_iter().chain(missing(requirement)));
        self.requirements = judged.collect();
    }
}

fn check(plan: &GatePlan, requirement: &Requirement, result: &VariantsResult) -> Vec<Checked> {
    let first = usize::from(matches!(requirement.bound, Bound::Change(_)));
    let mut all = Vec::new();
    for cell in &result.cells {
        for (variant, identity) in result.variants.iter().enumerate().skip(first) {
            let load = cell.loads[variant];
            if requirement.level.is_some_and(|name: LevelName| !is_named(load, name)) {
                continue;
            }
            let checked = match find(requirement, cell, variant, result) {
                Some(found) => judged(plan, requirement, load, &found),
                None => unjudged(requirement, Some(load), "not every round has it; make them longer"),
            };
            all.push(Checked { variant: Some(identity.name.clone()), distinction: cell.distinction(), ..checked });
        }
    }
    if all.is_empty() {
        all.push(unjudged(requirement, None, "there is no such level"));
    }
    all
}

fn find(requirement: &Requirement, cell: &Cell, variant: usize, result: &VariantsResult) -> Option<Found> {
    let unit = unit(requirement.of);
    let statistic = match requirement.of {
        Figure::Statistic(of) => rounds::Figure::Client(of),
        Figure::Errors => return errors(requirement, cell, variant),
        Figure::Named(_) => return None,
    };
    match requirement.bound {
        Bound::Value(bound) => Some(Found::by(unit, cell.known(variant, statistic)?, bound)),
        Bound::Change(change) => {
            let Paired { ratio, interval, .. } = cell.ratio(variant, statistic, result.seed)?;
            Some(Found::by(Unit::Ratio, (ratio, interval), 1.0 + change))
        }
    }
}

fn errors(requirement: &Requirement, cell: &Cell, variant: usize) -> Option<Found> {
    let (failed, all) = cell.failures(variant);
    let bound = match requirement.bound {
        Bound::Value(bound) => bound,
        Bound::Change(change) => return (all > 0).then(|| errors_against((failed, all), cell.failures(0), change)),
    };
    let interval = share_interval(failed, all, CONFIDENCE);
    (all > 0).then(|| Found::by(Unit::Share, (failed as f64 / all as f64, interval), bound))
}
