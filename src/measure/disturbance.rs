//! What others took from a window: the hypervisor, other processes, a quota, a processor that had to slow down.
//!
//! *Ours* are this process, the server, and everything below both: their waiting for each other is part of what is
//! measured. Only what others used can disturb.

use std::thread;
use std::time::Duration;

use crate::machine::host_monitor::{HostMonitor, Reading};
use crate::machine::processors::Times;
use crate::machine::threads::{self, Waits};
use crate::machine::usage::{self, Usage};
use crate::result::disturbance::{Cause, Disturbance};

/// The kernel counts in ticks of 10 ms. Less than this many per processor may be rounding.
const SHORTEST_WINDOW: Duration = Duration::from_millis(50);
/// What the kernel counts must add up to the time that has passed, within this share; if not, it shows nothing (some
/// sandboxes show zeros).
const CLOCK_TOLERANCE: f64 = 0.5;

/// Others that use so much of one processor are at work: a thread that wakes may find them on its own.
const AT_WORK: f64 = 0.05;
/// Threads of ours that wait for a processor for so much of the time do so for others, where it is not known what others use. A
/// client that has what it wants waits half as long.
const KEPT_WAITING: f64 = 0.01;

/// Looks at the machine at every edge of a window.
pub(super) struct Sentry<'a> {
    host_monitor: Option<&'a dyn HostMonitor>,
    last: Option<Reading>,
    /// That of the first edge.
    first: Option<Reading>,
    /// The highest frequency of the level.
    khz: u64,
}

impl<'a> Sentry<'a> {
    /// Where no host_monitor is, nothing is a disturbance.
    pub(super) fn new(host_monitor: Option<&'a dyn HostMonitor>) -> Self {
        Self { host_monitor, last: None, first: None, khz: 0 }
    }

    /// The first window begins soon.
    pub(super) fn prepare(&self) {
        self.host_monitor.into_iter().for_each(HostMonitor::look_around);
    }

    /// A window has ended, or the first one begins: what others took since the last edge, where that counts.
    pub(super) fn edge(&mut self) -> Option<Disturbance> {
        let now = self.host_monitor?.read();
        self.khz = self.khz.max(now.khz.unwrap_or(0));
        let before = self.last.replace(now);
        if self.first.is_none() {
            self.first.clone_from(&self.last);
        }
        difference(&before?, self.last.as_ref()?, self.khz)
    }

    /// Whether others were at work since the first edge, if only so much that a request may have left late for them.
    pub(super) fn others_at_work(&self) -> bool {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return false };
        let found = shares(first, last, self.khz);
        let share = |wanted| of_cause(&found, wanted).unwrap_or(0.0);
        share(Cause::Others) * last.processors.len() as f64 >= AT_WORK
            || share(Cause::Steal) >= AT_WORK
            || last.busy.is_empty() && waiting(first, last) >= KEPT_WAITING
            || Disturbance::judged(found, 0).is_some()
    }

    /// What the client's and the server's processes have had since the first edge, where that is known.
    pub(super) fn usage(&self) -> (Option<Usage>, Option<Usage>) {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return (None, None) };
        usage::difference(
            usage::Reading { at: first.at, busy: &first.busy },
            usage::Reading { at: last.at, busy: &last.busy },
        )
    }

    /// The last edge is the first of another level.
    pub(super) fn begin(&mut self) {
        self.first.clone_from(&self.last);
    }
}

/// How long our threads waited for a processor while other processes ran, the server's among them, of the time between two readings.
fn waiting(before: &Reading, after: &Reading) -> f64 {
    let waited = Duration::from_nanos(threads::since(&after.waits, &before.waits).waited_ns);
    let rows = after.processors.iter();
    let ran: Duration = rows.filter_map(|(number, now)| Some(now.since(before.processors.get(number)?).busy)).sum();
    // They wait for each other, too.
    let foreign = ran.saturating_sub(after.own.saturating_sub(before.own));
    waited.min(foreign).as_secs_f64() / (after.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE)
}

/// What others take of the machine now, looked at for a while: other processes' share of the processors, and the hypervisor's of
/// the time that they are wanted, from 0 to 1.
pub fn sample(host_monitor: &dyn HostMonitor, length: Duration) -> (f64, f64) {
    host_monitor.look_around();
    let before = host_monitor.read();
    thread::sleep(length);
    let after = host_monitor.read();
    let found = shares(&before, &after, 0);
    (of_cause(&found, Cause::Others).unwrap_or(0.0), of_cause(&found, Cause::Steal).unwrap_or(0.0))
}

/// The share of one cause.
fn of_cause(shares: &[Option<f64>; Cause::ALL.len()], wanted: Cause) -> Option<f64> {
    Cause::ALL.into_iter().zip(shares).find_map(|(cause, share)| share.filter(|_| cause == wanted))
}

/// What others took between two readings; `highest_khz` is the frequency that the processors have shown before.
fn difference(before: &Reading, after: &Reading, highest_khz: u64) -> Option<Disturbance> {
    let switches = threads::since(&after.waits, &before.waits).switches;
    Disturbance::judged(shares(before, after, highest_khz), switches)
}

/// The share of each cause between two readings, in the order of [`Cause::ALL`], where known.
fn shares(before: &Reading, after: &Reading, highest_khz: u64) -> [Option<f64>; Cause::ALL.len()] {
    let wall = after.at - before.at;
    let rows = after.processors.iter();
    let passed: Vec<Times> = rows.filter_map(|(number, now)| Some(now.since(before.processors.get(number)?))).collect();
    let count = passed.len();
    let spent = passed.iter().fold(Times::default(), |sum, times| sum.plus(times));
    let capacity = wall.as_secs_f64() * count as f64;
    let adds_up = capacity > 0.0 && (spent.all().as_secs_f64() / capacity - 1.0).abs() <= CLOCK_TOLERANCE;
    // Each processor is rounded for itself.
    let least = SHORTEST_WINDOW.as_secs_f64() * (count as f64).sqrt();
    let beyond_rounding =
        |seconds: f64, total: f64| (adds_up && seconds >= least && total > 0.0).then(|| seconds / total);
    let stolen = spent.stolen.as_secs_f64();
    let wanted = (spent.busy + spent.stolen).as_secs_f64();
    let waits = threads::since(&after.waits, &before.waits);
    let others = others(before, after, &spent, capacity);
    let (stopped, khz) = (after.throttled.zip(before.throttled), after.khz.zip(before.khz));
    Cause::ALL.map(|cause| match cause {
        Cause::Steal => beyond_rounding(stolen, wanted),
        Cause::Others => beyond_rounding(others?, capacity),
        Cause::Waiting => beyond_rounding(robbed(&waits, others?), capacity),
        Cause::Throttled => {
            let (after, before) = stopped?;
            // The kernel adds up those of all processors that threads of ours were to run on.
            Some((after.checked_sub(before)?.as_secs_f64() / wall.as_secs_f64()).min(1.0))
                .filter(|share| share.is_finite())
        }
        Cause::Slowed => {
            let (after, before) = khz?;
            (highest_khz > 0).then(|| 1.0 - after.max(before) as f64 / highest_khz as f64)
        }
    })
}

/// Seconds of processor time that processes had that are not ours; `None` if it is not known which are.
///
/// On most machines the kernel measures idle time to the microsecond, but samples busy time at each tick. A load in
/// step with the ticks is busy at every sample, or at none; so the time of others is the smaller of both measurements.
fn others(before: &Reading, after: &Reading, spent: &Times, capacity: f64) -> Option<f64> {
    let had = after.busy.iter().filter_map(|(pid, now)| now.checked_sub(*before.busy.get(pid)?));
    let ours = (had.sum::<Duration>() + after.beside.saturating_sub(before.beside)).as_secs_f64();
    let not_idle = capacity - (spent.idle + spent.interrupts + spent.stolen).as_secs_f64();
    let others = not_idle.min(spent.busy.as_secs_f64()) - ours;
    (!after.busy.is_empty()).then_some(others.max(0.0))
}

/// Seconds for which threads of ours waited because others ran. They wait for each other, too; but others cannot have kept them
/// waiting for longer than they ran.
fn robbed(waits: &Waits, others: f64) -> f64 {
    (waits.waited_ns as f64 / 1e9).min(others)
}

/// A machine for the tests of everything that is measured on one.
#[cfg(test)]
pub(crate) mod sample {
    use std::collections::VecDeque;

    use parking_lot::Mutex;

    use super::*;
    use crate::clock::Stamp;

    /// A quota stops some windows for their whole length, those that are `true`; further ones not.
    pub(crate) struct Quota(Mutex<(VecDeque<bool>, Option<Stamp>, Duration)>);

    impl Quota {
        /// One that does so.
        pub(crate) fn stopping(windows: &[bool]) -> Self {
            Self(Mutex::new((windows.iter().copied().collect(), None, Duration::ZERO)))
        }
    }

    impl HostMonitor for Quota {
        fn look_around(&self) {}

        fn read(&self) -> Reading {
            let (windows, last, stopped) = &mut *self.0.lock();
            let at = Stamp::now();
            if let Some(last) = last.replace(at)
                && windows.pop_front() == Some(true)
            {
                *stopped += at - last;
            }
            let (processors, busy, waits) = Default::default();
            let none = Duration::ZERO;
            Reading { at, processors, busy, own: none, beside: none, waits, throttled: Some(*stopped), khz: None }
        }
    }
}

#[cfg(test)]
mod tests;
