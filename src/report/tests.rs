//! What is printed of a level, for the tests of reports.

use crate::console;
use crate::result::Setup;
use crate::result::summary::LevelSummary;

/// All that a level prints; where windows are listed, `windows` of them, each like the level's result.
pub fn printed(setup: &Setup, level: &LevelSummary, windows: usize) -> String {
    let listed = if setup.detail.verbosity > 0 { windows } else { 0 };
    let passes = (1..=listed).map(|trial| console::pass(trial, &level.client, setup.measurement.percentile));
    let header = console::header(level.load).into_iter();
    header.chain(passes).chain([console::results(setup, level)]).collect()
}
