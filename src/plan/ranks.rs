//! Several processes that measure together.

use ::ranks::{Mode, Part};

/// How a run works together with the other processes that a launcher has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanksPlan {
    /// Whether it works together with them, over MPI.
    pub mpi: bool,
    /// How, if that does not follow from what each is asked to do.
    pub mode: Option<Mode>,
    /// Which part of the load this process has; known once it has met the others.
    pub part: Part,
    /// The others that run on this machine.
    pub neighbours: Vec<i32>,
}

impl Default for RanksPlan {
    fn default() -> Self {
        Self { mpi: false, mode: None, part: Part::WHOLE, neighbours: Vec::new() }
    }
}
