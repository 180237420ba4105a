//! The gate of levels.

use crate::plan::{Bound, Decision, Figure, GatePlan, Requirement};
use crate::result::checked::{Checked, Judgement, STILL_UNDER_WAY};
use crate::result::figures::FigureAt;
use crate::result::outcome::{Outcome, fails_too_often_alone, is_comparable, stood_still_alone};
use crate::result::ratio::Figures;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::{Ending, LevelLoad, LevelSummary};
use crate::result::{Distinction, RunResult, Unit};
use crate::stats::{Bounds, Interval};
use crate::terms::Statistic;
use crate::unseen::Unseen;
use crate::{Found, find, is_about, is_taken_as_it_is};

/// Checks the levels against the plan's requirements, and against `baseline` where these need one. Each requirement
/// is judged on every level that it is about. Nothing holds for what an interrupted run did not measure.
pub fn judge(result: &mut RunResult, plan: &GatePlan, baseline: Option<&RunResult>) {
    let judged = plan.requirements.iter().flat_map(|requirement| {
        let mut judged = check_all(result, plan, requirement, baseline);
        let is_incomplete = result.interrupted && (requirement.level.is_none() || judged.is_empty());
        if is_incomplete && judged.iter().all(|checked| checked.passes) {
            judged.push(unmeasured(plan, requirement));
        } else if judged.is_empty() {
            judged.push(unjudged(requirement, None, "there is no such level"));
        }
        judged
    });
    result.requirements = judged.collect();
}

fn check_all(
    result: &RunResult,
    plan: &GatePlan,
    requirement: &Requirement,
    baseline: Option<&RunResult>,
) -> Vec<Checked> {
    let is_meant = |level: &LevelSummary, number: usize| match requirement.level {
        Some(_) => is_about(requirement, level.load),
        None => number < result.levels_that_count(),
    };
    let levels = result.levels_with_earlier().filter(|(level, earlier)| is_meant(level, earlier.len()));
    let checked = levels.map(|(level, earlier)| Checked {
        distinction: result.distinction(level, earlier),
        measured_s: Some(level.client.duration.as_secs_f64()),
        ..check(plan, requirement, level, reference(baseline, level, earlier))
    });
    checked.collect()
}

/// The unit of a figure that a requirement is about.
fn unit(figure: Figure) -> Unit {
    match figure {
        Figure::Statistic(statistic) => Unit::new(statistic),
        Figure::Errors => Unit::Share,
        Figure::Named(name) => FigureAt::new(name).figure.unit,
    }
}

pub(super) fn unjudged(requirement: &Requirement, level: Option<LevelLoad>, note: &str) -> Checked {
    Checked {
        text: requirement.text.clone(),
        variant: None,
        level,
        distinction: Distinction::default(),
        unit: unit(requirement.figure),
        value: None,
        interval: None,
        bounds: Bounds::default(),
        bound: None,
        outcome: Judgement::Failed,
        measured_s: None,
        passes: false,
        open: false,
        vague_baseline: false,
        note: Some(note.to_owned()),
    }
}

/// A requirement that was not judged everywhere, because the run was broken off.
pub(super) fn unmeasured(plan: &GatePlan, requirement: &Requirement) -> Checked {
    broken_off(plan, unjudged(requirement, None, "the run was interrupted before all was measured"))
}

/// An interrupt says nothing for or against a requirement, which does not hold for it.
fn broken_off(plan: &GatePlan, unjudged: Checked) -> Checked {
    let open = plan.undecided != Some(Decision::Fail);
    Checked { outcome: Judgement::Undecided, passes: false, open, ..unjudged }
}

/// The baseline's level; or why there is none.
type Reference<'a> = Result<&'a LevelSummary, &'static str>;

/// Whether a level has the figure that a requirement is about: one that fails too often still tells how often.
fn is_judged_by(requirement: &Requirement, level: &LevelSummary) -> bool {
    is_comparable(level) || (requirement.figure == Figure::Errors && fails_too_often_alone(level))
}

fn reference<'a>(baseline: Option<&'a RunResult>, level: &LevelSummary, earlier: &[LevelSummary]) -> Reference<'a> {
    let baseline = baseline.ok_or("there is no baseline")?;
    let level = baseline.counterpart(level, earlier).ok_or("the baseline has no such level")?;
    if is_comparable(level) { Ok(level) } else { Err("the baseline's level is not valid") }
}

fn check(plan: &GatePlan, requirement: &Requirement, level: &LevelSummary, reference: Reference<'_>) -> Checked {
    if stood_still_alone(level) {
        let note = format!("{} stood still while it was measured", who_stood_still(level));
        return undecided(plan, unjudged(requirement, Some(level.load), &note));
    }
    if level.ending == Ending::Interrupted {
        let note = "the run was interrupted while it was measured";
        return broken_off(plan, unjudged(requirement, Some(level.load), note));
    }
    if !is_judged_by(requirement, level) {
        let outcome = Outcome::new(level);
        return unjudged(requirement, Some(level.load), &format!("the level is not valid: {outcome}"));
    }
    let baseline = match (requirement.bound, reference) {
        (Bound::Change(_), Err(note)) => return unjudged(requirement, Some(level.load), note),
        (_, reference) => reference.ok(),
    };
    let found = find(Figures::new(level), requirement, baseline.map(Figures::new));
    let found = found.map(|found| with_unseen(found, requirement, level));
    let as_it_is = "judged by its value: nothing tells how well it is known";
    let note = match requirement.figure {
        Figure::Named(name) if is_taken_as_it_is(name) && !is_by_starts(requirement, level) => {
            Some(as_it_is.to_owned())
        }
        _ => None,
    };
    match found {
        Ok(found) if note.is_some() => {
            at_first_start(Checked { note, ..judged(plan, requirement, level.load, &found) }, requirement, level)
        }
        Ok(found) => {
            let checked = more_starts(judged(plan, requirement, level.load, &found), requirement, level);
            let checked = unseen_time(at_first_start(checked, requirement, level), requirement, level);
            match baseline {
                Some(baseline) => held_against(checked, requirement, level, baseline),
                None => checked,
            }
        }
        Err(note) => unjudged(requirement, Some(level.load), note),
    }
}

/// Which process of the client did.
fn who_stood_still(level: &LevelSummary) -> String {
    let Verdict::Invalid(reasons) = &level.verdict else { return "this process".to_owned() };
    let rank = reasons.iter().find_map(|reason| match reason {
        InvalidReason::RankStoodStill(rank, _) => Some(rank),
        _ => None,
    });
    rank.map_or_else(|| "this process".to_owned(), |rank| format!("rank {rank}"))
}

/// The same where nothing can be said against the requirement either.
fn undecided(plan: &GatePlan, unjudged: Checked) -> Checked {
    Checked {
        outcome: Judgement::Undecided,
        passes: plan.undecided == Some(Decision::Pass),
        open: is_open(plan),
        ..unjudged
    }
}

/// Whether what is undecided is neither counted as held nor as not held.
fn is_open(plan: &GatePlan) -> bool {
    matches!(plan.undecided, None | Some(Decision::More))
}

/// Judges a requirement on a figure that was found.
pub(super) fn judged(plan: &GatePlan, requirement: &Requirement, load: LevelLoad, found: &Found) -> Checked {
    let outcome = found.judge(requirement);
    let passes = match outcome {
        Judgement::Undecided => plan.undecided == Some(Decision::Pass),
        outcome => outcome == Judgement::Passed,
    };
    let open = outcome == Judgement::Undecided && is_open(plan);
    let note = "undecided: neither met nor missed; measured longer, or on a quieter machine, it may be decided";
    let note = open.then(|| note.to_owned());
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
        measured_s: None,
        passes,
        open,
        vague_baseline: false,
        note,
    }
}

/// The same, with a remark where starts decide: to measure each longer is no help.
fn more_starts(checked: Checked, requirement: &Requirement, level: &LevelSummary) -> Checked {
    if !checked.open || !matches!(requirement.bound, Bound::Value(_)) || !is_by_starts(requirement, level) {
        return checked;
    }
    let note = "undecided: neither met nor missed by what the starts differ; more of them (--restarts) may decide it";
    Checked { note: Some(note.to_owned()), ..checked }
}

/// Whether all starts of a level tell the figure, of several.
fn is_by_starts(requirement: &Requirement, level: &LevelSummary) -> bool {
    let figures = Figures::new(level);
    match requirement.figure {
        Figure::Statistic(statistic) => figures.over_starts(statistic).is_some(),
        Figure::Errors => figures.at_starts("errors").is_some(),
        Figure::Named(name) => figures.at_starts(&FigureAt::new(name).key()).is_some(),
    }
}

/// The same figure, known less well upwards where requests wait whose time it lacks.
fn with_unseen(found: Found, requirement: &Requirement, level: &LevelSummary) -> Found {
    let Figure::Statistic(statistic) = requirement.figure else { return found };
    let Some(unseen) = Unseen::new(level) else { return found };
    let Some(before) = found.bounds.high else { return Found { interval: None, ..found } };
    let high = unseen.high(level, statistic, &found);
    // What the interval ends with is as much higher.
    let interval = found.interval.zip(high);
    let interval =
        interval.map(|(interval, high)| Interval { high: interval.high * (high / before).max(1.0), ..interval });
    Found { interval, bounds: Bounds { high, ..found.bounds }, ..found }
}

/// The same, with a remark where that may have left it open.
fn unseen_time(checked: Checked, requirement: &Requirement, level: &LevelSummary) -> Checked {
    let is_latency = matches!(requirement.figure, Figure::Statistic(Statistic::MeanLatency | Statistic::Percentile(_)));
    if checked.outcome != Judgement::Undecided || !is_latency || Unseen::new(level).is_none() {
        return checked;
    }
    Checked { note: Some(STILL_UNDER_WAY.to_owned()), ..checked }
}

/// The same, with a remark where only one of several starts tells the figure: others do not have it, or were measured by an earlier
/// version.
fn at_first_start(checked: Checked, requirement: &Requirement, level: &LevelSummary) -> Checked {
    let starts = level.restarts.as_ref().map_or(1, |all| all.starts);
    if starts < 2 || matches!(requirement.figure, Figure::Statistic(_)) || is_by_starts(requirement, level) {
        return checked;
    }
    let of_first = format!("judged by the first of {starts} starts: not all of the others have it");
    let notes: Vec<String> = checked.note.into_iter().chain([of_first]).collect();
    Checked { note: Some(notes.join("; ")), ..checked }
}

/// The same, with a remark where the baseline knows the figure less well than this level: to measure that longer is no help.
fn held_against(checked: Checked, requirement: &Requirement, level: &LevelSummary, baseline: &LevelSummary) -> Checked {
    let Figure::Statistic(statistic) = requirement.figure else { return checked };
    let width = |level: &LevelSummary| {
        let side = Figures::new(level).side(statistic).filter(|side| side.starts.is_none())?;
        Some((side.bounds.high? / side.bounds.low?).ln())
    };
    let is_vaguer = width(baseline).zip(width(level)).is_some_and(|(theirs, ours)| theirs > ours);
    if !checked.open || !is_vaguer || !matches!(requirement.bound, Bound::Change(_)) {
        return checked;
    }
    let note = "undecided: the baseline knows the figure less well than this run; make it anew, measured longer, or with --restarts";
    Checked { vague_baseline: true, note: Some(note.to_owned()), ..checked }
}

#[cfg(test)]
mod tests;
