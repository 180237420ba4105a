//! [`Silence`]: how long nothing has succeeded, while requests fail.

use std::time::Duration;

use crate::clock::Stamp;
use crate::record::Completed;

/// A server is silent that has let no request succeed for at least this long.
const LEAST: Duration = Duration::from_secs(1);
/// And for so many times as long as it took between two successes before.
const GAPS: u32 = 5;

/// When a request last succeeded, and what has failed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    began: Stamp,
    /// When a success was last seen, and what was over then.
    last: Stamp,
    then: Completed,
    /// What is over now.
    over: Completed,
}

impl Silence {
    /// Nothing is over yet of what began then.
    pub(super) fn new(began: Stamp) -> Self {
        Self { began, last: began, then: Completed::default(), over: Completed::default() }
    }

    /// So much is over now.
    pub(super) fn note(&mut self, over: Completed, now: Stamp) {
        if over.succeeded > self.then.succeeded {
            (self.last, self.then) = (now, over);
        }
        self.over = over;
    }

    /// What will be over after the time that is `left`, if it goes on like this; `None` unless the server is silent.
    pub(super) fn outcome(&self, now: Stamp, left: Duration) -> Option<Completed> {
        let (silent, failed) = (now - self.last, self.over.failed.saturating_sub(self.then.failed));
        let gap = (self.last - self.began) / u32::try_from(self.then.succeeded.max(1)).unwrap_or(u32::MAX);
        if failed == 0 || silent < LEAST.max(gap * GAPS) {
            return None;
        }
        let further = failed as f64 * left.as_secs_f64() / silent.as_secs_f64();
        Some(self.over.plus(Completed { failed: further as u64, ..Completed::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(succeeded: u64, failed: u64) -> Completed {
        Completed { succeeded, failed, cancelled: 0 }
    }

    fn at(ms: u64) -> Stamp {
        Stamp(1).plus_duration(Duration::from_millis(ms))
    }

    #[test]
    fn a_server_is_silent_that_answers_nothing_for_longer_than_it_did_before() {
        let mut silence = Silence::new(at(0));
        silence.note(over(400, 0), at(1_000));
        silence.note(over(400, 4), at(1_900));
        assert_eq!(silence.outcome(at(1_900), Duration::from_secs(9)), None, "not for long");
        silence.note(over(400, 6), at(2_000));
        assert_eq!(silence.outcome(at(2_000), Duration::from_secs(9)), Some(over(400, 60)));
        silence.note(over(401, 6), at(2_100));
        assert_eq!(silence.outcome(at(3_500), Duration::from_secs(9)), None, "nothing has failed since");
        // Answers take three seconds each; one that fails is no silence.
        let mut slow = Silence::new(at(0));
        slow.note(over(4, 0), at(3_000));
        slow.note(over(4, 1), at(4_500));
        assert_eq!(slow.outcome(at(4_500), Duration::from_secs(9)), None);
    }
}
