//! [`Retiring`]: connections on which the server takes no further calls, kept beside the next one until their calls are over (RFC
//! 9113, section 6.8): a request would otherwise wait for the slowest call of the old connection before the next one is begun.
//!
//! Streams that stay open for many requests would keep such a connection until the server ends it, whatever is under way. So they
//! take no further requests, and are ended once those that they have are answered. Requests of a sequence may not overtake each
//! other on the way to another connection: while there are sequences, the next one is not begun before.

use std::os::fd::AsFd;

use rustix::event::PollFlags;

use super::parting::Parting;
use super::{MAX_READS, MultiplexedConnection};
use crate::backend::{Awaited, InferError};
use crate::calls::Method;
use crate::calls::events::CallEvents;
use crate::calls::socket::Http2Socket;
use crate::calls::status;
use crate::calls::streams::InferStreams;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::wire::h2::{ErrorCode, Token};
use crate::{ExchangeId, Exchanges, Poller, TalliedConnection, wait_for};

/// How many may be kept at a time: a server that takes next to nothing on each must not be connected to without end.
const MOST: usize = 8;

/// The connections that are retiring.
#[derive(Default)]
pub(super) struct Retiring {
    lines: Vec<RetiringLine>,
    /// Those on which no calls are under way any more.
    parting: Parting,
    /// Watches them and the one that requests use, once there was one.
    poller: Option<Poller>,
}

/// One of them.
struct RetiringLine {
    socket: Http2Socket,
    tallied: TalliedConnection,
    /// Its number.
    number: u32,
    /// Its calls, some of which are over.
    calls: Vec<ExchangeId>,
    /// Its streams that have stayed open for many requests.
    streams: InferStreams,
    /// As for the connection that requests use.
    unread: bool,
}

/// What was read of a connection.
pub(super) struct Reading {
    /// Number of buffers.
    pub(super) reads: u32,
    /// There may be more, which polling the socket does not show.
    pub(super) unread: bool,
    /// Why nothing else will come.
    pub(super) outcome: Result<(), InferError>,
}

impl Reading {
    /// Reads what has arrived, but at most [`MAX_READS`] buffers, and resets the streams that are broken.
    #[inline]
    pub(super) fn of<M: Method>(line: &mut Http2Socket, events: &mut CallEvents<'_, M>) -> Self {
        let (mut reads, mut unread) = (0, false);
        let outcome = loop {
            match line.fill() {
                Ok(true) => {
                    reads += 1;
                    events.exchanges.now = Stamp::now();
                    if let Err(error) = line.process(events) {
                        break Err(error);
                    }
                    if !line.may_hold_more() {
                        break Ok(());
                    }
                    if reads == MAX_READS {
                        unread = true;
                        break Ok(());
                    }
                }
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        while let Some(stream) = events.calls.broken.pop() {
            line.h2.reset(stream, ErrorCode::CANCEL);
        }
        Self { reads, unread, outcome }
    }
}

/// Notes that a message has left.
#[inline]
pub(super) fn departs(token: Token, now: &mut Option<Stamp>, exchanges: &mut Exchanges) {
    if let Some(slot) = exchanges.find(ExchangeId(token.0)) {
        exchanges.departed(slot, *now.get_or_insert_with(Stamp::now));
    }
}

impl Retiring {
    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        !self.lines.is_empty() || !self.parting.is_empty()
    }

    /// Whether there may be another, and it can be watched.
    fn has_room(&mut self) -> bool {
        self.can_watch() && self.lines.len() < MOST
    }

    fn can_watch(&mut self) -> bool {
        if self.poller.is_none() {
            self.poller = Poller::new().ok();
        }
        self.poller.is_some()
    }

    /// Closes a connection on which no calls are under way any more, once the server has ended its streams.
    fn part(&mut self, mut line: Http2Socket, streams: &InferStreams) {
        match line.h2.open_streams() > 0 && self.can_watch() {
            true => self.parting.add(line, streams),
            false => {
                // The server learns which calls were given up.
                let _ = line.flush(|_| ());
                line.shutdown();
            }
        }
    }

    /// Whether a call is on one of them.
    pub(super) fn holds(&self, id: ExchangeId) -> bool {
        self.lines.iter().any(|line| line.calls.contains(&id))
    }

    /// Resets the stream of a call that was given up; whether it is on one of them.
    pub(super) fn reset(&mut self, id: ExchangeId, stream: u32, exchanges: &mut Exchanges) -> bool {
        let Some(line) = self.lines.iter_mut().find(|line| line.calls.contains(&id)) else { return false };
        line.socket.h2.reset(stream, ErrorCode::CANCEL);
        // Should the connection be lost, the next read says so.
        let _ = line.flush(exchanges);
        true
    }

    /// What all of them wait for, and the connection that requests use.
    pub(super) fn awaited<'a>(&'a self, current: Awaited<'a>) -> Awaited<'a> {
        let Some(poller) = self.poller.as_ref().filter(|_| self.any()) else { return current };
        let mut watched = Ok(());
        if let Some(socket) = current.socket {
            let writes = if current.writes { PollFlags::OUT } else { PollFlags::empty() };
            watched = poller.watch(socket, 0, PollFlags::IN | writes);
        }
        for line in &self.lines {
            watched = watched.and_then(|()| poller.watch(&line.socket, 0, line.socket.interest()));
        }
        watched = watched.and_then(|()| self.parting.watch(poller));
        // Where the system is out of watches, all are looked at again and again.
        let at_once = watched.is_err() || self.lines.iter().any(|line| line.unread);
        let until = if at_once { Stamp(0) } else { current.until.min(self.parting.due()) };
        Awaited { socket: Some(poller.as_fd()), writes: false, until }
    }

    /// Closes all of them.
    pub(super) fn close(&mut self) {
        self.lines.drain(..).for_each(|mut line| line.socket.shutdown());
        self.parting.close();
    }
}

impl<M: Method> MultiplexedConnection<M> {
    /// Whether the server takes no further requests on streams that have stayed open so far.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.plan.streaming && self.line.as_ref().is_some_and(|line| line.h2.goaway().is_some())
    }

    /// Retires the connection when the server accepts no further streams or stream numbers are used up. What is under way ends on
    /// it, beside the next one if requests wait for that.
    pub(super) fn retire_line(&mut self, exchanges: &mut Exchanges) {
        let Some(line) = &self.line else { return };
        let exhausted = line.h2.is_exhausted();
        if line.h2.goaway().is_none() && !exhausted {
            return;
        }
        let is_used = match self.is_leaving() {
            true => self.calls.any_on(self.calls.line, exchanges),
            false => line.h2.open_streams() > 0,
        };
        if is_used && !self.may_set_aside(exchanges) {
            return;
        }
        if let Some(goaway) = self.line.as_ref().and_then(|line| line.h2.goaway()) {
            self.lost = status::of_goaway(goaway);
            self.tallied.leave();
        }
        if is_used {
            return self.set_aside(exchanges);
        }
        if let Some(line) = self.line.take() {
            self.retiring.part(line, &self.calls.streams);
        }
        self.calls.streams.close_all();
        self.replace_line(exchanges);
    }

    /// Whether the next connection may be made beside this one.
    fn may_set_aside(&mut self, exchanges: &Exchanges) -> bool {
        !self.calls.streams.any_sequence() && self.any_queued(exchanges) && self.retiring.has_room()
    }

    /// Leaves the connection to the calls that are on it, and begins the next.
    fn set_aside(&mut self, exchanges: &mut Exchanges) {
        let Some(socket) = self.line.take() else { return };
        let outstanding = (0..exchanges.slots()).filter(|slot| exchanges.is_outstanding(*slot));
        let calls = outstanding.map(|slot| exchanges.id(slot)).filter(|id| !self.retiring.holds(*id)).collect();
        let next = self.tallied.next();
        let tallied = std::mem::replace(&mut self.tallied, next);
        let unread = std::mem::take(&mut self.unread);
        let (number, streams) = (self.calls.line, std::mem::take(&mut self.calls.streams));
        if self.plan.streaming {
            self.calls.streams.grow(exchanges.slots());
        }
        self.retiring.lines.push(RetiringLine { socket, tallied, number, calls, streams, unread });
        // It has taken calls, so the server is not one that takes none.
        self.unanswered = false;
        self.begin_opening(exchanges);
    }

    /// The same as a turn while connections are retiring.
    pub(super) fn turn_beside(&mut self, until: Stamp, exchanges: &mut Exchanges) -> Result<()> {
        self.serve_retiring(exchanges);
        let awaited = self.awaited_by_all();
        wait_for(awaited.socket, PollFlags::IN, until.min(awaited.until))
            .map_err(|error| Error::machine(error.to_string()))?;
        if let Some(opening) = self.opening.take() {
            self.go_on_opening(opening, exchanges);
        }
        self.take(exchanges);
        self.serve_retiring(exchanges);
        self.retire_line(exchanges);
        self.open_queued(exchanges)
    }

    /// Writes and reads what there is for connections that are retiring, and closes those whose calls are over.
    fn serve_retiring(&mut self, exchanges: &mut Exchanges) {
        let answered = self.calls.answered;
        let mut number = 0;
        while let Some(line) = self.retiring.lines.get_mut(number) {
            self.calls.answered = false;
            let calls = &mut self.calls;
            let outcome = line.go_on(&mut CallEvents { calls, method: &mut self.method, exchanges });
            if outcome.is_ok() && line.is_used(exchanges) {
                number += 1;
                continue;
            }
            let mut line = self.retiring.lines.swap_remove(number);
            match outcome {
                Ok(()) => self.retiring.part(line.socket, &line.streams),
                Err(error) => {
                    line.socket.shutdown();
                    line.lose(&error, exchanges);
                }
            }
        }
        self.retiring.parting.serve();
        self.calls.answered = answered;
        self.queued.extend(self.calls.returned.drain(..).map(|slot| exchanges.id(slot)));
    }
}

impl RetiringLine {
    /// Whether anything is still to come that is waited for. Streams that stay open do not end by themselves.
    fn is_used(&self, exchanges: &Exchanges) -> bool {
        let mut calls = self.calls.iter();
        self.socket.h2.open_streams() > 0 && (!self.streams.any_open() || calls.any(|id| exchanges.find(*id).is_some()))
    }

    fn flush(&mut self, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let mut now = None;
        self.socket.flush(|token| departs(token, &mut now, exchanges))
    }

    /// Writes and reads what there is.
    fn go_on<M: Method>(&mut self, events: &mut CallEvents<'_, M>) -> Result<(), InferError> {
        self.flush(events.exchanges)?;
        let current = std::mem::replace(&mut events.calls.line, self.number);
        std::mem::swap(&mut events.calls.streams, &mut self.streams);
        let Reading { unread, outcome, .. } = Reading::of(&mut self.socket, events);
        std::mem::swap(&mut events.calls.streams, &mut self.streams);
        events.calls.line = current;
        self.unread = unread;
        if events.calls.answered {
            self.tallied.answers();
        }
        // The server may announce first that it leaves, and later which calls it has looked at: the others go to the next connection.
        for &slot in &events.calls.returned {
            let id = events.exchanges.id(slot);
            self.calls.retain(|call| *call != id);
        }
        outcome
    }

    /// The connection is gone: its calls will not be answered.
    fn lose(mut self, error: &InferError, exchanges: &mut Exchanges) {
        exchanges.now = Stamp::now();
        let slots: Vec<usize> = self.calls.iter().filter_map(|id| exchanges.find(*id)).collect();
        slots.iter().for_each(|slot| exchanges.fail(*slot, error.clone()));
        self.tallied.end_after(slots.len());
    }
}
