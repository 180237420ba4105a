//! The lines about what contradicts itself in a level.

use crate::result::summary::LevelSummary;
use crate::stdio::shown;

/// A line for each remark.
pub fn text(level: &LevelSummary) -> String {
    level.remarks.iter().map(|remark| format!("    [WARNING] {}\n", shown(&remark.text))).collect()
}
