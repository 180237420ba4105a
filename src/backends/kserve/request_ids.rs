//! Ids of requests to a server that traces them, and the reports to the sink that go with them.
//!
//! A server's trace identifies its request only by that request's id. So every slot has its own id, the same for all of
//! its requests: one of these is under way at a time, so the times of a trace tell which one it belongs to. Ids have
//! the same length for every slot and take the place of the output region's name in the request, so nothing has to be
//! rendered again for a request.

use std::hash::{BuildHasher, Hasher};
use std::process;
use std::sync::{Arc, OnceLock};

use crate::backend::{
    ClientSpec, Completion, CompletionSink, Generation, MAX_TRACED, ModelTrace, Next, RequestTrace, Response, SlotId,
    Uncounted,
};
use crate::kserve::regions::{TAG_WIDTH, TAGS, slot_tag};

/// The prefix of this process' ids: other clients of the server have ids, too, and its file has traces of earlier runs.
pub fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    // The standard library keys its hashes at random, once per process and map.
    let number = || std::hash::RandomState::new().build_hasher().finish() as u32;
    PREFIX.get_or_init(|| format!("triton-bench-{}-{:08x}-", process::id(), number()))
}

/// The id of a slot's requests.
pub fn of_slot(client: u32, slot: usize) -> Vec<u8> {
    [prefix().as_bytes(), &slot_tag(client, slot)].concat()
}

/// The slot of an id, as [`RequestReporter`] names it; `None` if the id is not from this process.
pub fn key(id: &str) -> Option<u64> {
    let tag = id.strip_prefix(prefix())?.get(..TAG_WIDTH)?;
    let (client, slot) = tag.split_once('_')?;
    Some(packed(client.parse().ok()?, slot.parse().ok()?))
}

fn packed(client: u32, slot: u32) -> u64 {
    u64::from(client) << 32 | u64::from(slot)
}

/// The sink of the client with this number; with ids, wrapped to report every request.
pub fn reporting(spec: &ClientSpec, sink: Arc<dyn CompletionSink>, client: u32) -> Arc<dyn CompletionSink> {
    if spec.traces.is_some() { Arc::new(RequestReporter::new(sink, client)) } else { sink }
}

/// Reports every request to a client's sink with its send and answer times, as if it had been traced without moments
/// from the server: the server's part comes later, from its file.
struct RequestReporter {
    sink: Arc<dyn CompletionSink>,
    client: u32,
}

impl RequestReporter {
    /// Wraps the sink of the client with this number.
    fn new(sink: Arc<dyn CompletionSink>, client: u32) -> Self {
        Self { sink, client }
    }
}

impl CompletionSink for RequestReporter {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        self.sink.response(slot, response);
    }

    fn generated(&self, slot: SlotId, generation: &Generation, uncounted: Uncounted<'_>) {
        self.sink.generated(slot, generation, uncounted);
    }

    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        let mut all = [ModelTrace::default(); MAX_TRACED];
        // The same number as in the id.
        all[0].id = packed(self.client % TAGS, slot.0 % TAGS);
        let Completion { sent, send_end, last_response, error, .. } = *completion;
        self.sink.traced(
            slot,
            &RequestTrace {
                sent,
                handed_over: send_end,
                last_response,
                succeeded: error.is_none(),
                weight: 1,
                more: false,
                count: 1,
                all,
            },
        );
        self.sink.complete(slot, completion)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::backend::InferError;
    use crate::clock::Stamp;

    #[derive(Default)]
    struct Sink(Mutex<Vec<RequestTrace>>);

    impl CompletionSink for Sink {
        fn response(&self, _: SlotId, _: &Response<'_>) {}

        fn traced(&self, _: SlotId, trace: &RequestTrace) {
            self.0.lock().push(*trace);
        }

        fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
            Next::Idle
        }
    }

    #[test]
    fn a_request_is_told_under_the_name_that_its_id_has() {
        let sink = Arc::<Sink>::default();
        let reporter = RequestReporter::new(sink.clone(), 1_000_003);
        let error = InferError::new("Cancelled", "by us");
        let completion = Completion {
            sent: Stamp(10),
            send_end: Some(Stamp(12)),
            first_response: Stamp(20),
            last_response: Stamp(30),
            responses: 2,
            error: Some(&error),
        };
        reporter.complete(SlotId(7), &completion);
        let id = String::from_utf8(of_slot(1_000_003, 7)).unwrap();
        let (trace, other) = (sink.0.lock()[0], format!("{id}-00000007-00000001"));
        assert_eq!((key(&id), key(&other)), (Some(trace.all[0].id), Some(trace.all[0].id)));
        assert_eq!((trace.sent, trace.last_response, trace.succeeded), (Stamp(10), Stamp(30), false));
        assert_ne!(key(&id), key(&String::from_utf8(of_slot(3, 8)).unwrap()));
    }

    #[test]
    fn ids_of_others_name_no_slot() {
        for id in
            ["", "7", "triton-bench-1-00000000-000001_000002", &format!("{}00", prefix()), &format!("{}é", prefix())]
        {
            assert_eq!(key(id), None, "{id}");
        }
    }
}
