//! [`Peers`] over MPI, by `MPI_Iallgather` and `MPI_Ibcast`.
//!
//! All values go out in slots of one small size, with their length in front. Only if a value is longer does a second
//! operation follow: a broadcast of the only long one, or a gathering with room for the longest.

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::mpi::{Pending, World};
use crate::{Part, Peers};

/// Bytes of a slot, and of the length in front.
const SLOT: usize = 512;
const HEAD: usize = 4;
/// How long present ranks may take to answer the roll call once one is missing.
const ROLL_CALL: Duration = Duration::from_secs(2);

/// The processes of an MPI job.
pub struct OverMpi {
    world: World,
    step: RefCell<Step>,
}

/// The state of the current exchange.
enum Step {
    None,
    /// All send the length, and what fits into the slot.
    Short(Pending, Vec<u8>),
    /// One sends the rest.
    One(Pending, usize),
    /// All do, with room for the longest.
    Long(Pending, Vec<usize>),
}

impl OverMpi {
    /// Joins the other processes of the job.
    ///
    /// # Errors
    /// As [`World::enter`].
    pub fn enter() -> Result<Self> {
        Ok(Self { world: World::enter()?, step: RefCell::new(Step::None) })
    }

    fn second(&self, message: Vec<u8>, lengths: Vec<usize>) -> Result<Step> {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut long = lengths.iter().enumerate().filter(|(_, length)| **length > 0);
        if let (Some((root, _)), None) = (long.next(), long.next()) {
            let mut bytes = message;
            bytes.resize(longest, 0);
            return Ok(Step::One(self.world.operations.broadcast(root, bytes)?, root));
        }
        let mut bytes = message;
        bytes.resize(longest, 0);
        Ok(Step::Long(self.world.operations.gather_to_all(bytes, self.world.size)?, lengths))
    }
}

impl Peers for OverMpi {
    fn part(&self) -> Part {
        Part { rank: self.world.rank, size: self.world.size }
    }

    fn begin(&self, message: Vec<u8>) -> Result<()> {
        let length = u32::try_from(message.len())
            .map_err(|_| Error::machine(format!("{} bytes are too many for other ranks", message.len())))?;
        let mut slot = Vec::with_capacity(SLOT);
        slot.extend(length.to_le_bytes());
        slot.extend(&message[..message.len().min(SLOT - HEAD)]);
        slot.resize(SLOT, 0);
        let pending = self.world.operations.gather_to_all(slot, self.world.size)?;
        *self.step.borrow_mut() = Step::Short(pending, message);
        Ok(())
    }

    fn poll(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let mut step = self.step.borrow_mut();
        let done = match &mut *step {
            Step::None => false,
            Step::Short(pending, _) | Step::One(pending, _) | Step::Long(pending, _) => pending.is_done()?,
        };
        if !done {
            return Ok(None);
        }
        match std::mem::replace(&mut *step, Step::None) {
            Step::None => Ok(None),
            Step::Short(pending, message) => {
                let all: Vec<Vec<u8>> = pending.into_bytes().chunks(SLOT).map(<[u8]>::to_vec).collect();
                let length = |slot: &Vec<u8>| u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]) as usize;
                let lengths: Vec<usize> = all.iter().map(length).collect();
                if lengths.iter().all(|&length| length <= SLOT - HEAD) {
                    let messages = all.iter().zip(lengths).map(|(slot, length)| slot[HEAD..HEAD + length].to_vec());
                    return Ok(Some(messages.collect()));
                }
                *step = self.second(message, lengths)?;
                Ok(None)
            }
            Step::One(pending, root) => {
                let mut messages = vec![Vec::new(); self.world.size];
                messages[root] = pending.into_bytes();
                Ok(Some(messages))
            }
            Step::Long(pending, lengths) => {
                let bytes = pending.into_bytes();
                let longest = bytes.len() / self.world.size;
                let messages = bytes.chunks(longest).zip(lengths).map(|(bytes, length)| bytes[..length].to_vec());
                Ok(Some(messages.collect()))
            }
        }
    }

    fn missing(&self) -> Vec<usize> {
        let (operations, own_rank) = (&self.world.operations, self.world.rank);
        // Rank 0 is in touch with every rank, the others with rank 0.
        let others: Vec<usize> = if own_rank == 0 { (1..self.world.size).collect() } else { vec![0] };
        let mut sent: Vec<Pending> = others.iter().filter_map(|&rank| operations.send(vec![1], rank).ok()).collect();
        let received = others.iter().filter_map(|&rank| Some((rank, operations.receive(1, rank).ok()?)));
        let mut waiting: Vec<(usize, Pending)> = received.collect();
        let limit = Stamp::now().plus_duration(ROLL_CALL);
        while !waiting.is_empty() && Stamp::now() < limit {
            waiting.retain_mut(|(_, pending)| !pending.is_done().unwrap_or(false));
            sent.retain_mut(|pending| !pending.is_done().unwrap_or(false));
            thread::sleep(Duration::from_millis(1));
        }
        waiting.into_iter().map(|(rank, _)| rank).collect()
    }

    fn abort(&self, code: u8) {
        self.world.operations.abort(code);
    }

    fn leave(&self) -> Result<()> {
        self.world.operations.leave()
    }
}
