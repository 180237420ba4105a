//! Signals that arrive more than once for one cause. `timeout` signals a process and then its group; the process that
//! does a file's runs passes on what its group was sent, too. Counted as two interrupts, they would end a run at once,
//! without its results.

use std::fs;
use std::time::Duration;

use rustix::process::getppid;

use crate::clock::Stamp;
use crate::signals::ReceivedSignal;

/// How soon after the first the second signal of one sender comes.
const AGAIN: Duration = Duration::from_millis(1);
/// How long another process may take to pass on a signal, on a busy machine.
const PASSED_ON: Duration = Duration::from_millis(250);

/// Tells the repeats of a signal from further signals.
pub struct Repeats {
    within: Duration,
    last: Option<(i32, Stamp)>,
}

impl Repeats {
    /// For this process.
    pub fn here() -> Self {
        Self::within(if is_passed_on() { PASSED_ON } else { AGAIN })
    }

    fn within(within: Duration) -> Self {
        Self { within, last: None }
    }

    /// Whether a signal repeats the one before. Keys of a terminal never do.
    pub fn contain(&mut self, received: ReceivedSignal, now: Stamp) -> bool {
        let ReceivedSignal { signal, code } = received;
        let is_repeat = code == libc::SI_USER
            && self.last.is_some_and(|(last, at)| last == signal && now < at.plus_duration(self.within));
        if !is_repeat {
            self.last = Some((signal, now));
        }
        is_repeat
    }
}

/// Whether the process above this one is the same program, which passes on signals.
fn is_passed_on() -> bool {
    let above = getppid().and_then(|pid| fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok());
    above.is_some() && above == fs::read_link("/proc/self/exe").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: i32 = libc::SI_USER;

    #[test]
    fn one_cause_counts_once_and_two_count_twice() {
        let mut repeats = Repeats::within(AGAIN);
        let at = |us: u64| Stamp(1_000_000_000 + us * 1_000);
        for ((signal, code), us, expected) in [
            // `timeout`.
            ((libc::SIGTERM, USER), 0, false),
            ((libc::SIGTERM, USER), 100, true),
            // However often it is repeated, the first one counts.
            ((libc::SIGTERM, USER), 900, true),
            ((libc::SIGTERM, USER), 1_100, false),
            // Somebody who sends two.
            ((libc::SIGINT, USER), 1_200, false),
            ((libc::SIGINT, USER), 5_000, false),
            // A terminal, and a launcher that passes it on.
            ((libc::SIGINT, libc::SI_KERNEL), 100_000, false),
            ((libc::SIGINT, USER), 100_100, true),
            ((libc::SIGINT, libc::SI_KERNEL), 100_200, false),
        ] {
            assert_eq!(
                repeats.contain(ReceivedSignal { signal, code }, at(us)),
                expected,
                "{signal} {code} at {us} us"
            );
        }
    }
}
