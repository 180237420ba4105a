//! Matches the levels of one result with those of another.

use crate::measure::summary::LevelSummary;

/// Whether two levels had the same load, with requests of the same batch size.
pub fn is_same_level(one: &LevelSummary, other: &LevelSummary) -> bool {
    one.load == other.load && one.client.batch_size == other.client.batch_size
}
