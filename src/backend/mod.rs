//! The seam between the load and the servers: who calls, on which thread, what may block, who owns what until when.
//!
//! A [`Backend`] is a way to reach a server. A worker opens a [`Client`], its private line, with a number of *slots*;
//! a slot is a place for one outstanding request and is used again and again. The worker submits; the backend reports
//! to the [`CompletionSink`], which answers what the slot does next. The contract:
//!
//! * [`Client::submit`] may complete the request on the calling stack, or later on any thread; it does not block on the
//!   server's answer unless the backend is driven ([`Threading::Driven`]), where it may.
//! * [`CompletionSink::complete`] is called exactly once per accepted submission, when the slot is free again: every
//!   response has come *and* the server has let go of the request's memory. Calls for one slot never overlap; calls for
//!   different slots may. Implementations never wait, allocate nothing and take no shared lock, because they may run on
//!   a thread of the server that is being measured. The same goes for [`CompletionSink::response`]. Recording is wait-free.
//!   Where somebody wants to see every request (an export, validation), its responses are copied into memory that is used
//!   again ([`crate::record::RecordPool`]: allocated only when more than ever before wait) and handed over through a bounded
//!   lock-free queue. What does not fit is not waited for: an export that lacks requests still has true latencies, one that
//!   waited would have none. It is the last resort, after up to 1 GiB or half of the free memory, and the report says how
//!   many there were. One thing can wait: outputs that are on a GPU are copied back first, by the driver.
//! * Where it answers [`Next::Issue`], the backend submits that request in the same slot at once, on that thread, and
//!   takes care that a server that completes on the calling stack does not recurse without bound.
//! * A failed inference is a counted outcome ([`Completion::error`]), a failed submission too; an `Err` from a client
//!   means that the client is broken and ends the level.
//! * Dropping a client waits for outstanding requests for a bounded time; what the server still holds after that is
//!   leaked, never freed under it.

mod completion;
mod failure;
mod generation;
mod reply;
mod request;
mod server;
mod trace;

use std::sync::Arc;
use std::time::Duration;

pub use completion::{Completion, CompletionSink, Next, Outputs, Response};
pub use failure::{ConnectionFault, ErrorCode, InferError};
pub use generation::Generation;
pub use reply::{ReplyChecks, ReplyForm, reply_limit};
pub use request::{CorrelationForm, Request, RequestOptions, SequencePosition, SlotId};
pub use server::{BackendIdentity, ServerIdentity};
pub use trace::{
    MOST_TRACED, ModelName, ModelTrace, Moment, RequestTrace, ServerTrace, ServerTraces, TRACE_COST_NS, TraceRate,
    Transit,
};

use serde::Deserialize;

use serde_json::Value;

use crate::clock::Stamp;
use crate::data::Payload;
pub use crate::data::{OutputView, Parameter, ParameterValue};
use crate::error::{Error, Result};
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::shm::{Placement, Placements};

/// A way to reach a server.
pub trait Backend: Send + Sync {
    /// What this backend can do, and how the report names what it measures.
    fn capabilities(&self) -> Capabilities;

    /// What the server calls itself, and its version, where it tells.
    fn server(&self) -> Option<ServerIdentity> {
        None
    }

    /// Tensors, batching and scheduling of a model.
    ///
    /// # Errors
    /// Where the model is unknown or not ready, with the server's reason.
    fn model(&self, id: &ModelId) -> Result<ModelSpec>;

    /// Takes what requests will carry, once, before any client is opened: what a service makes of it is made now, and what cannot
    /// be sent is said before anything is.
    ///
    /// # Errors
    /// Where a payload cannot be sent.
    fn prepare(&self, _models: &Arc<[ModelSpec]>, _payloads: &Arc<[Payload]>) -> Result<()> {
        Ok(())
    }

    /// Every model of the server's repositories, a row for each version.
    ///
    /// # Errors
    /// Where the server does not list them.
    fn index(&self) -> Result<Vec<IndexEntry>> {
        Err(Error::server("this service does not list its models"))
    }

    /// Cumulative server-side counters of a model, of all its versions where `id` names none.
    ///
    /// # Errors
    /// Where the server refuses or cannot be reached.
    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        Err(Error::server(format!("model '{id}': this service keeps no statistics")))
    }

    /// The same of all models, in one exchange; `None` where the server does not tell them so.
    ///
    /// # Errors
    /// Where the server cannot be reached.
    fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        Ok(None)
    }

    /// Calls `line` with every line of the server's metrics in Prometheus' text format, as they come.
    ///
    /// # Errors
    /// Where the server keeps none, cannot be reached, or breaks off.
    fn metrics(&self, _line: &mut dyn FnMut(&str)) -> Result<()> {
        Err(Error::server("this service keeps no metrics"))
    }

    /// Loads all models anew, while no client is open. Returns whether it could: where not, nothing has changed.
    ///
    /// # Errors
    /// Where a model is gone now, or the server does not let go of it.
    fn reload(&self) -> Result<bool> {
        Ok(false)
    }

    /// Changes how models are configured; `None` where the service cannot.
    fn control(&self) -> Option<&dyn ModelControl> {
        None
    }

    /// Whether requests can be traced ([`ClientSpec::traces`]).
    fn traces(&self) -> bool {
        false
    }

    /// Whether answers are generated text, of which the sink is told ([`CompletionSink::generated`]).
    fn generates(&self) -> bool {
        false
    }

    /// Whether the server has ended every connection that requests went over, and none will be made again: a load cannot
    /// go on then.
    fn is_gone(&self) -> bool {
        false
    }

    /// Most connections that requests went over at once since this was last asked; `None` where there is no network between.
    fn connections(&self) -> Option<usize> {
        None
    }

    /// Whether connections that are lost are made again: a server that is away may come back, and the load goes on.
    fn awaits_server(&self) -> bool {
        false
    }

    /// Opens a worker's private line.
    ///
    /// # Errors
    /// Where a request cannot be prepared or a connection cannot be made.
    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>>;
}

/// A server whose models can be loaded with other configurations than their files', while no client is open.
pub trait ModelControl: Send + Sync {
    /// The configuration of a model that is loaded, in protobuf's JSON, completed by the server.
    ///
    /// # Errors
    /// Where the model is unknown or not ready, with the server's reason.
    fn configuration(&self, id: &ModelId) -> Result<Value>;

    /// Loads a model with this configuration, or with its file's. Where it cannot be, the model serves as it did.
    ///
    /// # Errors
    /// The server's reason.
    fn load(&self, model: &str, configuration: Option<&Value>) -> Result<()>;
}

/// A model, or a version of it, in the index of a server's repositories, as KServe's repository extension has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IndexEntry {
    /// The model's name.
    pub name: String,
    /// Empty where none is loaded.
    pub version: String,
    /// `READY`, `UNAVAILABLE`, `LOADING`, `UNLOADING`; empty where it was never asked for.
    pub state: String,
    /// Why it is not ready.
    pub reason: String,
}

/// One worker's private line to the server, with a number of slots for outstanding requests.
pub trait Client: Send {
    /// Makes sure that there are at least `slots` slots. Slots are never taken away.
    ///
    /// # Errors
    /// Where a further request cannot be prepared or a connection cannot be made.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// Hands a request to the server in a free slot.
    ///
    /// # Errors
    /// Only where the client itself is broken; a request that the server refuses completes with an error.
    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()>;

    /// Lets a driven backend make progress until something completes or the deadline passes. Backends that complete on
    /// threads of their own return at once.
    ///
    /// # Errors
    /// Where the client is broken.
    fn drive(&mut self, deadline: Stamp) -> Result<()>;

    /// Asks the server to give up the request in `slot`, if one is outstanding that was sent before `sent_before`: the slot
    /// may have taken another since the caller made up its mind. It still completes. `false`: it could not be asked now,
    /// because the slot is between two requests or hands one over; ask again where one is overdue.
    fn cancel(&mut self, slot: SlotId, sent_before: Stamp) -> bool;

    /// Waits until no request is outstanding, for at most `limit`. Returns how many are left.
    fn drain(&mut self, limit: Duration) -> usize;
}

/// What a client needs to know when it is opened.
#[derive(Clone)]
pub struct ClientSpec {
    /// Models that requests may be for; payloads index them.
    pub models: Arc<[ModelSpec]>,
    /// Every payload that requests may carry.
    pub payloads: Arc<[Payload]>,
    /// Where outputs go.
    pub outputs: OutputPlan,
    /// Outstanding requests that it must take at once.
    pub slots: usize,
    /// Those that all clients of its load together must take at once: every synchronous worker has a client, and what is kept
    /// for a slot is to be bounded for the load.
    pub load_slots: usize,
    /// Most connections that it may have, at least one, where that is bounded: requests wait for one then. What carries many
    /// requests on a connection has one in any case.
    pub connections: Option<usize>,
    /// What all requests have in common.
    pub options: Arc<RequestOptions>,
    /// Largest response, in bytes as they come and after unpacking, for models whose outputs have no fixed size
    /// ([`MAX_REPLY_BYTES`] where nobody says otherwise). In process nothing travels, and this does not count.
    pub max_reply_bytes: u64,
    /// Whether every response is held against the model, not only the first of each slot and payload.
    pub validate_replies: bool,
    /// Whether the sink wants [`CompletionSink::response`] for every response.
    pub watch_responses: bool,
    /// Whether requests may be cancelled from another thread.
    pub cancels: bool,
    /// Which requests the server is to trace, where it can ([`Backend::traces`]).
    pub traces: Option<TraceRate>,
    /// How long a request may be waited for when the client is dropped.
    pub drain_limit: Duration,
}

impl ClientSpec {
    /// For payloads of models, one request at a time, with nothing out of the ordinary: outputs in pageable memory, no options.
    pub fn new(models: Arc<[ModelSpec]>, payloads: Arc<[Payload]>) -> Self {
        Self {
            models,
            payloads,
            outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 0 },
            slots: 1,
            load_slots: 1,
            connections: None,
            options: Arc::default(),
            max_reply_bytes: MAX_REPLY_BYTES,
            validate_replies: false,
            watch_responses: false,
            cancels: false,
            traces: None,
            drain_limit: DRAIN_LIMIT,
        }
    }
}

/// A client that is dropped waits so long for its last request where nobody says otherwise.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Largest response where nobody says otherwise: gRPC's libraries hold lengths as signed 32-bit numbers.
pub const MAX_REPLY_BYTES: u64 = i32::MAX as u64;

/// Where outputs are to be put, and how large they may become where the model does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPlan {
    /// Kinds of memory, which slots take in turn.
    pub placements: Placements,
    /// Bytes per output and batch element for outputs of variable size; also the cap on a shared region.
    pub variable_bytes: usize,
}

/// On which threads a backend makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threading {
    /// On threads of its own: a worker that has submitted waits.
    Own,
    /// Only inside [`Client::submit`] and [`Client::drive`].
    Driven,
}

/// How the report names the client's share of a request: `Avg HTTP time: … (send/recv … + response wait …)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimes {
    /// The transport, such as `HTTP`.
    pub transport: &'static str,
    /// Sending and receiving together, such as `send/recv`.
    pub both: &'static str,
    /// Sending alone, such as `send`.
    pub send: &'static str,
    /// Receiving alone, such as `receive`.
    pub receive: &'static str,
    /// Whether they are told of requests with any number of responses, too.
    pub streams: bool,
}

impl ClientTimes {
    /// Those of services over HTTP.
    pub const HTTP: Self =
        Self { transport: "HTTP", both: "send/recv", send: "send", receive: "receive", streams: false };
}

/// What a backend can do, and how reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `Service Kind:` of the report, such as `TRITON_C_API`.
    pub service_kind: &'static str,
    /// Who makes progress.
    pub threading: Threading,
    /// The client times that the report shows; none where the backend has no transport of its own to report on.
    pub client_times: Option<ClientTimes>,
    /// Whether a request can be cancelled only while it is its client's only one.
    pub cancels_alone: bool,
    /// Whether [`Backend::statistics`] works.
    pub statistics: bool,
}

impl Capabilities {
    /// The name in the export, which writes it in small letters: the report's, but where perf_analyzer has two.
    pub fn exported_kind(&self) -> &'static str {
        match self.service_kind {
            "TENSORFLOW_SERVING" => "TFSERVING",
            name => name,
        }
    }
}
