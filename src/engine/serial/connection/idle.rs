//! What arrives on a connection between two answers.

use std::io::{ErrorKind, Read};

use crate::serial::connection::SerialConnection;

/// Bytes without a meaning that are passed over between two answers: some servers write a line end behind a body that they did not
/// count, and it may come by itself.
pub(super) const MOST_FILLER: usize = 16;

impl SerialConnection {
    /// Checks a connection that may have waited long for its first request.
    #[cold]
    pub(super) fn look_before_first_use(&mut self) {
        if self.stream.is_some() && self.is_readable() {
            self.disturbed(&mut [0; 256], |_| false);
        }
    }

    /// Whether these bytes come between two answers and mean nothing; a server may send few of them.
    #[inline]
    pub(super) fn is_filler(&mut self, bytes: &[u8], is_filler: impl Fn(&[u8]) -> bool) -> bool {
        if !is_filler(bytes) || !self.tallied.has_answered() {
            return false;
        }
        self.filler += bytes.len();
        self.filler <= MOST_FILLER
    }

    /// Something arrived while no request was under way: the server hung up, or sends unasked. Either way the
    /// connection is of no further use, unless what it sends means nothing.
    pub(in crate::serial) fn disturbed(&mut self, buffer: &mut [u8], is_filler: impl Fn(&[u8]) -> bool) {
        let Some(stream) = &mut self.stream else { return };
        match stream.read(buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(count) if count > 0 && self.is_filler(&buffer[..count], is_filler) => {}
            Ok(count) if count > 0 => self.hang_up(),
            _ => {
                (self.stream, self.rest_until) = (None, None);
                self.tallied.end_idle();
            }
        }
    }
}
