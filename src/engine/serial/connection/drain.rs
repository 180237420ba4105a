//! The bytes that still come of an answer that is over: they are discarded before the connection's next request leaves.

use std::io::{ErrorKind, Read};

use crate::clock::Stamp;
use crate::serial::connection::SerialConnection;
use crate::serial::{Dialogue, Step};

impl SerialConnection {
    /// Whether a finished answer still has bytes to come.
    #[inline]
    pub(in crate::serial) fn has_rest(&self) -> bool {
        self.rest_until.is_some()
    }

    /// When the connection is closed because of that.
    pub(in crate::serial) fn rest_due(&self) -> Stamp {
        self.rest_until.unwrap_or(Stamp::NEVER)
    }

    /// Whether another request can leave: the rest has arrived, or the connection was closed because of it.
    pub(in crate::serial) fn is_settled<D: Dialogue>(&mut self, dialogue: &mut D, buffer: &mut [u8]) -> bool {
        let overdue = self.rest_due() <= Stamp::now();
        if self.holds_bytes() || self.is_readable() {
            self.pass_over(dialogue, buffer);
        }
        if self.has_rest() && overdue {
            self.hang_up();
        }
        !self.has_rest()
    }

    /// Reads what has arrived of the rest. Bytes that do not belong to it close the connection, as its end does; the answer
    /// stays good.
    pub(in crate::serial) fn pass_over<D: Dialogue>(&mut self, dialogue: &mut D, buffer: &mut [u8]) {
        let Some(stream) = &mut self.stream else { return self.hang_up() };
        let read = match stream.read(buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(count) if count > 0 => dialogue.receive_rest(self.number, &buffer[..count]).ok(),
            _ => None,
        };
        match read {
            Some(Step::Whole) => self.rest_until = None,
            Some(_) if Stamp::now() < self.rest_due() => {}
            _ => self.hang_up(),
        }
    }
}
