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

/// How often a sleeping waiter checks whether it should give up.
const GIVE_UP_POLL: Duration = Duration::from_millis(100);

/// A flag that one thread waits for and another raises.
pub struct Signal {
    raised: AtomicBool,
    waiter: Thread,
}

impl Signal {
    /// A signal that the calling thread will wait for.
    pub fn for_this_thread() -> Self {
        Self { raised: AtomicBool::new(false), waiter: thread::current() }
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
                thread::park_timeout(GIVE_UP_POLL);
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
