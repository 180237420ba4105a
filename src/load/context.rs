//! [`LoadContext`]: what the workers of a level share.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, ClientSpec};
use crate::data::PayloadId;
use crate::load::feed::Feed;
use crate::plan::Wait;
use crate::record::{Observer, Recorder, Source, TextLog, TraceLog};

/// Everything that the workers of a level share.
pub struct LoadContext {
    /// The way to the server.
    pub backend: Arc<dyn Backend>,
    /// What clients are opened with; `slots` is set per worker, as its part of `connections` is, `load_slots` when the load is prepared.
    pub client: ClientSpec,
    /// What each slot sends next.
    pub feed: Arc<Feed>,
    /// Where results go.
    pub recorder: Arc<Recorder>,
    /// How synchronous workers wait.
    pub wait: Wait,
    /// Processors of the workers.
    pub worker_cpus: Option<Vec<usize>>,
    /// Requests to send in all; without bound if absent.
    pub quota: Option<u64>,
    /// Requests are cancelled when they have been outstanding for so long.
    pub cancel_after: Option<Duration>,
    /// How long outstanding requests are waited for when the load ends.
    pub drain_limit: Duration,
    /// Where requests go that the server traced.
    pub traces: Option<Arc<TraceLog>>,
    /// Where answers go whose tokens are to be counted.
    pub texts: Option<Arc<TextLog>>,
    /// Who else sees requests and responses.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Outstanding requests are waited for this long where nobody says otherwise.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

impl LoadContext {
    /// What workers need in any case. They sleep for their answers, go on until they are stopped, and nobody else looks on.
    pub fn new(backend: Arc<dyn Backend>, client: ClientSpec, feed: Feed, recorder: Arc<Recorder>) -> Self {
        Self {
            backend,
            client,
            feed: Arc::new(feed),
            recorder,
            wait: Wait::Park,
            worker_cpus: None,
            quota: None,
            cancel_after: None,
            drain_limit: DRAIN_LIMIT,
            traces: None,
            texts: None,
            observer: None,
        }
    }

    /// Where a record about a request comes from.
    #[inline]
    pub(super) fn source(&self, writer: usize, payload: PayloadId) -> Source {
        // One model needs no look at the payload, whose memory may be anywhere.
        let several = self.client.models.len() > 1;
        Source { writer, entry: if several { self.client.payloads[payload.0 as usize].model } else { 0 } }
    }

    /// Makes whoever else sees requests ready for the lanes below `lanes`.
    pub(super) fn reserve_observed(&self, lanes: usize) {
        if let Some(observer) = &self.observer {
            observer.reserve(lanes);
        }
    }

    /// What the client of a worker is opened with, which has this number of so many: connections are dealt evenly.
    pub(super) fn client_spec(&self, slots: usize, (worker, workers): (usize, usize)) -> ClientSpec {
        let part = |all: usize| (all / workers + usize::from(worker < all % workers)).max(1);
        ClientSpec { slots, connections: self.client.connections.map(part), ..self.client.clone() }
    }
}
