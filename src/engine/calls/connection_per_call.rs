//! [`ConnectionPerCall`]: each call makes a connection of its own (`--connections new`), as clients do that keep no channel.
//!
//! A call's time begins before its connection is made, TLS and the server's settings included, and the connection is closed
//! once the call is over. What fails on a connection, or on the way to one, fails its call alone.

use std::os::fd::AsFd;

use rustix::event::PollFlags;

use crate::backend::{self, Awaited, ConnectionFault, InferError};
use crate::calls::connection::{DEAD_PAUSE, MAX_READS, RECONNECT_LIMIT, RETRY_PAUSE};
use crate::calls::events::{CallEvents, CallTable};
use crate::calls::socket::{CONNECT_LIMIT, Http2Socket, Opening};
use crate::calls::{CallPlan, Method, status};
use crate::clock::Stamp;
use crate::connection_pool::ConnectionPool;
use crate::error::{Error, Result};
use crate::wire::h2::{Encoder, ErrorCode, Message, Token};
use crate::{Deadline, ExchangeId, Exchanges, Poller, Progress, TalliedConnection, Transport, failure, late};

/// A client's calls, and the connection of each.
pub(super) struct ConnectionPerCall<M> {
    plan: CallPlan,
    method: M,
    calls: CallTable,
    lines: Vec<Line>,
    /// The maximum number of connections at once.
    most: usize,
    pool: ConnectionPool,
    poller: Poller,
    /// When to look at those that are being made, even if their sockets are silent.
    opening_due: Stamp,
    /// After a failed attempt to connect: until when no other is begun, and the error.
    unreachable: Option<(Stamp, InferError)>,
}

/// A connection, while a call has one.
struct Line {
    opening: Option<Opening>,
    socket: Option<Http2Socket>,
    /// Whether the call is on it; the server may not allow it at once.
    is_sent: bool,
    /// What the poller reports of its socket.
    watched: PollFlags,
    tallied: TalliedConnection,
}

impl Line {
    fn close(&mut self) {
        self.opening = None;
        if let Some(mut socket) = self.socket.take() {
            socket.shutdown();
        }
    }
}

impl<M: Method> ConnectionPerCall<M> {
    /// None yet, and never more than `most` at once.
    ///
    /// # Errors
    /// If the system is out of file descriptors.
    pub(super) fn new(method: M, plan: CallPlan, most: Option<usize>) -> Result<Self> {
        Ok(Self {
            calls: CallTable::new(plan.route.limit.map(late)),
            lines: Vec::new(),
            most: most.unwrap_or(usize::MAX),
            pool: ConnectionPool::new(most),
            poller: Poller::new().map_err(|error| Error::machine(error.to_string()))?,
            opening_due: Stamp::NEVER,
            unreachable: None,
            method,
            plan,
        })
    }

    /// Begins to connect for a slot's call, which has started.
    fn begin(&mut self, slot: usize, number: usize, exchanges: &mut Exchanges) {
        exchanges.is_sent(slot);
        let line = &mut self.lines[number];
        line.is_sent = false;
        line.tallied.enter();
        let pause = self.unreachable.as_ref().filter(|(until, _)| Stamp::now() < *until);
        if let Some((_, error)) = pause {
            return exchanges.fail_later(slot, error.clone(), DEAD_PAUSE);
        }
        match Opening::start(&self.plan.route.connector, Stamp::now().plus_duration(RECONNECT_LIMIT)) {
            Ok(opening) => self.go_on_opening(slot, number, opening, exchanges),
            Err(error) => self.fail_to_connect(slot, number, error, exchanges),
        }
    }

    /// Goes on connecting, and sends the call once there is a connection.
    fn go_on_opening(&mut self, slot: usize, number: usize, opening: Opening, exchanges: &mut Exchanges) {
        let (line, route) = (&mut self.lines[number], &self.plan.route);
        match opening.proceed(&route.connector).and_then(|progress| route.reminded(progress)) {
            Ok(Progress::Pending(further)) => match self.poller.watch(&further, number, further.awaited()) {
                Ok(()) => {
                    self.opening_due = self.opening_due.min(further.due());
                    line.opening = Some(further);
                }
                Err(error) => self.fail_to_connect(slot, number, failure(&error), exchanges),
            },
            Ok(Progress::Made(socket)) => {
                line.socket = Some(socket);
                line.watched = PollFlags::empty();
                line.tallied.open();
                self.unreachable = None;
                self.send(slot, number, exchanges);
            }
            Err(error) => self.fail_to_connect(slot, number, error, exchanges),
        }
    }

    /// No others are begun for a moment: slots do not each ask a server that refuses. One that has hung up may take the next.
    fn fail_to_connect(&mut self, slot: usize, number: usize, error: InferError, exchanges: &mut Exchanges) {
        use ConnectionFault::{Closed, Reset};
        self.lines[number].tallied.refuse();
        if !matches!(error.code, backend::ErrorCode::Connection(Closed | Reset)) {
            self.unreachable = Some((Stamp::now().plus_duration(RETRY_PAUSE), error.clone()));
        }
        exchanges.fail_later(slot, error, DEAD_PAUSE);
    }

    /// Sends a slot's call, as soon as the server allows one.
    fn send(&mut self, slot: usize, number: usize, exchanges: &mut Exchanges) {
        let line = &mut self.lines[number];
        let Some(socket) = &mut line.socket else { return };
        if let Some(goaway) = socket.h2.goaway() {
            return fail(slot, status::of_goaway(goaway), exchanges);
        }
        if socket.h2.can_open() {
            let (request, token) = (exchanges.request(slot), Token(exchanges.id(slot).0));
            let (head, parts) = match self.method.encode(slot, request, &[]) {
                Ok(body) => body,
                Err(error) => return fail(slot, status::error("Internal", error.to_string()), exchanges),
            };
            let mut headers = Encoder::new(&self.plan.fields);
            let stream = socket.h2.open(token, headers.next_block(socket.h2.peer().header_table_size));
            socket.h2.send(stream, Message { token, head, parts, end: true });
            self.calls.slots[slot].stream = stream;
            line.is_sent = true;
        }
        self.write(slot, number, exchanges);
    }

    /// Writes what the socket takes, and has the poller report when it takes more.
    fn write(&mut self, slot: usize, number: usize, exchanges: &mut Exchanges) {
        let line = &mut self.lines[number];
        let Some(socket) = &mut line.socket else { return };
        let written = socket.flush(|token| {
            if let Some(slot) = exchanges.find(ExchangeId(token.0)) {
                exchanges.departed(slot, Stamp::now());
            }
        });
        let interest = socket.interest();
        let watched = written.and_then(|()| match line.watched == interest {
            true => Ok(()),
            false => self.poller.watch(&*socket, number, interest).map_err(|error| failure(&error)),
        });
        match watched {
            Ok(()) => line.watched = interest,
            Err(error) => fail(slot, error, exchanges),
        }
    }

    /// Makes progress on a connection whose socket is ready.
    fn advance(&mut self, number: usize, exchanges: &mut Exchanges) {
        let Some(slot) = self.pool.slot(number).filter(|slot| exchanges.is_outstanding(*slot)) else { return };
        if let Some(opening) = self.lines[number].opening.take() {
            return self.go_on_opening(slot, number, opening, exchanges);
        }
        let received = self.receive(slot, number, exchanges);
        match received {
            _ if !exchanges.is_outstanding(slot) => {}
            Err(error) => {
                self.lines[number].tallied.end_idle();
                fail(slot, error, exchanges);
            }
            Ok(()) if self.lines[number].is_sent => self.write(slot, number, exchanges),
            Ok(()) => self.send(slot, number, exchanges),
        }
    }

    /// Reads what has arrived; what is left is then in the socket, where the poller sees it.
    fn receive(&mut self, slot: usize, number: usize, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Some(socket) = &mut self.lines[number].socket else { return Ok(()) };
        let mut reads = 0;
        while socket.fill()? {
            reads += 1;
            exchanges.now = Stamp::now();
            let (calls, method) = (&mut self.calls, &mut self.method);
            socket.process(&mut CallEvents { calls, method, exchanges })?;
            // The connection ends with its call, so a broken stream is not reset.
            self.calls.broken.clear();
            if let (Some(slot), Some(goaway)) = (self.calls.returned.pop(), socket.h2.goaway()) {
                fail(slot, status::of_goaway(goaway), exchanges);
            }
            let is_over = !exchanges.is_outstanding(slot);
            if is_over || !socket.may_hold_more() || (reads >= MAX_READS && !socket.holds_bytes()) {
                break;
            }
        }
        Ok(())
    }

    /// Goes on with connections that are being made and have had as much time as they may take, or an address of theirs has.
    fn look_at_opening(&mut self, exchanges: &mut Exchanges) {
        let now = Stamp::now();
        let due = |line: &Line| line.opening.as_ref().map_or(Stamp::NEVER, Opening::due);
        for number in 0..self.lines.len() {
            if due(&self.lines[number]) <= now {
                self.advance(number, exchanges);
            }
        }
        self.opening_due = self.lines.iter().map(due).fold(Stamp::NEVER, Stamp::min);
    }
}

/// Ends a slot's call with an error, now.
fn fail(slot: usize, error: InferError, exchanges: &mut Exchanges) {
    exchanges.now = Stamp::now();
    exchanges.fail(slot, error);
}

impl<M: Method> Transport for ConnectionPerCall<M> {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.calls.grow(slots);
        while self.lines.len() < slots.min(self.most) {
            self.lines.push(Line {
                opening: None,
                socket: None,
                is_sent: false,
                watched: PollFlags::empty(),
                tallied: TalliedConnection::new(&self.plan.route.tally),
            });
        }
        self.pool.grow(slots, self.lines.len());
        self.method.grow(slots)
    }

    /// Looks up the server's name. Connecting is part of each call.
    fn connect(&mut self) -> Result<()> {
        let connector = &self.plan.route.connector;
        let resolved = connector.resolve(Deadline::within(CONNECT_LIMIT));
        resolved.map_err(|error| Error::server(format!("{}: {}", connector.endpoint(), failure(&error))))
    }

    fn enter(&mut self, _: usize, _: &mut Exchanges) {}

    fn start(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()> {
        exchanges.starts(slot);
        self.calls.slots[slot].begin();
        if let Some(number) = self.pool.take(slot, exchanges) {
            self.begin(slot, number, exchanges);
        }
        Ok(())
    }

    /// Begins calls that have waited for one of fewer connections.
    fn flush(&mut self, exchanges: &mut Exchanges) {
        while let Some((slot, number)) = self.pool.next(exchanges) {
            self.begin(slot, number, exchanges);
        }
    }

    fn turn(&mut self, until: Stamp, exchanges: &mut Exchanges) -> Result<()> {
        let ready = self.poller.wait(until.min(self.opening_due));
        let ready = ready.map_err(|error| Error::machine(error.to_string()))?;
        for index in 0..ready {
            self.advance(self.poller.ready(index), exchanges);
        }
        if self.opening_due <= Stamp::now() {
            self.look_at_opening(exchanges);
        }
        Ok(())
    }

    fn awaited(&self) -> Awaited<'_> {
        Awaited { socket: Some(self.poller.as_fd()), writes: false, until: self.opening_due }
    }

    fn give_up(&mut self, slot: usize, error: InferError, _politely: bool, exchanges: &mut Exchanges) -> bool {
        let line = self.pool.line(slot).map(|number| &mut self.lines[number]).filter(|line| line.is_sent);
        if let Some(socket) = line.and_then(|line| line.socket.as_mut()) {
            socket.h2.reset(self.calls.slots[slot].stream, ErrorCode::CANCEL);
            // The connection is closed either way.
            let _ = socket.flush(|_| ());
        }
        exchanges.fail(slot, error);
        true
    }

    fn release(&mut self, slot: usize) {
        if let Some(number) = self.pool.leave(slot) {
            self.lines[number].close();
        }
    }

    fn close(&mut self) {
        self.lines.iter_mut().for_each(Line::close);
    }
}
