//! HTTP/1.1 for services: a dialogue whose answers are heads and bodies, and queries beside the load.
//!
//! HTTP/1.1 answers in the order of requests, and our connections carry one request at a time. So the connection
//! matches an answer to its request, and every request either completes with the one answer on its connection or fails.

mod body;
mod headers;
mod questions;
mod refusal;

use std::io::IoSlice;
use std::sync::Arc;

pub use body::{check_length, decompressed, keep, too_long, unpacked, unpacked_refusal};
pub(crate) use headers::USER_AGENT;
pub use headers::{Headers, write_field, write_length};
pub use questions::{Answer, Patience, Questions, Taker};
pub use refusal::{KEPT_OF_REFUSAL, refusal};

use crate::backend::{Client, ClientSpec, CompletionSink, InferError, Request};
use crate::error::Result;
use crate::serial::{self, Dialogue, SLICES, Step};
use crate::wire::http1::{Head, ReplyReader};
use crate::{Exchanges, Route, closed, malformed};

/// A service over HTTP/1.1: how a request becomes bytes, and what the answer means.
pub trait HttpService: Send {
    /// The field that gives the length of the first part of an answer's body; empty if there is none.
    const PART_LENGTH: &'static str = "";

    /// Makes sure that there are at least `slots` slots.
    ///
    /// # Errors
    /// If there cannot be another.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// Prepares a request, including its head, for sending in a slot; returns its length in bytes.
    ///
    /// # Errors
    /// Why it cannot be sent.
    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError>;

    /// As [`Dialogue::gather`].
    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize;

    /// The head of the answer has arrived.
    ///
    /// # Errors
    /// If nothing useful can follow: the connection is then closed.
    fn head(&mut self, slot: usize, head: &Head) -> Result<(), InferError>;

    /// A piece of the answer's body has arrived; with it, `total` bytes have.
    ///
    /// # Errors
    /// As [`HttpService::head`].
    fn body(&mut self, slot: usize, piece: &[u8], total: u64, exchanges: &mut Exchanges) -> Result<(), InferError>;

    /// The answer is complete, with `total` bytes of body.
    ///
    /// # Errors
    /// Why the request has failed; the connection stays usable.
    fn complete(&mut self, slot: usize, head: &Head, total: u64, exchanges: &mut Exchanges) -> Result<(), InferError>;

    /// Whether the rest of the body is not needed: the answer is then complete, whenever its body ends.
    fn has_all(&self, _slot: usize) -> bool {
        false
    }

    /// Whether an answer is complete although the server closed the connection within its body.
    fn is_whole(&self, _slot: usize) -> bool {
        false
    }
}

/// Opens a client of a service over HTTP/1.1.
///
/// # Errors
/// If a connection cannot be made.
pub fn open<S: HttpService + 'static>(
    service: S,
    route: Route,
    spec: &ClientSpec,
    sink: Arc<dyn CompletionSink>,
) -> Result<Box<dyn Client>> {
    serial::open(Http::new(service), route, spec, sink)
}

/// A dialogue in HTTP/1.1.
pub struct Http<S> {
    service: S,
    readers: Vec<ReplyReader>,
    /// Each connection's, of an answer that is complete and of which bytes still come.
    draining: Vec<ReplyReader>,
}

impl<S: HttpService> Http<S> {
    /// No slots yet.
    pub fn new(service: S) -> Self {
        Self { service, readers: Vec::new(), draining: Vec::new() }
    }

    fn complete(&mut self, slot: usize, exchanges: &mut Exchanges) {
        let reader = &self.readers[slot];
        let outcome = match reader.head() {
            Some(head) => self.service.complete(slot, head, reader.body_bytes(), exchanges),
            None => Err(malformed("no head")),
        };
        if let Err(error) = outcome {
            exchanges.now = crate::clock::Stamp::now();
            exchanges.respond_failed(slot, error);
        }
    }

    /// The answer is complete, and what came behind all that is wanted of it leaves its connection good for no other: however the
    /// bytes were cut, that costs the answer nothing.
    #[cold]
    fn complete_last(&mut self, slot: usize, exchanges: &mut Exchanges) -> Step {
        self.readers[slot].ends_connection();
        self.complete(slot, exchanges);
        Step::Whole
    }
}

impl<S: HttpService> Dialogue for Http<S> {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.service.grow(slots)?;
        while self.readers.len() < slots {
            self.readers.push(ReplyReader::with_part_length(S::PART_LENGTH));
            self.draining.push(ReplyReader::with_part_length(S::PART_LENGTH));
        }
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        self.readers[slot].reset();
        self.service.prepare(slot, request)
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        self.service.gather(slot, skip, slices)
    }

    fn receive(&mut self, slot: usize, mut bytes: &[u8], exchanges: &mut Exchanges) -> Result<Step, InferError> {
        while !bytes.is_empty() {
            let reader = &mut self.readers[slot];
            let headless = reader.head().is_none();
            let progress = match reader.feed(bytes) {
                Err(_) if self.service.has_all(slot) => return Ok(self.complete_last(slot, exchanges)),
                fed => fed.map_err(|error| malformed(error.to_string()))?,
            };
            if let (true, Some(head)) = (headless, reader.head()) {
                self.service.head(slot, head)?;
            }
            self.service.body(slot, progress.body, reader.body_bytes(), exchanges)?;
            bytes = &bytes[progress.taken..];
            let is_last = reader.head().is_some_and(|head| !head.keeps_open);
            if is_last && !progress.complete && self.service.has_all(slot) {
                self.complete(slot, exchanges);
                return Ok(Step::Whole);
            }
            if progress.complete {
                if !bytes.is_empty() && self.service.has_all(slot) {
                    return Ok(self.complete_last(slot, exchanges));
                }
                no_more(bytes)?;
                self.complete(slot, exchanges);
                return Ok(Step::Whole);
            }
        }
        if !self.service.has_all(slot) {
            return Ok(Step::Partly);
        }
        self.complete(slot, exchanges);
        Ok(Step::Enough)
    }

    fn leave_rest(&mut self, slot: usize, connection: usize) {
        std::mem::swap(&mut self.readers[slot], &mut self.draining[connection]);
    }

    fn receive_rest(&mut self, connection: usize, mut bytes: &[u8]) -> Result<Step, InferError> {
        while !bytes.is_empty() {
            let progress = self.draining[connection].feed(bytes).map_err(|error| malformed(error.to_string()))?;
            bytes = &bytes[progress.taken..];
            if progress.complete {
                return no_more(bytes).map(|()| Step::Whole);
            }
        }
        Ok(Step::Partly)
    }

    fn end(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let reader = &mut self.readers[slot];
        if let Err(error) = reader.end()
            && !(reader.head().is_some() && self.service.is_whole(slot))
        {
            return Err(closed(&error.to_string()));
        }
        self.complete(slot, exchanges);
        Ok(())
    }

    fn is_filler(&self, bytes: &[u8]) -> bool {
        are_line_ends(bytes)
    }

    fn keeps_open(&self, slot: usize) -> bool {
        self.readers[slot].head().is_some_and(|head| head.keeps_open)
    }
}

/// Fails where bytes follow an answer that is complete. Ends of lines are none: some servers write one that they did not count, and
/// before the head of the next answer it means nothing either.
fn no_more(bytes: &[u8]) -> Result<(), InferError> {
    if are_line_ends(bytes) {
        return Ok(());
    }
    Err(malformed(format!("the server sent {} bytes more than the reply's length says", bytes.len())))
}

fn are_line_ends(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}
