//! Waiting for sockets, to the nanosecond: many at once through epoll, or one.
//!
//! `epoll_wait` counts in milliseconds, and a request that is due in half of one cannot wait for the whole. `epoll_pwait2`
//! is missing in older kernels, under valgrind and where a container's rules do not know it. So whole milliseconds are
//! waited for by `epoll_wait`, and what is left of the last one by `ppoll` on the epoll itself, which is in every kernel.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::backend::Awaited;
use crate::clock::Stamp;

/// Maximum number of events per wait.
const EVENTS: usize = 64;
/// What `epoll_wait` counts in.
const NS_PER_MS: u64 = 1_000_000;
/// How long one `epoll_wait` may take, in milliseconds: it counts them in 31 bits.
const LONGEST: u64 = 1_000_000_000;

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

    /// Has `token` reported when `socket` is ready for one of `awaited`, until it is closed.
    ///
    /// # Errors
    /// As the system answers.
    pub fn watch(&self, socket: impl AsFd, token: usize, awaited: PollFlags) -> io::Result<()> {
        let (data, mut flags) = (EventData::new_u64(token as u64), EventFlags::empty());
        flags.set(EventFlags::IN, awaited.contains(PollFlags::IN));
        flags.set(EventFlags::OUT, awaited.contains(PollFlags::OUT));
        match epoll::modify(&self.epoll, &socket, data, flags) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.epoll, &socket, data, flags)?),
            done => Ok(done?),
        }
    }

    /// Waits until something is ready or `until` has passed. Returns how many are ready; see [`Poller::ready`].
    ///
    /// # Errors
    /// As the system answers; an interrupted wait is not an error.
    pub fn wait(&mut self, until: Stamp) -> io::Result<usize> {
        if until == Stamp::NEVER {
            return self.collect(None);
        }
        let left = until.since(Stamp::now());
        let (whole, part) = ((left / NS_PER_MS).min(LONGEST), left % NS_PER_MS);
        if whole > 0 || part == 0 {
            let limit = Timespec { tv_sec: (whole / 1000) as i64, tv_nsec: (whole % 1000 * NS_PER_MS) as i64 };
            if self.collect(Some(limit))? > 0 || part == 0 {
                return Ok(self.ready.len());
            }
        }
        self.ready.clear();
        match wait_for(Some(self.epoll.as_fd()), PollFlags::IN, until)? {
            true => self.collect(Some(Timespec::default())),
            false => Ok(0),
        }
    }

    /// Notes what is ready, or gets so within `limit`, which is in whole milliseconds. Returns how many.
    fn collect(&mut self, limit: Option<Timespec>) -> io::Result<usize> {
        self.ready.clear();
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut events[..], limit.as_ref()) {
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

impl AsFd for Poller {
    /// Readable while one of its sockets is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// The most clients that [`wait_for_any`] waits for.
pub const MOST_CLIENTS: usize = 64;

/// Waits until one of these clients can go on, or `until` has passed. Returns which can, as bits by their places.
///
/// # Errors
/// As the system answers; an interrupted wait is not an error.
pub fn wait_for_any<'a>(clients: impl Iterator<Item = Awaited<'a>>, until: Stamp) -> io::Result<u64> {
    let mut sockets = ArrayVec::<PollFd<'a>, MOST_CLIENTS>::new();
    let mut places = ArrayVec::<usize, MOST_CLIENTS>::new();
    let mut due = ArrayVec::<Stamp, MOST_CLIENTS>::new();
    for (index, awaited) in clients.take(MOST_CLIENTS).enumerate() {
        due.push(awaited.until);
        if let Some(socket) = awaited.socket {
            let flags = if awaited.writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            sockets.push(PollFd::from_borrowed_fd(socket, flags));
            places.push(index);
        }
    }
    poll_until(&mut sockets, due.iter().copied().fold(until, Stamp::min))?;
    let is_ready = |socket: &PollFd<'_>| !socket.revents().is_empty();
    let ready = places.iter().zip(&sockets).filter(|(_, socket)| is_ready(socket)).map(|(&index, _)| index);
    let now = Stamp::now();
    let overdue = due.iter().enumerate().filter(|(_, due)| **due <= now).map(|(index, _)| index);
    Ok(ready.chain(overdue).fold(0, |bits, index| bits | 1 << index))
}

/// Waits until `socket` is ready for one of `awaited`, or `until` has passed; without a socket, just until then. Returns
/// whether the socket is ready.
///
/// # Errors
/// As the system answers; an interrupted wait is not an error.
pub fn wait_for(socket: Option<BorrowedFd<'_>>, awaited: PollFlags, until: Stamp) -> io::Result<bool> {
    match socket {
        Some(socket) => poll_until(&mut [PollFd::from_borrowed_fd(socket, awaited)], until),
        None => poll_until(&mut [], until),
    }
}

/// Returns whether any of the sockets is ready.
fn poll_until(sockets: &mut [PollFd<'_>], until: Stamp) -> io::Result<bool> {
    let limit = (until != Stamp::NEVER).then(|| {
        let left = until.from_now();
        Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) }
    });
    match poll(sockets, limit.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn timed_waits_end_when_they_should_and_not_with_the_next_millisecond() {
        let mut poller = Poller::new().unwrap();
        let (silent, _peer) = UnixStream::pair().unwrap();
        poller.watch(&silent, 7, PollFlags::IN).unwrap();
        let mut late = |wait: u64| {
            let until = Stamp::now().plus(wait);
            assert_eq!(poller.wait(until).unwrap(), 0);
            let now = Stamp::now();
            assert!(now >= until, "{wait} ns: {} ns early", until.since(now));
            now.since(until)
        };
        // The best of some: other work on the machine may take the processor away.
        for wait in [300_000, 1_300_000, 4_300_000] {
            let best = (0..50).map(|_| late(wait)).min().unwrap();
            assert!(best < 300_000, "{wait} ns: {best} ns late");
        }
    }

    #[test]
    fn what_comes_ends_a_wait_of_any_length_and_what_is_awaited_can_change() {
        let mut poller = Poller::new().unwrap();
        let (socket, mut peer) = UnixStream::pair().unwrap();
        poller.watch(&socket, 7, PollFlags::OUT).unwrap();
        assert_eq!((poller.wait(Stamp::NEVER).unwrap(), poller.ready(0)), (1, 7));
        poller.watch(&socket, 8, PollFlags::IN).unwrap();
        assert_eq!(poller.wait(Stamp(0)).unwrap(), 0);
        for wait in [900_000, 3_600_000_000_000, u64::MAX] {
            let until = Stamp(Stamp::now().0.saturating_add(wait));
            let written = thread::scope(|scope| {
                let written = scope.spawn(|| {
                    thread::sleep(Duration::from_micros(200));
                    peer.write_all(b"x").unwrap();
                });
                // On a busy machine the shortest may be over before.
                while poller.wait(until.max(Stamp::now().plus(900_000))).unwrap() == 0 {}
                written.join().is_ok()
            });
            assert!(written && poller.ready(0) == 8);
            assert_eq!(rustix::io::read(&socket, &mut [0; 8]).unwrap(), 1);
        }
    }
}
