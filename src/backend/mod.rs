//! The seam between the load and the servers: who calls what on which thread, what may block, and who owns what until
//! when.
//!
//! A [`Backend`] is a way to reach a server. A worker opens a [`Client`], its private connection to it, with a number
//! of *slots*; a slot is a reusable place for one outstanding request. The worker submits; the backend reports to the
//! [`CompletionSink`], whose return value says what the slot does next. The contract:
//!
//! * [`Client::submit`] may complete the request on the calling stack, or later on any thread. It does not block on the
//!   server's answer, unless the backend is driven ([`Threading::Driven`]).
//! * [`CompletionSink::complete`] is called exactly once per accepted submission, when the slot is free again: every
//!   response has come *and* the server has released the request's memory. Calls for one slot never overlap; calls for
//!   different slots may. Implementations never wait, allocate nothing and take no shared lock, because they may run on
//!   a thread of the server that is being measured. The same goes for [`CompletionSink::response`]. Recording is
//!   wait-free. An export or output validation sees every request through copies of its responses, which lie in reused
//!   memory (`record::RecordPool`: allocated only when more copies wait than ever before) and pass through a
//!   bounded lock-free queue. If the queue is full the copy is dropped, because an export that lacks requests still has
//!   true latencies and one that waited would not. That is a last resort, after up to 1 GiB or half of the free memory,
//!   and the report says how many were dropped. One thing can wait: outputs on a GPU are first copied back by the
//!   driver.
//! * When it returns [`Next::Issue`], the backend submits that request in the same slot at once, on that thread, and
//!   makes sure that a server that completes on the calling stack does not recurse without bound.
//! * A failed inference is a counted outcome ([`Completion::error`]), and so is a failed submission; an `Err` from a
//!   client means that the client is broken and ends the level.
//! * Dropping a client waits for outstanding requests for a bounded time; what the server still holds after that is
//!   leaked, never freed under it.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod advice;
mod completion;
mod failure;
mod generation;
mod network;
pub mod null;
mod oddities;
mod reply;
mod request;
mod server;
mod trace;

use ::{data, model, shm};
use base::{clock, error};

use std::sync::Arc;
use std::time::Duration;

pub use completion::{Completion, CompletionSink, Next, Outputs, Response};
pub use failure::{ConnectionFault, ErrorCode, InferError};
pub use generation::{Generation, InputTokens, Uncounted};
pub use network::{Awaited, Network};
pub use oddities::{Oddities, Oddity, OddityKind};
pub use reply::{Misfit, ReplyChecks, ReplyForm, ReplyRule, ReplySource, reply_limit};
pub use request::{Request, RequestOptions, SequencePosition, SlotId};
pub use server::{BackendIdentity, ServerIdentity, release};
pub use trace::{
    MAX_TRACED, ModelName, ModelTrace, Moment, RequestTrace, ServerTrace, ServerTraces, TRACE_COST_NS, TraceRate,
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
    /// What this backend can do, and what the report calls the service.
    fn capabilities(&self) -> Capabilities;

    /// The server's own name and version, if it reports them.
    fn server(&self) -> Option<ServerIdentity> {
        None
    }

    /// Tensors, batching and scheduling of a model.
    ///
    /// # Errors
    /// If the model is unknown or not ready, with the server's reason.
    fn model(&self, id: &ModelId) -> Result<ModelSpec>;

    /// Receives everything that requests will carry, once, before any client is opened: the service encodes it now, and
    /// a payload that cannot be sent is reported before anything is sent.
    ///
    /// # Errors
    /// If a payload cannot be sent.
    fn prepare(&self, _models: &Arc<[ModelSpec]>, _payloads: &Arc<[Payload]>) -> Result<()> {
        Ok(())
    }

    /// Every model of the server's repositories, a row for each version.
    ///
    /// # Errors
    /// If the server does not list them.
    fn index(&self) -> Result<Vec<IndexEntry>> {
        Err(Error::server("this service does not list its models"))
    }

    /// Cumulative server-side counters of a model, over all its versions if `id` names none.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        Err(Error::server(format!("model '{id}': this service keeps no statistics")))
    }

    /// The statistics of all models in one exchange; `None` if the server has no such call.
    ///
    /// # Errors
    /// If the server cannot be reached.
    fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        Ok(None)
    }

    /// Calls `line` with every line of a server's metrics in Prometheus' text format, as they arrive. `server` is its number
    /// among [`Backend::servers`], 0 if there is one.
    ///
    /// # Errors
    /// If the server keeps none, cannot be reached, or breaks off.
    fn metrics(&self, _server: usize, _line: &mut dyn FnMut(&str)) -> Result<()> {
        Err(Error::server("this service keeps no metrics"))
    }

    /// Reloads these models, while no client is open; in process, all that the server has. Returns whether the service can; if not,
    /// nothing has changed.
    ///
    /// # Errors
    /// If a model is now missing, or the server does not release it.
    fn reload(&self, _models: &[ModelId]) -> Result<bool> {
        Ok(false)
    }

    /// Changes how models are configured; `None` if the service cannot.
    fn control(&self) -> Option<&dyn ModelControl> {
        None
    }

    /// Whether requests can be traced ([`ClientSpec::traces`]).
    fn traces(&self) -> bool {
        false
    }

    /// Whether answers are generated text, which is reported to the sink ([`CompletionSink::generated`]).
    fn generates(&self) -> bool {
        false
    }

    /// Whether a server in this process is taking the process with it.
    fn is_dying(&self) -> bool {
        false
    }

    /// The addresses of its servers, if requests are spread over several.
    fn servers(&self) -> &[String] {
        &[]
    }

    /// The connections of its clients; `None` without a network.
    fn network(&self) -> Option<&dyn Network> {
        None
    }

    /// Opens a worker's private client.
    ///
    /// # Errors
    /// If a request cannot be prepared or a connection cannot be made.
    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>>;
}

/// How long a model may take to load: one that is compiled first, or read from afar, takes minutes.
pub const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// A server that can load models with configurations other than their files', while no client is open.
pub trait ModelControl: Send + Sync {
    /// The configuration of a loaded model, in protobuf's JSON, completed by the server.
    ///
    /// # Errors
    /// If the model is unknown or not ready, with the server's reason.
    fn configuration(&self, id: &ModelId) -> Result<Value>;

    /// Loads a model with this configuration, or with its file's. If that fails, the model serves as before. A server over
    /// the network has `limit` to answer.
    ///
    /// # Errors
    /// The server's reason, or that it has not answered.
    fn load(&self, model: &str, configuration: Option<&Value>, limit: Duration) -> Result<()>;
}

/// A model, or a version of it, in the index of a server's repositories, as KServe's repository extension defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IndexEntry {
    /// The model's name.
    pub name: String,
    /// Empty if no version is loaded.
    pub version: String,
    /// `READY`, `UNAVAILABLE`, `LOADING`, `UNLOADING`; empty if the model was never requested.
    pub state: String,
    /// Why it is not ready.
    pub reason: String,
}

/// One worker's private client of the server, with a number of slots for outstanding requests.
pub trait Client: Send {
    /// Makes sure that there are at least `slots` slots. Slots are never removed.
    ///
    /// # Errors
    /// If a further request cannot be prepared or a connection cannot be made.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// Hands a request in a free slot to the server.
    ///
    /// # Errors
    /// Only if the client itself is broken; a request that the server refuses completes with an error.
    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()>;

    /// Lets a driven backend make progress until something completes or the deadline passes. Backends that complete on
    /// threads of their own return at once.
    ///
    /// # Errors
    /// If the client is broken.
    fn drive(&mut self, deadline: Stamp) -> Result<()>;

    /// What [`Client::drive`] would wait for, over a network and with several slots: with one it may block.
    fn awaited(&self) -> Awaited<'_> {
        Awaited::NOTHING
    }

    /// Asks the server to cancel the request in `slot`, if one is outstanding that was sent before `sent_before`: the
    /// slot may have started another since the caller decided. A cancelled request still completes. Returns `false` if
    /// it could not be asked now, because the slot is between two requests or hands one over; ask again while the
    /// request is overdue.
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
    /// Number of requests that it must be able to have outstanding.
    pub slots: usize,
    /// The same for all clients of its load together: every synchronous worker has a client, and memory kept per slot
    /// must be bounded for the whole load.
    pub load_slots: usize,
    /// Limit on its connections, at least one, if there is a limit: requests then wait for a free connection.
    /// Transports that multiplex requests have one connection anyway.
    pub connections: Option<usize>,
    /// What all requests have in common.
    pub options: Arc<RequestOptions>,
    /// Largest response in bytes, both compressed and decompressed, for models whose outputs have no fixed size
    /// ([`MAX_REPLY_BYTES`] by default). Not used in process, where nothing is transferred.
    pub max_reply_bytes: u64,
    /// Which responses count as successes.
    pub replies: ReplyRule,
    /// Where odd responses that count are noted.
    pub oddities: Arc<Oddities>,
    /// Whether the sink wants [`CompletionSink::response`] for every response.
    pub watch_responses: bool,
    /// Whether requests may be cancelled from another thread.
    pub cancels: bool,
    /// Which requests the server should trace, if it can ([`Backend::traces`]).
    pub traces: Option<TraceRate>,
    /// How long to wait for outstanding requests when the client is dropped.
    pub drain_limit: Duration,
}

impl ClientSpec {
    /// For payloads of models, one request at a time, with defaults for the rest: outputs in pageable memory, no
    /// options.
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
            replies: ReplyRule::default(),
            oddities: Arc::default(),
            watch_responses: false,
            cancels: false,
            traces: None,
            drain_limit: DRAIN_LIMIT,
        }
    }
}

/// How long a dropped client waits for its last request by default.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Default limit of a response: gRPC's libraries hold lengths as signed 32-bit numbers.
pub const MAX_REPLY_BYTES: u64 = i32::MAX as u64;

/// Where outputs are placed, and how large they may become if the model does not say.
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
    /// On the backend's own threads: a worker that has submitted waits.
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
    /// Whether they exist for requests with any number of responses, too.
    pub streams: bool,
}

impl ClientTimes {
    /// The words of services over HTTP.
    pub const HTTP: Self =
        Self { transport: "HTTP", both: "send/recv", send: "send", receive: "receive", streams: false };

    /// The words of services over gRPC.
    pub const GRPC: Self = Self {
        transport: "gRPC",
        both: "(un)marshal request/response",
        send: "marshal",
        receive: "unmarshal",
        streams: false,
    };
}

/// What a backend can do, and what reports call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `Service Kind:` of the report, such as `TRITON_C_API`.
    pub service_kind: &'static str,
    /// On which threads it makes progress.
    pub threading: Threading,
    /// The client times that the report shows; `None` if the backend has no own transport to report on.
    pub client_times: Option<ClientTimes>,
    /// Whether a request can be cancelled only while its client has no other outstanding.
    pub cancels_alone: bool,
    /// Whether [`Backend::statistics`] works.
    pub statistics: bool,
}

impl Capabilities {
    /// The name in the export, which is written in lower case: the report's name, except where perf_analyzer uses two.
    pub fn exported_kind(&self) -> &'static str {
        match self.service_kind {
            "TENSORFLOW_SERVING" => "TFSERVING",
            name => name,
        }
    }
}
