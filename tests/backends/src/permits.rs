//! Contention between a model's executions: how many may run at once, and how those that do slow each other down.

use std::sync::{Condvar, Mutex, PoisonError};

/// Counts the executions in progress.
#[derive(Debug, Default)]
pub struct Permits {
    running: Mutex<u64>,
    free: Condvar,
}

impl Permits {
    /// Waits until fewer than `most` executions are running (0: no limit), then joins them. Returns how many now run.
    pub fn take(&self, most: u64) -> u64 {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while most > 0 && *running >= most {
            running = self.free.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        *running
    }

    /// Ends one execution.
    pub fn give_back(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = running.saturating_sub(1);
        self.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn no_more_than_there_are_permits() {
        let permits = Arc::new(Permits::default());
        assert_eq!((permits.take(2), permits.take(2)), (1, 2));
        let waiting = Arc::clone(&permits);
        let third = thread::spawn(move || waiting.take(2));
        permits.give_back();
        assert_eq!(third.join().unwrap(), 2);
        assert_eq!(permits.take(0), 3, "without a bound");
    }
}
