//! How executions of a model hold each other up: those that may go on at once, and those that do.

use std::sync::{Condvar, Mutex, PoisonError};

/// Executions that go on.
#[derive(Debug, Default)]
pub struct Permits {
    running: Mutex<u64>,
    free: Condvar,
}

impl Permits {
    /// Waits until fewer than `most` executions go on (0 is any number), and joins them. Answers how many there are then.
    pub fn take(&self, most: u64) -> u64 {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while most > 0 && *running >= most {
            running = self.free.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        *running
    }

    /// Leaves them.
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
