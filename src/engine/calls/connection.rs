//! [`MultiplexedConnection`]: a client's one connection and its calls: reading, writing, losing and replacing it.

mod parting;
mod retiring;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::backend::{self, Awaited, ConnectionFault, InferError};
use crate::calls::connection::parting::finish;
use crate::calls::connection::retiring::{Reading, Retiring, departs};
use crate::calls::events::{CallEvents, CallTable};
use crate::calls::socket::{CONNECT_LIMIT, Http2Socket, Opening};
use crate::calls::status::{self, UNAVAILABLE};
use crate::calls::streams::{SequenceKey, request_id, stream_token};
use crate::calls::{CallPlan, Method};
use crate::clock::Stamp;
use crate::connecting::{ATTEMPTS, made_or_left};
use crate::error::{Error, Result};
use crate::wire::h2::{Encoder, ErrorCode, Message, Token};
use crate::{Deadline, ExchangeId, Exchanges, Progress, TalliedConnection, Transport, late, wait_for};

/// Pause between a failed attempt to reconnect and the next.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Pause before requests fail that have no connection.
pub(super) const DEAD_PAUSE: Duration = Duration::from_millis(20);
/// How long reconnecting may take, as long as most clients wait for a connection. Requests that have less time
/// (`--client-timeout-us`) give up before.
pub(super) const RECONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Limit on reads of what arrived while a connection was idle.
const MAX_TAKES: u32 = 64;
/// Limit on consecutive reads: a server that never stops sending must not keep deadlines from being checked.
pub(super) const MAX_READS: u32 = 16;

/// A client's one connection and its calls.
pub(super) struct MultiplexedConnection<M> {
    plan: CallPlan,
    method: M,
    calls: CallTable,
    headers: Encoder,
    line: Option<Http2Socket>,
    /// Those before it on which calls are still under way.
    retiring: Retiring,
    /// The next one, while it is being made; requests are queued until it is.
    opening: Option<Opening>,
    tallied: TalliedConnection,
    /// Whether the last connection ended without an answer.
    unanswered: bool,
    /// Why there is no connection.
    lost: InferError,
    retry_at: Stamp,
    /// Requests that wait for the connection, or for a stream because the server allows no more; nobody passes them.
    queued: VecDeque<ExchangeId>,
    /// The TLS layer may hold bytes that polling the socket does not show.
    unread: bool,
}

impl<M: Method> MultiplexedConnection<M> {
    /// One that is not made yet.
    pub(super) fn new(method: M, plan: CallPlan) -> Self {
        Self {
            calls: CallTable::new(plan.route.limit.map(late)),
            headers: Encoder::new(&plan.fields),
            line: None,
            retiring: Retiring::default(),
            opening: None,
            tallied: TalliedConnection::new(&plan.route.tally),
            unanswered: false,
            lost: status::error(UNAVAILABLE, "there is no connection"),
            retry_at: Stamp::default(),
            queued: VecDeque::new(),
            unread: false,
            method,
            plan,
        }
    }

    /// Sends a request, queues it, or ends it with an error.
    fn send(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()> {
        if self.line.is_none() {
            match self.opening {
                Some(_) => self.queued.push_back(exchanges.id(slot)),
                None => exchanges.fail_later(slot, self.lost.clone(), DEAD_PAUSE),
            }
            return Ok(());
        }
        let Some(stream) = self.stream_for(slot, exchanges) else {
            self.queued.push_back(exchanges.id(slot));
            self.retire_line(exchanges);
            return Ok(());
        };
        let exchange = exchanges.id(slot);
        let id = self.plan.streaming.then(|| request_id(exchange));
        let id = id.as_ref().map_or(&[][..], |id| &id[..]);
        let (head, parts) = self.method.encode(slot, exchanges.request(slot), id)?;
        if let Some(line) = &mut self.line {
            line.h2.send(stream, Message { token: Token(exchange.0), head, parts, end: !self.plan.streaming });
        }
        let call = &mut self.calls.slots[slot];
        (call.stream, call.line) = (stream, self.calls.line);
        exchanges.is_sent(slot);
        Ok(())
    }

    /// The stream of the connection for a slot's request, opened if necessary. `None` if it must wait.
    fn stream_for(&mut self, slot: usize, exchanges: &Exchanges) -> Option<u32> {
        let is_leaving = self.is_leaving();
        let line = self.line.as_mut().filter(|line| !line.h2.is_congested() && !is_leaving)?;
        let shared = self.calls.slots[slot].shared;
        let found = if self.plan.streaming { self.calls.streams.find(shared) } else { None };
        if found.is_none() && line.h2.can_open() {
            let token = if self.plan.streaming { stream_token(shared) } else { Token(exchanges.id(slot).0) };
            let number = line.h2.open(token, self.headers.next_block(line.h2.peer().header_table_size));
            if self.plan.streaming {
                self.calls.streams.opened(shared, number);
            }
            return Some(number);
        }
        let (shared, number) = found.or_else(|| self.calls.streams.share(shared))?;
        self.calls.slots[slot].shared = shared;
        Some(number)
    }

    /// Whether requests wait for a stream; those that were given up wait no more.
    fn any_queued(&mut self, exchanges: &Exchanges) -> bool {
        while self.queued.front().is_some_and(|id| !exchanges.is_current(*id)) {
            self.queued.pop_front();
        }
        !self.queued.is_empty()
    }

    /// Opens streams for queued requests.
    fn open_queued(&mut self, exchanges: &mut Exchanges) -> Result<()> {
        if !self.any_queued(exchanges) {
            return Ok(());
        }
        for _ in 0..self.queued.len() {
            if self.opening.is_some()
                || self.is_leaving()
                || self.line.as_ref().is_some_and(|line| line.h2.is_congested())
                || !self.calls.streams.any_open() && self.line.as_ref().is_some_and(|line| !line.h2.can_open())
            {
                break;
            }
            let Some(id) = self.queued.pop_front() else { break };
            if exchanges.is_current(id) {
                self.send(id.slot(), exchanges)?;
            }
        }
        Ok(())
    }

    /// Begins to replace a connection that has ended.
    fn connect_again(&mut self, exchanges: &mut Exchanges) {
        if self.line.is_none() && self.opening.is_none() && Stamp::now() >= self.retry_at {
            self.begin_opening(exchanges);
        }
    }

    fn begin_opening(&mut self, exchanges: &mut Exchanges) {
        match Opening::start(&self.plan.route.connector, Stamp::now().plus_duration(RECONNECT_LIMIT)) {
            Ok(opening) => self.go_on_opening(opening, exchanges),
            Err(error) => self.unreachable(error, exchanges),
        }
    }

    /// Goes on with the connection that is being made.
    fn go_on_opening(&mut self, opening: Opening, exchanges: &mut Exchanges) {
        let route = &self.plan.route;
        match opening.proceed(&route.connector).and_then(|progress| route.reminded(progress)) {
            Ok(Progress::Pending(further)) => self.opening = Some(further),
            Ok(Progress::Made(line)) => self.opened(line),
            Err(error) => self.unreachable(error, exchanges),
        }
    }

    fn opened(&mut self, line: Http2Socket) {
        self.headers = Encoder::new(&self.plan.fields);
        self.line = Some(line);
        self.calls.line = self.calls.line.wrapping_add(1);
        self.calls.answered = false;
        self.tallied.open();
    }

    /// Connecting has failed, and so do the requests that have waited for it.
    fn unreachable(&mut self, error: InferError, exchanges: &mut Exchanges) {
        exchanges.now = Stamp::now();
        while let Some(id) = self.queued.pop_front() {
            if exchanges.is_current(id) {
                exchanges.fail(id.slot(), error.clone());
            }
        }
        self.lost = error;
        self.tallied.refuse();
        self.retry_at = Stamp::now().plus_duration(RETRY_PAUSE);
    }

    /// The connection is gone: nothing on it will be answered. What is queued waits for the next.
    fn lose(&mut self, error: InferError, exchanges: &mut Exchanges) {
        exchanges.now = Stamp::now();
        self.tallied.end_after(exchanges.fail_outstanding(&error, |id| !self.retiring.holds(id)));
        self.calls.streams.close_all();
        self.lost = error;
        self.replace_line(exchanges);
    }

    /// Closes the connection. What is queued gets another, unless two in a row end without an answer: a server that takes no
    /// requests would be asked without end.
    fn replace_line(&mut self, exchanges: &mut Exchanges) {
        self.line.take().iter_mut().for_each(Http2Socket::shutdown);
        if !self.any_queued(exchanges) {
            self.tallied.end_idle();
        } else if std::mem::replace(&mut self.unanswered, !self.calls.answered) && self.unanswered {
            self.unreachable(self.lost.clone(), exchanges);
        } else {
            self.begin_opening(exchanges);
        }
    }

    /// Reads what has arrived, but at most [`MAX_READS`] buffers; returns whether there was anything.
    fn take(&mut self, exchanges: &mut Exchanges) -> bool {
        let Some(line) = &mut self.line else { return false };
        let (calls, method) = (&mut self.calls, &mut self.method);
        let Reading { reads, unread, outcome } = Reading::of(line, &mut CallEvents { calls, method, exchanges });
        self.unread = unread;
        if self.calls.answered {
            self.tallied.answers();
        }
        self.queued.extend(self.calls.returned.drain(..).map(|slot| exchanges.id(slot)));
        if let Err(error) = outcome {
            self.lose(error, exchanges);
        }
        reads > 0
    }

    /// Waits while there is no connection, for the one that is being made if there is one.
    fn turn_without_line(&mut self, until: Stamp, exchanges: &mut Exchanges) -> io::Result<()> {
        let Some(opening) = &self.opening else {
            return wait_for(None, PollFlags::empty(), until).map(drop);
        };
        let due = opening.due();
        if (wait_for(Some(opening.as_fd()), opening.awaited(), until.min(due))? || due <= Stamp::now())
            && let Some(opening) = self.opening.take()
        {
            self.go_on_opening(opening, exchanges);
        }
        Ok(())
    }

    /// What the connection waits for that requests use, or the one that is being made.
    fn awaited_by_current(&self) -> Awaited<'_> {
        let until = if self.unread { Stamp(0) } else { Stamp::NEVER };
        match (&self.line, &self.opening) {
            (Some(line), _) => line.awaited(until),
            (None, Some(opening)) => {
                let writes = opening.awaited().contains(PollFlags::OUT);
                Awaited { socket: Some(opening.as_fd()), writes, until: opening.due() }
            }
            (None, None) => Awaited::NOTHING,
        }
    }

    fn awaited_by_all(&self) -> Awaited<'_> {
        self.retiring.awaited(self.awaited_by_current())
    }
}

impl<M: Method> Transport for MultiplexedConnection<M> {
    fn grow(&mut self, slots: usize) -> Result<()> {
        if self.plan.streaming {
            self.calls.streams.grow(slots);
        }
        self.calls.grow(slots);
        self.method.grow(slots)
    }

    fn connect(&mut self) -> Result<()> {
        if self.line.is_some() {
            return Ok(());
        }
        use ConnectionFault::{Closed, Reset};
        let route = &self.plan.route;
        let mut line = None;
        let make = || -> Result<(), InferError> {
            line = Some(Http2Socket::connect(&route.connector, Deadline::within(CONNECT_LIMIT))?);
            Ok(())
        };
        let is_reset = |error: &InferError| matches!(error.code, backend::ErrorCode::Connection(Closed | Reset));
        let made = made_or_left(&route.tally, ATTEMPTS, make, is_reset);
        made.map_err(|error| Error::server(error.to_string()))?;
        if let Some(line) = line {
            self.opened(line);
        }
        Ok(())
    }

    #[inline]
    fn enter(&mut self, _: usize, exchanges: &mut Exchanges) {
        if self.tallied.enter() {
            let mut takes = 0;
            while takes < MAX_TAKES && self.take(exchanges) {
                takes += 1;
            }
            self.retire_line(exchanges);
        }
    }

    fn start(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()> {
        exchanges.starts(slot);
        let request = exchanges.request(slot);
        self.calls.slots[slot].begin();
        if self.plan.streaming {
            let model = self.method.model_of(request);
            let ends =
                request.sequence.filter(|position| position.end).map(|position| SequenceKey { model, id: position.id });
            let shared = self.calls.streams.assign(slot, model, request.sequence);
            let call = &mut self.calls.slots[slot];
            (call.ends, call.shared) = (ends, shared);
        }
        self.connect_again(exchanges);
        if self.any_queued(exchanges) {
            self.queued.push_back(exchanges.id(slot));
            return Ok(());
        }
        self.send(slot, exchanges)
    }

    fn flush(&mut self, exchanges: &mut Exchanges) {
        let Some(line) = &mut self.line else { return };
        let mut now = None;
        if let Err(error) = line.flush(|token| departs(token, &mut now, exchanges)) {
            self.lose(error, exchanges);
        }
    }

    fn turn(&mut self, until: Stamp, exchanges: &mut Exchanges) -> Result<()> {
        // What was given up since the last turn has left room, or nothing on a connection that the server leaves: nothing would end
        // the wait on that.
        self.retire_line(exchanges);
        self.open_queued(exchanges)?;
        self.flush(exchanges);
        // Something to report ends the wait, but what has arrived is read even if every turn begins so.
        let until = if exchanges.any_over() { Stamp(0) } else { until };
        if self.retiring.any() {
            return self.turn_beside(until, exchanges);
        }
        let broken = |error: io::Error| Error::machine(error.to_string());
        let Some(line) = &self.line else {
            return self.turn_without_line(until, exchanges).map_err(broken);
        };
        if !self.unread {
            line.wait(until).map_err(broken)?;
        }
        self.take(exchanges);
        self.retire_line(exchanges);
        self.open_queued(exchanges)
    }

    fn awaited(&self) -> Awaited<'_> {
        self.awaited_by_all()
    }

    fn give_up(&mut self, slot: usize, error: InferError, politely: bool, exchanges: &mut Exchanges) -> bool {
        let outstanding = exchanges.is_outstanding(slot);
        let alone = !self.plan.streaming || self.calls.is_alone(slot, exchanges);
        if politely && outstanding && !alone {
            return false;
        }
        let (stream, shared) = (self.calls.slots[slot].stream, self.calls.slots[slot].shared);
        let resets = outstanding && alone;
        let on_other = resets && self.retiring.any() && self.retiring.reset(exchanges.id(slot), stream, exchanges);
        if let Some(line) = self.line.as_mut().filter(|_| resets && !on_other) {
            line.h2.reset(stream, ErrorCode::CANCEL);
            if self.plan.streaming {
                self.calls.streams.close(shared);
            }
        }
        exchanges.fail(slot, error);
        true
    }

    fn release(&mut self, slot: usize) {
        if let Some(sequence) = self.calls.slots[slot].ends.take() {
            self.calls.streams.ended(sequence);
        }
    }

    fn close(&mut self) {
        self.retiring.close();
        if let Some(line) = &mut self.line {
            finish(line, &self.calls.streams);
            line.shutdown();
        }
    }
}
