//! The client's side of one HTTP/2 connection, without its socket: bytes in, events out; requests in, bytes out.
//!
//! Receive windows are as wide as the protocol allows and are reopened when half of them is used, so that a benchmark
//! never waits for itself. The send side respects the peer's windows, frame size and number of streams.

mod patience;
mod receive;
mod send;

use std::collections::VecDeque;

pub use receive::MAX_CONTROL;
pub use send::Message;

use crate::h2::connection::patience::Patience;
use crate::h2::error::{ConnectionError, ErrorCode};
use crate::h2::frame::{self, MAX_31_BITS, kind};
use crate::h2::hpack::{Decoder, HeaderList};
use crate::h2::outbox::Outbox;
use crate::h2::settings::{self, PeerSettings};
use crate::h2::stream::{Streams, Token};

/// Used part of a receive window at which it is reopened.
const GRANT_AT: u32 = 1 << 30;
/// Copied bytes waiting to be written at which no further requests are taken: a peer that answers requests without
/// reading them would make them pile up.
const CONGESTED: usize = 64 << 20;
/// The protocol's initial window, before any setting.
const FIRST_WINDOW: u32 = 65_535;

/// What happens on streams. A stream is gone after an event with `end`, and after `reset`.
pub trait Events {
    /// A header block: response headers, or trailers.
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool);
    /// A part of the body, in whatever size it arrived.
    fn data(&mut self, token: Token, bytes: &[u8], end: bool);
    /// The peer reset the stream, or will never process it.
    fn reset(&mut self, token: Token, why: Reset<'_>);
}

/// Why a stream is gone without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset<'a> {
    /// The peer reset it.
    Code(ErrorCode),
    /// The peer accepts no further streams on the connection, and this one is not processed.
    GoAway(&'a GoAway),
}

/// The peer's announcement that it accepts no further streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// Why.
    pub code: ErrorCode,
    /// The peer's text.
    pub text: String,
}

/// The client's side of one connection.
#[derive(Debug)]
pub struct Connection {
    out: Outbox,
    peer: PeerSettings,
    settled: bool,
    streams: Streams,
    next_stream: u32,
    send_window: i64,
    unreported: u32,
    decoder: Decoder,
    headers: HeaderList,
    fragment: Option<Fragment>,
    data: Option<DataRest>,
    stalled: VecDeque<u32>,
    marks: VecDeque<(u64, Token)>,
    patience: Patience,
    goaway: Option<GoAway>,
}

/// A header block whose CONTINUATION frames are still outstanding.
#[derive(Debug)]
struct Fragment {
    stream: u32,
    end: bool,
    bytes: Vec<u8>,
}

/// The part of a DATA frame that is still outstanding.
#[derive(Clone, Copy, Debug)]
struct DataRest {
    stream: u32,
    bytes: usize,
    padding: usize,
    end: bool,
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

impl Connection {
    /// A connection whose preface is waiting to be sent.
    pub fn new() -> Self {
        let mut out = Outbox::default();
        out.copied().extend_from_slice(frame::PREFACE);
        settings::put_ours(out.copied());
        frame::put_number(out.copied(), kind::WINDOW_UPDATE, 0, MAX_31_BITS - FIRST_WINDOW);
        Self {
            out,
            peer: PeerSettings::default(),
            settled: false,
            streams: Streams::default(),
            next_stream: 1,
            send_window: i64::from(FIRST_WINDOW),
            unreported: 0,
            decoder: Decoder::default(),
            headers: HeaderList::default(),
            fragment: None,
            data: None,
            stalled: VecDeque::new(),
            marks: VecDeque::new(),
            patience: Patience::default(),
            goaway: None,
        }
    }

    /// Whether the peer's settings have arrived; nothing but the preface should be sent before.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// The peer's settings.
    pub fn peer(&self) -> &PeerSettings {
        &self.peer
    }

    /// The peer's GOAWAY, if it accepts no further streams.
    pub fn goaway(&self) -> Option<&GoAway> {
        self.goaway.as_ref()
    }

    /// Whether all stream numbers are used up, so that a new connection is needed.
    pub fn is_exhausted(&self) -> bool {
        self.next_stream > MAX_31_BITS
    }

    /// Whether enough bytes wait to be written that further requests should wait, too.
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.out.copied_len() > CONGESTED
    }

    /// Whether a stream may be opened now.
    #[inline]
    pub fn can_open(&self) -> bool {
        self.goaway.is_none()
            && !self.is_exhausted()
            && !self.is_congested()
            && self.streams.len() < self.peer.max_concurrent_streams as usize
    }

    /// Number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The bytes that wait to be written.
    pub fn out(&self) -> &Outbox {
        &self.out
    }

    /// Notes that `count` bytes of [`Connection::out`] were written. `sent` is called for messages that have left
    /// entirely.
    #[inline]
    pub fn wrote(&mut self, count: usize, mut sent: impl FnMut(Token)) {
        self.out.advance(count);
        while let Some(&(end, token)) = self.marks.front() {
            if end > self.out.departed() {
                break;
            }
            sent(token);
            self.marks.pop_front();
        }
        self.patience.departed(self.out.departed());
    }

    /// Sends GOAWAY with the reason why the connection cannot continue.
    pub fn close(&mut self, error: &ConnectionError) {
        let payload = [&[0; 4][..], &error.code.0.to_be_bytes()].concat();
        frame::put(self.out.copied(), kind::GOAWAY, 0, 0, &payload);
    }
}

#[cfg(test)]
mod tests;
