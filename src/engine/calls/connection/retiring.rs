//! [`Retiring`]: connections on which the server takes no further calls, kept beside the next one until their calls are over (RFC
//! 9113, section 6.8): a request would otherwise wait for the slowest call of the old connection before the next one is begun.

use std::os::fd::AsFd;

use rustix::event::PollFlags;

use super::{MAX_READS, MultiplexedConnection};
use crate::backend::{Awaited, InferError};
use crate::calls::Method;
use crate::calls::events::CallEvents;
use crate::calls::socket::Http2Socket;
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
    /// Watches them and the one that requests use, once there was one.
    poller: Option<Poller>,
}

/// One of them.
struct RetiringLine {
    socket: Http2Socket,
    tallied: TalliedConnection,
    /// Its calls, some of which are over.
    calls: Vec<ExchangeId>,
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
        !self.lines.is_empty()
    }

    /// Whether there may be another, and it can be watched.
    fn has_room(&mut self) -> bool {
        if self.poller.is_none() {
            self.poller = Poller::new().ok();
        }
        self.poller.is_some() && self.lines.len() < MOST
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
        // Where the system is out of watches, all are looked at again and again.
        let at_once = watched.is_err() || self.lines.iter().any(|line| line.unread);
        let until = if at_once { Stamp(0) } else { current.until };
        Awaited { socket: Some(poller.as_fd()), writes: false, until }
    }

    /// Closes all of them.
    pub(super) fn close(&mut self) {
        self.lines.drain(..).for_each(|mut line| line.socket.shutdown());
    }
}

impl<M: Method> MultiplexedConnection<M> {
    /// Whether the next connection may be made beside this one. Streams that stay open for many requests go on until the server
    /// ends them.
    pub(super) fn may_set_aside(&mut self, exchanges: &Exchanges) -> bool {
        !self.plan.streaming && self.any_queued(exchanges) && self.retiring.has_room()
    }

    /// Leaves the connection to the calls that are on it, and begins the next.
    pub(super) fn set_aside(&mut self, exchanges: &mut Exchanges) {
        let Some(socket) = self.line.take() else { return };
        let outstanding = (0..exchanges.slots()).filter(|slot| exchanges.is_outstanding(*slot));
        let calls = outstanding.map(|slot| exchanges.id(slot)).filter(|id| !self.retiring.holds(*id)).collect();
        let next = self.tallied.next();
        let tallied = std::mem::replace(&mut self.tallied, next);
        let unread = std::mem::take(&mut self.unread);
        self.retiring.lines.push(RetiringLine { socket, tallied, calls, unread });
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
            if outcome.is_ok() && line.socket.h2.open_streams() > 0 {
                number += 1;
                continue;
            }
            let mut line = self.retiring.lines.swap_remove(number);
            line.socket.shutdown();
            if let Err(error) = outcome {
                line.lose(&error, exchanges);
            }
        }
        self.calls.answered = answered;
        self.queued.extend(self.calls.returned.drain(..).map(|slot| exchanges.id(slot)));
    }
}

impl RetiringLine {
    fn flush(&mut self, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let mut now = None;
        self.socket.flush(|token| departs(token, &mut now, exchanges))
    }

    /// Writes and reads what there is.
    fn go_on<M: Method>(&mut self, events: &mut CallEvents<'_, M>) -> Result<(), InferError> {
        self.flush(events.exchanges)?;
        let Reading { unread, outcome, .. } = Reading::of(&mut self.socket, events);
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
