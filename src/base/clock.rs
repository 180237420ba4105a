//! The one clock: CLOCK_MONOTONIC in nanoseconds, which Triton's own stamps use, too.
//!
//! Every duration and every comparison in the program uses [`Stamp`]s. Wall time appears only where a stamp is
//! exported, through one [`WallAnchor`] taken at start, so that a step of the system's clock cannot distort a latency.

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)]
mod cycles;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::ops::Sub;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on the monotonic clock, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The present moment.
    #[inline]
    pub fn now() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return Self(cycles::CLOCK.now());
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        Self(kernel_ns())
    }

    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Nanoseconds from `earlier` to this moment; 0 if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment plus `nanoseconds`.
    #[inline]
    #[must_use]
    pub fn plus(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// This moment plus a duration.
    #[inline]
    #[must_use]
    pub fn plus_duration(self, duration: Duration) -> Self {
        self.plus(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time from now until this moment; zero if it has passed.
    #[inline]
    pub fn from_now(self) -> Duration {
        Duration::from_nanos(self.since(Self::now()))
    }
}

impl Sub for Stamp {
    type Output = Duration;

    /// The duration from `earlier`; zero if `earlier` is later.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.since(earlier))
    }
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan {
    /// Where it begins.
    pub start: Stamp,
    /// Where it ends; that moment is not in it.
    pub end: Stamp,
}

impl TimeSpan {
    /// How long it is; zero if it ends before it begins.
    #[inline]
    pub fn duration(self) -> Duration {
        self.end - self.start
    }
}

/// Ties the monotonic clock to wall time, once, for exported stamps.
#[derive(Clone, Copy, Debug)]
pub struct WallAnchor {
    stamp: Stamp,
    epoch_ns: u64,
}

impl WallAnchor {
    /// Reads both clocks.
    pub fn take() -> Self {
        Self { epoch_ns: read(ClockId::Realtime), stamp: Stamp::now() }
    }

    /// Nanoseconds since the Unix epoch at `stamp`.
    pub fn epoch_ns(&self, stamp: Stamp) -> u64 {
        if stamp >= self.stamp {
            self.epoch_ns.saturating_add(stamp.since(self.stamp))
        } else {
            self.epoch_ns.saturating_sub(self.stamp.since(stamp))
        }
    }
}

/// The monotonic clock as the kernel reads it.
fn kernel_ns() -> u64 {
    read(ClockId::Monotonic)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_advance_and_never_go_negative() {
        let first = Stamp::now();
        let second = Stamp::now();
        assert!(second >= first);
        assert_eq!(first.since(first.plus(5)), 0);
        assert_eq!(first.plus(5).since(first), 5);
    }

    #[test]
    fn wall_time_follows_the_monotonic_clock() {
        let anchor = WallAnchor { stamp: Stamp(1_000), epoch_ns: 50_000 };
        assert_eq!(anchor.epoch_ns(Stamp(1_500)), 50_500);
        assert_eq!(anchor.epoch_ns(Stamp(400)), 49_400);
    }
}
