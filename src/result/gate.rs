//! The gate: the conditions that a run must meet, judged on bounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::outcome::{Outcome, is_comparable};
use crate::measure::precision::CONFIDENCE;
use crate::measure::summary::{LevelLoad, LevelSummary};
use crate::plan::{Bound, Decision, Figure, FigureName, GatePlan, LevelName, Requirement};
use crate::result::figures::{FigureAt, Value};
use crate::result::level::Distinction;
use crate::result::ratio::ratio;
use crate::result::{RunResult, Unit};
use crate::stats::{Bounds, Interval, share_difference};

/// A requirement, checked against a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// As written.
    pub text: String,
    /// The variant that it was checked against, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The level; none if there is no such level.
    pub level: Option<LevelLoad>,
    /// What tells it apart from other levels with this load.
    #[serde(flatten)]
    pub distinction: Distinction,
    /// What the value is.
    pub unit: Unit,
    /// The figure's value, or its ratio to the baseline's value if that is what it is compared with. Rates are per
    /// second, latencies in nanoseconds, errors a share.
    pub value: Option<f64>,
    /// The 95 % confidence interval of its value; none if there is too little data.
    pub interval: Option<Interval>,
    /// The one-sided bounds of its value, by which it is judged.
    #[serde(default)]
    pub bounds: Bounds,
    /// The bound that the value is compared with, in the same unit.
    pub bound: Option<f64>,
    /// Its outcome.
    pub outcome: Judgement,
    /// Whether the run passes this requirement.
    pub passes: bool,
    /// Further remarks.
    pub note: Option<String>,
}

/// Outcome of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// At 95 % confidence it is met.
    Passed,
    /// At 95 % confidence it is not met, or there is nothing to judge.
    Failed,
    /// Neither is certain.
    Undecided,
}

/// A figure, checked against a bound.
pub(super) struct Found {
    pub(super) unit: Unit,
    pub(super) value: f64,
    pub(super) interval: Option<Interval>,
    pub(super) bounds: Bounds,
    pub(super) bound: f64,
}

impl Found {
    /// A figure that nothing but its interval is known of, compared with `bound`.
    pub(super) fn by(unit: Unit, (value, interval): (f64, Option<Interval>), bound: f64) -> Self {
        Self { unit, value, interval, bounds: interval.into(), bound }
    }
}

impl RunResult {
    /// Checks the levels against the plan's requirements, and against `baseline` where these need one. Each requirement
    /// is judged on every level that it is about. Nothing holds for what an interrupted run did not measure.
    pub fn judge(&mut self, plan: &GatePlan, baseline: Option<&Self>) {
        let judged = plan.requirements.iter().flat_map(|requirement| {
            let mut judged = self.check(plan, requirement, baseline);
            let is_incomplete = self.interrupted && (requirement.level.is_none() || judged.is_empty());
            if is_incomplete && judged.iter().all(|checked| checked.passes) {
                judged.push(unmeasured(requirement));
            } else if judged.is_empty() {
                judged.push(unjudged(requirement, None, "there is no such level"));
            }
            judged
        });
        self.requirements = judged.collect();
    }

    fn check(&self, plan: &GatePlan, requirement: &Requirement, baseline: Option<&Self>) -> Vec<Checked> {
        let is_meant = |level: &LevelSummary, number: usize| match requirement.level {
            Some(name) => is_named(level.load, name),
            None => number < self.levels_that_count(),
        };
        let levels = self.levels_with_earlier().filter(|(level, earlier)| is_meant(level, earlier.len()));
        let checked = levels.map(|(level, earlier)| Checked {
            distinction: self.distinction(level, earlier),
            ..check(plan, requirement, level, reference(baseline, level, earlier))
        });
        checked.collect()
    }
}

pub(super) fn is_named(load: LevelLoad, name: LevelName) -> bool {
    match (load, name) {
        (LevelLoad::Concurrency(one), LevelName::Concurrency(other)) => one == other,
        (LevelLoad::RequestRate(one), LevelName::Rate(other)) => (one - other).abs() <= 1e-9 * other,
        _ => false,
    }
}

/// The unit of a figure that a requirement is about.
pub(super) fn unit(of: Figure) -> Unit {
    in_catalogue(of).figure.unit
}

fn in_catalogue(of: Figure) -> FigureAt {
    match of {
        Figure::Statistic(of) => FigureAt::of_statistic(of),
        Figure::Errors => FigureAt::of(FigureName { key: "errors", point: None }),
        Figure::Named(name) => FigureAt::of(name),
    }
}

pub(super) fn unjudged(requirement: &Requirement, level: Option<LevelLoad>, note: &str) -> Checked {
    Checked {
        text: requirement.text.clone(),
        variant: None,
        level,
        distinction: Distinction::default(),
        unit: unit(requirement.of),
        value: None,
        interval: None,
        bounds: Bounds::default(),
        bound: None,
        outcome: Judgement::Failed,
        passes: false,
        note: Some(note.to_owned()),
    }
}

/// A requirement that was not judged everywhere, because the run was broken off.
pub(super) fn unmeasured(requirement: &Requirement) -> Checked {
    unjudged(requirement, None, "the run was interrupted before all was measured")
}

/// Among the requirements of a level that its intervals do not decide, takes the one that is easiest to decide, and
/// returns how many times longer the windows would have to be: intervals shrink with the root of the time. `None` if
/// all are decided. The level's load is not repeated in its run.
pub fn time_to_decide<'a>(
    plan: &'a GatePlan,
    level: &LevelSummary,
    baseline: Option<&RunResult>,
) -> Option<(&'a str, f64)> {
    let is_meant = |requirement: &&Requirement| requirement.level.is_none_or(|name| is_named(level.load, name));
    let open = plan.requirements.iter().filter(is_meant).filter_map(|requirement| {
        let found = find(requirement, level, reference(baseline, level, &[])).ok()?;
        if judged(plan, requirement, level.load, &found).outcome != Judgement::Undecided {
            return None;
        }
        let gap = (found.value - found.bound).abs();
        let times = found.interval.map_or(LONGER.0, |known| ((known.high - known.low) / 2.0 / gap).powi(2) * MARGIN);
        Some((&*requirement.text, times.clamp(LONGER.0, LONGER.1)))
    });
    open.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// How many times longer a level is measured to decide a requirement: minimum and maximum.
const LONGER: (f64, f64) = (2.0, 10.0);
/// Intervals are estimates; with this much more time they probably exclude the bound.
const MARGIN: f64 = 1.3;

/// The baseline's level; or why there is none.
type Reference<'a> = Result<&'a LevelSummary, &'static str>;

fn reference<'a>(baseline: Option<&'a RunResult>, level: &LevelSummary, earlier: &[LevelSummary]) -> Reference<'a> {
    let baseline = baseline.ok_or("there is no baseline")?;
    let level = baseline.counterpart(level, earlier).ok_or("the baseline has no such level")?;
    if is_comparable(level) { Ok(level) } else { Err("the baseline's level is not valid") }
}

fn check(plan: &GatePlan, requirement: &Requirement, level: &LevelSummary, reference: Reference<'_>) -> Checked {
    if !is_comparable(level) {
        let outcome = Outcome::of(level);
        return unjudged(requirement, Some(level.load), &format!("the level is not valid: {outcome}"));
    }
    match find(requirement, level, reference) {
        Ok(found) => judged(plan, requirement, level.load, &found),
        Err(note) => unjudged(requirement, Some(level.load), note),
    }
}

/// Whether errors are allowed to grow, and there are none: with none in the baseline either, no ratio or interval would
/// ever show that.
fn is_without_errors(requirement: &Requirement, found: &Found) -> bool {
    let may_grow = matches!(requirement.bound, Bound::Change(change) if change >= 0.0);
    requirement.of == Figure::Errors && may_grow && requirement.relation.is_upper() && found.value == 0.0
}

/// Judges a requirement on a figure that was found.
pub(super) fn judged(plan: &GatePlan, requirement: &Requirement, load: LevelLoad, found: &Found) -> Checked {
    let holds = |value: f64| requirement.relation.holds(value, found.bound);
    let (worst, best) = match requirement.relation.is_upper() {
        true => (found.bounds.high, found.bounds.low),
        false => (found.bounds.low, found.bounds.high),
    };
    let outcome = match (worst.map(holds), best.map(holds)) {
        _ if is_without_errors(requirement, found) => Judgement::Passed,
        (Some(true), _) => Judgement::Passed,
        (_, Some(false)) => Judgement::Failed,
        _ => Judgement::Undecided,
    };
    let passes = match (outcome, plan.undecided) {
        (Judgement::Undecided, Some(Decision::Pass)) => true,
        (Judgement::Undecided, Some(Decision::Fail)) => false,
        (Judgement::Undecided, Some(Decision::More) | None) => holds(found.value),
        (outcome, _) => outcome == Judgement::Passed,
    };
    let by_value = matches!(plan.undecided, None | Some(Decision::More));
    let note = (outcome == Judgement::Undecided && by_value).then(|| {
        let word = if passes { "within" } else { "beyond" };
        format!("its value is {word} the bound, which decides here; measure longer to be sure")
    });
    let &Found { unit, value, interval, bounds, bound } = found;
    let (text, level) = (requirement.text.clone(), Some(load));
    Checked {
        text,
        variant: None,
        level,
        distinction: Distinction::default(),
        unit,
        value: Some(value),
        interval,
        bounds,
        bound: Some(bound),
        outcome,
        passes,
        note,
    }
}

/// The figure that a requirement is about; or why there is none.
fn find(requirement: &Requirement, level: &LevelSummary, reference: Reference<'_>) -> Result<Found, &'static str> {
    let figure = in_catalogue(requirement.of);
    let none = "the level does not have this figure";
    let Value { value: own, interval: known, bounds } = figure.value(level).ok_or(none)?;
    let unit = figure.figure.unit;
    let change = match requirement.bound {
        Bound::Value(bound) => return Ok(Found { unit, value: own, interval: known, bounds, bound }),
        Bound::Change(change) => change,
    };
    let reference = reference?;
    if requirement.of == Figure::Errors {
        let failures = |level: &LevelSummary| (level.client.failed, level.client.requests + level.client.failed);
        return Ok(errors_against(failures(level), failures(reference), change));
    }
    let their_none = "the baseline's level does not have this figure";
    let Value { value: theirs, interval: their_known, .. } = figure.value(reference).ok_or(their_none)?;
    if theirs <= 0.0 {
        return Ok(Found { unit, value: own, interval: known, bounds, bound: theirs * (1.0 + change) });
    }
    let interval = ratio((own, known), (theirs, their_known));
    Ok(Found::by(Unit::Ratio, (own / theirs, interval), 1.0 + change))
}

/// The share of errors among requests, both as (errors, requests), against that of a reference, which may grow by
/// `change`. Shares are often 0, which has no ratio, so the interval is that of their difference, from the reference's
/// share on.
pub(super) fn errors_against(own: (u64, u64), reference: (u64, u64), change: f64) -> Found {
    let share = |(failed, all): (u64, u64)| failed as f64 / all.max(1) as f64;
    let base = share(reference);
    let interval = share_difference(own, reference, CONFIDENCE)
        .map(|known| Interval { low: (base + known.low).max(0.0), high: (base + known.high).min(1.0) });
    Found::by(Unit::Share, (share(own), interval), base * (1.0 + change))
}

#[cfg(test)]
mod tests;
