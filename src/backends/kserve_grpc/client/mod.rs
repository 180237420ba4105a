//! A worker's line over gRPC: one connection, which the worker itself drives.
//!
//! All slots share the connection, each request as a stream of its own or as a message on a stream that its slot or its
//! sequence keeps open. Answers that come in one read are all completed before anything is written, so that the requests
//! which follow them leave in one write. With 16 outstanding against Triton on two cores, one connection was at least as
//! fast as two, four or sixteen.

mod connection;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Client, ClientSpec, CompletionSink, InferError, Next, Request, SlotId};
use crate::backends::kserve_grpc::call::{Call, Phase};
use crate::backends::kserve_grpc::calls::Calls;
use crate::backends::kserve_grpc::line::{CONNECT_LIMIT, Line};
use crate::backends::kserve_grpc::metadata::Fields;
use crate::backends::kserve_grpc::regions::PlacedSlot;
use crate::backends::kserve_grpc::request::{RequestEncoder, RequestForm};
use crate::backends::kserve_grpc::status::{self, UNAVAILABLE};
use crate::backends::kserve_grpc::streams::{request_id, stream_token};
use crate::backends::regions::{InputRegions, OutputLayout, Registry, slot_tag};
use crate::clock::Stamp;
use crate::engine::{Connector, LineTally, TalliedLine, late};
use crate::error::{Error, Result};
use crate::plan::Compression;
use crate::wire::h2::{Encoder, ErrorCode, Message, Token};

/// Pause between attempts to connect again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Pause between rounds of requests that fail because there is no connection.
const DEAD_PAUSE: Duration = Duration::from_millis(20);

/// Looks at what came while a connection was idle.
const MOST_TAKES: u32 = 64;

/// How long a client that is dropped waits for answers. Whoever drops it has waited, and the end of a connection tells the
/// server that nobody does any more.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// How a client calls.
#[derive(Clone)]
pub struct CallPlan {
    /// Makes its connections.
    pub connector: Arc<Connector>,
    /// Tells the server of shared memory.
    pub registry: Arc<Registry>,
    /// Header fields of its calls.
    pub fields: Fields,
    /// Whether requests go on streams that stay open, one for each slot.
    pub streaming: bool,
    /// Compression of requests.
    pub compression: Compression,
    /// How long an answer may take.
    pub deadline: Option<Duration>,
    /// Whether a lost connection is made again.
    pub reconnect: bool,
    /// All connections of the backend's clients.
    pub tally: Arc<LineTally>,
}

/// A worker's line over gRPC.
pub struct GrpcClient {
    plan: CallPlan,
    spec: ClientSpec,
    sink: Arc<dyn CompletionSink>,
    calls: Calls,
    requests: RequestEncoder,
    headers: Encoder,
    line: Option<Line>,
    place: TalliedLine,
    /// Why there is no line.
    lost: InferError,
    retry_at: Stamp,
    /// Requests without a stream, because the server allows no more.
    queued: VecDeque<(u32, Request)>,
    /// When requests are late, in the order of sending.
    deadlines: VecDeque<(Stamp, Token)>,
    telling: Vec<u32>,
    /// The TLS layer may hold bytes that no poll of the socket tells of.
    unread: bool,
    /// Kept for as long as requests name them.
    _inputs: InputRegions,
    /// Where outputs go in the region of a slot; none where they come in replies.
    layout: Option<Arc<OutputLayout>>,
    /// In the names of its slots' regions.
    number: u32,
}

impl GrpcClient {
    /// Connects and prepares every payload.
    ///
    /// # Errors
    /// Where the server cannot be reached or a request cannot be prepared.
    pub fn open(plan: CallPlan, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Self> {
        let (inputs, number) = (plan.registry.inputs(&spec.payloads)?, plan.registry.client_number());
        let form = RequestForm { encoding: plan.compression, streaming: plan.streaming };
        let requests = RequestEncoder::new(&spec, &inputs, form)?;
        let line = Line::connect(&plan.connector, CONNECT_LIMIT).map_err(|error| Error::server(error.to_string()))?;
        let mut client = Self {
            calls: Calls::new(Arc::clone(&sink), &spec, plan.deadline.map(late)),
            place: TalliedLine::new(&plan.tally),
            headers: Encoder::new(&plan.fields),
            plan,
            requests,
            sink,
            line: Some(line),
            lost: status::error(UNAVAILABLE, "there is no connection"),
            retry_at: Stamp::default(),
            queued: VecDeque::new(),
            deadlines: VecDeque::new(),
            telling: Vec::new(),
            unread: false,
            _inputs: inputs,
            layout: OutputLayout::of(&spec).map(Arc::new),
            number,
            spec,
        };
        client.grow(client.spec.slots)?;
        Ok(client)
    }

    /// Starts a request in a free slot, or ends it at once with the reason why it cannot be.
    fn begin(&mut self, slot: u32, request: Request) -> Result<()> {
        if self.place.enter() {
            // The connection may have waited for its first request for long.
            for _ in 0..MOST_TAKES {
                if !self.take() {
                    break;
                }
            }
        }
        let model = self.spec.payloads[request.payload.0 as usize].model;
        let decoupled = self.spec.models[model].decoupled;
        let now = Stamp::now();
        let call = &mut self.calls.slots[slot as usize];
        call.begin(now, request.payload, (model, decoupled));
        if self.plan.streaming {
            call.ends = request.sequence.filter(|position| position.end).map(|position| (model, position.id));
            call.shared = self.calls.streams.assign(slot as usize, model, request.sequence);
        }
        if let Some(limit) = self.plan.deadline {
            self.deadlines.push_back((now.plus_duration(limit), self.calls.token(slot as usize)));
        }
        self.connect_again();
        self.send(slot, request)
    }

    /// Sends a request, or queues it, or ends it.
    fn send(&mut self, slot: u32, request: Request) -> Result<()> {
        let index = slot as usize;
        if self.line.is_none() {
            let lost = self.lost.clone();
            self.calls.now = Stamp::now();
            self.calls.fail(index, lost);
            return Ok(());
        }
        let Some(stream) = self.stream_for(index) else {
            match self.line.as_ref().and_then(|line| line.h2.goaway()) {
                Some(goaway) if !self.plan.reconnect => {
                    let error = status::of_goaway(goaway);
                    self.calls.now = Stamp::now();
                    self.calls.fail(index, error);
                }
                _ => self.queued.push_back((slot, request)),
            }
            return Ok(());
        };
        let token = self.calls.token(index);
        let id = self.plan.streaming.then(|| request_id(token));
        let model = self.calls.slots[index].model;
        let outputs = self.calls.outputs[index].as_ref().map_or(&[][..], |outputs| outputs.requested(model));
        let (head, parts) = self.requests.encode(request, id.as_ref().map_or(&[], |id| &id[..]), outputs)?;
        if let Some(line) = &mut self.line {
            line.h2.send(stream, Message { token, head, parts, end: !self.plan.streaming });
        }
        let call = &mut self.calls.slots[index];
        call.stream = stream;
        call.phase = Phase::Outstanding;
        Ok(())
    }

    /// The stream of the connection that a slot's request goes on; opened, unless it is open. `None` where it must wait.
    fn stream_for(&mut self, slot: usize) -> Option<u32> {
        let line = self.line.as_mut().filter(|line| !line.h2.is_congested())?;
        let shared = self.calls.slots[slot].shared;
        let found = if self.plan.streaming { self.calls.streams.find(shared) } else { None };
        if found.is_none() && line.h2.can_open() {
            let token = if self.plan.streaming { stream_token(shared) } else { self.calls.token(slot) };
            let number = line.h2.open(token, self.headers.next_block(line.h2.peer().header_table_size));
            if self.plan.streaming {
                self.calls.streams.opened(shared, number);
            }
            return Some(number);
        }
        let (shared, number) = found.or_else(|| self.calls.streams.share(shared))?;
        self.calls.slots[slot].shared = shared;
        Some(number)
    }

    /// Opens streams for requests that wait for one.
    fn open_queued(&mut self) -> Result<()> {
        for _ in 0..self.queued.len() {
            if self.line.as_ref().is_some_and(|line| line.h2.is_congested())
                || !self.calls.streams.any_open() && self.line.as_ref().is_some_and(|line| !line.h2.can_open())
            {
                break;
            }
            let Some((slot, request)) = self.queued.pop_front() else { break };
            if self.calls.slots[slot as usize].phase == Phase::Queued {
                self.send(slot, request)?;
            }
        }
        Ok(())
    }

    /// Ends requests that are late.
    fn expire(&mut self, now: Stamp) {
        let Some(limit) = self.plan.deadline else { return };
        while let Some(&(late_at, token)) = self.deadlines.front() {
            let slot = token.0 as u32 as usize;
            let pending = self.calls.slots[slot].is_pending() && self.calls.token(slot) == token;
            if pending && late_at > now {
                return;
            }
            self.deadlines.pop_front();
            if pending {
                self.calls.now = now;
                self.give_up(slot, late(limit));
            }
        }
    }

    /// Ends a request from our side and tells the server, unless that would end others on its stream.
    fn give_up(&mut self, slot: usize, error: InferError) {
        let Call { phase, stream, shared, .. } = self.calls.slots[slot];
        if phase == Phase::Outstanding
            && (!self.plan.streaming || self.calls.is_alone(slot))
            && let Some(line) = &mut self.line
        {
            line.h2.reset(stream, ErrorCode::CANCEL);
            if self.plan.streaming {
                self.calls.streams.close(shared);
            }
        }
        self.calls.fail(slot, error);
    }

    /// Tells the sink of requests that are over, and sends those that it answers with. Whether there were any.
    fn tell(&mut self) -> Result<bool> {
        if self.calls.over.is_empty() {
            return Ok(false);
        }
        let mut telling = std::mem::replace(&mut self.calls.over, std::mem::take(&mut self.telling));
        for slot in telling.drain(..) {
            let call: &mut Call = &mut self.calls.slots[slot as usize];
            call.phase = Phase::Free;
            if let Some(sequence) = call.ends.take() {
                self.calls.streams.ended(sequence);
            }
            let error = call.error.take();
            let completion = call.completion(self.calls.now, error.as_ref());
            if let Next::Issue(request) = self.sink.complete(SlotId(slot), &completion) {
                self.begin(slot, request)?;
            }
        }
        self.telling = telling;
        Ok(true)
    }

    fn pending(&self) -> usize {
        self.calls.slots.iter().filter(|call| call.phase != Phase::Free).count()
    }

    /// When to look up at the latest: at the deadline, or when the oldest request is late.
    fn look_up(&self, deadline: Stamp) -> Stamp {
        self.deadlines.front().map_or(deadline, |late| late.0.min(deadline))
    }
}

impl Client for GrpcClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        if slots > u32::MAX as usize {
            return Err(Error::usage(format!("{slots} outstanding requests on one client are too many")));
        }
        if self.plan.streaming {
            self.calls.streams.grow(slots);
        }
        while self.calls.slots.len() < slots {
            let tag = slot_tag(self.number, self.calls.slots.len());
            let placed = self.layout.as_ref().map(|layout| self.plan.registry.outputs(layout, tag)).transpose()?;
            self.calls.outputs.push(placed.map(|slot| PlacedSlot::new(slot, self.spec.models.len())));
            self.calls.add_slot(&self.spec);
        }
        Ok(())
    }

    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        self.begin(slot.0, request)?;
        self.flush();
        Ok(())
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        loop {
            if self.line.is_none() {
                std::thread::sleep(DEAD_PAUSE.min(deadline.from_now()));
                self.calls.now = Stamp::now();
                self.tell()?;
                return Ok(());
            }
            if self.tell()? {
                self.flush();
                return Ok(());
            }
            self.flush();
            if let Some(line) = &self.line
                && self.calls.over.is_empty()
            {
                if !self.unread {
                    let waited = line.wait(self.look_up(deadline));
                    waited.map_err(|error| Error::machine(error.to_string()))?;
                }
                self.take();
                if !self.deadlines.is_empty() {
                    self.expire(Stamp::now());
                }
                self.retire_line();
                self.open_queued()?;
            }
            if self.calls.over.is_empty() && Stamp::now() >= deadline {
                self.flush();
                return Ok(());
            }
        }
    }

    /// A call of its own is reset. Of a stream that stays open nothing but the whole could be: there a request is cancelled
    /// only while it is the only one.
    fn cancel(&mut self, slot: SlotId, _sent_before: Stamp) -> bool {
        let slot = slot.index();
        if !self.calls.slots.get(slot).is_some_and(Call::is_pending) {
            return true;
        }
        self.calls.now = Stamp::now();
        let cancelled = || status::error(InferError::CANCELLED, "cancelled by the client");
        let queued = self.calls.slots[slot].phase == Phase::Queued;
        if !self.plan.streaming || queued || self.calls.is_alone(slot) {
            self.give_up(slot, cancelled());
        }
        self.flush();
        true
    }

    fn drain(&mut self, limit: Duration) -> usize {
        let deadline = Stamp::now().plus_duration(limit);
        loop {
            let pending = self.pending();
            if pending == 0 || Stamp::now() >= deadline || self.drive(deadline).is_err() {
                return pending;
            }
        }
    }
}

impl Drop for GrpcClient {
    /// Requests that are still with the server are waited for a moment, then forgotten: it has copies of all that they need, and its
    /// own view of shared memory, which it keeps for as long as they use it.
    fn drop(&mut self) {
        self.drain(self.spec.drain_limit.min(LAST_MOMENT));
        if let Some(line) = &mut self.line {
            self.calls.streams.numbers().for_each(|stream| line.h2.finish(stream));
            let _ = line.flush(|_| ());
            line.shutdown();
        }
    }
}
