//! [`Reminder`]: what a server that was started again has forgotten, and is told before requests leave for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::ConnectionTally;
use crate::backend::InferError;

/// Tells a server again what it knew, each time that it may have forgotten: once, however many connections come back.
pub struct Reminder {
    remind: Box<dyn Fn() -> Result<(), InferError> + Send + Sync>,
    /// How many connections had been lost when it was told last.
    told_after: AtomicUsize,
    /// Held while it is told. Whoever else has a connection by then waits.
    telling: Mutex<()>,
}

impl Reminder {
    /// Tells it by `remind`, which fails only if the server does not answer.
    pub fn new(remind: impl Fn() -> Result<(), InferError> + Send + Sync + 'static) -> Self {
        Self { remind: Box::new(remind), told_after: AtomicUsize::new(0), telling: Mutex::new(()) }
    }

    /// Tells it again if connections of `tally` have been lost since the last time.
    ///
    /// # Errors
    /// Why it does not answer. The next one that has a connection tries again.
    pub fn catch_up(&self, tally: &ConnectionTally) -> Result<(), InferError> {
        if self.told_after.load(Ordering::Acquire) == tally.losses() {
            return Ok(());
        }
        let _telling = self.telling.lock();
        // What is lost meanwhile counts for the next time.
        let losses = tally.losses();
        if self.told_after.load(Ordering::Acquire) != losses {
            (self.remind)()?;
            self.told_after.store(losses, Ordering::Release);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::{TalliedConnection, closed};

    #[test]
    fn a_server_is_told_once_after_losses_and_again_if_it_did_not_answer() {
        let (tally, reminders) = (Arc::new(ConnectionTally::default()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&reminders);
        // The second time, nobody answers.
        let reminder = Reminder::new(move || match count.fetch_add(1, Ordering::Relaxed) {
            1 => Err(closed("before the reply")),
            _ => Ok(()),
        });
        let mut lines = [TalliedConnection::new(&tally), TalliedConnection::new(&tally)];
        lines.iter_mut().for_each(|line| assert!(line.enter()));
        reminder.catch_up(&tally).unwrap();
        assert_eq!(reminders.load(Ordering::Relaxed), 0, "nothing was lost");
        for (expected, answered) in [(1, true), (2, false), (3, true)] {
            lines.iter_mut().for_each(TalliedConnection::end);
            assert_eq!(reminder.catch_up(&tally).is_ok(), answered);
            assert_eq!(reminders.load(Ordering::Relaxed), expected);
            lines.iter_mut().for_each(TalliedConnection::open);
        }
        reminder.catch_up(&tally).unwrap();
        lines[0].refuse();
        drop(lines);
        reminder.catch_up(&tally).unwrap();
        assert_eq!(reminders.load(Ordering::Relaxed), 4, "connections that we end are not lost");
        let line = TalliedConnection::new(&tally);
        line.leave();
        reminder.catch_up(&tally).unwrap();
        assert_eq!(reminders.load(Ordering::Relaxed), 5, "what the server leaves is lost before it is closed");
    }

    #[test]
    fn nobody_goes_on_while_the_server_is_being_told() {
        let (tally, reminders) = (Arc::new(ConnectionTally::default()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&reminders);
        let reminder = Reminder::new(move || {
            thread::sleep(Duration::from_millis(50));
            count.fetch_add(1, Ordering::Release);
            Ok(())
        });
        TalliedConnection::new(&tally).refuse();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    reminder.catch_up(&tally).unwrap();
                    assert_eq!(reminders.load(Ordering::Acquire), 1);
                });
            }
        });
    }
}
