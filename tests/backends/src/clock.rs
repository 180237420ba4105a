//! The clock of all timestamps (CLOCK_MONOTONIC, as in the server), and waiting on it.

use std::cell::Cell;

/// Nanoseconds per microsecond.
pub const MICROSECOND: u64 = 1_000;
/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;
/// How long an idle processor may need to run a thread whose alarm has rung: 40 to 70 us were measured on virtual machines.
const WAKE_UP: u64 = 60 * MICROSECOND;

/// Now, in nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the record it is given; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Turns the kernel's habit of delaying wake-ups off for the calling thread.
pub fn sharpen() {
    thread_local!(static SHARP: Cell<bool> = const { Cell::new(false) });
    if !SHARP.replace(true) {
        // SAFETY: sets the calling thread's timer slack to one nanosecond, nothing else.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    }
}

/// Sleeps until the given time. The last stretch is spun away, because waking up takes about that long.
pub fn sleep_until(target: u64) {
    nap_until(target.saturating_sub(WAKE_UP));
    spin_until(target);
}

/// Sleeps until the given time, or however long after it the thread is woken.
pub fn nap_until(alarm: u64) {
    sharpen();
    let until = libc::timespec { tv_sec: (alarm / SECOND) as i64, tv_nsec: (alarm % SECOND) as i64 };
    while now() < alarm {
        // SAFETY: reads the record; an interrupted sleep is resumed by the loop.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
        };
    }
}

/// Burns the processor until the given time.
pub fn spin_until(target: u64) {
    while now() < target {
        std::hint::spin_loop();
    }
}

/// Burns as much of the calling thread's processor time as there is until the given time; it ends later where others have the processor.
pub fn burn_until(target: u64) {
    let end = own_time() + target.saturating_sub(now());
    while own_time() < end {
        std::hint::spin_loop();
    }
}

/// Processor time of the calling thread in nanoseconds.
fn own_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the record it is given; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_never_ends_early() {
        for wait in [sleep_until as fn(u64), nap_until, spin_until] {
            let target = now() + 300 * MICROSECOND;
            wait(target);
            assert!(now() >= target);
        }
        let before = now();
        sleep_until(before.saturating_sub(SECOND));
        assert!(now() - before < SECOND);
    }
}
