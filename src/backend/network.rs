//! [`Network`]: what a load asks about the connections to a server.

use std::os::fd::BorrowedFd;

use crate::Backend;
use crate::clock::Stamp;

/// The connections of a backend's clients to a server on the network.
pub trait Network: Send + Sync {
    /// Whether the server has ended every connection that requests used, and none will be reopened: the load then
    /// cannot continue.
    fn is_gone(&self) -> bool;

    /// The most connections used by requests at once since the last call.
    fn connections(&self) -> usize;

    /// Whether lost connections are reopened: the load then continues without the server, which may come back.
    fn awaits_server(&self) -> bool;
}

/// What a driven client waits for: whoever drives several waits for all of them at once.
pub struct Awaited<'a> {
    /// The socket that brings something, if there is one.
    pub socket: Option<BorrowedFd<'a>>,
    /// Whether it also waits for room to write.
    pub writes: bool,
    /// When it goes on, even if the socket is silent.
    pub until: Stamp,
}

impl Awaited<'_> {
    /// Nothing.
    pub const NOTHING: Self = Self { socket: None, writes: false, until: Stamp::NEVER };
}

/// What [`Backend::network`] says, and the answers of a backend without a network.
impl dyn Backend + '_ {
    /// As [`Network::is_gone`]; a server in this process is gone when it takes the process with it.
    pub fn is_gone(&self) -> bool {
        self.network().map_or_else(|| self.is_dying(), Network::is_gone)
    }

    /// As [`Network::connections`]; `None` without a network.
    pub fn connections(&self) -> Option<usize> {
        self.network().map(Network::connections)
    }

    /// As [`Network::awaits_server`]; a server in this process does not come back.
    pub fn awaits_server(&self) -> bool {
        self.network().is_some_and(Network::awaits_server)
    }
}
