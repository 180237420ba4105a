//! The result inside of a report.

use serde::Serialize;

use crate::measure::course::thinned;
use crate::report::inert;
use crate::result::RunResult;

/// Rows of windows of all levels together: a report is to be sent around.
const MOST_ROWS: usize = 1_000;

/// The result's JSON, in which nothing ends the element that it is in. Where there are many windows, neighbours are one.
pub fn json(result: &RunResult) -> String {
    let mut small = result.clone();
    let each = (MOST_ROWS / small.levels.len().max(1)).max(8);
    for level in &mut small.levels {
        level.windows = thinned(std::mem::take(&mut level.windows), each);
    }
    inert_json(&small)
}

/// JSON in which nothing ends the element that it is in.
pub fn inert_json(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // A vector takes everything, and every part of a result can be written.
    inert::write(&mut bytes, value).expect("a result is JSON");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}
