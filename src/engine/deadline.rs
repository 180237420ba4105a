//! [`Deadline`]: when an exchange with the server must be over, even if bytes keep trickling in.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::clock::Stamp;
use crate::interrupt;

/// Time that an interrupt leaves to an exchange: enough for a server that answers.
const AFTER_INTERRUPT: Duration = Duration::from_millis(500);
/// How often a wait checks for an interrupt.
pub(super) const INTERRUPT_POLL: Duration = Duration::from_millis(20);

/// When an exchange with the server must be over: one moment for all its steps, and soon after an interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    begun: Stamp,
    end: Stamp,
}

impl Deadline {
    /// For an exchange that begins now and may take `limit`.
    pub fn within(limit: Duration) -> Self {
        let begun = Stamp::now();
        Self { begun, end: begun.plus_duration(limit) }
    }

    /// The deadline of a step that begins now and must leave as much time for each of `parts - 1` others.
    pub fn share(self, parts: usize) -> Self {
        let now = Stamp::now();
        let share = self.end.since(now) / parts.max(1) as u64;
        Self { begun: self.begun, end: now.plus(share) }
    }

    /// The deadline of a step that begins now and may take `limit`.
    pub fn at_most(self, limit: Duration) -> Self {
        Self { begun: self.begun, end: self.end.min(Stamp::now().plus_duration(limit)) }
    }

    /// The moment itself, which an interrupt brings forward.
    pub fn end(self) -> Stamp {
        self.end_after(interrupt::hurried())
    }

    fn end_after(self, interrupt: Stamp) -> Stamp {
        self.end.min(interrupt.max(self.begun).plus_duration(AFTER_INTERRUPT))
    }

    /// Fails once the deadline has passed.
    ///
    /// # Errors
    /// Says whether time is up or the user has interrupted.
    pub fn check(self) -> io::Result<()> {
        match Stamp::now() {
            now if now < self.end() => Ok(()),
            now if now < self.end => Err(io::Error::other("the user interrupted before the server had answered")),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// Waits until `socket` is ready for one of `flags`.
    ///
    /// # Errors
    /// As [`Deadline::check`], and errors of the system.
    pub fn wait(self, socket: impl AsFd, flags: PollFlags) -> io::Result<()> {
        loop {
            self.check()?;
            let nap = self.end().from_now().min(INTERRUPT_POLL);
            let nap = Timespec { tv_sec: 0, tv_nsec: i64::from(nap.subsec_nanos()) };
            match poll(&mut [PollFd::new(&socket, flags)], Some(&nap)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_leaves_a_moment_and_never_more_than_there_was() {
        let deadline = Deadline { begun: Stamp(1_000), end: Stamp(10_000_000_000) };
        let moment = AFTER_INTERRUPT.as_nanos() as u64;
        assert_eq!(deadline.end_after(Stamp::NEVER), deadline.end);
        assert_eq!(deadline.end_after(Stamp(5_000)), Stamp(5_000 + moment));
        assert_eq!(deadline.end_after(Stamp(1)), Stamp(1_000 + moment), "what begins after it has its moment, too");
        assert_eq!(deadline.end_after(Stamp(9_999_999_999)), deadline.end);
    }

    #[test]
    fn what_never_comes_is_waited_for_until_the_end() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let started = Stamp::now();
        let error = Deadline::within(Duration::from_millis(60)).wait(&silent, PollFlags::IN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(Stamp::now() - started >= Duration::from_millis(60));
    }

    #[test]
    fn steps_share_what_is_left() {
        let deadline = Deadline::within(Duration::from_secs(100));
        let half = deadline.share(2);
        assert!((45..=50).contains(&half.end.from_now().as_secs()), "{half:?}");
        let step = deadline.at_most(Duration::from_secs(7));
        assert!((5..=7).contains(&step.end.from_now().as_secs()), "{step:?}");
        assert_eq!(step.at_most(Duration::from_secs(70)).end, step.end);
        assert_eq!(Deadline::within(Duration::ZERO).share(3).check().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
