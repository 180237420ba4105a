//! A load waits for its last answers as long as some come; this warns the user if they take long, and tells when none is to be
//! expected any more.

use std::time::Duration;

use crate::result::summary::LevelLoad;
use crate::stdio::note;

/// How long no request must end before a warning.
const PATIENCE: Duration = Duration::from_secs(10);

/// A load that ends by itself gives up its outstanding requests once none has ended for this long.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(600);
/// The same for a stage that has sent all its requests, as others may follow it; longer where its answers took a tenth of that, and
/// where none has come: then nothing tells how long they take.
const SILENCE_OF_A_STAGE: Duration = Duration::from_secs(60);
const SILENCE_WITHOUT_ANSWERS: Duration = Duration::from_secs(120);
const LONGEST_ANSWERS: u32 = 10;

/// For how long no request of a stage may end that has sent all of them, and whose answers took up to `longest`.
pub(super) fn silence_of_a_stage(longest: Duration) -> Duration {
    match longest.is_zero() {
        true => SILENCE_WITHOUT_ANSWERS,
        false => longest.saturating_mul(LONGEST_ANSWERS).clamp(SILENCE_OF_A_STAGE, LONGEST_SILENCE),
    }
}

/// Says that requests are given up.
pub(super) fn say_given_up(silence: Duration) {
    note!("no request has ended for {} s: those that are outstanding are given up", silence.as_secs());
}

/// Watches for requests that are not answered. Tells of it once.
pub(super) struct StallWatch {
    /// Until it ends, such a load always waits for an answer.
    closed: bool,
    completed: u64,
    since: Duration,
    reported: bool,
}

impl StallWatch {
    /// Of a load that begins, and that may pause, as conversations do between their turns.
    pub(super) fn new(load: LevelLoad, pauses: bool) -> Self {
        let closed = matches!(load, LevelLoad::Concurrency(_)) && !pauses;
        Self { closed, completed: 0, since: Duration::ZERO, reported: false }
    }

    /// Records how many requests have ended this long after the start, and how many of an open loop are under way. Returns for
    /// how long none has ended.
    pub(super) fn poll(&mut self, elapsed: Duration, completed: u64, under_way: u64) -> Duration {
        if let Some(words) = self.warning(elapsed, completed, under_way) {
            note!("{words}");
        }
        elapsed.saturating_sub(self.since)
    }

    /// What to tell the user.
    fn warning(&mut self, elapsed: Duration, completed: u64, under_way: u64) -> Option<String> {
        if completed != self.completed || !(self.closed || under_way > 0) {
            (self.completed, self.since) = (completed, elapsed);
        }
        if self.reported || elapsed - self.since < PATIENCE {
            return None;
        }
        self.reported = true;
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
        let mut stall = StallWatch::new(LevelLoad::RequestRate(1.0), false);
        assert!((0..100).all(|now| stall.warning(second(now), now, 20).is_none()), "answers come");
        assert!((100..109).all(|now| stall.warning(second(now), 99, 20).is_none()));
        let message = stall.warning(second(109), 99, 20).unwrap();
        assert!(message.contains("for 10 s, ") && message.contains("--client-timeout-us"), "{message}");
        assert!((110..200).all(|now| stall.warning(second(now), 99, 20).is_none()), "once");
        let mut closed = StallWatch::new(LevelLoad::Concurrency(1), false);
        assert!(closed.warning(second(9), 0, 0).is_none() && closed.warning(second(10), 0, 0).is_some());
        let mut idle = StallWatch::new(LevelLoad::Concurrency(1), true);
        assert!((0..100).all(|now| idle.warning(second(now), 0, 0).is_none()), "nothing to wait for");
        assert!(idle.warning(second(108), 0, 20).is_none());
        assert_eq!(idle.poll(second(109), 0, 20), second(10));
        assert_eq!(idle.poll(second(110), 1, 19), second(0));
    }

    #[test]
    fn a_stage_waits_longer_for_long_answers() {
        let second = Duration::from_secs;
        let limits = [1, 6, 20, 300].map(|longest| silence_of_a_stage(second(longest)));
        assert_eq!(limits, [60, 60, 200, 600].map(second));
        assert_eq!(silence_of_a_stage(second(0)), second(120), "nobody knows yet how long they take");
    }
}
