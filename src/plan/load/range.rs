//! Levels that are measured one after another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `start:end:step`; without an end the range grows until the latency threshold is exceeded. Or a list of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range<T> {
    /// First value.
    pub start: T,
    /// Last value; `None` is without bound.
    pub end: Option<T>,
    /// Stride, or the precision of a binary search.
    pub step: T,
    /// The values, ascending, if a list or a factor gives them; then `start` and `end` are only the first and last of
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<T>,
}

impl<T> Range<T> {
    /// Values with a stride.
    pub fn with_step(start: T, end: Option<T>, step: T) -> Self {
        Self { start, end, step, listed: Vec::new() }
    }
}

impl<T: PartialOrd> Range<T> {
    /// Whether it has an end above its start.
    pub fn rises(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end > self.start)
    }
}
