//! [`Connecting`]: a connection that is being made, step by step, none of which waits.
//!
//! The thread that needs it has requests to send and answers to read meanwhile: a server that takes no connections, or is slow at
//! its handshakes, holds up only the requests that wait for them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use base::debug;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use crate::clock::Stamp;
use crate::limits;
use crate::{ConnectionTally, Connector, Deadline, Stream};

/// How often a connection is begun that the server resets.
pub(super) const ATTEMPTS: u32 = 3;
/// Pause after each time.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);

/// Connects, without Nagle's delay, and performs the TLS handshake, all until `deadline`, and waits for that.
///
/// # Errors
/// As [`Connecting::proceed`], and where the name cannot be looked up or the user interrupts.
pub fn connect(connector: &Connector, deadline: Deadline) -> io::Result<Stream> {
    connector.resolve(deadline)?;
    let mut connecting = Connecting::start(connector, deadline.planned_end())?;
    loop {
        match connecting.proceed(connector)? {
            Progress::Made(stream) => return Ok(stream),
            Progress::Pending(further) => connecting = further,
        }
        deadline.nap(&connecting, connecting.awaited())?;
    }
}

/// Makes a connection before a load. One that the server resets meanwhile is begun again, and in the end left to the first request
/// that needs it, if the server has taken another. Returns whether it was made.
///
/// # Errors
/// What keeps it from being made.
pub(super) fn made_or_left<E>(
    tally: &ConnectionTally,
    attempts: u32,
    mut make: impl FnMut() -> Result<(), E>,
    is_reset: impl Fn(&E) -> bool,
) -> Result<bool, E> {
    for _ in 1..attempts {
        match make() {
            Err(error) if is_reset(&error) => thread::sleep(ATTEMPT_PAUSE),
            made => return made.map(|()| true),
        }
    }
    match make() {
        Err(error) if is_reset(&error) && tally.was_reached() => Ok(false),
        made => made.map(|()| true),
    }
}

/// A connection that is being made.
pub struct Connecting {
    end: Stamp,
    step: Step,
}

enum Step {
    /// An address was asked for a connection.
    Asking(Asking),
    /// It has accepted one, and the TLS handshake waits for the socket.
    ShakingHands(Stream, PollFlags),
}

/// How far a connection is.
pub enum Progress<C, S> {
    /// It is there.
    Made(S),
    /// It waits for its socket.
    Pending(C),
}

impl Connecting {
    /// Begins to connect to one of the connector's addresses, which must be known. It must be there at `end`.
    ///
    /// # Errors
    /// As [`Connecting::proceed`].
    pub fn start(connector: &Connector, end: Stamp) -> io::Result<Self> {
        let first = connector.first();
        Ok(Self { end, step: Step::Asking(Asking::begin(connector, Turn { first, tried: 0 }, end)?) })
    }

    /// Goes as far as it can without waiting.
    ///
    /// # Errors
    /// The last address's error; see [`crate::failure`] for its meaning.
    pub fn proceed(self, connector: &Connector) -> io::Result<Progress<Self, Stream>> {
        let end = self.end;
        let mut stream = match self.step {
            Step::ShakingHands(stream, _) => stream,
            Step::Asking(asking) => match asking.answer(connector, end)? {
                Progress::Made(socket) => connector.greet(socket)?,
                Progress::Pending(asking) => {
                    return Ok(Progress::Pending(Self { end, step: Step::Asking(asking) }));
                }
            },
        };
        match stream.shake_hands()? {
            None => Ok(Progress::Made(stream)),
            Some(_) if Stamp::now() >= end => Err(ErrorKind::TimedOut.into()),
            Some(awaited) => Ok(Progress::Pending(Self { end, step: Step::ShakingHands(stream, awaited) })),
        }
    }

    /// What its socket must be ready for before it can go on.
    pub fn awaited(&self) -> PollFlags {
        match self.step {
            Step::Asking(_) => PollFlags::OUT,
            Step::ShakingHands(_, awaited) => awaited,
        }
    }

    /// When it goes on, or fails, even if the socket is silent.
    pub fn due(&self) -> Stamp {
        match &self.step {
            Step::Asking(asking) => asking.until,
            Step::ShakingHands(..) => self.end,
        }
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.step {
            Step::Asking(asking) => asking.socket.as_fd(),
            Step::ShakingHands(stream, _) => stream.as_fd(),
        }
    }
}

/// An address that was asked for a connection.
struct Asking {
    socket: TcpStream,
    address: SocketAddr,
    turn: Turn,
    /// Until when it may take: an address that swallows packets must leave time for the others.
    until: Stamp,
}

/// An address's place among those of its host.
#[derive(Clone, Copy)]
struct Turn {
    /// Number of the address that was tried first.
    first: usize,
    /// How many were tried before this one.
    tried: usize,
}

impl Asking {
    /// Asks the address whose turn it is, or the first of those after it that can be asked at all.
    fn begin(connector: &Connector, turn: Turn, end: Stamp) -> io::Result<Self> {
        let addresses = connector.addresses();
        let mut last = io::Error::new(ErrorKind::NotFound, "the host name has no address");
        for tried in turn.tried..addresses.len() {
            let (turn, left) = (Turn { tried, ..turn }, addresses.len() - tried);
            let now = Stamp::now();
            let until = now.plus(end.since(now) / left as u64);
            let begun = nonblocking(addresses[turn.number(addresses.len())])
                .map(|(socket, address)| Self { socket, address, turn, until })
                .and_then(|asking| asking.has_answered().map(|_| asking));
            match begun {
                Ok(asking) => return Ok(asking),
                Err(error) => {
                    debug!("{} cannot be asked: {error}", addresses[turn.number(addresses.len())]);
                    last = error;
                }
            }
        }
        Err(last)
    }

    /// Whether there is a connection. The kernel is asked for it again, which is how it says what became of the first time.
    fn has_answered(&self) -> io::Result<bool> {
        match net::connect(&self.socket, &self.address) {
            Ok(()) | Err(Errno::ISCONN) => Ok(true),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) if Stamp::now() < self.until => Ok(false),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => Err(ErrorKind::TimedOut.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Its socket once it has answered; where it refuses or takes too long, the next address is asked.
    fn answer(mut self, connector: &Connector, end: Stamp) -> io::Result<Progress<Self, TcpStream>> {
        let number = connector.addresses().len();
        loop {
            self = match self.has_answered() {
                Ok(true) => {
                    connector.note_answered(self.turn.number(number));
                    return Ok(Progress::Made(self.socket));
                }
                Ok(false) => return Ok(Progress::Pending(self)),
                Err(error) if self.turn.tried + 1 == number => return Err(error),
                Err(error) => {
                    debug!("{} does not answer: {error}", self.address);
                    Self::begin(connector, Turn { tried: self.turn.tried + 1, ..self.turn }, end)?
                }
            };
        }
    }
}

impl Turn {
    /// The address's number of so many.
    fn number(self, addresses: usize) -> usize {
        (self.first + self.tried) % addresses
    }
}

/// A socket for connections to an address, without Nagle's delay.
fn nonblocking(address: SocketAddr) -> io::Result<(TcpStream, SocketAddr)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
        .map_err(|error| limits::explained(error.into()))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok((socket.into(), address))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TalliedConnection;

    #[test]
    fn a_connection_that_is_reset_is_begun_again_and_left_where_another_was_made() {
        let tally = Arc::new(ConnectionTally::default());
        let made = |resets: u32, then: Result<(), ErrorKind>| {
            let mut attempts = 0;
            let make = || {
                attempts += 1;
                if attempts <= resets { Err(ErrorKind::ConnectionReset) } else { then }
            };
            let outcome = made_or_left(&tally, ATTEMPTS, make, |kind| *kind == ErrorKind::ConnectionReset);
            (outcome, attempts)
        };
        let refused = |resets| made(resets, Err(ErrorKind::ConnectionRefused));
        let not_made = Err(ErrorKind::ConnectionRefused);
        assert_eq!((refused(0), refused(1)), ((not_made, 1), (not_made, 2)));
        assert_eq!(made(1, Ok(())), (Ok(true), 2));
        assert_eq!(made(9, Ok(())), (Err(ErrorKind::ConnectionReset), ATTEMPTS));
        TalliedConnection::new(&tally).open();
        assert_eq!(made(9, Ok(())), (Ok(false), ATTEMPTS));
    }
}
