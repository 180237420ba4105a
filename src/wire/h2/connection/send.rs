//! Outgoing requests: opens streams, and cuts bodies into frames as windows allow.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::h2::connection::Connection;
use crate::h2::error::ErrorCode;
use crate::h2::frame::{self, FrameHeader, flag, kind};
use crate::h2::outbox::Outbox;
use crate::h2::stream::{Piece, Stream, Token};

/// A message to send: bytes to copy, then tensors by reference.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The owner's name for it, reported when it has left.
    pub token: Token,
    /// Copied at once.
    pub head: &'a [u8],
    /// Kept by reference until they have left.
    pub parts: &'a [Bytes],
    /// Our side of the stream ends here.
    pub end: bool,
}

impl Connection {
    /// Opens a stream with an encoded header block; our side stays open. Only if [`Connection::can_open`].
    pub fn open(&mut self, token: Token, block: &[u8]) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        self.streams.insert(id, Stream::new(token, self.peer.initial_window));
        let mut kind = kind::HEADERS;
        let mut remaining = block;
        loop {
            let (now, later) = remaining.split_at(remaining.len().min(self.peer.max_frame as usize));
            let flags = if later.is_empty() { flag::END_HEADERS } else { 0 };
            frame::put(self.out.copied(), kind, flags, id, now);
            if later.is_empty() {
                return id;
            }
            (kind, remaining) = (kind::CONTINUATION, later);
        }
    }

    /// Sends a message on an open stream, as far as windows allow; the rest follows by itself. Does nothing if the
    /// stream is closed.
    pub fn send(&mut self, id: u32, message: Message<'_>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let length = message.head.len();
        let window = stream.send_window.min(self.send_window).min(i64::from(self.peer.max_frame));
        if message.parts.is_empty() && stream.body.is_empty() && length as i64 <= window {
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
            stream.ended |= message.end;
            let flags = if message.end { flag::END_STREAM } else { 0 };
            frame::put(self.out.copied(), kind::DATA, flags, id, message.head);
            self.marks.push_back((self.out.appended(), message.token));
            return;
        }
        let waited = !stream.body.is_empty();
        let head = (length > 0).then(|| Bytes::copy_from_slice(message.head));
        for bytes in head.into_iter().chain(message.parts.iter().filter(|part| !part.is_empty()).cloned()) {
            stream.body_len += bytes.len() as u64;
            stream.body.push_back(Piece { bytes, ends: None });
        }
        if let Some(last) = stream.body.back_mut() {
            last.ends = Some(message.token);
        }
        stream.ends |= message.end;
        if !waited {
            self.stalled.push_back(id);
            self.pump();
        }
    }

    /// Ends our side of a stream.
    pub fn finish(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.body.is_empty() && !stream.ended {
            stream.ended = true;
            frame::put(self.out.copied(), kind::DATA, flag::END_STREAM, id, &[]);
        }
        stream.ends = true;
    }

    /// Resets a stream. No event follows for it.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        if self.streams.remove(&id).is_some() {
            frame::put_number(self.out.copied(), kind::RST_STREAM, id, code.0);
        }
    }

    /// Sends as much of the waiting bodies as windows allow, in the order in which they came.
    pub(super) fn pump(&mut self) {
        for _ in 0..self.stalled.len() {
            let Some(id) = self.stalled.pop_front() else { return };
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            while !stream.body.is_empty() {
                let allowed = stream.send_window.min(self.send_window).min(i64::from(self.peer.max_frame));
                let length = u64::try_from(allowed).unwrap_or(0).min(stream.body_len);
                if length == 0 {
                    break;
                }
                self.send_window -= length as i64;
                self.patience.sent(length as i64);
                put_data(&mut self.out, id, stream, length as u32, &mut self.marks);
            }
            if stream.body.is_empty() {
                continue;
            }
            self.stalled.push_back(id);
        }
    }
}

/// Cuts a frame of `length` bytes off the front of a stream's body.
fn put_data(out: &mut Outbox, id: u32, stream: &mut Stream, length: u32, marks: &mut VecDeque<(u64, Token)>) {
    stream.send_window -= i64::from(length);
    stream.body_len -= u64::from(length);
    stream.ended = stream.ends && stream.body_len == 0;
    let flags = if stream.ended { flag::END_STREAM } else { 0 };
    out.copied().extend_from_slice(&FrameHeader { length, kind: kind::DATA, flags, stream: id }.bytes());
    let mut left = length as usize;
    while left > 0 {
        let Some(piece) = stream.body.front_mut() else { break };
        let now = piece.bytes.split_to(left.min(piece.bytes.len()));
        left -= now.len();
        out.push(now);
        if piece.bytes.is_empty() {
            if let Some(token) = piece.ends {
                marks.push_back((out.appended(), token));
            }
            stream.body.pop_front();
        }
    }
}
