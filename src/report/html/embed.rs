//! The result embedded in a report.

use serde::Serialize;

use crate::inert;
use crate::result::RunResult;
use crate::result::timeline::thinned;

/// Limit on rows of windows over all levels: a report should be small enough to send.
const MAX_ROWS: usize = 1_000;

/// The result's JSON, which cannot end the element that contains it. If there are many windows, neighbours are merged.
pub fn json(result: &RunResult) -> String {
    let mut small = result.clone();
    let rows = (MAX_ROWS / small.levels.len().max(1)).max(8);
    for level in &mut small.levels {
        level.windows = thinned(std::mem::take(&mut level.windows), rows);
    }
    inert_json(&small)
}

/// JSON that cannot end the element that contains it.
pub fn inert_json(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail, and every part of a result can be serialised.
    inert::write(&mut bytes, value).expect("a result is JSON");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}
