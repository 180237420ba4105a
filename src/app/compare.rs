//! The command `compare`: reads two results and prints what changed.

use std::path::Path;

use crate::app::signals;
use crate::error::{Error, Result};
use crate::exit;
use crate::plan::Comparison;
use crate::report::{self, full_level_name};
use crate::result::RunResult;
use crate::result::answer::compared;
use crate::result::compare::{changes, differences};
use crate::stdio::{self, note};

/// Prints what changed. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// If a file is no result, the results are of different things, or have no level in common.
pub fn compare(wanted: &Comparison) -> Result<u8> {
    signals::survive_file_limits()?;
    let (reference, other) = (read(&wanted.reference)?, read(&wanted.other)?);
    let names = format!("{} and {}", shown(&wanted.reference), shown(&wanted.other));
    let differences = differences(&reference.setup, &other.setup);
    if !differences.is_empty() && !wanted.force {
        let details = differences.join("; ");
        return Err(Error::input(format!(
            "{names} measured different things: {details}; --force compares them anyway"
        )));
    }
    differences
        .iter()
        .for_each(|difference| note!("different things measured, compared because of --force: {difference}"));
    if let Some(path) = [(&reference, &wanted.reference), (&other, &wanted.other)]
        .iter()
        .find_map(|(result, path)| result.variants.as_ref().map(|_| path))
    {
        let rule = "it already compares its variants; draw them with triton-bench report";
        return Err(Error::input(format!("{}: {rule}", shown(path))));
    }
    let changes = changes(&reference, &other, wanted.margin);
    if changes.is_empty() {
        return Err(Error::input(format!("{names} have no level in common; measure the same levels in both")));
    }
    let alone = [alone(&reference, &other), alone(&other, &reference)].concat();
    stdio::print(&report::compare::text(&changes, wanted.margin, &alone))?;
    let files = crate::app::report::names(&[wanted.reference.clone(), wanted.other.clone()]);
    if let Some(answer) = compared(&changes, [&files[0], &files[1]], &other.setup) {
        stdio::print(&report::headline::text(&answer))?;
    }
    Ok(exit::OK)
}

/// Reads a result, and says which it is where a report holds several.
fn read(path: &Path) -> Result<RunResult> {
    let (result, held) = RunResult::read_one_of(path)?;
    if held > 1 {
        note!(
            "{}: a report of {held} results, of which only its run's, or the first of an overlay, is compared",
            shown(path)
        );
    }
    Ok(result)
}

/// Levels that only one result has.
fn alone(result: &RunResult, other: &RunResult) -> Vec<String> {
    let alone = result.levels_with_earlier().filter(|(level, earlier)| other.counterpart(level, earlier).is_none());
    alone.map(|(level, earlier)| full_level_name(level.load, result.distinction(level, earlier))).collect()
}

fn shown(path: &Path) -> String {
    stdio::shown(&path.to_string_lossy()).to_string()
}
