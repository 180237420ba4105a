//! The command `compare`: reads two results and says what changed.

use std::path::Path;

use crate::error::{Error, Result};
use crate::exit;
use crate::measure::summary::LevelSummary;
use crate::plan::Comparison;
use crate::report::{self, level_name};
use crate::result::RunResult;
use crate::result::compare::{changes, differences};
use crate::stdio::{self, note};

/// Prints what changed. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// Where a file is no result, the results are of different things, or have no level in common.
pub fn compare(wanted: &Comparison) -> Result<u8> {
    let (one, other) = (RunResult::read(&wanted.reference)?, RunResult::read(&wanted.other)?);
    let names = format!("{} and {}", shown(&wanted.reference), shown(&wanted.other));
    let differences = differences(&one.setup, &other.setup);
    if !differences.is_empty() && !wanted.force {
        let what = differences.join("; ");
        return Err(Error::input(format!(
            "{names} are of different things: {what}; --force compares them all the same"
        )));
    }
    differences.iter().for_each(|what| note!("of different things, compared because of --force: {what}"));
    let changes = changes(&one, &other, wanted.margin);
    if changes.is_empty() {
        return Err(Error::input(format!("{names} have no level in common; measure the same levels in both")));
    }
    let is_alone = |level: &&LevelSummary| changes.iter().all(|change| change.load != level.load);
    let alone = one.levels.iter().chain(&other.levels).filter(is_alone).map(|level| level_name(level.load));
    stdio::print(&report::compare::text(&changes, wanted.margin, &alone.collect::<Vec<_>>()))?;
    Ok(exit::OK)
}

fn shown(path: &Path) -> String {
    stdio::shown(&path.to_string_lossy()).to_string()
}
