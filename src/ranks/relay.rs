//! [`Peers`] for a process that another one has started for one of several runs (`--config`). MPI can be entered only
//! once in a job, so the process that the launcher started stays in it, and relays what its child sends and receives.
//! They are connected by a socket, which the child has in place of standard input.
//!
//! A message is its kind and its parts, each with its length in front.

use std::cell::RefCell;
use std::io::{self, Read, Write, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::{POLL, Part, Peers};

/// Set for a process whose standard input is such a socket.
const VARIABLE: &str = "TRITON_BENCH_RELAYED";
/// Time limit for answers to requests other than an exchange.
const LIMIT: Duration = Duration::from_secs(15);
/// How often the measuring process is polled.
const IDLE: Duration = Duration::from_millis(20);
/// An exchange is polled without a pause for this long, because clocks are compared by how soon it is over.
const EAGER: Duration = Duration::from_millis(1);

/// Bytes per read.
const READ: usize = 1 << 16;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The process' part: rank and size. The first message.
    Part = 1,
    /// The process sends a value to all.
    Send,
    /// Everybody's values.
    Received,
    /// The process asks who is missing, and receives the answer.
    Missing,
    /// The process ends all processes.
    Abort,
    /// The process leaves the others, and receives the confirmation.
    Leave,
    /// The others cannot be reached, for a reason.
    Failed,
}

const KINDS: [Kind; 7] =
    [Kind::Part, Kind::Send, Kind::Received, Kind::Missing, Kind::Abort, Kind::Leave, Kind::Failed];

/// One end of the socket.
struct RelaySocket {
    stream: UnixStream,
    /// Received bytes of incomplete messages.
    come: Vec<u8>,
}

impl RelaySocket {
    fn new(stream: UnixStream) -> Self {
        Self { stream, come: Vec::new() }
    }

    fn send(&mut self, kind: Kind, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = vec![kind as u8];
        bytes.extend(number(parts.len()));
        for part in parts.iter().map(AsRef::as_ref) {
            bytes.extend(number(part.len()));
            bytes.extend(part);
        }
        self.stream.write_all(&bytes)
    }

    /// The next message, if it comes within this time.
    fn receive(&mut self, within: Duration) -> io::Result<Option<(Kind, Vec<Vec<u8>>)>> {
        if let Some(message) = self.next()? {
            return Ok(Some(message));
        }
        let within = Timespec::try_from(within).ok();
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], within.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            polled => polled?,
        };
        let mut bytes = vec![0; READ];
        match self.stream.read(&mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.come.extend(&bytes[..count]);
                self.next()
            }
        }
    }

    fn next(&mut self) -> io::Result<Option<(Kind, Vec<Vec<u8>>)>> {
        let mut remaining = self.come.as_slice();
        let mut parts = Vec::new();
        let Some((&kind, after)) = remaining.split_first() else { return Ok(None) };
        remaining = after;
        let Some(count) = number(&mut remaining) else { return Ok(None) };
        for _ in 0..count {
            let Some(length) = number(&mut remaining) else { return Ok(None) };
            let Some((part, after)) = remaining.split_at_checked(length) else { return Ok(None) };
            parts.push(part.to_vec());
            remaining = after;
        }
        let read = self.come.len() - remaining.len();
        self.come.drain(..read);
        let kind = KINDS.into_iter().find(|candidate| *candidate as u8 == kind);
        kind.map(|kind| Some((kind, parts))).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn number(bytes: &mut &[u8]) -> Option<usize> {
    let (head, tail) = bytes.split_first_chunk()?;
    *bytes = tail;
    Some(u32::from_le_bytes(*head) as usize)
}

/// The other processes, seen from one whose parent is in the MPI job.
pub struct OverParent {
    line: RefCell<RelaySocket>,
    part: Part,
}

impl OverParent {
    /// The connection over the parent, if this process was started for one of several runs.
    ///
    /// # Errors
    /// The parent does not answer.
    pub fn find() -> Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let open = || -> io::Result<Self> {
            let stream = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
            let mut line = RelaySocket::new(stream);
            match line.receive(LIMIT)? {
                Some((Kind::Part, parts)) => {
                    let number = |at: usize| parts.get(at).and_then(|part| number(&mut part.as_slice()));
                    let (Some(rank), Some(size)) = (number(0), number(1)) else {
                        return Err(io::ErrorKind::InvalidData.into());
                    };
                    Ok(Self { line: RefCell::new(line), part: Part { rank, size } })
                }
                _ => Err(io::ErrorKind::TimedOut.into()),
            }
        };
        open().map(Some).map_err(|error| broken(&error))
    }

    fn ask(&self, kind: Kind) -> Result<Vec<Vec<u8>>> {
        let mut line = self.line.borrow_mut();
        line.send(kind, &[[0; 0]; 0]).map_err(|error| broken(&error))?;
        let limit = Stamp::now().plus_duration(LIMIT);
        while Stamp::now() < limit {
            match line.receive(IDLE).map_err(|error| broken(&error))? {
                Some((answer, parts)) if answer == kind => return Ok(parts),
                // A pending exchange is of no use any more.
                Some(_) | None => {}
            }
        }
        Err(broken(&io::ErrorKind::TimedOut.into()))
    }
}

fn broken(error: &io::Error) -> Error {
    Error::machine(format!("the process that is in the MPI job for this one cannot be reached: {error}"))
}

impl Peers for OverParent {
    fn part(&self) -> Part {
        self.part
    }

    fn begin(&self, message: Vec<u8>) -> Result<()> {
        self.line.borrow_mut().send(Kind::Send, &[message]).map_err(|error| broken(&error))
    }

    fn poll(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let come = self.line.borrow_mut().receive(Duration::ZERO).map_err(|error| broken(&error))?;
        match come {
            Some((Kind::Received, parts)) => Ok(Some(parts)),
            Some((Kind::Failed, parts)) => Err(Error::machine(String::from_utf8_lossy(&parts.concat()).into_owned())),
            Some(_) | None => Ok(None),
        }
    }

    fn missing(&self) -> Vec<usize> {
        let parts = self.ask(Kind::Missing).unwrap_or_default();
        parts.iter().filter_map(|part| number(&mut part.as_slice())).collect()
    }

    fn abort(&self, code: u8) {
        // No answer comes: the parent ends all.
        drop(self.line.borrow_mut().send(Kind::Abort, &[[code]]));
        thread::sleep(LIMIT);
    }

    fn leave(&self) -> Result<()> {
        self.ask(Kind::Leave).map(drop)
    }
}

/// Starts processes one after the other, and represents them in the MPI job.
pub struct Relay<P> {
    peers: P,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It had left the others before.
    InOrder,
    /// The others wait for it.
    Unfinished,
}

impl<P: Peers> Relay<P> {
    /// In the job of `peers`.
    pub fn new(peers: P) -> Self {
        Self { peers }
    }

    /// Starts `command`, which reaches the others through this process, calls `started` with it, and serves it until it
    /// has ended.
    ///
    /// # Errors
    /// It cannot be started, or waited for.
    pub fn serve(&self, command: &mut Command, started: impl FnOnce(&Child)) -> io::Result<(Child, Left)> {
        let (parent_end, child_end) = UnixStream::pair()?;
        let child = command.env(VARIABLE, "1").stdin(OwnedFd::from(child_end)).spawn()?;
        started(&child);
        // Otherwise the command would keep its end of the socket open, and its end would not be noticed.
        command.stdin(std::process::Stdio::null());
        let mut line = RelaySocket::new(parent_end);
        let Part { rank, size } = self.peers.part();
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        line.send(Kind::Part, &[number(rank), number(size)])?;
        Ok((child, self.pass_on(&mut line)))
    }

    /// Relays messages until the process has closed its end.
    fn pass_on(&self, line: &mut RelaySocket) -> Left {
        let (mut under_way, mut left) = (None, Left::Unfinished);
        loop {
            let patience = if under_way.is_some() { Duration::ZERO } else { IDLE };
            let come = line.receive(patience);
            let passed = match come {
                Err(_) => return left,
                Ok(Some((Kind::Send, parts))) => {
                    under_way = Some(Stamp::now());
                    self.peers.begin(parts.concat()).or_else(|error| failed(line, &error))
                }
                Ok(Some((Kind::Missing, _))) => {
                    let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX).to_le_bytes();
                    let missing: Vec<[u8; 4]> = self.peers.missing().into_iter().map(number).collect();
                    under_way = None;
                    check_sent(line.send(Kind::Missing, &missing))
                }
                Ok(Some((Kind::Abort, parts))) => {
                    self.peers.abort(parts.concat().first().copied().unwrap_or(crate::exit::FAILED));
                    Ok(())
                }
                Ok(Some((Kind::Leave, _))) => {
                    left = Left::InOrder;
                    check_sent(line.send(Kind::Leave, &[[0; 0]; 0]))
                }
                Ok(Some(_) | None) => Ok(()),
            };
            let received =
                passed.and_then(|()| if under_way.is_some() { self.receive(line, &mut under_way) } else { Ok(()) });
            if received.is_err() {
                return left;
            }
        }
    }

    /// Sends everybody's values to the process, once they have arrived.
    fn receive(&self, line: &mut RelaySocket, under_way: &mut Option<Stamp>) -> Result<()> {
        match self.peers.poll() {
            Ok(Some(all)) => {
                *under_way = None;
                check_sent(line.send(Kind::Received, &all))
            }
            Ok(None) => {
                match under_way.is_some_and(|since| Stamp::now() - since < EAGER) {
                    true => thread::yield_now(),
                    false => thread::sleep(POLL),
                }
                Ok(())
            }
            Err(error) => {
                *under_way = None;
                failed(line, &error)
            }
        }
    }

    /// An exchange of this process itself, between two child processes; `None` if a rank does not answer.
    pub fn exchange(&self, byte: u8, within: Duration) -> Option<Vec<u8>> {
        self.peers.begin(vec![byte]).ok()?;
        let limit = Stamp::now().plus_duration(within);
        while Stamp::now() < limit {
            if let Some(all) = self.peers.poll().ok()? {
                return all.iter().map(|message| message.first().copied()).collect();
            }
            thread::sleep(POLL);
        }
        None
    }

    /// The others, to be left or ended.
    pub fn peers(&self) -> &P {
        &self.peers
    }
}

fn check_sent(sent: io::Result<()>) -> Result<()> {
    sent.map_err(|error| broken(&error))
}

fn failed(line: &mut RelaySocket, error: &Error) -> Result<()> {
    check_sent(line.send(Kind::Failed, &[error.to_string()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::apart;

    #[test]
    fn what_is_said_and_heard_over_a_parent_is_what_is_said() {
        let received = apart(3, |peers, rank| {
            let (parent_end, child_end) = UnixStream::pair().unwrap();
            thread::scope(|scope| {
                let child = scope.spawn(move || {
                    let over =
                        OverParent { line: RefCell::new(RelaySocket::new(child_end)), part: Part { rank, size: 3 } };
                    over.begin(vec![rank as u8; 70_000 * rank]).unwrap();
                    let all = loop {
                        if let Some(all) = over.poll().unwrap() {
                            break all;
                        }
                    };
                    over.leave().unwrap();
                    all.iter().map(Vec::len).collect::<Vec<_>>()
                });
                let left = Relay::new(Boxed(peers)).pass_on(&mut RelaySocket::new(parent_end));
                (child.join().unwrap(), left)
            })
        });
        assert!(received.iter().all(|received| *received == (vec![0, 70_000, 140_000], Left::InOrder)), "{received:?}");
    }

    struct Boxed(Box<dyn Peers>);

    impl Peers for Boxed {
        fn part(&self) -> Part {
            self.0.part()
        }
        fn begin(&self, message: Vec<u8>) -> Result<()> {
            self.0.begin(message)
        }
        fn poll(&self) -> Result<Option<Vec<Vec<u8>>>> {
            self.0.poll()
        }
        fn missing(&self) -> Vec<usize> {
            self.0.missing()
        }
        fn abort(&self, code: u8) {
            self.0.abort(code);
        }
        fn leave(&self) -> Result<()> {
            self.0.leave()
        }
    }
}
