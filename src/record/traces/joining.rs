//! Matches a server's own traces with the client's times of the same requests.
//!
//! A trace names the slot that its request was sent in. A slot has one request under way at a time, so the trace
//! belongs to the one between whose start and end the server began it. That needs the times of all requests, because it
//! is not known in advance which ones the server traces; their number is bounded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::queue::ArrayQueue;
use parking_lot::Mutex;

use crate::backend::{Moment, ServerTrace, ServerTraces};
use crate::clock::Stamp;
use crate::seed;
use crate::stdio::note;
use crate::traces::{KeptTrace, TracedRequest};

/// Capacity of the queue of requests.
const CAPACITY: usize = 1 << 16;
/// Limit on the requests of a level, 40 MiB; beyond it, one of two stands for both.
const MAX_REQUESTS: usize = 1 << 19;

/// The client's times of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientRequest {
    slot: u64,
    intended: Option<Stamp>,
    sent: Stamp,
    handed_over: Option<Stamp>,
    last_response: Stamp,
    awake: Option<Stamp>,
    succeeded: bool,
}

impl From<&TracedRequest> for ClientRequest {
    fn from(request: &TracedRequest) -> Self {
        let trace = &request.trace;
        Self {
            slot: trace.all[0].id,
            intended: request.intended,
            sent: trace.sent,
            handed_over: trace.handed_over,
            last_response: trace.last_response,
            awake: request.awake,
            succeeded: trace.succeeded,
        }
    }
}

impl ClientRequest {
    /// Whether it is the one in `one_in`, a power of two, that is kept.
    fn is_drawn(&self, one_in: u64) -> bool {
        seed::hash(self.slot, self.sent.0).is_multiple_of(one_in)
    }

    fn kept(&self, trace: &ServerTrace, one_in: u64) -> KeptTrace {
        KeptTrace {
            intended: self.intended,
            sent: self.sent,
            handed_over: self.handed_over,
            last_response: self.last_response,
            awake: self.awake,
            succeeded: self.succeeded,
            weight: f64::from(trace.weight) * one_in as f64,
            more: false,
            transit: Some(trace.transit),
            models: trace.models.as_slice().into(),
        }
    }
}

/// The requests of a level.
struct Requests {
    all: Vec<ClientRequest>,
    /// One in this many is in `all`, drawn at random, because the server traces every n-th.
    one_in: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { all: Vec::new(), one_in: 1 }
    }
}

impl Requests {
    fn add(&mut self, request: ClientRequest, most: usize) {
        if !request.is_drawn(self.one_in) {
            return;
        }
        self.all.push(request);
        if self.all.len() >= most {
            self.one_in *= 2;
            self.all.retain(|request| request.is_drawn(self.one_in));
        }
    }

    /// The requests that were traced, and the number of traces that match no known request.
    fn join(mut self, traces: &[ServerTrace]) -> (Vec<KeptTrace>, u64) {
        self.all.sort_unstable_by_key(|request| (request.slot, request.sent));
        let begun = self.all.iter().map(|request| request.sent).min().unwrap_or(Stamp::NEVER);
        let (mut found, mut unknown) = (HashMap::<usize, (Stamp, &ServerTrace)>::new(), 0);
        for trace in traces {
            let Some(start) = trace.models.first().and_then(|model| model.at(Moment::RequestStart)) else { continue };
            match self.index_of(trace, start) {
                // A request that was resent after its connection broke has an earlier trace, too; the answer belongs to
                // the last.
                Some(index) => {
                    let latest = found.entry(index).or_insert((start, trace));
                    if latest.0 < start {
                        *latest = (start, trace);
                    }
                }
                // Traces of the previous level arrive late, and with sampling not all requests are known.
                None => unknown += u64::from(start >= begun && self.one_in == 1),
            }
        }
        let mut joined: Vec<KeptTrace> =
            found.into_iter().map(|(index, (_, trace))| self.all[index].kept(trace, self.one_in)).collect();
        joined.sort_unstable_by_key(|trace| trace.sent);
        (joined, unknown)
    }

    /// The request of a trace that the server began at `start`.
    fn index_of(&self, trace: &ServerTrace, start: Stamp) -> Option<usize> {
        let after = self.all.partition_point(|request| (request.slot, request.sent) <= (trace.slot, start));
        let index = after.checked_sub(1)?;
        let request = &self.all[index];
        // A request that the server had before this one was sent is one that was given up.
        let fits =
            request.slot == trace.slot && start < request.last_response && trace.transit.received >= request.sent;
        fits.then_some(index)
    }
}

/// A server that writes its traces itself, and the requests that they may belong to.
pub(super) struct Joining {
    server: Box<dyn ServerTraces>,
    queue: ArrayQueue<ClientRequest>,
    requests: Mutex<Requests>,
    /// Whether the reason for missing traces has been reported.
    is_reported: AtomicBool,
}

impl Joining {
    pub(super) fn with(server: Box<dyn ServerTraces>) -> Self {
        let (queue, requests) = (ArrayQueue::new(CAPACITY), Mutex::default());
        Self { server, queue, requests, is_reported: AtomicBool::new(false) }
    }

    /// Notes a finished request. If there is no room for it, its trace will match no known request.
    pub(super) fn keep(&self, request: &TracedRequest) {
        let _ = self.queue.push(ClientRequest::from(request));
    }

    pub(super) fn empty(&self) {
        let mut requests = self.requests.lock();
        while let Some(request) = self.queue.pop() {
            requests.add(request, MAX_REQUESTS);
        }
    }

    /// Drops all requests so far.
    pub(super) fn forget(&self) {
        self.empty();
        *self.requests.lock() = Requests::default();
    }

    /// Matches the requests so far with the server's traces, and drops them. Also returns the number of traces that
    /// match none of them.
    pub(super) fn join(&self) -> (Vec<KeptTrace>, u64) {
        self.empty();
        let requests = std::mem::take(&mut *self.requests.lock());
        if requests.all.is_empty() {
            return (Vec::new(), 0);
        }
        match self.server.take() {
            Ok(traces) => requests.join(&traces),
            Err(error) => {
                if !self.is_reported.swap(true, Ordering::Relaxed) {
                    note!("{error}; the averages of its statistics are shown instead");
                }
                (Vec::new(), 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{ModelTrace, Transit};
    use crate::error::{Error, Result};

    fn request(slot: u64, sent: u64, last_response: u64) -> ClientRequest {
        ClientRequest {
            slot,
            intended: None,
            sent: Stamp(sent),
            handed_over: None,
            last_response: Stamp(last_response),
            awake: None,
            succeeded: true,
        }
    }

    /// A trace of a request that the server had read at `received`, ten nanoseconds before it began with it.
    fn trace(slot: u64, received: u64) -> ServerTrace {
        let moments = [received + 10, 0, 0, 0, 0, 0, received + 1_000_000];
        ServerTrace {
            slot,
            weight: 3,
            transit: Transit { received: Stamp(received), answering: Stamp(received + 50) },
            models: vec![ModelTrace { id: received, moments, ..ModelTrace::default() }],
        }
    }

    fn joined_requests(requests: &[ClientRequest]) -> Requests {
        let mut all = Requests::default();
        requests.iter().for_each(|request| all.add(*request, MAX_REQUESTS));
        all
    }

    /// Returns the matched requests, by send time, with the traces assigned to them, and the number of traces left.
    fn join(requests: &[ClientRequest], traces: &[ServerTrace]) -> (Vec<(u64, u64)>, u64) {
        let (kept, unknown) = joined_requests(requests).join(traces);
        (kept.iter().map(|trace| (trace.sent.0, trace.models[0].id)).collect(), unknown)
    }

    #[test]
    fn slots_whose_requests_overlap_are_told_apart_in_whatever_order_traces_come() {
        let requests = [request(1, 100, 200), request(2, 110, 210), request(1, 220, 300), request(2, 230, 320)];
        let traces = [trace(2, 240), trace(1, 120), trace(1, 240), trace(2, 120)];
        assert_eq!(join(&requests, &traces), (vec![(100, 120), (110, 120), (220, 240), (230, 240)], 0));
    }

    #[test]
    fn requests_that_were_not_traced_are_left_out_and_traces_of_unknown_ones_are_counted() {
        let requests = [request(1, 100, 200), request(1, 220, 300), request(1, 400, 500)];
        // In a pause between two requests, of a slot that has none, and of a level before.
        let traces = [trace(1, 230), trace(1, 310), trace(9, 230), trace(1, 20)];
        assert_eq!(join(&requests, &traces), (vec![(220, 230)], 2));
        assert_eq!(join(&[], &traces), (vec![], 0));
        let unbegun = ServerTrace { models: vec![ModelTrace::default()], ..trace(1, 230) };
        assert_eq!(join(&requests, &[unbegun]), (vec![], 0), "its server has not begun with it");
    }

    #[test]
    fn a_request_that_was_given_up_does_not_pass_its_trace_to_the_next() {
        // The server received it in time, but began it only when the slot already had the next one.
        let given_up = ClientRequest { succeeded: false, ..request(1, 100, 150) };
        let mut late = trace(1, 140);
        late.models[0].moments[0] = 190;
        assert_eq!(join(&[given_up, request(1, 160, 300)], &[late]), (vec![], 1));
        // A request that the server was working on when it was given up is matched, and counts as failed.
        let (kept, _) = joined_requests(&[given_up]).join(&[trace(1, 110)]);
        assert_eq!((kept.len(), kept[0].succeeded), (1, false));
    }

    #[test]
    fn what_is_sent_again_has_the_trace_of_its_answer() {
        let traces = [trace(1, 110), trace(1, 150), trace(1, 130)];
        assert_eq!(join(&[request(1, 100, 200)], &traces), (vec![(100, 150)], 0));
    }

    #[test]
    fn a_trace_has_the_times_of_its_request() {
        let request = ClientRequest {
            intended: Some(Stamp(90)),
            handed_over: Some(Stamp(105)),
            awake: Some(Stamp(210)),
            ..request(1, 100, 200)
        };
        let (kept, _) = joined_requests(&[request]).join(&[trace(1, 110)]);
        let expected = KeptTrace {
            intended: Some(Stamp(90)),
            sent: Stamp(100),
            handed_over: Some(Stamp(105)),
            last_response: Stamp(200),
            awake: Some(Stamp(210)),
            succeeded: true,
            weight: 3.0,
            more: false,
            transit: Some(trace(1, 110).transit),
            models: trace(1, 110).models.into(),
        };
        assert_eq!(kept, [expected]);
    }

    #[test]
    fn of_many_requests_some_stand_for_all_whichever_the_server_traces() {
        for rate in [1, 2, 4, 7] {
            let mut requests = Requests::default();
            let all: Vec<_> = (0..40_000).map(|number| request(1, 1_000 * number + 1, 1_000 * number + 900)).collect();
            all.iter().for_each(|request| requests.add(*request, 10_000));
            assert!(requests.all.len() < 10_000, "{}", requests.all.len());
            let traces: Vec<_> = (0..40_000).step_by(rate).map(|number| trace(1, 1_000 * number + 100)).collect();
            let (kept, unknown) = requests.join(&traces);
            let stood_for: f64 = kept.iter().map(|trace| trace.weight / 3.0).sum();
            assert!((stood_for / traces.len() as f64 - 1.0).abs() < 0.1, "{rate}: {stood_for} of {}", traces.len());
            assert_eq!(unknown, 0, "it is not known which of them are lost");
        }
    }

    /// A server whose file cannot be read.
    struct Unreadable;

    impl ServerTraces for Unreadable {
        fn take(&self) -> Result<Vec<ServerTrace>> {
            Err(Error::server("no"))
        }
    }

    #[test]
    fn a_server_is_asked_only_for_requests_and_what_it_does_not_tell_is_nothing() {
        let joining = Joining::with(Box::new(Unreadable));
        assert_eq!(joining.join(), (vec![], 0));
        assert!(!joining.is_reported.load(Ordering::Relaxed), "nothing was asked for");
        let _ = joining.queue.push(request(1, 100, 200));
        joining.forget();
        assert_eq!(joining.join(), (vec![], 0));
        let _ = joining.queue.push(request(1, 100, 200));
        assert_eq!(joining.join(), (vec![], 0));
        assert!(joining.is_reported.load(Ordering::Relaxed));
    }
}
