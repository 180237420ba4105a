//! Frames of HTTP/2 (RFC 9113, sections 4 and 6): their nine-byte header, and the few that carry no payload of ours.

use crate::h2::error::{ConnectionError, ErrorCode};

/// Bytes of every frame's header.
pub const HEADER_LEN: usize = 9;
/// The client's first bytes (RFC 9113, section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Largest flow-control window, and largest stream number.
pub const MAX_31_BITS: u32 = 0x7fff_ffff;

/// Frame types.
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub mod flag {
    #![allow(missing_docs)]
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of payload, at most 2^24 - 1.
    pub length: u32,
    /// One of [`kind`], or unknown.
    pub kind: u8,
    /// Union of [`flag`]s.
    pub flags: u8,
    /// Stream number; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads a header from the front of `bytes`; `None` if there are too few.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        Some(Self {
            length: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]) & MAX_31_BITS,
        })
    }

    /// The header as bytes.
    #[inline]
    pub fn bytes(self) -> [u8; HEADER_LEN] {
        let length = self.length.to_be_bytes();
        let stream = self.stream.to_be_bytes();
        [length[1], length[2], length[3], self.kind, self.flags, stream[0], stream[1], stream[2], stream[3]]
    }

    /// Whether `flag` is set.
    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a whole frame.
pub fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&FrameHeader { length: payload.len() as u32, kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// Appends a frame whose payload is one 32-bit number: RST_STREAM, WINDOW_UPDATE.
pub fn put_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    put(out, kind, 0, stream, &number.to_be_bytes());
}

/// Reads a payload that is one 32-bit number.
///
/// # Errors
/// If the payload has another length.
pub fn number(payload: &[u8]) -> Result<u32, ConnectionError> {
    let bytes: [u8; 4] = payload.try_into().map_err(|_| {
        let reason = format!("a frame that holds one number has {} bytes instead of 4", payload.len());
        ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, reason)
    })?;
    Ok(u32::from_be_bytes(bytes))
}

/// Strips the padding and, for HEADERS, the priority fields from a frame's payload.
///
/// # Errors
/// If the padding is longer than the payload.
pub fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    let mut body = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (first, tail) = body.split_first().ok_or_else(padding_error)?;
        padding = usize::from(*first);
        body = tail;
    }
    if header.kind == kind::HEADERS && header.has(flag::PRIORITY) {
        body = body.get(5..).ok_or_else(padding_error)?;
    }
    let end = body.len().checked_sub(padding).ok_or_else(padding_error)?;
    Ok(&body[..end])
}

fn padding_error() -> ConnectionError {
    ConnectionError::protocol("a frame's padding is longer than the frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = FrameHeader { length: 0x01_02_03, kind: kind::DATA, flags: flag::END_STREAM, stream: 0x7fff_fffd };
        assert_eq!(FrameHeader::parse(&header.bytes()), Some(header));
        assert_eq!(FrameHeader::parse(&header.bytes()[..8]), None);
    }

    #[test]
    fn the_reserved_bit_of_the_stream_is_ignored() {
        let header = FrameHeader::parse(&[0, 0, 0, 6, 0, 0x80, 0, 0, 1]).unwrap();
        assert_eq!(header.stream, 1);
    }

    #[test]
    fn padding_is_stripped_and_checked() {
        let padded = |kind, flags| FrameHeader { length: 0, kind, flags, stream: 1 };
        assert_eq!(unpadded(padded(kind::DATA, flag::PADDED), &[2, 7, 8, 0, 0]).unwrap(), [7, 8]);
        let header = padded(kind::HEADERS, flag::PADDED | flag::PRIORITY);
        assert_eq!(unpadded(header, &[1, 0, 0, 0, 0, 9, 5, 0]).unwrap(), [5]);
        assert!(unpadded(padded(kind::DATA, flag::PADDED), &[3, 1, 2]).is_err());
        assert!(unpadded(padded(kind::DATA, flag::PADDED), &[]).is_err());
        assert!(unpadded(padded(kind::HEADERS, flag::PRIORITY), &[1, 2]).is_err());
    }
}
