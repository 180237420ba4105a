//! [`OwnLanes`]: the lanes of this process.

use crate::ranks::Part;

/// The lanes of this process among those of all. The number of a lane among all decides what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLanes {
    /// How many there are here.
    pub count: usize,
    /// How many there are in all processes together.
    pub all: usize,
    /// Which of these are here.
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
