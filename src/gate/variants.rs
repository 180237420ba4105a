//! The gate of variants: bounds hold for each of them, changes are relative to the first.

use crate::levels::{judged, unjudged, unmeasured};
use crate::plan::{Bound, Decision, Figure, GatePlan, Requirement};
use crate::result::checked::{Checked, Judgement};
use crate::result::figures::FigureAt;
use crate::result::number::counted;
use crate::result::rounds::{self, Round, Unit as Turn};
use crate::result::statistic::CONFIDENCE;
use crate::result::variants::{Cell, VariantsResult};
use crate::result::{RunResult, Unit};
use crate::stats::{Bounds, Proportion, Sequence, share_interval};
use crate::terms::FigureName;
use crate::{Found, errors_against, is_about, wider_at_every};

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
        let open = |variant: &usize| match find(Place { requirement, cell, variant: *variant, result }) {
            Some((found, _)) => found.judge(requirement) == Judgement::Undecided,
            None => !lacks_for_good(requirement, cell, *variant),
        };
        // A variant that was given up has no further rounds.
        let goes_on = |variant: usize| cell.rounds.last().is_none_or(|round| round.units[variant].is_some());
        let of_use = |variant: &usize| goes_on(*variant) && (!is_change || goes_on(0));
        judged_on(requirement, cell, result).filter(of_use).any(|variant| open(&variant))
    })
}

/// Whether a variant does not have the figure that a requirement is about, or the first does not that it is compared with, however
/// long rounds go on.
fn lacks_for_good(requirement: &Requirement, cell: &Cell, variant: usize) -> bool {
    let Figure::Named(name) = requirement.figure else { return false };
    let key = FigureAt::new(name).key();
    let lacks = |variant: usize| cell.lacks_named(variant, &key);
    lacks(variant) || (matches!(requirement.bound, Bound::Change(_)) && lacks(0))
}

/// The variants that a requirement is about in a cell.
fn judged_on(requirement: &Requirement, cell: &Cell, result: &VariantsResult) -> impl Iterator<Item = usize> {
    let first = usize::from(matches!(requirement.bound, Bound::Change(_)));
    (first..result.variants.len()).filter(|&variant| is_about(requirement, cell.loads[variant]))
}

/// Whether a round lacks a figure that a requirement is about, because it has too few requests for it.
pub fn lacks_figure(plan: &GatePlan, round: &Round) -> bool {
    let lacks = |unit: &Turn, requirement: &Requirement| match requirement.figure {
        Figure::Statistic(statistic) => unit.get(rounds::Figure::Client(statistic)).is_none(),
        Figure::Named(name) => {
            let named = unit.named(&FigureAt::new(name).key());
            named.is_some_and(|named| named.value.is_none() && !named.absent)
        }
        Figure::Errors => false,
    };
    let mut measured = round.units.iter().flatten().filter(|unit| unit.problem.is_none());
    measured.any(|unit| plan.requirements.iter().any(|requirement| lacks(unit, requirement)))
}

fn check(plan: &GatePlan, requirement: &Requirement, result: &VariantsResult) -> Vec<Checked> {
    let mut all = Vec::new();
    for cell in &result.cells {
        for variant in judged_on(requirement, cell, result) {
            let load = cell.loads[variant];
            let checked = match find(Place { requirement, cell, variant, result }) {
                Some((found, lacking)) => {
                    let checked = judged(plan, requirement, load, &found);
                    let verbs = if lacking == 1 { "lacks it and does" } else { "lack it and do" };
                    let lost = (lacking > 0).then(|| format!("{} {verbs} not count", counted(lacking as u64, "round")));
                    let notes: Vec<String> = checked.note.into_iter().chain(lost).collect();
                    Checked { note: (!notes.is_empty()).then(|| notes.join("; ")), ..checked }
                }
                None if lacks_for_good(requirement, cell, variant) => {
                    unjudged(requirement, Some(load), "the variant, or the first one, does not have this figure")
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

/// What a requirement is judged on.
#[derive(Clone, Copy)]
struct Place<'a> {
    requirement: &'a Requirement,
    cell: &'a Cell,
    variant: usize,
    result: &'a VariantsResult,
}

/// The figure that a requirement is about, and in how many rounds it is missing; `None` if no round has it.
fn find(on: Place<'_>) -> Option<(Found, usize)> {
    let Place { requirement, cell, variant, result } = on;
    let (unit, statistic) = match requirement.figure {
        Figure::Statistic(statistic) => (Unit::new(statistic), rounds::Figure::Client(statistic)),
        Figure::Named(name) => return named(name, on),
        Figure::Errors => return share(on, |unit| Some(unit.failures())).map(|found| (found, 0)),
    };
    let (logs, unit, bound) = match requirement.bound {
        Bound::Value(bound) => (cell.values(variant, statistic), unit, bound),
        Bound::Change(change) => (cell.ratios(variant, statistic), Unit::Ratio, 1.0 + change),
    };
    let (value, bounds) = logs.bounds(result.reading())?;
    Some((Found::by(unit, value, bounds, bound), logs.lacking))
}

/// A figure of the catalogue, as [`find`] has it: a share by its requests, anything else by what it is in each round.
fn named(name: FigureName, on: Place<'_>) -> Option<(Found, usize)> {
    let Place { requirement, cell, variant, result } = on;
    let figure = FigureAt::new(name);
    let key = figure.key();
    if figure.figure.is_share() {
        return share(on, |unit| unit.share(&key)).map(|found| (found, 0));
    }
    let (logs, unit, bound) = match requirement.bound {
        Bound::Value(bound) => (cell.named_values(variant, &key, bound), figure.figure.unit, bound),
        Bound::Change(change) => (cell.named_ratios(variant, &key), Unit::Ratio, 1.0 + change),
    };
    let (value, bounds) = logs.bounds(result.reading())?;
    Some((Found::by(unit, value, bounds, bound), logs.lacking))
}

/// A share of a variant's requests: by how many they are, and by how much rounds differ in it.
fn share(on: Place<'_>, proportion: impl Fn(&Turn) -> Option<Proportion>) -> Option<Found> {
    let Place { requirement, cell, variant, result } = on;
    let share = cell.share_of(variant, &proportion);
    let found = match requirement.bound {
        Bound::Change(change) => errors_against(share, cell.share_of(0, &proportion), change),
        Bound::Value(bound) => {
            let bounds = Bounds::from(share_interval(share, CONFIDENCE));
            Found::by(Unit::Share, share.proportion.share(), bounds, bound)
        }
    };
    let rounds = cell.rounds.len();
    // Rounds that go on are looked at after each; one or two of them have seen too little of what comes in bursts.
    let found = match result.reading().sequential {
        true if rounds < Sequence::FEWEST => Found { interval: None, bounds: Bounds::default(), ..found },
        true => found.wider(wider_at_every(rounds)),
        false => found,
    };
    (share.proportion.all > 0).then_some(found)
}

#[cfg(test)]
mod tests;
