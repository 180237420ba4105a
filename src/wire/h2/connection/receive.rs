//! Incoming frames.

use crate::h2::connection::{Connection, DataRest, Events, Fragment, GRANT_AT, GoAway, Reset};
use crate::h2::error::{ConnectionError, ErrorCode};
use crate::h2::frame::{self, FrameHeader, HEADER_LEN, MAX_31_BITS, flag, kind};
use crate::h2::settings::OUR_MAX_FRAME;

/// Largest frame other than DATA, and largest header block, that we accept.
pub const MAX_CONTROL: usize = 64 << 10;

impl Connection {
    /// Processes bytes from the peer. Returns how many were used; the rest, less than a frame other than DATA, must be
    /// passed again with more bytes behind it.
    ///
    /// # Errors
    /// If the peer broke the protocol: the connection is of no further use.
    pub fn receive<E: Events>(&mut self, input: &[u8], events: &mut E) -> Result<usize, ConnectionError> {
        if !self.settled && input.starts_with(b"HTTP/") {
            return Err(ConnectionError::protocol("the server answers in HTTP/1; is this its gRPC port?"));
        }
        let mut at = 0;
        loop {
            let tail = &input[at..];
            if let Some(data) = self.data {
                at += self.take_data(data, tail, events);
                if self.data.is_some() {
                    return Ok(at);
                }
                continue;
            }
            let Some(header) = FrameHeader::parse(tail) else { return Ok(at) };
            self.check_order(header)?;
            let length = header.length as usize;
            if header.kind == kind::DATA {
                let padding = usize::from(header.has(flag::PADDED));
                let Some(pad) = tail[HEADER_LEN..].get(..padding.min(length)) else { return Ok(at) };
                self.patience.frame()?;
                self.begin_data(header, pad.first().copied())?;
                at += HEADER_LEN + pad.len();
                continue;
            }
            let Some(payload) = tail[HEADER_LEN..].get(..length) else { return Ok(at) };
            self.patience.frame()?;
            self.control(header, payload, events)?;
            at += HEADER_LEN + length;
        }
    }

    fn check_order(&self, header: FrameHeader) -> Result<(), ConnectionError> {
        let limit = if header.kind == kind::DATA { OUR_MAX_FRAME as usize } else { MAX_CONTROL };
        if header.length as usize > limit {
            let reason = format!("a frame of type {} has {} bytes", header.kind, header.length);
            return Err(ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, reason));
        }
        if !self.settled && header.kind != kind::SETTINGS {
            return Err(ConnectionError::protocol("the server does not begin with SETTINGS; does it speak HTTP/2?"));
        }
        let expected = self.fragment.as_ref().map(|fragment| fragment.stream);
        let continues = (header.kind == kind::CONTINUATION).then_some(header.stream);
        if expected != continues {
            return Err(ConnectionError::protocol("a header block is interrupted, or continued where none began"));
        }
        Ok(())
    }

    fn begin_data(&mut self, header: FrameHeader, pad: Option<u8>) -> Result<(), ConnectionError> {
        self.check_stream(header.stream)?;
        let padding = usize::from(pad.unwrap_or(0));
        let bytes = (header.length as usize).checked_sub(usize::from(header.has(flag::PADDED)) + padding);
        let bytes = bytes.ok_or_else(|| ConnectionError::protocol("a frame's padding is longer than the frame"))?;
        self.grant(header.stream, header.length);
        self.data = Some(DataRest { stream: header.stream, bytes, padding, end: header.has(flag::END_STREAM) });
        Ok(())
    }

    /// Passes on the available part of a DATA frame; returns its number of bytes.
    fn take_data<E: Events>(&mut self, mut data: DataRest, input: &[u8], events: &mut E) -> usize {
        let now = data.bytes.min(input.len());
        let skipped = data.padding.min(input.len() - now);
        data.bytes -= now;
        data.padding -= skipped;
        let complete = data.bytes + data.padding == 0;
        let end = complete && data.end;
        let token = self.streams.get(&data.stream).map(|stream| stream.token);
        if now > 0 || end {
            self.patience.progressed();
        }
        if let Some(token) = token.filter(|_| now > 0 || end) {
            if end {
                self.ended_by_peer(data.stream);
            }
            events.data(token, &input[..now], end);
        }
        self.data = (!complete).then_some(data);
        now + skipped
    }

    /// Counts received bytes against both windows, and reopens them when half is used.
    fn grant(&mut self, id: u32, length: u32) {
        self.unreported += length;
        if self.unreported >= GRANT_AT {
            frame::put_number(self.out.copied(), kind::WINDOW_UPDATE, 0, self.unreported);
            self.unreported = 0;
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.unreported += length;
        if stream.unreported >= GRANT_AT {
            frame::put_number(self.out.copied(), kind::WINDOW_UPDATE, id, stream.unreported);
            stream.unreported = 0;
        }
    }

    fn control<E: Events>(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        events: &mut E,
    ) -> Result<(), ConnectionError> {
        match header.kind {
            kind::HEADERS => {
                self.check_stream(header.stream)?;
                self.begin_block(header, frame::unpadded(header, payload)?, events)
            }
            kind::CONTINUATION => self.continue_block(header, payload, events),
            kind::RST_STREAM => {
                self.check_stream(header.stream)?;
                let code = ErrorCode(frame::number(payload)?);
                if let Some(stream) = self.streams.remove(&header.stream) {
                    self.patience.progressed();
                    events.reset(stream.token, Reset::Code(code));
                }
                Ok(())
            }
            kind::SETTINGS => self.settings(header, payload),
            kind::PING => self.ping(header, payload),
            kind::GOAWAY => self.went_away(payload, events),
            kind::WINDOW_UPDATE => self.window_update(header.stream, frame::number(payload)?),
            kind::PUSH_PROMISE => Err(ConnectionError::protocol("the server pushes although that was switched off")),
            _ => Ok(()),
        }
    }

    fn begin_block<E: Events>(
        &mut self,
        header: FrameHeader,
        block: &[u8],
        events: &mut E,
    ) -> Result<(), ConnectionError> {
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.block(header.stream, block, end, events);
        }
        self.fragment = Some(Fragment { stream: header.stream, end, bytes: block.to_vec() });
        Ok(())
    }

    fn continue_block<E: Events>(
        &mut self,
        header: FrameHeader,
        block: &[u8],
        events: &mut E,
    ) -> Result<(), ConnectionError> {
        let Some(mut fragment) = self.fragment.take() else { return Ok(()) };
        fragment.bytes.extend_from_slice(block);
        if fragment.bytes.len() > MAX_CONTROL {
            let reason = format!("a header block is longer than {MAX_CONTROL} bytes");
            return Err(ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason));
        }
        if header.has(flag::END_HEADERS) {
            return self.block(fragment.stream, &fragment.bytes, fragment.end, events);
        }
        self.fragment = Some(fragment);
        Ok(())
    }

    fn block<E: Events>(&mut self, id: u32, block: &[u8], end: bool, events: &mut E) -> Result<(), ConnectionError> {
        // Blocks of closed streams change the table too.
        self.decoder.decode(block, &mut self.headers)?;
        if let Some(stream) = self.streams.get(&id) {
            let token = stream.token;
            if end {
                self.patience.progressed();
                self.ended_by_peer(id);
            }
            events.headers(token, &self.headers, end);
        }
        Ok(())
    }

    /// The peer has finished: whatever we still had to send is not wanted.
    fn ended_by_peer(&mut self, id: u32) {
        if let Some(stream) = self.streams.remove(&id)
            && !stream.ended
        {
            frame::put_number(self.out.copied(), kind::RST_STREAM, id, ErrorCode::CANCEL.0);
        }
    }

    fn settings(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if header.has(flag::ACK) {
            return match payload.len() {
                0 => Ok(()),
                _ => Err(ConnectionError::new(
                    ErrorCode::FRAME_SIZE_ERROR,
                    "an acknowledgement of settings has contents",
                )),
            };
        }
        let before = i64::from(self.peer.initial_window);
        self.peer.apply(payload)?;
        self.settled = true;
        let change = i64::from(self.peer.initial_window) - before;
        for stream in self.streams.values_mut() {
            stream.send_window += change;
            if stream.send_window > i64::from(MAX_31_BITS) {
                return Err(window_error());
            }
        }
        frame::put(self.out.copied(), kind::SETTINGS, flag::ACK, 0, &[]);
        self.patience.answered(self.out.appended())?;
        self.pump();
        Ok(())
    }

    fn ping(&mut self, header: FrameHeader, payload: &[u8]) -> Result<(), ConnectionError> {
        if payload.len() != 8 {
            let reason = format!("a PING has {} bytes instead of 8", payload.len());
            return Err(ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, reason));
        }
        if !header.has(flag::ACK) {
            frame::put(self.out.copied(), kind::PING, flag::ACK, 0, payload);
            self.patience.answered(self.out.appended())?;
        }
        Ok(())
    }

    fn went_away<E: Events>(&mut self, payload: &[u8], events: &mut E) -> Result<(), ConnectionError> {
        let Some((numbers, text)) = payload.split_at_checked(8) else {
            return Err(ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, "a GOAWAY has less than 8 bytes"));
        };
        let last = frame::number(&numbers[..4])? & MAX_31_BITS;
        let code = ErrorCode(frame::number(&numbers[4..])?);
        let goaway = self.goaway.insert(GoAway { code, text: String::from_utf8_lossy(text).into_owned() });
        self.streams.retain(|&id, stream| {
            if id > last {
                events.reset(stream.token, Reset::GoAway(goaway));
            }
            id <= last
        });
        Ok(())
    }

    fn window_update(&mut self, id: u32, grant: u32) -> Result<(), ConnectionError> {
        let grant = i64::from(grant & MAX_31_BITS);
        if grant == 0 {
            return Err(ConnectionError::protocol("a window is widened by nothing"));
        }
        let window = if id == 0 {
            &mut self.send_window
        } else {
            self.check_stream(id)?;
            let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
            &mut stream.send_window
        };
        *window += grant;
        if *window > i64::from(MAX_31_BITS) {
            return Err(window_error());
        }
        self.pump();
        Ok(())
    }

    /// Checks that a frame is for a stream that we opened at some time.
    fn check_stream(&self, id: u32) -> Result<(), ConnectionError> {
        if id.is_multiple_of(2) || id >= self.next_stream {
            return Err(ConnectionError::protocol(format!("a frame is for stream {id}, which was never opened")));
        }
        Ok(())
    }
}

fn window_error() -> ConnectionError {
    ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, "a window is wider than 2^31 - 1 bytes")
}
