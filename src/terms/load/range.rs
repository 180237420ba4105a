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

/// A quantity that levels vary: concurrency or request rate.
pub trait LevelValue: Copy + PartialOrd {
    /// `start + index * step`, computed in one step so that errors do not add up; `None` above the type's range.
    fn nth(start: Self, step: Self, index: u32) -> Option<Self>;

    /// The middle of two levels; at or above `low`.
    fn middle(low: Self, high: Self) -> Self;

    /// How many whole steps lie between two levels, up to rounding errors.
    fn steps(low: Self, high: Self, step: Self) -> usize;

    /// Whether two levels are further apart than `step`.
    fn apart(low: Self, high: Self, step: Self) -> bool;

    /// Brings a level that exceeds `end` only by a rounding error back to it; `None` if it is truly above.
    fn within(self, end: Self) -> Option<Self>;
}

impl LevelValue for u32 {
    fn nth(start: Self, step: Self, index: u32) -> Option<Self> {
        start.checked_add(step.checked_mul(index)?)
    }

    fn middle(low: Self, high: Self) -> Self {
        low + (high - low) / 2
    }

    fn steps(low: Self, high: Self, step: Self) -> usize {
        (high.saturating_sub(low) / step.max(1)) as usize
    }

    fn apart(low: Self, high: Self, step: Self) -> bool {
        high - low > step
    }

    fn within(self, end: Self) -> Option<Self> {
        (self <= end).then_some(self)
    }
}

/// Relative error up to which two rates are the same.
const RATE_ROUNDING: f64 = 1e-9;

impl LevelValue for f64 {
    fn nth(start: Self, step: Self, index: u32) -> Option<Self> {
        Some(step.mul_add(Self::from(index), start)).filter(|value| value.is_finite())
    }

    fn middle(low: Self, high: Self) -> Self {
        low + (high - low) / 2.0
    }

    fn steps(low: Self, high: Self, step: Self) -> usize {
        ((high * (1.0 + RATE_ROUNDING) - low) / step).floor() as usize
    }

    fn apart(low: Self, high: Self, step: Self) -> bool {
        // A step below the resolution of the numbers must not halve for ever.
        let middle = Self::middle(low, high);
        high - low > step * (1.0 + RATE_ROUNDING) && low < middle && middle < high
    }

    fn within(self, end: Self) -> Option<Self> {
        if self <= end { Some(self) } else { (self <= end * (1.0 + RATE_ROUNDING)).then_some(end) }
    }
}

/// More levels than this are not announced, and no rates with an end have more.
pub const MAX_LEVELS: usize = 10_000;

impl<T: LevelValue> Range<T> {
    /// How many values the range has, one after another; none without an end.
    pub fn count(&self) -> usize {
        match self.end {
            _ if !self.listed.is_empty() => self.listed.len(),
            Some(end) if self.start < end => T::steps(self.start, end, self.step).saturating_add(1),
            Some(end) => usize::from(self.start <= end),
            None => 0,
        }
    }

    /// The value with that number, from 0; `None` past its end.
    pub fn nth(&self, index: u32) -> Option<T> {
        if !self.listed.is_empty() {
            return self.listed.get(index as usize).copied();
        }
        let value = T::nth(self.start, self.step, index)?;
        match self.end {
            Some(end) if index > 0 && self.start >= end => None,
            Some(end) => value.within(end),
            None => Some(value),
        }
    }

    /// How many levels a search has if none fails; `None` if that is not known.
    pub fn levels(&self, binary: bool) -> Option<usize> {
        if !self.listed.is_empty() {
            return Some(self.listed.len());
        }
        let end = self.end?;
        if binary && self.start < end {
            return None;
        }
        Some(self.count().max(1)).filter(|count| *count <= MAX_LEVELS)
    }
}
