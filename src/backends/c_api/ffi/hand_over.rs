//! [`HandOver`]: whether a slot's request has been handed over to the server, so that another thread may cancel it.
//!
//! A request must not be touched while its issuing call runs, and that call may return late: its callbacks may have run
//! on other threads by then, and the slot may be handing over its next request, or have done so. Used only if requests
//! are cancelled.

use crate::sync::Mutex;

/// The hand-over state of a slot's request.
#[derive(Default)]
pub(super) struct HandOver(Mutex<HandOverState>);

#[derive(Default, PartialEq)]
enum HandOverState {
    /// There is none, or it is over.
    #[default]
    None,
    /// The issuing call of the slot's n-th request runs.
    Begun(u32),
    /// The server has it.
    Done,
}

impl HandOver {
    /// The slot's request number `number` is about to be issued.
    pub(super) fn begin(&self, number: u32) {
        *self.0.lock() = HandOverState::Begun(number);
    }

    /// The issuing call of request `number` has returned. Has no effect on a later request, if there is one by now.
    pub(super) fn end(&self, number: u32) {
        let mut stage = self.0.lock();
        if *stage == HandOverState::Begun(number) {
            *stage = HandOverState::Done;
        }
    }

    /// The request is over.
    pub(super) fn over(&self) {
        *self.0.lock() = HandOverState::None;
    }

    /// Calls `act` if the server has a request, which cannot end before `act` returns. Returns `false` otherwise, or if
    /// `act` does.
    pub(super) fn if_done(&self, act: impl FnOnce() -> bool) -> bool {
        let stage = self.0.lock();
        *stage == HandOverState::Done && act()
    }
}

#[cfg(test)]
mod tests {
    use super::HandOver;

    #[test]
    fn a_call_that_returns_late_says_nothing_of_the_next_request() {
        let hand_over = HandOver::default();
        let is_done = || hand_over.if_done(|| true);
        hand_over.begin(1);
        assert!(!is_done(), "the call runs");
        hand_over.over();
        hand_over.begin(2);
        hand_over.end(1);
        assert!(!is_done(), "the second call runs");
        hand_over.end(2);
        assert!(is_done() && !hand_over.if_done(|| false));
        hand_over.over();
        hand_over.end(2);
        assert!(!is_done(), "it was over before its call returned");
    }
}
