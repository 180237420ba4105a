//! [`KserveGrpc`]: `ModelInfer` and `ModelStreamInfer`, for a client's slots.

use std::sync::Arc;

use bytes::Bytes;

use crate::backend::{ClientSpec, InferError, Request};
use crate::engine::Exchanges;
use crate::engine::calls::status::{self, BROKEN, EARLY};
use crate::engine::calls::{Method, parse_id};
use crate::error::Result;
use crate::kserve::regions::{InputRegions, OutputLayout, Registry, slot_tag};
use crate::kserve::request_ids;
use crate::kserve_grpc::proto::{InferReply, StreamReply};
use crate::kserve_grpc::regions::{PlacedOutputs, PlacedSlot};
use crate::kserve_grpc::request::{RequestEncoder, RequestForm, Streams};
use crate::kserve_grpc::rules::ReplyRules;
use crate::wire::grpc::Wish;

/// Code of failures without one, which all failures on long-lived streams are.
const FAILED: &str = "Inference failed";

/// The requests of a client in KServe v2 over gRPC.
pub struct KserveGrpc {
    spec: ClientSpec,
    registry: Arc<Registry>,
    /// Whether each request has its own stream.
    streams: bool,
    requests: RequestEncoder,
    rules: ReplyRules,
    /// Where outputs go, by slot, if not into replies.
    outputs: Vec<Option<PlacedSlot>>,
    /// Kept while requests refer to them.
    _inputs: InputRegions,
    /// The layout of outputs in a slot's region; `None` if they come in replies.
    layout: Option<Arc<OutputLayout>>,
    /// Part of the names of its slots' regions, and of their ids.
    number: u32,
    /// The ids of its slots, which appear in the server's traces; empty if nothing is traced.
    ids: Vec<Vec<u8>>,
    /// The id of a request on a stream.
    id: Vec<u8>,
}

impl KserveGrpc {
    /// Prepares every payload of `spec`; no slots yet.
    ///
    /// # Errors
    /// If a request cannot be prepared, or the server refuses a region.
    pub fn new(spec: ClientSpec, registry: Arc<Registry>, form: RequestForm) -> Result<Self> {
        let (inputs, number) = (registry.inputs(&spec.payloads)?, registry.client_number());
        Ok(Self {
            streams: form.streams == Streams::Own,
            requests: RequestEncoder::new(&spec, &inputs, form)?,
            rules: ReplyRules::new(&spec),
            outputs: Vec::new(),
            _inputs: inputs,
            layout: OutputLayout::for_client(&spec).map(Arc::new),
            registry,
            number,
            ids: Vec::new(),
            id: Vec::new(),
            spec,
        })
    }

    /// Its number among the clients of its backend.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Applies a message on a stream to its request.
    fn reply(&mut self, slot: usize, reply: &StreamReply<'_>, exchanges: &mut Exchanges) {
        exchanges.response_begins(slot);
        let payload = exchanges.request(slot).payload;
        let model = self.model_of(exchanges.request(slot));
        let decoupled = self.spec.models[model].decoupled;
        let failed = !reply.error.is_empty();
        let last = reply.response.last.unwrap_or(failed || !decoupled);
        // Decoupled models end requests with responses without content.
        let empty = decoupled && last && !failed && !reply.response.has_outputs;
        let watched = exchanges.watched();
        let contents = watched || self.outputs[slot].is_none();
        let placed = PlacedOutputs::read(&reply.response, self.outputs[slot].as_ref(), model, watched);
        let early = !exchanges.has_departed(slot);
        let fits = match failed || empty {
            _ if early => Err(status::error(BROKEN, EARLY)),
            true => Ok(()),
            false => self.rules.check(slot, payload, &reply.response, &placed, contents),
        };
        match fits {
            _ if failed => exchanges.respond_failed(slot, status::error(FAILED, reply.error)),
            Err(error) => exchanges.respond_failed(slot, error),
            Ok(()) if empty => exchanges.respond_empty(slot),
            Ok(()) => exchanges.respond(slot, &placed),
        }
        if last {
            exchanges.end(slot);
        }
    }
}

fn unreadable() -> InferError {
    status::error(BROKEN, "an answer is not a message of the protocol")
}

impl Method for KserveGrpc {
    fn grow(&mut self, slots: usize) -> Result<()> {
        while self.outputs.len() < slots {
            let tag = slot_tag(self.number, self.outputs.len());
            let placed = self.layout.as_ref().map(|layout| self.registry.outputs(layout, tag)).transpose()?;
            self.outputs.push(placed.map(|slot| PlacedSlot::new(slot, self.spec.models.len())));
            if self.spec.traces.is_some() {
                self.ids.push(request_ids::of_slot(self.number, self.outputs.len() - 1));
            }
            self.rules.add_slot(&self.spec);
        }
        Ok(())
    }

    #[inline]
    fn encode(&mut self, slot: usize, request: Request, id: &[u8]) -> Result<(&[u8], &[Bytes])> {
        let model = self.spec.payloads[request.payload.0 as usize].model;
        let outputs = self.outputs[slot].as_ref().map_or(&[][..], |outputs| outputs.requested(model));
        let id = match self.ids.get(slot) {
            None => id,
            Some(slot_id) if id.is_empty() => slot_id,
            Some(slot_id) => {
                // The slot's id for the trace, the request's id for its answer.
                self.id.clear();
                self.id.extend_from_slice(slot_id);
                self.id.extend_from_slice(id);
                &self.id
            }
        };
        self.requests.encode(request, id, outputs)
    }

    #[inline]
    fn model_of(&self, request: Request) -> usize {
        self.spec.payloads[request.payload.0 as usize].model
    }

    #[inline]
    fn streams_answers(&self) -> bool {
        self.streams
    }

    #[inline]
    fn wish(&self, slot: usize, exchanges: &Exchanges) -> Wish {
        let payload = exchanges.request(slot).payload;
        Wish {
            keep: self.streams || exchanges.watched() || self.rules.is_due(slot, payload),
            limit: self.rules.limit(payload),
        }
    }

    fn longest(&self) -> u64 {
        self.rules.longest()
    }

    #[inline]
    fn answer(&mut self, slot: usize, message: Option<&[u8]>, exchanges: &mut Exchanges) -> Result<(), InferError> {
        let Some(message) = message else {
            exchanges.responded(slot);
            return Ok(());
        };
        if message.is_empty() {
            return Err(status::error(BROKEN, "an answer is empty: it names no model and has no outputs"));
        }
        let (request, watched) = (exchanges.request(slot), exchanges.watched());
        let reply = match self.streams {
            true => StreamReply::parse(message).ok_or_else(unreadable)?,
            false => StreamReply { error: "", response: InferReply::parse(message).ok_or_else(unreadable)? },
        };
        if !reply.error.is_empty() {
            return Err(status::error(FAILED, reply.error));
        }
        let reply = reply.response;
        let contents = watched || self.outputs[slot].is_none();
        let model = self.model_of(request);
        let outputs = PlacedOutputs::read(&reply, self.outputs[slot].as_ref(), model, watched);
        self.rules.check(slot, request.payload, &reply, &outputs, contents)?;
        exchanges.respond(slot, &outputs);
        Ok(())
    }

    fn stream_answer(&mut self, message: &[u8], exchanges: &mut Exchanges) -> Result<(), InferError> {
        let reply = StreamReply::parse(message).ok_or_else(unreadable)?;
        let prefix_len = self.ids.first().map_or(0, Vec::len);
        let id = reply.response.id.get(prefix_len..).and_then(parse_id);
        match id.and_then(|id| exchanges.find(id)) {
            Some(slot) => self.reply(slot, &reply, exchanges),
            // Answers to a request that was given up, or has failed, are ignored; others cannot be matched.
            None if id.is_some_and(|id| id.slot() < exchanges.slots()) => {
                if !exchanges.has_ever_failed() {
                    self.spec.oddities.add_stray(&self.spec.models[0].id.name);
                }
            }
            None if !reply.error.is_empty() => return Err(status::error(FAILED, reply.error)),
            None => return Err(status::error(BROKEN, "an answer names no request")),
        }
        Ok(())
    }
}
