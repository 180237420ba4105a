//! [`Peers`]: the seam to the other processes.

use crate::Part;
use crate::error::Result;

/// The other processes of a run. All take the same steps: if one starts its `n`-th exchange, all do.
pub trait Peers {
    /// The part of this process.
    fn part(&self) -> Part;

    /// Starts to send `message` to all and to receive what each of them sends. One exchange at a time.
    ///
    /// # Errors
    /// The others cannot be reached.
    fn begin(&self, message: Vec<u8>) -> Result<()>;

    /// Makes progress; returns everybody's bytes, in the order of ranks, once all have arrived. Never waits.
    ///
    /// # Errors
    /// The others cannot be reached.
    fn poll(&self) -> Result<Option<Vec<Vec<u8>>>>;

    /// The ranks that do not answer. A rank other than 0 may only learn that rank 0 is missing; rank 0 knows about all.
    /// Takes a second or two; after it there are no further exchanges.
    fn missing(&self) -> Vec<usize>;

    /// Ends all processes at once.
    fn abort(&self, code: u8);

    /// Leaves the others; waits until all do.
    ///
    /// # Errors
    /// They cannot be left in order.
    fn leave(&self) -> Result<()>;
}
