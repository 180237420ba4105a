//! [`Streak`]: failures one after the other, without a success between.

use crate::sync::Mutex;

/// Counts failures one after the other. Only a failure looks whether anything succeeded since the one before, so that successes
/// cost nothing.
pub(super) struct Streak(Mutex<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Successes that were counted and then taken out of the banks.
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

    /// A request has failed. `counted` tells the successes that the banks hold.
    pub(super) fn fail(&self, counted: impl FnOnce() -> u64) {
        let mut state = self.0.lock();
        let succeeded = state.drained + counted();
        if succeeded != state.succeeded {
            (state.now, state.succeeded) = (0, succeeded);
        }
        state.now += 1;
        state.longest = state.longest.max(state.now);
    }

    /// Takes successes out of the banks; `take` tells how many. No failure looks meanwhile.
    pub(super) fn drain(&self, take: impl FnOnce() -> u64) {
        let mut state = self.0.lock();
        state.drained += take();
    }

    /// Most failures one after the other, so far.
    pub(super) fn longest(&self) -> u64 {
        self.0.lock().longest
    }
}
