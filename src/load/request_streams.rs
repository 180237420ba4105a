//! [`LocalRequestStreams`]: the request streams of this process.

use crate::ranks::Part;

/// The request streams of this process among those of all. A request stream's number among all decides what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalRequestStreams {
    /// Their number in this process.
    pub count: usize,
    /// Their number in all processes together.
    pub all: usize,
    /// Which part of these is here.
    pub part: Part,
}

impl From<usize> for LocalRequestStreams {
    fn from(count: usize) -> Self {
        Self { count, all: count, part: Part::WHOLE }
    }
}

impl LocalRequestStreams {
    /// The numbers of the request streams among all.
    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |request_stream| self.part.number(request_stream))
    }
}
