//! The record of a successful request.

use std::time::Duration;

use crate::backend::Completion;
use crate::clock::Stamp;
use crate::generation::Limits;

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
    /// Whole sequences of requests.
    pub sequences: bool,
    /// From one request of a sequence to its next, where that is paced.
    pub pace: Option<Duration>,
    /// Limits that make a request a good one.
    pub limits: Limits,
    /// Cancelled requests, separately from failed ones.
    pub cancels: bool,
    /// How long threads take to run again after their request's last response.
    pub wakeups: bool,
    /// Requests end when their thread runs again, not with their last response.
    pub until_wakeup: bool,
    /// Consecutive failures.
    pub streaks: bool,
    /// Service times of the first requests of an open loop, separately; see [`crate::Recorder::keep_early`].
    pub early: bool,
    /// Closed windows, too, for whoever looks at the load while it runs.
    pub keeps: bool,
    /// Number of separate entries of the mix; 0 and 1 mean one model.
    pub entries: usize,
    /// Number of servers that requests are spread over; 0 and 1 mean one.
    pub servers: usize,
}

impl RecorderSpec {
    /// What is recorded separately: each entry's requests to each server.
    #[inline]
    pub fn parts(&self) -> usize {
        self.entries.max(1) * self.servers.max(1)
    }

    /// The number of an entry's requests to a server among them; `server` means nothing where there is one.
    #[inline]
    pub fn part(&self, entry: usize, server: usize) -> usize {
        let servers = self.servers.max(1);
        entry * servers + server.min(servers - 1)
    }

    /// The server of a part.
    #[inline]
    pub fn server_of(&self, part: usize) -> usize {
        part % self.servers.max(1)
    }
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
    /// When the client had its last response (or, if so configured, when its thread ran again); decides the window.
    pub end: Stamp,
    /// Time to hand it over, where taken.
    pub send_ns: Option<u64>,
    /// Time from the end of the slot's previous request until it was sent; 0 if that is meaningless.
    pub turnaround_ns: u64,
    /// Responses that carried data.
    pub responses: u32,
}

impl Sample {
    /// The sample of a successful completion, for loads whose requests end when the completion is reported.
    #[inline]
    pub fn new(completion: &Completion<'_>, intended: Option<Stamp>) -> Self {
        Self {
            intended,
            sent: completion.sent,
            first_response: completion.first_response,
            end: completion.last_response,
            send_ns: completion.send_end.map(|end| end.since(completion.sent)),
            turnaround_ns: 0,
            responses: completion.responses,
        }
    }
}
