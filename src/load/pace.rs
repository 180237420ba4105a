//! Waits for an absolute moment, to well under a microsecond.
//!
//! A sleeping thread is woken late: by the kernel's timer slack (50 us unless changed) and by the way back to a
//! processor (tens of microseconds). So a [`Pacer`] sleeps until shortly before the deadline and spins for the rest.
//! Deadlines are absolute, so that one late wake-up does not delay those that follow.
//!
//! Spinning keeps a processor busy. If the server needs it (one processor, or everything pinned to one), a margin of 0
//! gives it back at the price of a later wake-up.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec};

use crate::clock::Stamp;

/// How long before a deadline sleeping turns into spinning, by default: with a timer slack of 1 ns all but a few in a
/// hundred wake-ups took less than this.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(60);

/// Longest sleep between two checks of `stop`.
const SLICE_NS: u64 = 10_000_000;
/// Clock readings between two checks of `stop` while spinning.
const SPINS_PER_LOOK: u32 = 64;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The deadline has passed.
    Due,
    /// It ended early because the load is over.
    Stopped,
}

/// Waits for deadlines on one thread.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    spin_ns: u64,
}

impl Pacer {
    /// A pacer for the calling thread, which spins for the last `spin` before a deadline. Sets the thread's timer slack to
    /// 1 ns; a kernel that refuses leaves wake-ups some 50 us later, which the spinning margin covers.
    pub fn for_this_thread(spin: Duration) -> Self {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        Self { spin_ns: u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Returns at `deadline`, at once if it has passed, or within 10 ms of `stop` returning true.
    pub fn wait(&self, deadline: Stamp, stop: impl Fn() -> bool) -> Wake {
        let nap_end = self.nap_end(deadline);
        loop {
            let now = Stamp::now();
            if now >= deadline {
                return Wake::Due;
            }
            if stop() {
                return Wake::Stopped;
            }
            if now < nap_end {
                sleep_until(nap_end.min(now.plus(SLICE_NS)));
            } else {
                spin(deadline);
            }
        }
    }

    /// When sleeping for `deadline` must end and spinning begins.
    pub fn nap_end(&self, deadline: Stamp) -> Stamp {
        Stamp(deadline.0.saturating_sub(self.spin_ns))
    }
}

/// Sleeps until a moment; returns early when a signal comes.
fn sleep_until(moment: Stamp) {
    const NS_PER_SECOND: u64 = 1_000_000_000;
    let time = Timespec { tv_sec: (moment.0 / NS_PER_SECOND) as i64, tv_nsec: (moment.0 % NS_PER_SECOND) as i64 };
    // An interrupted sleep does no harm: the caller reads the clock again.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}

/// Spins until a moment, or until `stop` should be checked again.
fn spin(until: Stamp) {
    for _ in 0..SPINS_PER_LOOK {
        if Stamp::now() >= until {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn timed_never_early_and_usually_within_a_few_microseconds() {
        let pacer = Pacer::for_this_thread(DEFAULT_SPIN);
        let median_lateness = || {
            let start = Stamp::now();
            let mut late = [0; 21];
            for (number, late) in (1..).zip(&mut late) {
                let deadline = start.plus(number * 1_000_000);
                assert_eq!(pacer.wait(deadline, || false), Wake::Due);
                let now = Stamp::now();
                assert!(now >= deadline);
                *late = now.since(deadline);
            }
            late.sort_unstable();
            late[10]
        };
        // The best of many rounds: other work on the machine may take the processor away.
        let best = (0..50).map(|_| median_lateness()).find(|&late| late < 20_000);
        assert!(best.is_some(), "the median was later than 20 us in all of 50 rounds");
    }

    #[test]
    fn without_a_margin_it_still_keeps_deadlines() {
        let pacer = Pacer::for_this_thread(Duration::ZERO);
        let deadline = Stamp::now().plus(2_000_000);
        assert_eq!(pacer.wait(deadline, || false), Wake::Due);
        assert!(Stamp::now() >= deadline);
    }

    #[test]
    fn past_deadlines_return_at_once_even_when_stopped() {
        let pacer = Pacer::for_this_thread(DEFAULT_SPIN);
        assert_eq!(pacer.wait(Stamp(0), || true), Wake::Due);
    }

    #[test]
    fn a_far_deadline_is_left_when_stopped() {
        let stop = AtomicBool::new(false);
        let start = Stamp::now();
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| Pacer::for_this_thread(DEFAULT_SPIN).wait(Stamp::NEVER, || stop.load(Ordering::Relaxed)));
            std::thread::sleep(Duration::from_millis(30));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(waiting.join().unwrap(), Wake::Stopped);
        });
        assert!(Stamp::now() - start < Duration::from_secs(2));
    }

    #[test]
    fn spinning_is_left_when_stopped() {
        let pacer = Pacer::for_this_thread(Duration::from_secs(3600));
        assert_eq!(pacer.wait(Stamp::now().plus(1_000_000_000_000), || true), Wake::Stopped);
    }
}
