//! What is recorded of a successful request.

use crate::backend::Completion;
use crate::clock::Stamp;
use crate::record::generation::Limits;

/// What is recorded besides the service time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderSpec {
    /// Response time and schedule delay.
    pub open_loop: bool,
    /// First response and gaps.
    pub decoupled: bool,
    /// What language models generate.
    pub generates: bool,
    /// Conversations of several requests.
    pub sessions: bool,
    /// What a good request keeps.
    pub limits: Limits,
    /// Cancelled requests, apart from failed ones.
    pub cancels: bool,
    /// How long threads take to go on after their request's last response.
    pub wakeups: bool,
    /// Requests end when their thread goes on, and not with their last response.
    pub until_wakeup: bool,
    /// Failures one after the other.
    pub streaks: bool,
    /// Entries of the mix that are kept apart; 0 and 1 are one model.
    pub entries: usize,
}

/// A successful request.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it should have been sent, in open loops.
    pub intended: Option<Stamp>,
    /// When it was sent.
    pub sent: Stamp,
    /// When its first response came.
    pub first_response: Stamp,
    /// When the client had its last response (where it is asked for, when its thread went on); decides the window.
    pub end: Stamp,
    /// Time to hand it over, where taken.
    pub send_ns: Option<u64>,
    /// Time from the end of the slot's request before this one until it was sent; 0 where that says nothing.
    pub turnaround_ns: u64,
    /// Responses that carried data.
    pub responses: u32,
    /// Whether it ended a sequence.
    pub sequence_end: bool,
}

impl Sample {
    /// What a successful completion says, for a load whose requests end where the completion is reported.
    #[inline]
    pub fn of(completion: &Completion<'_>, intended: Option<Stamp>, sequence_end: bool) -> Self {
        Self {
            intended,
            sent: completion.sent,
            first_response: completion.first_response,
            end: completion.last_response,
            send_ns: completion.send_end.map(|end| end.since(completion.sent)),
            turnaround_ns: 0,
            responses: completion.responses,
            sequence_end,
        }
    }
}
