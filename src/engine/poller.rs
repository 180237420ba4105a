//! Waiting for sockets: many at once through epoll, or one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::Stamp;
use crate::engine::Stream;

/// Maximum number of events per wait.
const EVENTS: usize = 64;

/// Time left until `until`; `None` if it never comes.
fn timeout(until: Stamp) -> Option<Timespec> {
    if until == Stamp::NEVER {
        return None;
    }
    let left = until.from_now();
    Some(Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) })
}

/// Waits for many sockets at once. Level-triggered: a socket with unread bytes is reported again.
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<usize>,
}

impl Poller {
    /// A poller that watches nothing yet.
    ///
    /// # Errors
    /// If the system is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, ready: Vec::with_capacity(EVENTS) })
    }

    /// Watches `stream` for bytes to read until it is closed; it is reported as `token`.
    ///
    /// # Errors
    /// As the system answers.
    pub fn add(&self, stream: &Stream, token: usize) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, stream.as_fd(), EventData::new_u64(token as u64), EventFlags::IN)?)
    }

    /// Sets whether `stream` is also reported when it accepts bytes again.
    ///
    /// # Errors
    /// As the system answers.
    pub fn watch_writes(&self, stream: &Stream, token: usize, writes: bool) -> io::Result<()> {
        let flags = if writes { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, stream.as_fd(), EventData::new_u64(token as u64), flags)?)
    }

    /// Waits until something is ready or `until` has passed. Returns how many are ready; see [`Poller::ready`].
    ///
    /// # Errors
    /// As the system answers; an interrupted wait is not an error.
    pub fn wait(&mut self, until: Stamp) -> io::Result<usize> {
        self.ready.clear();
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut events[..], timeout(until).as_ref()) {
            Ok((ready, _)) => self.ready.extend(ready.iter().map(|event| event.data.u64() as usize)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.ready.len())
    }

    /// The token of a socket that is ready.
    pub fn ready(&self, index: usize) -> usize {
        self.ready[index]
    }
}

/// Waits until `stream` can be read (or, with `writes`, written), or `until` has passed; without a stream, just until
/// then. Returns whether the stream is ready.
///
/// # Errors
/// As the system answers; an interrupted wait is not an error.
pub fn wait_for(stream: Option<&Stream>, writes: bool, until: Stamp) -> io::Result<bool> {
    let flags = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let limit = timeout(until);
    let result = match stream {
        Some(stream) => poll(&mut [PollFd::new(stream, flags)], limit.as_ref()),
        None => poll(&mut [], limit.as_ref()),
    };
    match result {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
