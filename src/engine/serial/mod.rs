//! Connections that carry one exchange at a time: each slot has its own, or there are fewer, and requests wait for one.
//!
//! With one slot its socket blocks: a request costs one `writev` and one `read`. With more, one epoll watches all
//! sockets.
//!
//! When a connection breaks, its request completes with an error that says how. A connection that has ended, under a request or
//! idle, by our will or the server's, is made again for the next request. So is one that the server closed before a request had
//! reached it, for that request: the server has never seen it. Nothing waits for a connection that is being made but
//! the request that needs it, whose latency includes that. Where none can be made, requests fail, each after a short pause, so
//! that a load whose server is gone neither spins nor hangs; without `--reconnect` it then ends (`engine::tally`).
//!
//! Giving up a request means closing its connection: there is no other way.
//!
//! A request may be over before all bytes of its answer have arrived ([`Step::Enough`]). Its slot is then free. What still arrives is
//! discarded; the slot's next request has to leave after it, and waits a moment at most: then the connection is closed and another
//! opened.

mod attempt;
mod common;
mod connection;
mod pending_drains;
mod write;

use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::backend::{Awaited, Client, ClientSpec, CompletionSink, InferError, Request};
use crate::clock::Stamp;
use crate::connecting::{ATTEMPTS, made_or_left};
use crate::connection_pool::ConnectionPool;
use crate::error::{Error, Result};
use crate::serial::common::Common;
use crate::serial::connection::SerialConnection;
use crate::serial::pending_drains::PendingDrains;
use crate::serial::write::TICK;
use crate::{Exchanges, NetworkClient, Poller, Route, Transport, failure, wait_for};

pub use write::gather;

/// Bytes per read. Larger answers are passed on in pieces of this size.
const BUFFER: usize = 1024 * 1024;
/// How long a connection may take that is made before the load.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Pause before the failure of slots without a connection, which would otherwise cost no time.
const PAUSE: Duration = Duration::from_millis(20);
/// Buffers of one `writev`.
pub const SLICES: usize = 16;

/// Progress of sending or receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to come.
    Partly,
    /// All that is needed of it has arrived. The rest goes to [`Dialogue::receive_rest`].
    Enough,
    /// It is complete.
    Whole,
}

/// A service whose connections carry one exchange at a time: how a request becomes bytes, and what the bytes of an
/// answer mean. It reports to the [`Exchanges`]; an exchange ends when it returns [`Step::Whole`] or [`Step::Enough`].
pub trait Dialogue: Send {
    /// Makes sure that there are at least `slots` slots.
    ///
    /// # Errors
    /// If there cannot be another.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// Prepares a request for sending in a slot; returns its length in bytes.
    ///
    /// # Errors
    /// Why it cannot be sent.
    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError>;

    /// Fills `slices` with what follows the first `skip` bytes of the slot's request, as far as there is room. Returns
    /// how many are used.
    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize;

    /// Processes bytes of the answer to the slot's request.
    ///
    /// # Errors
    /// If they break the protocol: the connection is then of no further use.
    fn receive(&mut self, slot: usize, bytes: &[u8], exchanges: &mut Exchanges) -> Result<Step, InferError>;

    /// The server has closed the connection: succeeds if that ends the answer.
    ///
    /// # Errors
    /// What is missing.
    fn end(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<(), InferError>;

    /// The rest of the slot's answer, after [`Step::Enough`], is now the connection's.
    fn leave_rest(&mut self, _slot: usize, _connection: usize) {}

    /// Consumes bytes of the rest of a connection's last answer; returns whether that was all.
    ///
    /// # Errors
    /// If they break the protocol.
    fn receive_rest(&mut self, _connection: usize, _bytes: &[u8]) -> Result<Step, InferError> {
        Ok(Step::Whole)
    }

    /// Whether these bytes, which have come between two answers, belong to neither and mean nothing.
    fn is_filler(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Whether the connection accepts another request after its last complete answer.
    fn keeps_open(&self, slot: usize) -> bool;
}

/// Opens a client of a service whose connections carry one exchange at a time.
///
/// # Errors
/// If a connection cannot be made.
pub fn open<D: Dialogue + 'static>(
    dialogue: D,
    route: Route,
    spec: &ClientSpec,
    sink: Arc<dyn CompletionSink>,
) -> Result<Box<dyn Client>> {
    route.remind_early();
    let limit = route.limit;
    let (common, buffer) = (Common::new(route), vec![0; BUFFER]);
    let most = spec.connections.unwrap_or(usize::MAX);
    let pool = ConnectionPool::new(spec.connections);
    let (lines, pending_drains, connecting_due) = (Vec::new(), PendingDrains::default(), Stamp::NEVER);
    let transport = Connections { common, lines, most, pool, pending_drains, connecting_due, buffer, dialogue };
    Ok(Box::new(NetworkClient::open(transport, spec, limit, sink)?))
}

/// The connections of a client.
struct Connections<D> {
    common: Common,
    lines: Vec<SerialConnection>,
    /// Their maximum number.
    most: usize,
    /// Which slot has which connection.
    pool: ConnectionPool,
    /// Who waits for what an earlier answer has left.
    pending_drains: PendingDrains,
    /// When to look at those that are being made, even if their sockets are silent.
    connecting_due: Stamp,
    buffer: Vec<u8>,
    dialogue: D,
}

impl<D: Dialogue> Connections<D> {
    fn broken(&self, error: &std::io::Error) -> Error {
        Error::server(format!("{}: {}", self.common.route.connector.endpoint().http_url(), failure(error)))
    }

    /// Switches from one blocking socket to many nonblocking ones.
    fn watch_all(&mut self) -> std::io::Result<()> {
        let poller = Poller::new()?;
        self.lines
            .iter_mut()
            .try_for_each(|line| line.attach(Some(&poller)).and_then(|()| line.watch_writes(&poller)))?;
        self.common.poller = Some(poller);
        Ok(())
    }

    /// Makes progress on a connection whose socket is ready.
    fn advance(&mut self, number: usize, exchanges: &mut Exchanges) {
        let Self { common, lines, buffer, dialogue, pool, connecting_due, .. } = self;
        let line = &mut lines[number];
        let Some(slot) = pool.slot(number).filter(|slot| exchanges.is_outstanding(*slot)) else {
            match line.has_rest() {
                true => line.pass_over(dialogue, buffer),
                false => line.disturbed(buffer, |bytes| dialogue.is_filler(bytes)),
            }
            return;
        };
        if line.is_sending() {
            let was_connecting = line.is_connecting();
            match line.send(common, dialogue, slot, exchanges) {
                // The next attempt may fail as well.
                Err(error) if was_connecting => return exchanges.fail_later(slot, error, PAUSE),
                Err(error) => {
                    exchanges.now = Stamp::now();
                    return exchanges.fail(slot, error);
                }
                Ok(()) if line.is_connecting() => {
                    *connecting_due = line.connecting_due().min(*connecting_due);
                    return;
                }
                Ok(()) if !exchanges.is_outstanding(slot) => return,
                Ok(()) => {}
            }
            if line.is_sending() && common.poller.is_none() && !line.is_readable() {
                return;
            }
        }
        match line.receive(common, dialogue, slot, buffer, exchanges) {
            // The request may wait for another connection now.
            Ok(Step::Partly) if line.is_connecting() => *connecting_due = line.connecting_due().min(*connecting_due),
            Ok(Step::Partly) => {}
            Ok(Step::Whole | Step::Enough) => exchanges.end(slot),
            Err(error) => {
                exchanges.now = Stamp::now();
                exchanges.fail(slot, error);
            }
        }
    }

    /// One blocking step of the only slot.
    fn turn_one(&mut self, until: Stamp, exchanges: &mut Exchanges) -> std::io::Result<()> {
        let waits = !self.pending_drains.is_empty();
        let Some(line) = self.lines.first_mut() else {
            return wait_for(None, PollFlags::empty(), until).map(drop);
        };
        if !waits && !exchanges.is_outstanding(0) {
            if line.wait_idle(until)? {
                self.advance(0, exchanges);
            }
            return Ok(());
        }
        // A second such read of an answer that takes long would wake the thread 20 times a second, as those of thousands of others.
        let reads_now = !waits && !line.is_silent() && until.from_now() >= TICK;
        let may_block = !line.is_sending() && (reads_now || line.holds_bytes());
        let ready = may_block || line.wait(until)?;
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

    /// Sends a slot's request on a connection. If it `waited` for one, its time has started already.
    fn begin(&mut self, slot: usize, number: usize, waited: bool, exchanges: &mut Exchanges) {
        let Self { common, lines, pending_drains, buffer, dialogue, .. } = self;
        let line = &mut lines[number];
        if line.has_rest() && !line.is_settled(dialogue, buffer) {
            pending_drains.wait(exchanges.id(slot), number, waited);
            return;
        }
        let had_connection = line.stream().is_some();
        let begun = dialogue.prepare(slot, exchanges.request(slot)).and_then(|total| {
            if waited {
                exchanges.is_sent(slot)
            } else {
                exchanges.sends(slot)
            }
            line.begin(common, dialogue, slot, total, exchanges)
        });
        if line.is_connecting() {
            self.connecting_due = self.connecting_due.min(line.connecting_due());
        }
        if let Err(error) = begun {
            let pause = if had_connection { Duration::ZERO } else { PAUSE };
            exchanges.fail_later(slot, error, pause);
        }
    }

    /// Goes on with connections that are being made and have had as much time as they may take, or an address of theirs has.
    fn look_at_connecting(&mut self, exchanges: &mut Exchanges) {
        let now = Stamp::now();
        for number in 0..self.lines.len() {
            if self.lines[number].connecting_due() <= now {
                self.advance(number, exchanges);
            }
        }
        self.connecting_due = self.lines.iter().map(SerialConnection::connecting_due).fold(Stamp::NEVER, Stamp::min);
    }

    /// What has waited for the rest of an earlier answer leaves, where that has come or comes too late.
    fn begin_settled(&mut self, exchanges: &mut Exchanges) {
        let Self { lines, pending_drains, buffer, dialogue, .. } = self;
        let now = Stamp::now();
        pending_drains.sort_out(|id, number| {
            let line = &mut lines[number];
            let waits = line.has_rest() && (now < line.rest_due() || !line.is_settled(dialogue, buffer));
            waits && exchanges.is_current(id)
        });
        while let Some((id, number, waited)) = self.pending_drains.next() {
            if exchanges.is_current(id) {
                self.begin(id.slot(), number, waited, exchanges);
            }
        }
    }

    /// The connection that a slot's request is on.
    fn line(&mut self, slot: usize) -> Option<&mut SerialConnection> {
        let number = self.pool.line(slot)?;
        self.lines.get_mut(number)
    }
}

impl<D: Dialogue> Transport for Connections<D> {
    fn grow(&mut self, slots: usize) -> Result<()> {
        if slots > 1 && self.common.poller.is_none() {
            self.watch_all().map_err(|error| self.broken(&error))?;
        }
        self.dialogue.grow(slots)?;
        while self.lines.len() < slots.min(self.most) {
            self.lines.push(SerialConnection::new(&self.common, self.lines.len()));
        }
        self.pool.grow(slots, self.lines.len());
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        let Self { common, lines, .. } = self;
        // A connection that was reset before its making was seen to be over is an aborted one; with TLS it ends in the middle.
        let is_reset = |error: &std::io::Error| {
            use ErrorKind::{ConnectionAborted, ConnectionReset, UnexpectedEof};
            matches!(error.kind(), ConnectionReset | ConnectionAborted | UnexpectedEof)
        };
        let mut attempts = ATTEMPTS;
        let connected = lines.iter_mut().try_for_each(|line| {
            let make = || line.connect(common, OPEN_LIMIT);
            // Where one was in vain, the load does not wait for the others.
            attempts = if made_or_left(&common.route.tally, attempts, make, is_reset)? { attempts } else { 1 };
            Ok(())
        });
        connected.map_err(|error: std::io::Error| self.broken(&error))
    }

    #[inline]
    fn enter(&mut self, slot: usize, _: &mut Exchanges) {
        if !self.pool.is_shared() {
            self.lines[slot].enter();
        }
    }

    fn start(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()> {
        match self.pool.take(slot, exchanges) {
            Some(number) => {
                if self.pool.is_shared() {
                    self.lines[number].enter();
                }
                self.begin(slot, number, false, exchanges);
            }
            None => exchanges.starts(slot),
        }
        Ok(())
    }

    /// Sends waiting requests on connections that are free again.
    fn flush(&mut self, exchanges: &mut Exchanges) {
        while let Some((slot, number)) = self.pool.next(exchanges) {
            self.lines[number].enter();
            self.begin(slot, number, true, exchanges);
        }
    }

    fn turn(&mut self, until: Stamp, exchanges: &mut Exchanges) -> Result<()> {
        let until = self.pending_drains.until(until, |number| self.lines[number].rest_due()).min(self.connecting_due);
        let done = if self.common.poller.is_some() {
            self.turn_many(until, exchanges)
        } else {
            self.turn_one(until, exchanges)
        };
        if self.connecting_due != Stamp::NEVER && self.connecting_due <= Stamp::now() {
            self.look_at_connecting(exchanges);
        }
        if !self.pending_drains.is_empty() {
            self.begin_settled(exchanges);
        }
        done.map_err(|error| self.broken(&error))
    }

    fn awaited(&self) -> Awaited<'_> {
        let until =
            self.pending_drains.until(Stamp::NEVER, |number| self.lines[number].rest_due()).min(self.connecting_due);
        Awaited { socket: self.common.poller.as_ref().map(AsFd::as_fd), writes: false, until }
    }

    fn give_up(&mut self, slot: usize, error: InferError, _politely: bool, exchanges: &mut Exchanges) -> bool {
        if let Some(line) = self.line(slot) {
            line.hang_up();
        }
        exchanges.fail(slot, error);
        true
    }

    fn release(&mut self, slot: usize) {
        if let Some(number) = self.pool.leave(slot) {
            self.lines[number].release(self.dialogue.keeps_open(slot) && !self.common.route.renew);
            if self.lines[number].has_rest() {
                self.dialogue.leave_rest(slot, number);
            }
        }
    }

    fn close(&mut self) {}
}
