//! When this process stood still: stopped by a signal or a debugger, frozen by a control group, without any processor; or
//! the machine was suspended.
//!
//! Whoever polls in a loop keeps a [`Vigil`]. A turn that took much longer than its sleep, while the whole process had next
//! to no processor time, is such a pause: what was under way meanwhile took as long as the pause, whatever the server did.

use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::Stamp;

/// A busy machine lets a thread wait for tens of milliseconds, rarely for more.
const SHORTEST: Duration = Duration::from_millis(400);
/// A process that stood still had a processor for less than this share of the time.
const MOST_BUSY: f64 = 0.1;
/// A process that is stopped more often is not measured any more.
const MAX_KEPT: usize = 1000;

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    from: Stamp,
    to: Stamp,
    length: Duration,
}

static PAUSES: Mutex<Vec<Pause>> = Mutex::new(Vec::new());

/// The clocks that tell.
#[derive(Clone, Copy)]
struct Clocks {
    now: Stamp,
    /// Goes on while the machine is suspended.
    booted: Duration,
    /// Processor time of this process.
    busy: Duration,
}

impl Clocks {
    fn read() -> Self {
        let read = |clock| {
            let time = clock_gettime(clock);
            Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
        };
        Self { now: Stamp::now(), booted: read(ClockId::Boottime), busy: read(ClockId::ProcessCPUTime) }
    }
}

/// A loop that sleeps in each turn, and otherwise waits for nothing.
pub struct Vigil(Clocks);

impl Vigil {
    /// The loop begins.
    pub fn begin() -> Self {
        Self(Clocks::read())
    }

    /// Sleeps, and takes note if this process stood still since the last sleep.
    pub fn sleep(&mut self, length: Duration) {
        thread::sleep(length);
        let before = std::mem::replace(&mut self.0, Clocks::read());
        if let Some(pause) = pause(length, &before, &self.0) {
            let mut pauses = PAUSES.lock();
            if pauses.len() < MAX_KEPT {
                pauses.push(pause);
            }
        }
    }
}

/// How long this process stood still in pauses that touch the time between two moments.
pub fn total(from: Stamp, to: Stamp) -> Duration {
    let pauses = PAUSES.lock();
    pauses.iter().filter(|pause| pause.from < to && pause.to > from).map(|pause| pause.length).sum()
}

/// The longest that it stood still in pauses that begin within `span`, of those that touch the time between two moments.
pub fn most_within(from: Stamp, to: Stamp, span: Duration) -> Duration {
    let pauses = PAUSES.lock();
    let touching: Vec<&Pause> = pauses.iter().filter(|pause| pause.from < to && pause.to > from).collect();
    let together = |first: &Pause| {
        let end = first.from.plus_duration(span);
        let begun =
            touching.iter().filter(|pause| pause.from == first.from || first.from < pause.from && pause.from < end);
        begun.map(|pause| pause.length).sum()
    };
    touching.iter().map(|first| together(first)).max().unwrap_or_default()
}

/// Notes a pause far in the future; returns when it begins.
#[cfg(feature = "testing")]
pub fn note_one(length: Duration) -> Stamp {
    let from = Stamp(u64::MAX - 1_000_000_000_000);
    PAUSES.lock().push(Pause { from, to: from.plus_duration(length), length });
    from
}

fn pause(asked: Duration, before: &Clocks, after: &Clocks) -> Option<Pause> {
    let passed = after.now - before.now;
    let suspended = after.booted.saturating_sub(before.booted).saturating_sub(passed);
    let late = passed.saturating_sub(asked);
    let busy = after.busy.saturating_sub(before.busy);
    let stood_still = late >= SHORTEST && busy.as_secs_f64() < MOST_BUSY * late.as_secs_f64();
    let length = suspended + if stood_still { late } else { Duration::ZERO };
    (length >= SHORTEST).then_some(Pause { from: before.now, to: after.now, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now: u64, booted: u64, busy: u64) -> Clocks {
        Clocks { now: Stamp(now * 1_000_000), booted: Duration::from_millis(booted), busy: Duration::from_millis(busy) }
    }

    #[test]
    fn a_pause_is_a_late_awakening_of_an_idle_process() {
        let length = |before: Clocks, after: Clocks| {
            pause(Duration::from_millis(20), &before, &after).map(|pause| pause.length.as_millis())
        };
        assert_eq!(length(at(0, 0, 0), at(21, 21, 5)), None);
        assert_eq!(length(at(0, 0, 0), at(300, 300, 0)), None, "a busy machine");
        assert_eq!(length(at(0, 0, 0), at(2_020, 2_020, 3)), Some(2_000), "stopped");
        assert_eq!(length(at(0, 0, 0), at(2_020, 2_020, 1_000)), None, "other threads went on");
        assert_eq!(length(at(0, 5_000, 0), at(21, 65_021, 0)), Some(60_000), "the machine was suspended");
    }

    #[test]
    fn pauses_count_where_they_touch() {
        let (from, to) = (Stamp(u64::MAX - 3_000), Stamp(u64::MAX - 2_000));
        let length = Duration::from_secs(2);
        PAUSES.lock().push(Pause { from, to, length });
        assert_eq!(total(from.plus(10), to.plus(10)), length);
        assert_eq!(total(to, to.plus(10)), Duration::ZERO);
    }

    #[test]
    fn pauses_of_one_request_count_together() {
        // No other test has pauses there.
        let second = |number: u64| Stamp(u64::MAX - 100_000_000_000 + number * 1_000_000_000);
        let length = Duration::from_millis(500);
        for number in [0, 3, 4, 20] {
            let from = second(number);
            PAUSES.lock().push(Pause { from, to: from.plus_duration(length), length });
        }
        let most = |seconds| most_within(second(0), second(30), Duration::from_secs(seconds));
        assert_eq!(
            [most(0), most(1), most(2), most(5), most(60)].map(|most| most.as_millis()),
            [500, 500, 1000, 1500, 2000]
        );
        assert_eq!(most_within(second(5), second(19), Duration::from_secs(60)), Duration::ZERO);
    }
}
