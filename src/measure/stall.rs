//! A load waits for its last answers as long as they take; this warns the user if they take long.

use std::time::Duration;

use crate::measure::summary::LevelLoad;
use crate::stdio::note;

/// How long no request must end before a warning.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches for requests that are not answered. Tells of it once.
pub(super) struct StallWatch {
    /// Until it ends, such a load always waits for an answer.
    closed: bool,
    completed: u64,
    since: Duration,
    told: bool,
}

impl StallWatch {
    /// Of a load that begins.
    pub(super) fn of(load: LevelLoad) -> Self {
        Self { closed: matches!(load, LevelLoad::Concurrency(_)), completed: 0, since: Duration::ZERO, told: false }
    }

    /// Records how many requests have ended this long after the start, and how many of an open loop are under way.
    pub(super) fn poll(&mut self, elapsed: Duration, completed: u64, under_way: u64) {
        if let Some(words) = self.words(elapsed, completed, under_way) {
            note!("{words}");
        }
    }

    /// What to tell the user.
    fn words(&mut self, elapsed: Duration, completed: u64, under_way: u64) -> Option<String> {
        if completed != self.completed || !(self.closed || under_way > 0) {
            (self.completed, self.since) = (completed, elapsed);
        }
        if self.told || elapsed - self.since < PATIENCE {
            return None;
        }
        self.told = true;
        let seconds = PATIENCE.as_secs();
        Some(format!(
            "no request has ended for {seconds} s, and answers are outstanding: see the server's log; Ctrl-C reports \
                the results so far, and over the network --client-timeout-us US abandons requests that take longer"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_told_of_once_and_an_idle_load_never() {
        let second = Duration::from_secs;
        let mut stall = StallWatch::of(LevelLoad::RequestRate(1.0));
        assert!((0..100).all(|now| stall.words(second(now), now, 20).is_none()), "answers come");
        assert!((100..109).all(|now| stall.words(second(now), 99, 20).is_none()));
        let told = stall.words(second(109), 99, 20).unwrap();
        assert!(told.contains("for 10 s, ") && told.contains("--client-timeout-us"), "{told}");
        assert!((110..200).all(|now| stall.words(second(now), 99, 20).is_none()), "once");
        let mut closed = StallWatch::of(LevelLoad::Concurrency(1));
        assert!(closed.words(second(9), 0, 0).is_none() && closed.words(second(10), 0, 0).is_some());
        let mut idle = StallWatch::of(LevelLoad::RequestRate(1.0));
        assert!((0..100).all(|now| idle.words(second(now), 0, 0).is_none()), "nothing to wait for");
        assert!(idle.words(second(108), 0, 20).is_none());
    }
}
