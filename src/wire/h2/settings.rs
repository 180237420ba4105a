//! Settings of either side (RFC 9113, section 6.5).

use crate::h2::error::{ConnectionError, ErrorCode};
use crate::h2::frame::{self, MAX_31_BITS, kind};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// Largest DATA frame that we accept. Payloads are processed as they arrive, so a large frame costs no memory.
pub const OUR_MAX_FRAME: u32 = 4 << 20;

/// The peer's settings, starting from the protocol's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes that our header compression may make it store.
    pub header_table_size: u32,
    /// Streams that we may have open at once.
    pub max_concurrent_streams: u32,
    /// Bytes that we may send on a new stream before it grants more.
    pub initial_window: u32,
    /// Largest frame payload that it accepts.
    pub max_frame: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { header_table_size: 4096, max_concurrent_streams: u32::MAX, initial_window: 65_535, max_frame: 16_384 }
    }
}

impl PeerSettings {
    /// Applies the payload of a SETTINGS frame.
    ///
    /// # Errors
    /// If the payload has a wrong length or a value out of its range.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        if !payload.len().is_multiple_of(6) {
            let reason = format!("a SETTINGS frame has {} bytes, which is not a multiple of 6", payload.len());
            return Err(ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, reason));
        }
        for entry in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([entry[0], entry[1]]);
            self.set(id, u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))?;
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32) -> Result<(), ConnectionError> {
        match id {
            HEADER_TABLE_SIZE => self.header_table_size = value,
            MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                let reason = format!("an initial window of {value} bytes is above 2^31 - 1");
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, reason));
            }
            INITIAL_WINDOW_SIZE => self.initial_window = value,
            MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                return Err(ConnectionError::protocol(format!("a frame size limit of {value} is not allowed")));
            }
            MAX_FRAME_SIZE => self.max_frame = value,
            _ => {}
        }
        Ok(())
    }
}

/// Appends our SETTINGS: no push, the widest windows, large frames.
pub fn put_ours(out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(18);
    for (id, value) in [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, MAX_31_BITS), (MAX_FRAME_SIZE, OUR_MAX_FRAME)] {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame::put(out, kind::SETTINGS, 0, 0, &payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u16, value: u32) -> Vec<u8> {
        [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn known_settings_are_taken_and_unknown_ones_ignored() {
        let mut peer = PeerSettings::default();
        let payload = [entry(1, 0), entry(3, 7), entry(4, 9), entry(5, 20_000), entry(99, 1)].concat();
        peer.apply(&payload).unwrap();
        let expected =
            PeerSettings { header_table_size: 0, max_concurrent_streams: 7, initial_window: 9, max_frame: 20_000 };
        assert_eq!(peer, expected);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (payload, code) in [
            (entry(4, 1 << 31), ErrorCode::FLOW_CONTROL_ERROR),
            (entry(5, 100), ErrorCode::PROTOCOL_ERROR),
            (entry(5, 1 << 24), ErrorCode::PROTOCOL_ERROR),
            (vec![0; 5], ErrorCode::FRAME_SIZE_ERROR),
        ] {
            assert_eq!(PeerSettings::default().apply(&payload).unwrap_err().code, code);
        }
    }
}
