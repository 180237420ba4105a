//! The gate of variants: bounds hold for each of them, changes are relative to the first.

use crate::levels::{judged, unjudged, unmeasured};
use crate::plan::{Bound, Decision, Figure, GatePlan, Requirement};
use crate::result::checked::{Checked, Judgement};
use crate::result::rounds::{self, Round};
use crate::result::statistic::CONFIDENCE;
use crate::result::variants::{Cell, VariantsResult};
use crate::result::{RunResult, Unit};
use crate::stats::{Bounds, share_interval};
use crate::{Found, errors_against, is_about};

/// Checks every variant at every level against the plan's requirements. A change, as in `p99<+5%`, is relative to
/// the first variant and needs no baseline. Nothing holds for what was not measured because the run was
/// `broken_off`.
pub fn judge_variants(result: &mut RunResult, plan: &GatePlan, broken_off: bool) {
    let Some(variants) = &result.variants else { return };
    let missing = |requirement| broken_off.then(|| unmeasured(plan, requirement));
    let judged = plan
        .requirements
        .iter()
        .flat_map(|requirement| check(plan, requirement, variants).into_iter().chain(missing(requirement)));
    result.requirements = judged.collect();
}

/// Whether rounds of a cell leave a requirement undecided that more of them may decide.
pub fn is_undecided(result: &VariantsResult, plan: &GatePlan, cell: &Cell) -> bool {
    plan.requirements.iter().any(|requirement| {
        let is_change = matches!(requirement.bound, Bound::Change(_));
        let open = |variant: &usize| match find(requirement, cell, *variant, result) {
            Some((found, _)) => found.judge(requirement) == Judgement::Undecided,
            None => true,
        };
        // A variant that was given up has no further rounds.
        let goes_on = |variant: usize| cell.rounds.last().is_none_or(|round| round.units[variant].is_some());
        let of_use = |variant: &usize| goes_on(*variant) && (!is_change || goes_on(0));
        judged_on(requirement, cell, result).filter(of_use).any(|variant| open(&variant))
    })
}

/// The variants that a requirement is about in a cell.
fn judged_on(requirement: &Requirement, cell: &Cell, result: &VariantsResult) -> impl Iterator<Item = usize> {
    let first = usize::from(matches!(requirement.bound, Bound::Change(_)));
    (first..result.variants.len()).filter(|&variant| is_about(requirement, cell.loads[variant]))
}

/// Whether a round lacks a figure that a requirement is about, because it has too few requests for it.
pub fn lacks_figure(plan: &GatePlan, round: &Round) -> bool {
    let lacks = |requirement: &Requirement| match requirement.figure {
        Figure::Statistic(statistic) => {
            let measured = round.units.iter().flatten().filter(|unit| unit.problem.is_none());
            measured.into_iter().any(|unit| unit.get(rounds::Figure::Client(statistic)).is_none())
        }
        Figure::Errors | Figure::Named(_) => false,
    };
    plan.requirements.iter().any(lacks)
}

fn check(plan: &GatePlan, requirement: &Requirement, result: &VariantsResult) -> Vec<Checked> {
    let mut all = Vec::new();
    for cell in &result.cells {
        for variant in judged_on(requirement, cell, result) {
            let load = cell.loads[variant];
            let checked = match find(requirement, cell, variant, result) {
                Some((found, lacking)) => {
                    let checked = judged(plan, requirement, load, &found);
                    let lost = (lacking > 0).then(|| format!("{lacking} rounds lack it and do not count"));
                    let notes: Vec<String> = checked.note.into_iter().chain(lost).collect();
                    Checked { note: (!notes.is_empty()).then(|| notes.join("; ")), ..checked }
                }
                None => {
                    let open = unjudged(requirement, Some(load), "no round has it; make them longer (-p)");
                    let passes = plan.undecided == Some(Decision::Pass);
                    let is_open = !passes && plan.undecided != Some(Decision::Fail);
                    Checked { outcome: Judgement::Undecided, passes, open: is_open, ..open }
                }
            };
            let name = result.variants[variant].name.clone();
            let measured_s = Some(cell.measured_s);
            all.push(Checked { variant: Some(name), distinction: cell.distinction(), measured_s, ..checked });
        }
    }
    if all.is_empty() {
        all.push(unjudged(requirement, None, "there is no such level"));
    }
    all
}

/// The figure that a requirement is about, and in how many rounds it is missing; `None` if no round has it.
fn find(requirement: &Requirement, cell: &Cell, variant: usize, result: &VariantsResult) -> Option<(Found, usize)> {
    let (unit, statistic) = match requirement.figure {
        Figure::Statistic(statistic) => (Unit::new(statistic), rounds::Figure::Client(statistic)),
        Figure::Named(_) => return None,
        Figure::Errors => return errors(requirement, cell, variant).map(|found| (found, 0)),
    };
    let (logs, unit, bound) = match requirement.bound {
        Bound::Value(bound) => (cell.values(variant, statistic), unit, bound),
        Bound::Change(change) => (cell.ratios(variant, statistic), Unit::Ratio, 1.0 + change),
    };
    let (value, bounds) = logs.bounds(result.reading())?;
    Some((Found::by(unit, value, bounds, bound), logs.lacking))
}

fn errors(requirement: &Requirement, cell: &Cell, variant: usize) -> Option<Found> {
    let failures = cell.failures(variant);
    let bound = match requirement.bound {
        Bound::Value(bound) => bound,
        Bound::Change(change) => return (failures.all > 0).then(|| errors_against(failures, cell.failures(0), change)),
    };
    let bounds = Bounds::from(share_interval(failures, CONFIDENCE));
    (failures.all > 0).then(|| Found::by(Unit::Share, failures.share(), bounds, bound))
}

#[cfg(test)]
mod tests;
