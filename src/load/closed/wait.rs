//! How a synchronous worker waits for its answer.
//!
//! Sleeping gives the processor to the server and costs a wake-up, 3 to 20 us depending on where the scheduler puts the
//! thread; spinning responds within 0.1 us and takes a core away from the server. The default sleeps: on the machines
//! measured (docs/performance.md) it loses least if client and server share cores.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::clock::Stamp;
use crate::plan::Wait;

/// How long a hybrid wait spins before it sleeps.
const SPIN_NS: u64 = 20_000;

/// How often a sleeping waiter checks whether it should give up; and how many of them check in a second at most, because thousands
/// that check ten times a second each take the processors from the server.
const CHECK: Duration = Duration::from_millis(100);
const CHECKS_PER_SECOND: u32 = 4000;

/// How often each of so many sleeping waiters checks whether it should give up.
fn check_interval(waiters: usize) -> Duration {
    CHECK.max(Duration::from_secs(1) * waiters as u32 / CHECKS_PER_SECOND)
}

/// A flag that one thread waits for and another raises.
pub struct Signal {
    raised: AtomicBool,
    waiter: Thread,
    check_interval: Duration,
}

impl Signal {
    /// A signal that the calling thread will wait for, one of so many `waiters`.
    pub fn for_this_thread(waiters: usize) -> Self {
        let check_interval = check_interval(waiters);
        Self { raised: AtomicBool::new(false), waiter: thread::current(), check_interval }
    }

    /// How often the waiter checks whether it should give up.
    pub fn check_interval(&self) -> Duration {
        self.check_interval
    }

    /// Raises it. Once the waiter may have gone on, touches nothing of the signal except its own thread handle.
    #[inline]
    pub fn raise(&self, wait: Wait) {
        self.raised.store(true, Ordering::Release);
        if wait != Wait::Spin {
            self.waiter.unpark();
        }
    }

    /// Waits until it is raised, and lowers it. Returns `false` if `given_up` became true before that.
    #[inline]
    pub fn wait(&self, wait: Wait, given_up: impl Fn() -> bool) -> bool {
        let spinning = match wait {
            Wait::Park => false,
            Wait::Spin => true,
            Wait::Hybrid => {
                if self.spin() {
                    self.lower();
                    return true;
                }
                false
            }
        };
        while !self.is_raised() {
            if given_up() {
                return false;
            }
            if spinning {
                self.spin();
            } else {
                thread::park_timeout(self.check_interval);
            }
        }
        self.lower();
        true
    }

    /// Waits until it is raised, at most until `deadline`; with [`Wait::Spin`] only for a moment, so ask again.
    pub fn wait_until(&self, wait: Wait, deadline: Stamp) {
        if wait == Wait::Spin {
            // Whoever raises it wakes nobody.
            self.spin();
        } else if !self.is_raised() {
            thread::park_timeout(deadline.from_now());
        }
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Lowers it again.
    pub fn lower(&self) {
        self.raised.store(false, Ordering::Relaxed);
    }

    /// Spins for a while; returns whether it was raised.
    fn spin(&self) -> bool {
        let started = Stamp::now();
        loop {
            for _ in 0..64 {
                if self.is_raised() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if Stamp::now().since(started) > SPIN_NS {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_wait_the_less_often_each_checks() {
        assert_eq!([1, 400].map(check_interval), [CHECK; 2]);
        assert_eq!(check_interval(8000), Duration::from_secs(2));
    }
}
