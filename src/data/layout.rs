//! Where the batches of an input are in packed memory.

/// Where an input's batches are: in the corpus itself, or at offsets of the packed region.
pub(super) enum Layout {
    /// In the corpus.
    InPlace,
    /// Each batch of its own, one after the other.
    Apart(Vec<usize>),
    /// Elements in order, the first ones again at the end, so that every batch is a window: from `start`, `len` each.
    Ring {
        /// Offset of the first element.
        start: usize,
        /// Bytes of an element.
        len: usize,
    },
}

impl Layout {
    /// Offset of batch number `index`, which starts at element `first`, in the packed region.
    pub(super) fn place(&self, index: usize, first: usize) -> Option<usize> {
        match self {
            Self::InPlace => None,
            Self::Apart(starts) => Some(starts[index]),
            Self::Ring { start, len } => Some(start + first * len),
        }
    }
}
