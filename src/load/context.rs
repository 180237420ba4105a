//! [`LoadContext`]: what the workers of a level share.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, ClientSpec};
use crate::data::PayloadId;
use crate::input_source::InputSource;
use crate::plan::Wait;
use crate::record::{Observer, Recorder, Source, TextLog, TraceLog};

/// Everything that the workers of a level share.
pub struct LoadContext {
    /// The backend under test.
    pub backend: Arc<dyn Backend>,
    /// Settings of the clients; `slots` and the share of `connections` are set per worker, `load_slots` when the load
    /// is prepared.
    pub client: ClientSpec,
    /// What each slot sends next.
    pub input_source: Arc<InputSource>,
    /// Where results go.
    pub recorder: Arc<Recorder>,
    /// How synchronous workers wait.
    pub wait: Wait,
    /// Processors that the workers are pinned to.
    pub worker_cpus: Option<Vec<usize>>,
    /// Total number of requests to send; unlimited if absent.
    pub quota: Option<u64>,
    /// Requests are cancelled when they have been outstanding for this long.
    pub cancel_after: Option<Duration>,
    /// Whether the server may answer while it is being asked, on the asking thread, as a cache in this process does.
    pub answers_at_once: bool,
    /// How long to wait for outstanding requests when the load ends.
    pub drain_limit: Duration,
    /// Where traced requests go.
    pub traces: Option<Arc<TraceLog>>,
    /// Where answers go whose tokens are to be counted.
    pub texts: Option<Arc<TextLog>>,
    /// Observer of requests and responses, if any.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whether anything is recorded separately: models, or servers.
    pub has_parts: bool,
}

/// What a request carried, and to which server.
pub(super) struct Carried {
    /// Its payload.
    pub(super) payload: PayloadId,
    /// The server, where there are several.
    pub(super) server: usize,
}

/// Default time to wait for outstanding requests.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

impl LoadContext {
    /// The minimum that workers need. They sleep for their answers, run until they are stopped, and nothing observes
    /// them.
    pub fn new(
        backend: Arc<dyn Backend>,
        client: ClientSpec,
        input_source: InputSource,
        recorder: Arc<Recorder>,
    ) -> Self {
        let has_parts = recorder.spec().parts() > 1;
        Self {
            backend,
            client,
            input_source: Arc::new(input_source),
            recorder,
            wait: Wait::Park,
            worker_cpus: None,
            quota: None,
            cancel_after: None,
            answers_at_once: false,
            drain_limit: DRAIN_LIMIT,
            traces: None,
            texts: None,
            observer: None,
            has_parts,
        }
    }

    /// The source of a record about a request. What it carried, and to which server, is asked where that is recorded
    /// separately: the payload may be cold in memory.
    #[inline]
    pub(super) fn source(&self, writer: usize, carried: impl FnOnce() -> Carried) -> Source {
        Source { writer, part: if self.has_parts { self.part(carried) } else { 0 } }
    }

    #[cold]
    #[inline(never)]
    fn part(&self, carried: impl FnOnce() -> Carried) -> usize {
        let Carried { payload, server } = carried();
        self.recorder.spec().part(self.client.payloads[payload.0 as usize].model, server)
    }

    /// Prepares the observer for the request streams below `request_streams`.
    pub(super) fn reserve_observed(&self, request_streams: usize) {
        if let Some(observer) = &self.observer {
            observer.reserve(request_streams);
        }
    }

    /// Settings of the client of worker number `worker` of `workers`: connections are assigned evenly.
    pub(super) fn client_spec(&self, slots: usize, worker: usize, workers: usize) -> ClientSpec {
        let part = |all: usize| (all / workers + usize::from(worker < all % workers)).max(1);
        ClientSpec { slots, connections: self.client.connections.map(part), ..self.client.clone() }
    }
}
