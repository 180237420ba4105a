//! [`Streak`]: counts consecutive failures.

use crate::sync::Mutex;

/// Counts consecutive failures. Only a failure checks whether anything succeeded since the last one, so successes cost
/// nothing.
pub(super) struct Streak(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Successes that were drained from the banks.
    drained: u64,
    /// Successes at the last failure.
    succeeded: u64,
    now: u64,
    longest: u64,
}

impl Streak {
    /// No failure yet.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::default()))
    }

    /// A request has failed. `counted` returns the successes in the banks.
    pub(super) fn fail(&self, counted: impl FnOnce() -> u64) {
        let mut state = self.0.lock();
        let succeeded = state.drained + counted();
        if succeeded != state.succeeded {
            (state.now, state.succeeded) = (0, succeeded);
        }
        state.now += 1;
        state.longest = state.longest.max(state.now);
    }

    /// Drains successes from the banks; `take` returns how many. No failure is counted meanwhile.
    pub(super) fn drain(&self, take: impl FnOnce() -> u64) {
        let mut state = self.0.lock();
        state.drained += take();
    }

    /// Longest run of consecutive failures so far.
    pub(super) fn longest(&self) -> u64 {
        self.0.lock().longest
    }
}
