//! [`Peers`]: the seam to the other processes.

use crate::error::Result;
use crate::ranks::Part;

/// The other processes of a run. All take the same steps: what one begins as its `n`-th exchange, all do.
pub trait Peers {
    /// Which part this process has.
    fn part(&self) -> Part;

    /// Begins to tell `said` to all and to hear what each of them says. One exchange at a time.
    ///
    /// # Errors
    /// The others cannot be reached.
    fn begin(&self, said: Vec<u8>) -> Result<()>;

    /// Makes progress; returns what each has said, in the order of ranks, once all have. Never waits.
    ///
    /// # Errors
    /// The others cannot be reached.
    fn look(&self) -> Result<Option<Vec<Vec<u8>>>>;

    /// Who does not answer: of ranks other than 0, rank 0 may be said to be missing; rank 0 knows of all. Takes a second or two;
    /// after it there are no further exchanges.
    fn missing(&self) -> Vec<usize>;

    /// Ends all processes at once.
    fn abort(&self, code: u8);

    /// Leaves the others; waits until all do.
    ///
    /// # Errors
    /// They cannot be left in order.
    fn leave(&self) -> Result<()>;
}
