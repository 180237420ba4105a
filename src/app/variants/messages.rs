//! What is said of a comparison while it runs.

use std::time::Duration;

use crate::app::variants::{CellPlace, Start};
use crate::plan::Matrix;
use crate::report;
use crate::report::progress::clock;
use crate::result::RunResult;
use crate::stdio::note;

/// How much is to be measured, and how long that takes at least.
pub fn extent(cells: usize, ways: usize, time: Option<Duration>) -> String {
    let time = time.map(|time| format!(": at least {}", clock(time))).unwrap_or_default();
    format!("{cells} cells, each of {ways} variants{time}")
}

/// Which start and cell this is, if there are several.
pub fn part(start: Start, cell: CellPlace) -> Vec<String> {
    let start = match start {
        Start { number, total: Some(total) } => (total > 1).then(|| format!("start {number}/{total}")),
        Start { number, total: None } => (number > 1).then(|| format!("start {number}")),
    };
    let cell = (cell.total > 1).then(|| format!("cell {}/{}", cell.number + 1, cell.total));
    start.into_iter().chain(cell).collect()
}

/// What the cell is about, if there are others.
pub fn about(result: &RunResult, cell: usize, cells: usize) -> String {
    let cell = result.variants.as_ref().and_then(|variants| variants.cells.get(cell)).filter(|_| cells > 1);
    cell.and_then(|cell| Some((cell, cell.loads.first()?)))
        .map_or_else(String::new, |(cell, load)| format!(" ({})", report::full_level_name(*load, cell.distinction())))
}

/// Says which rounds an earlier run has measured.
pub fn say_kept(part: &[String], kept: usize) {
    if kept > 0 {
        let rounds = if kept == 1 { "round 1".to_owned() } else { format!("rounds 1 to {kept}") };
        let position = part.iter().cloned().chain([rounds]).collect::<Vec<_>>().join(", ");
        note!("{position}: measured before (--resume)");
    }
}

/// The name of a kind of `--matrix`.
pub fn matrix_name(kind: &Matrix) -> &'static str {
    match kind {
        Matrix::Memory => "memory",
        Matrix::Transports { .. } => "transports",
    }
}
