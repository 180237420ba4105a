//! [`Deadline`]: when an exchange with the server must be over, even if bytes keep trickling in.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::PollFlags;

use crate::clock::Stamp;
use crate::error::BROKEN_OFF;
use crate::interrupt;
use crate::wait_for;

/// Time that an interrupt leaves to an exchange: enough for a server that answers.
const AFTER_INTERRUPT: Duration = Duration::from_millis(500);
/// How often a wait checks for an interrupt.
pub(super) const INTERRUPT_POLL: Duration = Duration::from_millis(20);
/// How often one does that takes long: thousands that wait for a server should not wake all the time.
const SLOWEST_POLL: Duration = Duration::from_millis(200);

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

    /// The deadline of a step that begins now and may take `limit`.
    pub fn at_most(self, limit: Duration) -> Self {
        Self { begun: self.begun, end: self.end.min(Stamp::now().plus_duration(limit)) }
    }

    /// The moment itself, whatever the user does meanwhile.
    pub(super) fn planned_end(self) -> Stamp {
        self.end
    }

    /// The moment, which an interrupt brings forward.
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
            now if now < self.end => Err(io::Error::other(BROKEN_OFF)),
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
            if self.nap(&socket, flags)? {
                return Ok(());
            }
        }
    }

    /// The same, but only for a moment; returns whether the socket is ready.
    ///
    /// # Errors
    /// Errors of the system, and whether the user has interrupted.
    pub(super) fn nap(self, socket: impl AsFd, flags: PollFlags) -> io::Result<bool> {
        let now = Stamp::now();
        let pause = ((now - self.begun) / 4).clamp(INTERRUPT_POLL, SLOWEST_POLL);
        let until = self.end().min(now.plus_duration(pause));
        let ready = wait_for(Some(socket.as_fd()), flags, until)?;
        match self.check() {
            Err(error) if error.kind() != ErrorKind::TimedOut => Err(error),
            _ => Ok(ready),
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
    fn a_step_never_has_longer_than_the_whole() {
        let deadline = Deadline::within(Duration::from_secs(100));
        let step = deadline.at_most(Duration::from_secs(7));
        assert!((5..=7).contains(&step.end.from_now().as_secs()), "{step:?}");
        assert_eq!(step.at_most(Duration::from_secs(70)).end, step.end);
        assert_eq!(Deadline::within(Duration::ZERO).check().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
