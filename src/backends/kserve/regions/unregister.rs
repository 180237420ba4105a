//! Unregisters regions from a server, which may still use them, or be gone.

use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::engine::is_unanswered;
use crate::kserve::refusals::Refusal;

/// How long a server may keep using regions of requests that it has answered, all of them together.
const LIMIT: Duration = Duration::from_secs(1);
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// How a server has behaved; one for all regions of a backend, so that a run's end does not wait region by region.
pub struct Unregistration(Mutex<State>);

struct State {
    /// It has left a request unanswered, and is not asked again.
    silent: bool,
    /// Time left to wait for regions in use.
    patience: Duration,
}

impl Default for Unregistration {
    fn default() -> Self {
        Self(Mutex::new(State { silent: false, patience: LIMIT }))
    }
}

impl Unregistration {
    /// The server, which may have been silent, answers.
    pub fn note_answer(&self) {
        self.0.lock().silent = false;
    }

    /// Unregisters a region through `ask`, repeatedly while the server says that it is in use. Returns whether it
    /// succeeded.
    pub fn ask(&self, mut ask: impl FnMut() -> Result<(), InferError>) -> bool {
        let mut state = self.0.lock();
        if state.silent {
            return false;
        }
        let started = Stamp::now();
        loop {
            match ask() {
                Ok(()) => {
                    state.patience = LIMIT;
                    return true;
                }
                Err(error) if Refusal::RegionInUse.is_in(&error.message) && Stamp::now() - started < state.patience => {
                    thread::sleep(PAUSE);
                }
                Err(error) => {
                    state.silent = is_unanswered(&error);
                    state.patience = state.patience.saturating_sub(Stamp::now() - started);
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{ConnectionFault, ErrorCode};

    fn refusal(code: impl Into<ErrorCode>, message: &str) -> Result<(), InferError> {
        Err(InferError::new(code, message))
    }

    #[test]
    fn a_region_in_use_is_asked_for_again_and_other_refusals_are_final() {
        let unregistration = Unregistration::default();
        let in_use = || refusal("HTTP 400", "it is currently in use.");
        let mut answers = vec![Ok(()), in_use(), in_use()];
        assert!(unregistration.ask(|| answers.pop().unwrap()));
        assert!(answers.is_empty());
        for _ in 0..2 {
            let mut asked = 0;
            assert!(!unregistration.ask(|| {
                asked += 1;
                refusal("HTTP 403", "no such right")
            }));
            assert_eq!(asked, 1);
        }
    }

    #[test]
    fn the_patience_is_one_for_all_regions_and_a_silent_server_is_asked_once() {
        let unregistration = Unregistration::default();
        let started = Stamp::now();
        (0..50).for_each(|_| assert!(!unregistration.ask(|| refusal("HTTP 400", "currently in use"))));
        assert!(Stamp::now() - started < LIMIT * 3);
        for _ in 0..2 {
            let mut asked = 0;
            for _ in 0..3 {
                assert!(!unregistration.ask(|| {
                    asked += 1;
                    refusal(ConnectionFault::TimedOut, "the server did not answer in time")
                }));
            }
            assert_eq!(asked, 1);
            unregistration.note_answer();
        }
    }
}
