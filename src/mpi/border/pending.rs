//! Operations in progress, and the buffers that MPI reads and writes meanwhile: safe to start, to poll and to abandon.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;

use crate::border::{Calls, Operation};
use crate::error::Result;

/// Starts operations, and counts those in progress.
pub struct Operations {
    calls: Box<dyn Calls>,
    under_way: Rc<Cell<usize>>,
}

/// An operation in progress, and its buffers. If it is dropped before it is done, the buffers are left to MPI.
pub struct Pending {
    operation: Option<Box<dyn Operation>>,
    sent: Vec<u8>,
    received: Vec<u8>,
    under_way: Rc<Cell<usize>>,
}

impl Operations {
    pub(crate) fn new(calls: Box<dyn Calls>) -> Self {
        Self { calls, under_way: Rc::default() }
    }

    /// Starts to send `bytes` to all, and to collect those of all `size` processes, of the same length, in the order of
    /// their numbers.
    ///
    /// # Errors
    /// MPI refuses.
    pub fn gather_to_all(&self, bytes: Vec<u8>, size: usize) -> Result<Pending> {
        let room = vec![0; bytes.len() * size];
        // SAFETY: there is room for all, and the memory of both buffers stays where it is until the operation is done: `Pending`
        // owns it, and gives it away for good otherwise.
        self.begin(bytes, room, |sent, received| unsafe { self.calls.gather_to_all(sent, received) })
    }

    /// Starts to send the bytes of `root` to all; the others' bytes, of the same number, are overwritten.
    ///
    /// # Errors
    /// MPI refuses.
    pub fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Pending> {
        // SAFETY: as above.
        self.begin(Vec::new(), bytes, |_, buffer| unsafe { self.calls.broadcast(buffer, root) })
    }

    /// Starts to send `bytes` to one process.
    ///
    /// # Errors
    /// MPI refuses.
    pub fn send(&self, bytes: Vec<u8>, to: usize) -> Result<Pending> {
        // SAFETY: as above.
        self.begin(bytes, Vec::new(), |sent, _| unsafe { self.calls.send(sent, to) })
    }

    /// Starts to receive that many bytes from one process.
    ///
    /// # Errors
    /// MPI refuses.
    pub fn receive(&self, bytes: usize, from: usize) -> Result<Pending> {
        // SAFETY: as above.
        self.begin(Vec::new(), vec![0; bytes], |_, received| unsafe { self.calls.receive(received, from) })
    }

    fn begin(
        &self,
        sent: Vec<u8>,
        received: Vec<u8>,
        begin: impl FnOnce(&[u8], &mut [u8]) -> Result<Box<dyn Operation>>,
    ) -> Result<Pending> {
        let mut pending = Pending { operation: None, sent, received, under_way: Rc::clone(&self.under_way) };
        pending.operation = Some(begin(&pending.sent, &mut pending.received)?);
        self.under_way.set(self.under_way.get() + 1);
        Ok(pending)
    }

    /// Ends all processes at once, those on other machines too.
    pub fn abort(&self, code: u8) {
        self.calls.abort(code);
    }

    /// Leaves the others, and waits for them: all must come here. Does nothing if an operation is in progress, because
    /// it may never be done.
    ///
    /// # Errors
    /// MPI refuses.
    pub fn leave(&self) -> Result<()> {
        if self.under_way.get() == 0 { self.calls.leave() } else { Ok(()) }
    }
}

impl Pending {
    /// Makes progress; returns whether the operation is done.
    ///
    /// # Errors
    /// MPI reports a failure.
    pub fn is_done(&mut self) -> Result<bool> {
        let Some(operation) = &mut self.operation else { return Ok(true) };
        let done = operation.is_done()?;
        if done {
            self.operation = None;
            self.under_way.set(self.under_way.get() - 1);
        }
        Ok(done)
    }

    /// The received bytes.
    ///
    /// # Panics
    /// Where the operation is not done.
    pub fn into_bytes(mut self) -> Vec<u8> {
        assert!(self.operation.is_none(), "bytes are still to come");
        mem::take(&mut self.received)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.operation.is_some() {
            // MPI may still read the one and write to the other.
            mem::forget((mem::take(&mut self.sent), mem::take(&mut self.received)));
        }
    }
}
