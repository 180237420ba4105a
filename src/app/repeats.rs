//! Signals that arrive more than once for one cause. `timeout` signals a process and then its group, which takes a few
//! milliseconds where processors are busy; the process that does a file's runs passes on what its group was sent, too. Counted as
//! two interrupts, they would end a run at once, without its results.

use std::fs;
use std::time::Duration;

use rustix::process::getppid;

use crate::clock::Stamp;
use crate::signals::ReceivedSignal;

/// How soon after the first the second signal of one sender comes. Nobody who has read the answer to the first is as fast.
const AGAIN: Duration = Duration::from_millis(200);
/// How much sooner than the signal to its group what the process above passes on may arrive.
const SOONER: Duration = Duration::from_millis(250);
/// How long that process may take to pass on a signal: it may have to wait for a processor.
const PASSED_ON: Duration = Duration::from_secs(10);

/// Tells the repeats of a signal from further signals.
pub struct Repeats {
    within: Duration,
    /// The process above this one, if it is the same program, which passes on signals.
    parent: Option<i32>,
    last: Option<Counted>,
}

/// The last signal that counts.
#[derive(Clone, Copy)]
struct Counted {
    signal: i32,
    at: Stamp,
    /// Whether the process above may have been sent it, too, and has not passed it on yet.
    is_owed: bool,
}

impl Repeats {
    /// For this process.
    pub fn here() -> Self {
        Self::below(same_program_above())
    }

    fn below(parent: Option<i32>) -> Self {
        Self { within: if parent.is_some() { SOONER } else { AGAIN }, parent, last: None }
    }

    /// Whether a signal repeats the one before. Keys of a terminal never do.
    pub fn contain(&mut self, received: ReceivedSignal, now: Stamp) -> bool {
        let ReceivedSignal { signal, code, sender } = received;
        let is_passed_on = self.parent.is_some() && sender == self.parent;
        let repeated = self.last.as_mut().filter(|last| {
            let within = if is_passed_on && last.is_owed { PASSED_ON } else { self.within };
            code == libc::SI_USER && last.signal == signal && now < last.at.plus_duration(within)
        });
        let Some(last) = repeated else {
            self.last = Some(Counted { signal, at: now, is_owed: !is_passed_on });
            return false;
        };
        last.is_owed &= !is_passed_on;
        true
    }
}

/// The process above this one, if it is the same program.
fn same_program_above() -> Option<i32> {
    let above = getppid()?.as_raw_nonzero().get();
    let program = fs::read_link(format!("/proc/{above}/exe")).ok()?;
    (program == fs::read_link("/proc/self/exe").ok()?).then_some(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: i32 = libc::SI_USER;

    #[test]
    fn one_cause_counts_once_and_two_count_twice() {
        let mut repeats = Repeats::below(None);
        let at = |ms: u64| Stamp(1_000_000_000 + ms * 1_000_000);
        for ((signal, code), ms, expected) in [
            // `timeout`, on a machine that is more or less busy.
            ((libc::SIGTERM, USER), 0, false),
            ((libc::SIGTERM, USER), 0, true),
            ((libc::SIGTERM, USER), 20, true),
            // However often it is repeated, the first one counts.
            ((libc::SIGTERM, USER), 199, true),
            ((libc::SIGTERM, USER), 200, false),
            // Somebody who sends two.
            ((libc::SIGINT, USER), 210, false),
            ((libc::SIGINT, USER), 500, false),
            // A terminal, and a launcher that passes it on.
            ((libc::SIGINT, libc::SI_KERNEL), 1_000, false),
            ((libc::SIGINT, USER), 1_001, true),
            ((libc::SIGINT, libc::SI_KERNEL), 1_002, false),
        ] {
            let received = ReceivedSignal { signal, code, sender: Some(7) };
            assert_eq!(repeats.contain(received, at(ms)), expected, "{signal} {code} at {ms} ms");
        }
    }

    #[test]
    fn what_the_process_above_passes_on_late_is_no_second_interrupt() {
        let (parent, user) = (11, 12);
        let found = |signals: &[(i32, u64, bool)]| {
            let mut repeats = Repeats::below(Some(parent));
            for (sender, ms, expected) in signals {
                let received = ReceivedSignal { signal: libc::SIGTERM, code: USER, sender: Some(*sender) };
                let at = Stamp(1_000_000_000 + ms * 1_000_000);
                assert_eq!(repeats.contain(received, at), *expected, "{sender} at {ms} ms of {signals:?}");
            }
        };
        // A group is sent it, twice; the process above had no processor for a while.
        found(&[(user, 0, false), (parent, 3_000, true), (user, 4_000, false), (parent, 4_001, true)]);
        // The process above alone is sent it, twice.
        found(&[(parent, 0, false), (parent, 1_000, false)]);
        // The group, and then the process above alone.
        found(&[(user, 0, false), (parent, 1, true), (parent, 1_000, false)]);
        // What was passed on came first.
        found(&[(parent, 0, false), (user, 1, true)]);
        // This process alone, and long after that the one above.
        found(&[(user, 0, false), (parent, 11_000, false)]);
    }
}
