//! [`OwnLanes`]: the lanes of this process.

use crate::ranks::Part;

/// The lanes of this process among those of all. A lane's number among all decides what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLanes {
    /// Their number in this process.
    pub count: usize,
    /// Their number in all processes together.
    pub all: usize,
    /// Which part of these is here.
    pub part: Part,
}

impl From<usize> for OwnLanes {
    fn from(count: usize) -> Self {
        Self { count, all: count, part: Part::WHOLE }
    }
}

impl OwnLanes {
    /// The numbers of the lanes among all.
    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |lane| self.part.number(lane))
    }
}
