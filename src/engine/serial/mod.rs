//! Connections that carry one exchange at a time: each slot has its own.
//!
//! With one slot its socket blocks: a request costs one `writev` and one `read`. With more, all sockets are watched by one
//! epoll.
//!
//! What becomes of a request when its connection breaks: it completes with an error that says how. A connection that the
//! *server or the network* ended is made again only with `--reconnect`; without, every later request in that slot completes
//! with `Connection lost`, each after a short pause, so that a load whose server is gone neither spins nor hangs. A
//! connection that *we* ended (after a cancelled request or a malformed answer), and one whose end the server announced, is
//! made again with the next request, whose latency includes it.
//!
//! To give up a request is to hang up: there is no other way.

mod common;
mod line;

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Client, ClientSpec, CompletionSink, InferError, Request};
use crate::clock::Stamp;
use crate::engine::serial::common::Common;
use crate::engine::serial::line::{Line, TICK};
use crate::engine::{Exchanges, NetworkClient, Poller, Route, Transport, failure, wait_for};
use crate::error::{Error, Result};

/// Bytes that one read takes at most. Answers that are larger are passed over in pieces of this size.
const BUFFER: usize = 1024 * 1024;
/// How long the first connection of a slot may take.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Time between failures that cost nothing: of slots without a connection.
const PAUSE: Duration = Duration::from_millis(20);
/// Buffers of one `writev`.
pub const SLICES: usize = 16;

/// What came of sending or receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to come.
    Partly,
    /// All of it.
    Whole,
}

/// A service whose connections carry one exchange at a time: how a request becomes bytes, and what the bytes of an answer mean.
/// What it makes of them it says to the [`Exchanges`]; an exchange ends where it says [`Step::Whole`].
pub trait Dialogue: Send {
    /// Makes sure that there are so many slots.
    ///
    /// # Errors
    /// Where there cannot be another.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// Makes a request ready to be sent in a slot; tells its length in bytes.
    ///
    /// # Errors
    /// Why it cannot be sent.
    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError>;

    /// Fills `slices` with what comes after the first `skip` bytes of the slot's request, as far as there is room. Returns how
    /// many are used.
    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize;

    /// Takes bytes of the answer to the slot's request.
    ///
    /// # Errors
    /// Where they break the protocol: the connection is then of no further use.
    fn receive(&mut self, slot: usize, bytes: &[u8], exchanges: &mut Exchanges) -> Result<Step, InferError>;

    /// The server has closed the connection: whether that ends the answer.
    ///
    /// # Errors
    /// What is missing.
    fn end(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<(), InferError>;

    /// Whether the connection of the answer that was complete last takes another request.
    fn keeps_open(&self, slot: usize) -> bool;
}

/// Opens a client of a service whose connections carry one exchange at a time.
///
/// # Errors
/// Where a connection cannot be made.
pub fn open<D: Dialogue + 'static>(
    dialogue: D,
    route: Route,
    spec: &ClientSpec,
    sink: Arc<dyn CompletionSink>,
) -> Result<Box<dyn Client>> {
    let limit = route.limit;
    let transport = Connections { common: Common::new(route), lines: Vec::new(), buffer: vec![0; BUFFER], dialogue };
    Ok(Box::new(NetworkClient::open(transport, spec, limit, sink)?))
}

/// The connections of a client, one for each slot.
struct Connections<D> {
    common: Common,
    lines: Vec<Line>,
    buffer: Vec<u8>,
    dialogue: D,
}

impl<D: Dialogue> Connections<D> {
    fn broken(&self, error: &std::io::Error) -> Error {
        Error::server(format!("{}: {}", self.common.route.connector.endpoint().http_url(), failure(error)))
    }

    /// Goes over from one blocking socket to many that do not block.
    fn watch_all(&mut self) -> std::io::Result<()> {
        let poller = Poller::new()?;
        for (slot, line) in self.lines.iter_mut().enumerate() {
            line.attach(Some(&poller), slot)?;
        }
        self.common.poller = Some(poller);
        Ok(())
    }

    /// Goes on with a slot whose socket is ready.
    fn advance(&mut self, slot: usize, exchanges: &mut Exchanges) {
        let Self { common, lines, buffer, dialogue } = self;
        let line = &mut lines[slot];
        if !exchanges.is_outstanding(slot) {
            line.disturbed(buffer);
            return;
        }
        if line.is_sending() {
            match line.send(common, dialogue, slot, exchanges) {
                Err(error) => return exchanges.fail(slot, error),
                Ok(()) if !exchanges.is_outstanding(slot) => return,
                Ok(()) => {}
            }
            let silent = || !wait_for(line.stream(), false, Stamp(0)).unwrap_or(false);
            if line.is_sending() && common.poller.is_none() && silent() {
                return;
            }
        }
        match line.receive(common, dialogue, slot, (buffer, exchanges)) {
            Ok(Step::Partly) => {}
            Ok(Step::Whole) => exchanges.end(slot),
            Err(error) => {
                exchanges.now = Stamp::now();
                exchanges.fail(slot, error);
            }
        }
    }

    /// One blocking step of the only slot.
    fn turn_one(&mut self, until: Stamp, exchanges: &mut Exchanges) -> std::io::Result<()> {
        let Some(line) = self.lines.first_mut().filter(|_| exchanges.is_outstanding(0)) else {
            return wait_for(None, false, until).map(drop);
        };
        let ready = match line.is_sending() {
            true => wait_for(line.stream(), true, until)?,
            false => until.from_now() >= TICK || line.holds_bytes() || wait_for(line.stream(), false, until)?,
        };
        if ready {
            self.advance(0, exchanges);
        }
        Ok(())
    }

    /// Waits for any socket once.
    fn turn_many(&mut self, until: Stamp, exchanges: &mut Exchanges) -> std::io::Result<()> {
        let count = self.common.poller.as_mut().map_or(Ok(0), |poller| poller.wait(until))?;
        for index in 0..count {
            let Some(poller) = &self.common.poller else { break };
            self.advance(poller.ready(index), exchanges);
        }
        Ok(())
    }
}

impl<D: Dialogue> Transport for Connections<D> {
    fn grow(&mut self, slots: usize) -> Result<()> {
        if slots > 1 && self.common.poller.is_none() {
            self.watch_all().map_err(|error| self.broken(&error))?;
        }
        self.dialogue.grow(slots)?;
        while self.lines.len() < slots {
            let line = Line::open(&self.common, self.lines.len(), OPEN_LIMIT).map_err(|error| self.broken(&error))?;
            self.lines.push(line);
        }
        Ok(())
    }

    #[inline]
    fn enter(&mut self, slot: usize, _: &mut Exchanges) {
        self.lines[slot].enter();
    }

    fn start(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()> {
        let Self { common, lines, dialogue, .. } = self;
        let line = &mut lines[slot];
        let had_connection = line.stream().is_some();
        let begun = match dialogue.prepare(slot, exchanges.request(slot)) {
            Ok(total) => line.begin(common, dialogue, slot, (total, exchanges)),
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            let pause = if had_connection { Duration::ZERO } else { PAUSE };
            exchanges.fail_later(slot, error, pause);
        }
        Ok(())
    }

    fn flush(&mut self, _: &mut Exchanges) {}

    fn turn(&mut self, until: Stamp, exchanges: &mut Exchanges) -> Result<()> {
        let done = if self.common.poller.is_some() {
            self.turn_many(until, exchanges)
        } else {
            self.turn_one(until, exchanges)
        };
        done.map_err(|error| self.broken(&error))
    }

    fn give_up(&mut self, slot: usize, error: InferError, _politely: bool, exchanges: &mut Exchanges) -> bool {
        self.lines[slot].hang_up();
        exchanges.fail(slot, error);
        true
    }

    fn release(&mut self, slot: usize) {
        self.lines[slot].release(self.dialogue.keeps_open(slot));
    }

    fn close(&mut self) {}
}
