//! [`ServerWait`]: waits for a server that is starting, and for models that are loading.

use std::fmt::Display;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::interrupt;
use crate::stdio::note;

/// Minimum time for an answer, even without `--server-wait`.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// Time between two polls of a server that is not ready.
const PAUSE: Duration = Duration::from_millis(100);
/// After this long, and then each time after twice as long, the user is told what is waited for.
const FIRST_NOTE: Duration = Duration::from_secs(2);

/// How long to wait for a server and its models, all together (`--server-wait`).
#[derive(Clone, Copy, Debug)]
pub struct ServerWait {
    limit: Duration,
    until: Stamp,
}

impl ServerWait {
    /// A wait of at most `limit` that begins now.
    pub fn new(limit: Duration) -> Self {
        Self { limit, until: Stamp::now().plus_duration(limit) }
    }

    /// Its length in seconds, for messages.
    pub fn seconds(&self) -> f64 {
        self.limit.as_secs_f64()
    }

    /// Calls `attempt`, with the time that it may take, until it succeeds, fails for good, time is up or the user
    /// interrupts; at least once. A long wait is noted, with its reason.
    ///
    /// # Errors
    /// The last attempt's.
    pub fn retry<E: Display>(
        &self,
        mut attempt: impl FnMut(Duration) -> Result<(), E>,
        is_final: impl Fn(&E) -> bool,
    ) -> Result<(), E> {
        let started = Stamp::now();
        let mut pause = FIRST_NOTE;
        loop {
            match attempt(self.until.from_now().max(SHORTEST_WAIT)) {
                Err(error) if self.goes_on() && !is_final(&error) => {
                    if Stamp::now() >= started.plus_duration(pause) {
                        pause *= 2;
                        note!(
                            "waiting for the server and its models, {} s in all (--server-wait): {error}",
                            self.seconds()
                        );
                    }
                    thread::sleep(PAUSE.min(self.until.from_now()));
                }
                outcome => return outcome,
            }
        }
    }

    fn goes_on(&self) -> bool {
        let now = Stamp::now();
        now < self.until && now < interrupt::first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wait_is_for_all_attempts() {
        let wait = ServerWait::new(Duration::from_secs(3));
        let mut calls = 0;
        let outcome = wait.retry(
            |_| {
                calls += 1;
                Err(calls)
            },
            |_| false,
        );
        assert!(outcome.is_err_and(|last| last == calls && last >= 2), "{calls}");
        let limit = |limit: Duration| Err(limit.as_millis());
        assert_eq!(wait.retry(limit, |_| false), Err(SHORTEST_WAIT.as_millis()), "what comes later is tried once");
    }

    #[test]
    fn what_cannot_get_better_is_not_waited_for() {
        let wait = ServerWait::new(Duration::from_secs(60));
        assert_eq!(wait.retry(|_| Err("certificate"), |_| true), Err("certificate"));
        let mut left = 1;
        let second = |_| if std::mem::replace(&mut left, 0) == 0 { Ok(()) } else { Err("loading") };
        assert_eq!(wait.retry(second, |_| false), Ok(()));
    }
}
