//! `--resume`: goes on after the last finished level of an earlier run of the same plan.

use std::collections::BTreeMap;
use std::path::Path;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::measure::summary::{Ending, LevelSummary};
use crate::plan::{Flag, LoadMode, OF_OUTPUT, OF_THE_GATE, Plan};
use crate::result::compare::differences;
use crate::result::{RunResult, Setup};
use crate::stdio::shown;

/// Finds out before anything is done that a run of this kind cannot be gone on with.
///
/// # Errors
/// Where the plan has one go on.
pub fn check_kind(plan: &Plan) -> Result<()> {
    let Some(path) = &plan.output.resume else { return Ok(()) };
    let kind = match plan.load.mode {
        _ if plan.matrix.is_some() => "a matrix",
        _ if plan.rounds.is_some() => "a comparison of variants",
        LoadMode::Sweep { .. } => "a sweep, whose rates are found anew each time,",
        LoadMode::Periodic(_) => "a periodic load",
        _ => return Ok(()),
    };
    let rule = "cannot be gone on with: measure anew, with --summary-file for the result";
    Err(Error::usage(format!("--resume {}: {kind} {rule}", path.display())))
}

/// The finished levels of the run that the plan goes on with, none where it does not; the plan must be that run's.
///
/// # Errors
/// Where the file is no result, or is of another plan: the difference is named.
pub fn read(plan: &Plan) -> Result<Option<RunResult>> {
    let Some(path) = &plan.output.resume else { return Ok(None) };
    let mut earlier = RunResult::read(path)?;
    let refuse = |what: String| {
        let next = "give the same flags, or measure anew without --resume";
        Error::usage(format!("--resume {}: {what}; {next}", path.display()))
    };
    let differences = between(&earlier.setup.flags, &plan.words.flags);
    if !differences.is_empty() {
        return Err(refuse(format!("it is of another plan: {}", differences.join(", "))));
    }
    while earlier.levels.last().is_some_and(|level| !is_finished(level)) {
        earlier.levels.pop();
    }
    Ok(Some(earlier))
}

/// Finds out that what is measured now is what was measured then, as far as only the server tells; moves the earlier levels' stamps
/// to just before the run, whose clock is another one after a restart of the machine.
///
/// # Errors
/// Where it is not: the difference is named.
pub fn check(path: Option<&Path>, earlier: &mut RunResult, setup: &Setup) -> Result<()> {
    let mut found = differences(&earlier.setup, setup);
    for (then, now) in earlier.setup.models.iter().zip(&setup.models) {
        if let (Some(one), Some(other)) = (&then.config_hash, &now.config_hash)
            && one != other
        {
            found.push(format!("the configuration of model '{}' has changed", shown(&now.name)));
        }
    }
    if !found.is_empty() {
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        let what = found.join("; ");
        return Err(Error::input(format!(
            "--resume {path}: it is of something else: {what}; measure anew without --resume"
        )));
    }
    put_before(&mut earlier.levels, setup.began_stamp);
    Ok(())
}

fn is_finished(level: &LevelSummary) -> bool {
    !matches!(level.ending, Ending::Interrupted | Ending::Failed)
}

/// Which flags differ, with both values.
fn between(then: &[Flag], now: &[Flag]) -> Vec<String> {
    let values = |flags: &[Flag]| -> BTreeMap<String, String> {
        let is_told = |name: &str| !OF_OUTPUT.contains(&name) && !OF_THE_GATE.contains(&name);
        let told = flags.iter().filter(|flag| is_told(&flag.name));
        told.map(|flag| (flag.name.clone(), flag.values.join(" "))).collect()
    };
    let (then, now) = (values(then), values(now));
    let names: Vec<&String> = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name))).collect();
    let words = |value: Option<&String>| match value {
        None => "absent".to_owned(),
        Some(value) if value.is_empty() => "on".to_owned(),
        Some(value) => format!("'{}'", shown(value)),
    };
    let differ = names.into_iter().filter(|name| then.get(*name) != now.get(*name));
    differ.map(|name| format!("{name} was {} and is {}", words(then.get(name)), words(now.get(name)))).collect()
}

/// Moves all stamps by as much, so that the last window ends just before `began`, as far as the clock goes back.
fn put_before(levels: &mut [LevelSummary], began: Stamp) {
    const PAUSE_NS: u64 = 100_000_000;
    let ends = levels.iter().flat_map(|level| level.windows.iter().map(|row| row.start.plus_duration(row.duration).0));
    let Some(end) = ends.max() else { return };
    let firsts = levels.iter().map(|level| level.client.start.0.min(level.course.began.0));
    let first = firsts.min().unwrap_or(0);
    let wanted = began.0.saturating_sub(PAUSE_NS);
    let moved = |stamp: &mut Stamp| {
        // Nothing is put before the clock's beginning.
        stamp.0 = if wanted >= end { stamp.0 + (wanted - end) } else { stamp.0 - (end - wanted).min(first) };
    };
    for level in levels {
        moved(&mut level.client.start);
        moved(&mut level.course.began);
        level.windows.iter_mut().for_each(|row| moved(&mut row.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str, value: &str) -> Flag {
        let values = if value.is_empty() { Vec::new() } else { vec![value.to_owned()] };
        Flag { name: name.to_owned(), values, given: true }
    }

    #[test]
    fn what_differs_is_named_unless_it_is_a_report() {
        let then = [flag("-m", "a"), flag("--summary-file", "x"), flag("--seed", "1"), flag("--async", "")];
        let now = [flag("-m", "a"), flag("--resume", "x"), flag("--seed", "2"), flag("-p", "5")];
        let expected = ["--async was on and is absent", "--seed was '1' and is '2'", "-p was absent and is '5'"];
        assert_eq!(between(&then, &now), expected);
        assert!(between(&then, &then).is_empty());
    }

    #[test]
    fn earlier_levels_lie_before_the_run_whatever_the_clock_says() {
        use crate::measure::summary::{LevelLoad, sample};
        for (then, began) in [(5_000_000_000, 900_000_000_000), (900_000_000_000, 50_000_000_000), (7_000, 1)] {
            let mut level = sample::level(LevelLoad::Concurrency(1), 1, 1);
            (level.client.start, level.course.began) = (Stamp(then), Stamp(then - 1_000));
            put_before(std::slice::from_mut(&mut level), Stamp(began));
            assert_eq!(level.client.start, Stamp(then), "it has no windows");
            let row = crate::measure::course::sample::row(Stamp(then));
            level.windows = vec![row];
            put_before(std::slice::from_mut(&mut level), Stamp(began));
            let moved = level.client.start.0;
            assert_eq!((level.windows[0].start.0, moved - level.course.began.0), (moved, 1_000));
            assert!(moved + 1_000_000_000 <= began || level.course.began == Stamp(0), "{moved} {began}");
        }
    }
}
