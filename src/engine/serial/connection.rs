//! [`SerialConnection`]: a connection, and the progress of the request on it.

mod crossing;
mod drain;
mod idle;

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::serial::attempt::Attempt;
use crate::serial::common::Common;
use crate::serial::write::{TICK, write_out};
use crate::serial::{Dialogue, Step};
use crate::{Deadline, Exchanges, Poller, Stream, TalliedConnection, closed, connect, failure, wait_for};

/// How long the bytes behind an answer that is over may take to come: longer than a server that is busy needs to write the end of
/// its body, and shorter than one is worth waiting for that does not end it.
const REST: Duration = Duration::from_millis(20);

/// Limit on consecutive reads under TLS: a server that never stops sending must not keep the thread from other
/// connections and from deadlines.
const MAX_READS: u32 = 16;

/// A connection, and the progress of the request on it.
pub(super) struct SerialConnection {
    /// Its number among the client's.
    number: usize,
    stream: Option<Stream>,
    /// The next one, while it is being made.
    attempt: Attempt,
    tallied: TalliedConnection,
    /// Whether the request is not fully sent yet.
    sending: bool,
    /// Whether the poller reports when the socket takes bytes.
    watches_writes: bool,
    /// Bytes of it that the connection has taken, and the total.
    written: usize,
    total: usize,
    /// Whether a byte of its answer has come.
    heard: bool,
    /// Bytes that meant nothing since the last request began.
    filler: usize,
    /// Whether an answer is complete.
    answered: bool,
    /// Whether the last blocking read has ended without a byte.
    silent: bool,
    /// Not all bytes of an answer have come that is over; they may until then.
    rest_until: Option<Stamp>,
}

impl SerialConnection {
    /// One that is not made yet.
    pub(super) fn new(common: &Common, number: usize) -> Self {
        let tallied = TalliedConnection::new(&common.route.tally);
        Self {
            number,
            stream: None,
            attempt: Attempt::default(),
            tallied,
            sending: false,
            watches_writes: false,
            written: 0,
            total: 0,
            heard: false,
            filler: 0,
            answered: false,
            silent: false,
            rest_until: None,
        }
    }

    pub(super) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    pub(super) fn is_sending(&self) -> bool {
        self.sending
    }

    /// Whether its request waits for a connection that is being made.
    pub(super) fn is_connecting(&self) -> bool {
        self.attempt.is_under_way()
    }

    /// When it goes on connecting, even if the socket is silent.
    pub(super) fn connecting_due(&self) -> Stamp {
        self.attempt.due()
    }

    /// Waits until it can go on with the request that it has, or `until` has passed; returns whether it can.
    ///
    /// # Errors
    /// As the system answers.
    pub(super) fn wait(&self, until: Stamp) -> io::Result<bool> {
        match self.is_connecting() {
            true => self.attempt.wait(until),
            false => wait_for(self.stream.as_ref().map(AsFd::as_fd), self.awaited(), until),
        }
    }

    /// Waits without a request until something arrives or the connection ends, at most until `until`; returns whether it did.
    ///
    /// # Errors
    /// As the system answers.
    pub(super) fn wait_idle(&self, until: Stamp) -> io::Result<bool> {
        match &self.stream {
            Some(stream) => wait_for(Some(stream.as_fd()), PollFlags::IN, until),
            None => wait_for(None, PollFlags::empty(), until),
        }
    }

    /// Whether something has arrived, or the connection has ended.
    pub(super) fn is_readable(&self) -> bool {
        wait_for(self.stream.as_ref().map(AsFd::as_fd), PollFlags::IN, Stamp(0)).unwrap_or(false)
    }

    pub(super) fn holds_bytes(&mut self) -> bool {
        self.stream.as_mut().is_some_and(Stream::holds_bytes)
    }

    /// Whether the server takes longer for the answer than a blocking read waits.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// Connects before the load, unless that was done before or is done by each request, and waits for it.
    ///
    /// # Errors
    /// As the connection fails.
    pub(super) fn connect(&mut self, common: &Common, limit: Duration) -> io::Result<()> {
        let (connector, deadline) = (&common.route.connector, Deadline::within(limit));
        match self.stream {
            Some(_) => Ok(()),
            None if common.route.renew => connector.resolve(deadline),
            None => self.connected(common, connect(connector, deadline)?),
        }
    }

    fn connected(&mut self, common: &Common, stream: Stream) -> io::Result<()> {
        self.stream = Some(stream);
        self.tallied.open();
        self.attach(common.poller.as_ref())
    }

    /// Configures the socket's blocking as its client needs: for a tick at most, or nonblocking and watched by the
    /// poller.
    pub(super) fn attach(&mut self, poller: Option<&Poller>) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let Some(poller) = poller else { return stream.block(TICK) };
        stream.unblock()?;
        self.watches_writes = false;
        poller.watch(stream, self.number, PollFlags::IN)
    }

    fn awaited(&self) -> PollFlags {
        if self.sending { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Has the poller report when the socket takes bytes while a request is being sent, and only then.
    #[inline]
    pub(super) fn watch_writes(&mut self, poller: &Poller) -> io::Result<()> {
        let Some(stream) = self.stream.as_ref().filter(|_| self.watches_writes != self.sending) else { return Ok(()) };
        poller.watch(stream, self.number, self.awaited())?;
        self.watches_writes = self.sending;
        Ok(())
    }

    /// A request is about to begin.
    #[inline]
    pub(super) fn enter(&mut self) {
        if self.tallied.enter() {
            self.look_before_first_use();
        }
    }

    /// Begins to send the slot's request, which has started, of `total` bytes, on a new connection if the old one is
    /// gone.
    ///
    /// # Errors
    /// Why it has failed.
    pub(super) fn begin<D: Dialogue>(
        &mut self,
        common: &Common,
        dialogue: &mut D,
        slot: usize,
        total: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        (self.written, self.total) = (0, total);
        (self.heard, self.answered, self.silent, self.filler) = (false, false, false, 0);
        if self.stream.is_none() {
            // Should that fail, the next request tries again.
            self.attempt.begin(common).inspect_err(|_| self.tallied.refuse())?;
        }
        self.sending = true;
        self.send(common, dialogue, slot, exchanges)
    }

    /// Goes on connecting, and sends the request that waits for it once there is a connection.
    #[cold]
    fn go_on<D: Dialogue>(
        &mut self,
        common: &Common,
        dialogue: &mut D,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        match self.attempt.proceed(common, self.number).inspect_err(|_| self.tallied.refuse())? {
            None => Ok(()),
            Some(stream) => {
                self.connected(common, stream).map_err(|error| self.lose(failure(&error)))?;
                self.send(common, dialogue, slot, exchanges)
            }
        }
    }

    /// Sends as much as the socket takes. A server that refuses a request early may end it here.
    ///
    /// # Errors
    /// Why the request failed.
    pub(super) fn send<D: Dialogue>(
        &mut self,
        common: &Common,
        dialogue: &mut D,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        let Some(stream) = &mut self.stream else { return self.go_on(common, dialogue, slot, exchanges) };
        match write_out(stream, dialogue, slot, &mut self.written, self.total) {
            Ok(()) => {
                exchanges.departed(slot, Stamp::now());
                self.sending = false;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error)
                if self.was_reset_before(&error) || (error.kind() == ErrorKind::BrokenPipe && self.has_crossed()) =>
            {
                return self.send_again(common, dialogue, slot, exchanges);
            }
            Err(error) => return self.receive_early(dialogue, slot, &error, exchanges),
        }
        match &common.poller {
            Some(poller) => self.watch_writes(poller).map_err(|error| self.lose(failure(&error))),
            None => Ok(()),
        }
    }

    /// A server that refuses a request may hang up before it has read all of it; its answer is then waiting in the
    /// socket.
    fn receive_early<D: Dialogue>(
        &mut self,
        dialogue: &mut D,
        slot: usize,
        error: &io::Error,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        let mut buffer = [0; 4096];
        while let Ok(count) = self.stream.as_mut().map_or(Ok(0), |stream| stream.read(&mut buffer)) {
            if count == 0 {
                break;
            }
            exchanges.now = Stamp::now();
            if matches!(dialogue.receive(slot, &buffer[..count], exchanges), Ok(Step::Whole | Step::Enough)) {
                if exchanges.has_failed(slot) {
                    self.tallied.answers();
                    self.hang_up();
                    exchanges.end(slot);
                    return Ok(());
                }
                break;
            }
        }
        Err(self.lose(failure(error)))
    }

    /// Reads what has arrived, at most [`MAX_READS`] times. What is left is then in the socket, where the poller sees
    /// it.
    ///
    /// # Errors
    /// Why the request failed. The connection is then gone.
    pub(super) fn receive<D: Dialogue>(
        &mut self,
        common: &Common,
        dialogue: &mut D,
        slot: usize,
        buffer: &mut [u8],
        exchanges: &mut Exchanges,
    ) -> Result<Step, InferError> {
        let mut reads = 1;
        loop {
            let Some(stream) = &mut self.stream else { return Err(closed("before the reply")) };
            let again = stream.is_tls() && common.poller.is_some();
            let count = match stream.read(buffer) {
                Ok(0) if self.has_crossed() => {
                    return self.send_again(common, dialogue, slot, exchanges).map(|()| Step::Partly);
                }
                Ok(0) => return self.end(dialogue, slot, exchanges),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.silent = true;
                    return Ok(Step::Partly);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.lose(failure(&error))),
            };
            if !self.heard && self.is_filler(&buffer[..count], |bytes| dialogue.is_filler(bytes)) {
                continue;
            }
            (self.silent, self.heard) = (false, true);
            exchanges.now = Stamp::now();
            exchanges.response_begins(slot);
            match dialogue.receive(slot, &buffer[..count], exchanges) {
                Ok(Step::Partly) if again && (reads < MAX_READS || self.holds_bytes()) => reads += 1,
                Ok(step) => {
                    self.answered = step != Step::Partly;
                    if step == Step::Enough {
                        self.rest_until = Some(exchanges.now.plus_duration(REST));
                    }
                    return Ok(step);
                }
                Err(error) => {
                    self.hang_up();
                    return Err(error);
                }
            }
        }
    }

    /// The server closed the connection.
    fn end<D: Dialogue>(
        &mut self,
        dialogue: &mut D,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<Step, InferError> {
        exchanges.now = Stamp::now();
        match dialogue.end(slot, exchanges) {
            Ok(()) => {
                // An answer that ends with its connection is one: the server can be reached.
                self.tallied.answers();
                Ok(Step::Whole)
            }
            Err(error) => Err(self.lose(error)),
        }
    }

    /// Frees the slot; the connection stays if the server keeps it open after a complete answer, and the request was
    /// fully sent.
    pub(super) fn release(&mut self, keeps_open: bool) {
        if self.answered {
            self.tallied.answers();
        }
        let is_broken = self.stream.as_ref().is_some_and(Stream::is_broken);
        if !self.answered || !keeps_open || self.sending || is_broken {
            self.hang_up();
        }
        self.sending = false;
    }

    /// Closes the connection ourselves; the next request makes another.
    pub(super) fn hang_up(&mut self) {
        self.attempt.give_up();
        self.rest_until = None;
        if let Some(mut stream) = self.stream.take() {
            stream.shutdown();
        }
    }

    fn lose(&mut self, error: InferError) -> InferError {
        (self.stream, self.rest_until) = (None, None);
        if self.heard {
            // Half an answer is one as far as the connection goes: the server can be reached.
            self.tallied.answers();
        }
        self.tallied.end();
        error
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use super::idle::MOST_FILLER;
    use super::*;
    use crate::backend::{Completion, CompletionSink, Next, Request, Response, SlotId};
    use crate::data::PayloadId;
    use crate::error::Result;
    use crate::serial::SLICES;
    use crate::{Connector, Endpoint, Route};

    struct Nobody;

    impl CompletionSink for Nobody {
        fn response(&self, _: SlotId, _: &Response<'_>) {}

        fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
            Next::Idle
        }
    }

    /// Requests of these bytes again and again, whose answers are as long as their connections.
    struct Same(&'static [u8]);

    impl Dialogue for Same {
        fn grow(&mut self, _: usize) -> Result<()> {
            Ok(())
        }

        fn prepare(&mut self, _: usize, _: Request) -> Result<usize, InferError> {
            Ok(self.0.len())
        }

        fn gather<'a>(&'a self, _: usize, _: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
            slices[0] = IoSlice::new(self.0);
            1
        }

        fn receive(&mut self, _: usize, _: &[u8], _: &mut Exchanges) -> Result<Step, InferError> {
            Ok(Step::Partly)
        }

        fn end(&mut self, _: usize, _: &mut Exchanges) -> Result<(), InferError> {
            Ok(())
        }

        fn is_filler(&self, bytes: &[u8]) -> bool {
            bytes == b"\n"
        }

        fn keeps_open(&self, _: usize) -> bool {
            true
        }
    }

    /// A connection with that poller, its listener, and a slot whose request has started.
    fn connected(poller: Option<Poller>) -> (TcpListener, Common, SerialConnection, Exchanges) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::parse(&listener.local_addr().unwrap().to_string(), 0).unwrap();
        let connector = Arc::new(Connector::new(endpoint, None));
        let mut common = Common::new(Route {
            connector,
            reconnect: false,
            renew: false,
            limit: None,
            tally: Arc::default(),
            reminder: None,
        });
        common.poller = poller;
        let mut line = SerialConnection::new(&common, 0);
        line.connect(&common, Duration::from_secs(5)).unwrap();
        let mut exchanges = Exchanges::new(Arc::new(Nobody), false);
        exchanges.grow(1);
        exchanges.begin(0, Request { payload: PayloadId(0), sequence: None });
        exchanges.sends(0);
        (listener, common, line, exchanges)
    }

    fn watched() -> (TcpListener, Common, SerialConnection, Exchanges) {
        connected(Some(Poller::new().unwrap()))
    }

    /// Accepts whoever waits, and whoever comes later.
    fn drain(listener: TcpListener) {
        thread::spawn(move || listener.incoming().flatten().for_each(std::mem::forget));
    }

    /// Reads whatever arrives.
    fn read_all(listener: &TcpListener) {
        let (mut peer, _) = listener.accept().unwrap();
        thread::spawn(move || io::copy(&mut peer, &mut io::sink()));
    }

    /// How many sockets are ready until then.
    fn ready(common: &mut Common, limit: Duration) -> usize {
        common.poller.as_mut().unwrap().wait(Stamp::now().plus_duration(limit)).unwrap()
    }

    #[test]
    fn a_new_connection_is_not_watched_for_writes_once_its_request_has_left() {
        let (_listener, mut common, mut line, mut exchanges) = watched();
        line.hang_up();
        line.begin(&common, &mut Same(b"four"), 0, 4, &mut exchanges).unwrap();
        assert!(!line.is_sending());
        assert_eq!(ready(&mut common, Duration::ZERO), 0);
    }

    #[test]
    fn a_connection_that_is_not_accepted_is_waited_for_by_its_request_alone() {
        for poller in [None, Some(Poller::new().unwrap())] {
            let (listener, mut common, mut line, mut exchanges) = connected(poller);
            let (address, mut queued) = (listener.local_addr().unwrap(), Vec::new());
            // The queue of a listener that accepts nobody is full: the kernel drops what else asks.
            rustix::net::listen(&listener, 0).unwrap();
            while let Ok(other) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                queued.push(other);
            }
            line.hang_up();
            let started = Stamp::now();
            line.begin(&common, &mut Same(b"four"), 0, 4, &mut exchanges).unwrap();
            assert!(line.is_connecting() && line.is_sending() && Stamp::now() - started < Duration::from_secs(1));
            assert!(line.connecting_due() > Stamp::now().plus_duration(Duration::from_secs(10)));
            drop(queued);
            drain(listener);
            let mut turns = 0;
            while line.is_sending() {
                let until = Stamp::now().plus_duration(Duration::from_secs(10));
                let waited = match &mut common.poller {
                    Some(poller) => poller.wait(until).unwrap() == 1,
                    None => line.wait(until).unwrap(),
                };
                assert!(waited && turns < 8, "turn {turns}");
                line.send(&common, &mut Same(b"four"), 0, &mut exchanges).unwrap();
                turns += 1;
            }
            assert!(!line.is_connecting() && line.stream().is_some());
        }
    }

    /// The first request of `line` has been answered; the second is sent after `peer` did what it does.
    fn ask_twice(common: &Common, line: &mut SerialConnection, exchanges: &mut Exchanges, peer: impl FnOnce()) -> Step {
        line.answered = true;
        line.release(true);
        line.begin(common, &mut Same(b"four"), 0, 4, exchanges).unwrap();
        peer();
        // What the other side has done arrives.
        thread::sleep(Duration::from_millis(20));
        line.receive(common, &mut Same(b"four"), 0, &mut [0; 64], exchanges).unwrap()
    }

    #[test]
    fn what_means_nothing_between_answers_is_passed_over_idle_and_under_a_request() {
        for poller in [None, Some(Poller::new().unwrap())] {
            let (listener, common, mut line, mut exchanges) = connected(poller);
            let mut peer = listener.accept().unwrap().0;
            line.answered = true;
            line.release(true);
            let mut idle = |line: &mut SerialConnection, bytes: &[u8]| {
                peer.write_all(bytes).unwrap();
                line.wait_idle(Stamp::now().plus_duration(Duration::from_secs(5))).unwrap();
                line.disturbed(&mut [0; 64], |bytes| Same(b"").is_filler(bytes));
                line.stream().is_some()
            };
            assert!(idle(&mut line, b"\n"));
            let step = ask_twice(&common, &mut line, &mut exchanges, || peer.write_all(b"\n").unwrap());
            assert_eq!((step, line.heard), (Step::Partly, false));
            peer.write_all(b"x").unwrap();
            line.wait(Stamp::now().plus_duration(Duration::from_secs(5))).unwrap();
            line.receive(&common, &mut Same(b"four"), 0, &mut [0; 64], &mut exchanges).unwrap();
            assert!(line.heard);
        }
    }

    #[test]
    fn a_server_that_sends_nothing_but_filler_is_left() {
        let (listener, _, mut line, _) = watched();
        let mut peer = listener.accept().unwrap().0;
        line.answered = true;
        line.release(true);
        let mut passed = 0;
        while line.stream().is_some() {
            peer.write_all(b"\n").unwrap();
            line.wait_idle(Stamp::now().plus_duration(Duration::from_secs(5))).unwrap();
            line.disturbed(&mut [0; 1], |bytes| Same(b"").is_filler(bytes));
            passed += 1;
        }
        assert_eq!(passed, MOST_FILLER + 1);
    }

    #[test]
    fn a_server_that_hangs_up_while_a_connection_is_made_may_take_the_next() {
        let (_listener, common, ..) = watched();
        common.unreachable(failure(&ErrorKind::ConnectionReset.into()));
        assert_eq!(common.known_unreachable(), None);
        let refused = common.unreachable(failure(&ErrorKind::ConnectionRefused.into()));
        assert_eq!(common.known_unreachable(), Some(refused));
    }

    #[test]
    fn a_request_that_crosses_the_end_of_its_connection_leaves_on_another() {
        for poller in [None, Some(Poller::new().unwrap())] {
            let (listener, common, mut line, mut exchanges) = connected(poller);
            drop(listener.accept().unwrap());
            thread::sleep(Duration::from_millis(20));
            assert_eq!(ask_twice(&common, &mut line, &mut exchanges, || ()), Step::Partly);
            while line.is_sending() {
                line.send(&common, &mut Same(b"four"), 0, &mut exchanges).unwrap();
            }
            let (mut peer, mut request) = (listener.accept().unwrap().0, [0; 4]);
            peer.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"four");
        }
    }

    #[test]
    fn a_request_that_finds_its_idle_connection_reset_leaves_on_another() {
        for poller in [None, Some(Poller::new().unwrap())] {
            let (listener, common, mut line, mut exchanges) = connected(poller);
            let peer = listener.accept().unwrap().0;
            rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
            drop(peer);
            thread::sleep(Duration::from_millis(20));
            line.answered = true;
            line.release(true);
            line.begin(&common, &mut Same(b"four"), 0, 4, &mut exchanges).unwrap();
            while line.is_sending() {
                line.send(&common, &mut Same(b"four"), 0, &mut exchanges).unwrap();
            }
            listener.accept().unwrap().0.read_exact(&mut [0; 4]).unwrap();
        }
    }

    #[test]
    fn a_request_that_the_server_has_read_is_not_sent_again() {
        let (listener, common, mut line, mut exchanges) = watched();
        let (mut peer, _) = listener.accept().unwrap();
        let read = move || peer.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(
            ask_twice(&common, &mut line, &mut exchanges, read),
            Step::Whole,
            "the connection's end is the answer's"
        );
    }

    #[test]
    fn a_server_whose_answers_end_with_their_connections_is_not_gone_for_losing_some() {
        let (listener, common, mut line, mut exchanges) = watched();
        line.enter();
        let mut answered = |is_read: bool| {
            line.begin(&common, &mut Same(b"four"), 0, 4, &mut exchanges).unwrap();
            let (mut peer, mut request) = (listener.accept().unwrap().0, [0; 4]);
            while line.is_sending() {
                line.send(&common, &mut Same(b"four"), 0, &mut exchanges).unwrap();
            }
            if is_read {
                peer.read_exact(&mut request).unwrap();
            }
            // What was not read is answered by a reset.
            drop(peer);
            thread::sleep(Duration::from_millis(20));
            let received = line.receive(&common, &mut Same(b"four"), 0, &mut [0; 64], &mut exchanges);
            line.release(true);
            received.is_ok_and(|step| step == Step::Whole)
        };
        for _ in 0..4 {
            assert!(answered(true));
            assert!(!answered(false));
            assert!(!common.route.tally.is_gone());
        }
        let lost: Vec<bool> = (0..4).map(|_| answered(false) || common.route.tally.is_gone()).collect();
        assert_eq!(lost, [false, false, true, true], "three in a row");
    }

    #[test]
    fn a_full_connection_is_watched_for_writes_until_its_request_has_left() {
        let (listener, mut common, mut line, mut exchanges) = watched();
        // Acknowledgements that are still on their way make room for a little more.
        loop {
            let stream = line.stream.as_mut().unwrap();
            while stream.write(&[0; 4096]).is_ok() {}
            thread::sleep(Duration::from_millis(20));
            if stream.write(&[0]).is_err() {
                break;
            }
        }
        line.begin(&common, &mut Same(b"four"), 0, 4, &mut exchanges).unwrap();
        assert_eq!((line.written, line.is_sending(), ready(&mut common, Duration::ZERO)), (0, true, 0));
        read_all(&listener);
        while line.is_sending() {
            assert_eq!(ready(&mut common, Duration::from_secs(5)), 1);
            line.send(&common, &mut Same(b"four"), 0, &mut exchanges).unwrap();
        }
        assert_eq!(ready(&mut common, Duration::ZERO), 0);
    }

    #[test]
    fn timed_a_request_without_end_is_written_for_a_moment_at_a_time() {
        static BYTES: [u8; 1 << 20] = [0; 1 << 20];
        for poller in [None, Some(Poller::new().unwrap())] {
            let (listener, common, mut line, mut exchanges) = connected(poller);
            read_all(&listener);
            let started = Stamp::now();
            line.begin(&common, &mut Same(&BYTES), 0, 1 << 34, &mut exchanges).unwrap();
            let took = Stamp::now() - started;
            assert!(line.is_sending() && took < 10 * TICK, "{took:?}");
        }
    }
}
