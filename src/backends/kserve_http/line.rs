//! [`Line`]: one slot's connection, and the request that is on it.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::time::Duration;

use crate::backend::{ConnectionFault, InferError, Request};
use crate::backends::kserve_http::body::{KEPT_OF_REFUSAL, Kept, Longest, decompress, not_asked_for};
use crate::backends::kserve_http::render::JSON_LENGTH;
use crate::backends::kserve_http::reply::error_text;
use crate::backends::kserve_http::template::{Patch, SLICES, Template};
use crate::backends::kserve_http::wire::Wire;
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::engine::{Deadline, Poller, Stream, TalliedLine, closed, failure, malformed, wait_for};
use crate::wire::http1::ReplyReader;

/// How long a blocking read or write waits before the deadline is looked at again.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Free.
    Idle,
    /// The request is not out yet.
    Sending,
    /// The reply is awaited.
    Receiving,
    /// The request has failed, and its completion is due.
    Failing,
}

/// How the next request gets a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// It is there, or we ended it ourselves, or the server announced that it would: made when needed.
    Fresh,
    /// The server or the network ended it.
    Lost,
}

/// What came of sending or receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is more to come.
    Partly,
    /// All of it.
    Whole,
}

/// One slot's connection, and the request that is on it.
pub(super) struct Line {
    stream: Option<Stream>,
    link: Link,
    place: TalliedLine,
    pub(super) stage: Stage,
    pub(super) request: Request,
    pub(super) reader: ReplyReader,
    pub(super) kept: Kept,
    longest: Longest,
    scratch: Vec<u8>,
    written: usize,
    total: usize,
    /// Just before the request was handed to the socket, or a connection for it was asked for.
    pub(super) sent: Stamp,
    /// When its last byte was.
    pub(super) send_end: Option<Stamp>,
    /// When the first bytes of the reply came.
    pub(super) first: Option<Stamp>,
    /// When the last ones did.
    pub(super) last: Stamp,
}

impl Line {
    /// Connects.
    ///
    /// # Errors
    /// As the connection fails.
    pub(super) fn open(wire: &Wire, slot: usize, limit: Duration) -> io::Result<Self> {
        let mut line = Self {
            stream: None,
            link: Link::Fresh,
            place: TalliedLine::new(&wire.route.tally),
            stage: Stage::Idle,
            request: Request { payload: PayloadId(0), sequence: None },
            reader: ReplyReader::with_part_length(JSON_LENGTH),
            kept: Kept::default(),
            longest: Longest::default(),
            scratch: Vec::new(),
            written: 0,
            total: 0,
            sent: Stamp::default(),
            send_end: None,
            first: None,
            last: Stamp::default(),
        };
        line.connect(wire, slot, limit)?;
        Ok(line)
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    pub(super) fn holds_bytes(&mut self) -> bool {
        self.stream.as_mut().is_some_and(Stream::holds_bytes)
    }

    fn connect(&mut self, wire: &Wire, slot: usize, limit: Duration) -> io::Result<()> {
        let stream = wire.route.connector.connect(Deadline::within(limit))?;
        self.stream = Some(stream);
        self.link = Link::Fresh;
        self.place.find();
        self.attach(wire.poller.as_ref(), slot)
    }

    /// Makes the socket wait as its client does: for a tick at most, or never, watched by the poller.
    pub(super) fn attach(&mut self, poller: Option<&Poller>, slot: usize) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        match poller {
            None => stream.set_timeouts(TICK),
            Some(poller) => {
                stream.set_nonblocking(true)?;
                poller.add(stream, slot)?;
                if self.stage == Stage::Sending { poller.watch_writes(stream, slot, true) } else { Ok(()) }
            }
        }
    }

    /// Whether a request would have to fail at once, because its connection was lost and is not to be made again.
    pub(super) fn is_dead(&self, wire: &Wire) -> bool {
        self.stream.is_none() && self.link == Link::Lost && !wire.route.reconnect
    }

    /// Forgets the last request for this one.
    pub(super) fn take_up(&mut self, request: Request) {
        self.request = request;
        self.reader.reset();
        self.send_end = None;
        self.first = None;
        self.sent = Stamp::now();
    }

    /// Begins to send the request that was taken up, on a new connection where the old one is gone.
    ///
    /// # Errors
    /// Why it has failed.
    pub(super) fn begin(
        &mut self,
        wire: &Wire,
        slot: usize,
        template: &Template,
        patch: Patch,
    ) -> Result<Step, InferError> {
        self.written = 0;
        self.longest = template.longest;
        self.stage = Stage::Sending;
        if template.changes() {
            template.patch(&mut self.scratch, patch);
        }
        self.total = template.total(if template.changes() { &self.scratch } else { &template.front });
        if self.place.enter() {
            self.look_before_first_use();
        }
        self.sent = Stamp::now();
        if self.is_dead(wire) {
            let message = "the connection was lost before; --reconnect makes lost connections again";
            return Err(InferError::new(ConnectionFault::Lost, message));
        }
        if self.stream.is_none() {
            self.connect_again(wire, slot)?;
        }
        self.send(wire, slot, template)
    }

    /// A connection may have waited for its first request for long.
    #[cold]
    fn look_before_first_use(&mut self) {
        if wait_for(self.stream.as_ref(), false, Stamp(0)).unwrap_or(false) {
            self.disturbed(&mut [0; 256]);
        }
    }

    fn connect_again(&mut self, wire: &Wire, slot: usize) -> Result<(), InferError> {
        if let Some(error) = wire.known_unreachable() {
            return Err(self.lose(error));
        }
        let started = Stamp::now();
        self.connect(wire, slot, wire.connect_limit()).map_err(|error| {
            let error = failure(&error);
            wire.note_unreachable(started, &error);
            self.lose(error)
        })
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// Why the request has failed.
    pub(super) fn send(&mut self, wire: &Wire, slot: usize, template: &Template) -> Result<Step, InferError> {
        let Some(stream) = &mut self.stream else { return Err(closed("while the request was sent")) };
        let front = if template.changes() { &self.scratch } else { &template.front };
        let resumed = self.written > 0;
        let sent = write_out(stream, template, front, &mut self.written, self.total);
        let step = match sent {
            Ok(()) => Step::Whole,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Step::Partly,
            Err(error) => return self.receive_early(wire, &error),
        };
        if step == Step::Whole {
            self.send_end = Some(Stamp::now());
            self.stage = Stage::Receiving;
        }
        if let (Some(poller), true) = (&wire.poller, resumed || step == Step::Partly) {
            let watched = poller.watch_writes(stream, slot, step == Step::Partly);
            watched.map_err(|error| self.lose(failure(&error)))?;
        }
        Ok(step)
    }

    /// A server that refuses a request may hang up before it has read all of it; its answer then stands in the socket.
    fn receive_early(&mut self, wire: &Wire, error: &io::Error) -> Result<Step, InferError> {
        let mut buffer = [0; 4096];
        while let Ok(count) = self.stream.as_mut().map_or(Ok(0), |stream| stream.read(&mut buffer)) {
            if count == 0 {
                break;
            }
            if self.take(&buffer[..count], wire) == Ok(Step::Whole) {
                self.hang_up();
                return Err(self.refusal());
            }
        }
        Err(self.lose(failure(error)))
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// Why the request has failed. The connection is then gone.
    pub(super) fn receive(&mut self, wire: &Wire, buffer: &mut [u8]) -> Result<Step, InferError> {
        loop {
            let Some(stream) = &mut self.stream else { return Err(closed("before the reply")) };
            let again = stream.is_tls() && wire.poller.is_some();
            let count = match stream.read(buffer) {
                Ok(0) => return self.end(),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::Partly),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.lose(failure(&error))),
            };
            self.last = Stamp::now();
            self.first.get_or_insert(self.last);
            match self.take(&buffer[..count], wire) {
                Ok(Step::Partly) if again => {}
                Ok(step) => return Ok(step),
                Err(error) => {
                    self.hang_up();
                    return Err(error);
                }
            }
        }
    }

    /// Takes bytes of the reply.
    fn take(&mut self, mut bytes: &[u8], wire: &Wire) -> Result<Step, InferError> {
        while !bytes.is_empty() {
            let headless = self.reader.head().is_none();
            let progress = self.reader.feed(bytes).map_err(|what| malformed(what.to_string()))?;
            if let (true, Some(head)) = (headless, self.reader.head()) {
                if !wire.accepts(head.encoding) {
                    return Err(malformed(not_asked_for()));
                }
                self.kept.begin(head, wire.watch, self.longest)?;
            }
            self.kept.push(progress.body, self.reader.body_bytes())?;
            bytes = &bytes[progress.taken..];
            if progress.complete {
                return if bytes.is_empty() {
                    Ok(Step::Whole)
                } else {
                    Err(malformed(format!("the server sent {} bytes more than the reply's length says", bytes.len())))
                };
            }
        }
        Ok(Step::Partly)
    }

    /// Why the server refused the request, after a complete reply that says so.
    pub(super) fn refusal(&self) -> InferError {
        let Some(head) = self.reader.head() else { return malformed("no head") };
        let body = self.kept.bytes();
        let unpacked = decompress(head.encoding, body, KEPT_OF_REFUSAL).ok().flatten();
        error_text(head.status, &head.location, unpacked.as_deref().unwrap_or(body))
    }

    /// The server closed the connection.
    fn end(&mut self) -> Result<Step, InferError> {
        self.last = Stamp::now();
        match self.reader.end() {
            Ok(()) => Ok(Step::Whole),
            Err(what) => Err(self.lose(closed(&what.to_string()))),
        }
    }

    /// Something came while no request was under way: the server hung up, or talks unasked. Either way the connection
    /// is of no further use.
    pub(super) fn disturbed(&mut self, buffer: &mut [u8]) {
        let Some(stream) = &mut self.stream else { return };
        match stream.read(buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(count) if count > 0 => self.hang_up(),
            _ => {
                self.lose(closed("between two requests"));
            }
        }
    }

    /// Frees the slot after a complete reply; keeps the connection if the server does and nothing of the request is left.
    pub(super) fn release(&mut self) {
        let keeps_open = self.reader.head().is_some_and(|head| head.keeps_open);
        if !keeps_open || self.stage == Stage::Sending {
            self.hang_up();
        }
        self.stage = Stage::Idle;
    }

    /// Ends the connection ourselves; the next request makes another.
    pub(super) fn hang_up(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            stream.shutdown();
        }
    }

    fn lose(&mut self, error: InferError) -> InferError {
        self.stream = None;
        self.link = Link::Lost;
        self.place.lose();
        error
    }
}

/// Writes what is left of a request.
fn write_out(
    stream: &mut Stream,
    template: &Template,
    front: &[u8],
    written: &mut usize,
    total: usize,
) -> io::Result<()> {
    while *written < total {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let used = template.gather(front, *written, &mut slices);
        match stream.write_vectored(&slices[..used]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}
