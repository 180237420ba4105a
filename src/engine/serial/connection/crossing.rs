//! A request that leaves while the server closes its idle connection.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use super::SerialConnection;
use crate::Exchanges;
use crate::backend::InferError;
use crate::serial::Dialogue;
use crate::serial::common::Common;
use crate::socket::unacknowledged;

impl SerialConnection {
    /// Whether the server, which has answered on this connection, had closed it before the request reached it: its kernel has
    /// taken none of the request's bytes.
    #[cold]
    pub(super) fn has_crossed(&self) -> bool {
        let unread = self.stream.as_ref().and_then(|stream| unacknowledged(stream.as_fd()));
        !self.heard && self.tallied.has_answered() && self.written > 0 && unread >= Some(self.written)
    }

    /// The same of a connection that was reset before the first byte of the request could be written. (Of later ones a reset does not
    /// tell: it may come before the bytes that the server has read are acknowledged.)
    #[cold]
    pub(super) fn was_reset_before(&self, error: &io::Error) -> bool {
        error.kind() == ErrorKind::ConnectionReset && self.written == 0 && self.tallied.has_answered()
    }

    /// Sends a request that the server has never seen on a new connection.
    #[cold]
    pub(super) fn send_again<D: Dialogue>(
        &mut self,
        common: &Common,
        dialogue: &mut D,
        slot: usize,
        exchanges: &mut Exchanges,
    ) -> Result<(), InferError> {
        (self.stream, self.rest_until) = (None, None);
        self.tallied.end_idle();
        self.begin(common, dialogue, slot, self.total, exchanges)
    }
}
