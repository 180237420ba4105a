//! Tells levels apart, and matches those of one result with those of another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RunResult;
use crate::summary::LevelSummary;

/// What tells levels of the same load apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Distinction {
    /// The batch size, if the run has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u64>,
    /// Which of the levels with this load it is, from 1, if there are several: stages may repeat a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<usize>,
    /// Bytes of an input with free dimensions, if `--matrix-sizes` sets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
}

impl RunResult {
    /// Every level, with those before it.
    pub fn levels_with_earlier(&self) -> impl Iterator<Item = (&LevelSummary, &[LevelSummary])> {
        self.levels.iter().enumerate().map(|(number, level)| (level, &self.levels[..number]))
    }

    /// What tells `level` apart from the others; `earlier` are those before it.
    pub fn distinction(&self, level: &LevelSummary, earlier: &[LevelSummary]) -> Distinction {
        let is_repeated = repetitions(&self.levels, level) > 1;
        Distinction {
            batch_size: self.distinguishing_batch_size(level),
            repetition: is_repeated.then(|| repetitions(earlier, level) + 1),
            input_bytes: None,
        }
    }

    /// The level of this result that another result's `level` is to be compared with: same load, same batch size, and
    /// the same repetition of it. `earlier` are the levels before `level` in its own result.
    pub fn counterpart(&self, level: &LevelSummary, earlier: &[LevelSummary]) -> Option<&LevelSummary> {
        self.levels.iter().filter(|other| is_same_level(other, level)).nth(repetitions(earlier, level))
    }
}

fn repetitions(levels: &[LevelSummary], level: &LevelSummary) -> usize {
    levels.iter().filter(|other| is_same_level(other, level)).count()
}

fn is_same_level(level: &LevelSummary, other: &LevelSummary) -> bool {
    level.load == other.load && level.client.batch_size == other.client.batch_size
}
