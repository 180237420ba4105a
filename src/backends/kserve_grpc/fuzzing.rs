//! Entry points of the fuzz targets under `fuzz/`: a gRPC server's bytes, parsed as answers.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    ClientSpec, Completion, CompletionSink, InferError, Next, ReplyForm, ReplyRule, Request, Response, SlotId,
};
use crate::data::{Payload, PayloadId};
use crate::engine::calls::events::{CallEvents, CallTable};
use crate::engine::calls::streams::{request_id, stream_token};
use crate::engine::calls::{Method, status};
use crate::engine::{ExchangeId, Exchanges};
use crate::kserve::regions::{Handle, Kind, RegionCalls, Registry};
use crate::kserve_grpc::model::{self, Source};
use crate::kserve_grpc::proto::control::{Ready, ServerMetadata, TraceSetting};
use crate::kserve_grpc::proto::{Answer, InferReply, ModelConfigResponse, ModelMetadata, Statistics, StreamReply};
use crate::kserve_grpc::request::{RequestForm, Streams};
use crate::kserve_grpc::service::KserveGrpc;
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::plan::Compression;
use crate::wire::fuzzing::{STREAMS, feed, opened};
use crate::wire::h2::{FrameHeader, Token};

/// Parses bytes as the answer to an inference, and checks it against a model.
pub fn answer(bytes: &[u8]) {
    thread_local! {
        static MODELS: [ModelSpec; 3] = [model_of(0, false), model_of(8, false), model_of(8, true)];
    }
    let reply = StreamReply::parse(bytes).map(|reply| reply.response).or_else(|| InferReply::parse(bytes));
    let Some(reply) = reply else { return };
    MODELS.with(|models| {
        for model in models {
            let form = ReplyForm { model, batch: 2, contents: !reply.lacks_contents() };
            let _ = form.check(reply.source(), &reply);
        }
    });
}

/// Parses bytes as every answer of the control plane.
pub fn control(bytes: &[u8]) {
    let _ = (Ready::read(bytes), ServerMetadata::read(bytes), TraceSetting::read(bytes));
    let _ = Statistics::read(bytes);
    let (metadata, config) = (ModelMetadata::read(bytes), ModelConfigResponse::read(bytes));
    let config = config.ok().and_then(|response| response.config).unwrap_or_default();
    let source = Source { id: &ModelId::latest("m"), is_triton: bytes.len().is_multiple_of(2) };
    let _ = model::model(source, metadata.unwrap_or_default(), &config);
}

/// Feeds frames to the requests of a client, one per record: type, flags, stream, length, contents. The first byte
/// selects the client's configuration. Every request must end at most once.
///
/// # Panics
/// Where one ends twice.
pub fn calls(bytes: &[u8]) {
    let Some((&setup, records)) = bytes.split_first() else { return };
    let (streaming, watch, decoupled, every) = (setup & 1 != 0, setup & 2 != 0, setup & 4 != 0, setup & 8 != 0);
    let mut exchanges = Exchanges::new(Arc::new(DiscardOutputs), watch);
    let streams = match (streaming, decoupled) {
        (true, _) => Streams::Shared,
        (false, true) => Streams::Own,
        (false, false) => Streams::None,
    };
    let mut method = unconnected(spec_of(model_of(0, decoupled), watch, every), streams);
    let mut calls = CallTable::new(None);
    let slots = STREAMS as usize;
    exchanges.grow(slots);
    calls.grow(slots);
    calls.streams.grow(slots);
    method.grow(slots).expect("nothing to connect to");
    for slot in 0..slots {
        exchanges.begin(slot, Request { payload: PayloadId(0), sequence: None });
        exchanges.sends(slot);
        (calls.slots[slot].stream, calls.slots[slot].shared) = (2 * slot as u32 + 1, slot);
        if streaming {
            calls.streams.opened(slot, 2 * slot as u32 + 1);
        }
    }
    let ids: Vec<ExchangeId> = (0..slots).map(|slot| exchanges.id(slot)).collect();
    let token = |number: u64| if streaming { stream_token(number as usize) } else { Token(ids[number as usize].0) };
    let mut connection = opened(token);
    let frames = as_frames(records, &ids);
    let mut events = CallEvents { calls: &mut calls, method: &mut method, exchanges: &mut exchanges };
    let ended = feed(&mut connection, usize::from(setup >> 4) * 7 + 1, &frames, &mut events);
    if ended.is_err() {
        exchanges.fail_outstanding(&status::error("Lost", ""), |_| true);
    }
    let mut over = exchanges.take_over(Vec::new());
    let ended = over.len();
    over.sort_unstable();
    over.dedup();
    assert_eq!(over.len(), ended, "a request ended twice");
}

/// A client's requests without a server.
fn unconnected(spec: ClientSpec, streams: Streams) -> KserveGrpc {
    struct Nobody;
    impl RegionCalls for Nobody {
        fn protocol(&self) -> &'static str {
            "none"
        }

        fn server(&self) -> String {
            String::new()
        }

        fn register(&self, _: &str, _: Handle<'_>, _: u64, _: Duration) -> Result<(), InferError> {
            Ok(())
        }

        fn unregister(&self, _: &str, _: Kind) -> Result<(), InferError> {
            Ok(())
        }
    }
    let form = RequestForm { encoding: Compression::None, streams };
    KserveGrpc::new(spec, Arc::new(Registry::new(Arc::new(Nobody))), form).expect("plain payloads")
}

/// Turns records into frames. A length from 250 stands for the id of a request in a response.
fn as_frames(mut records: &[u8], ids: &[ExchangeId]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&[kind, flags, stream, length], tail)) = records.split_first_chunk() {
        let id = [&[3 << 3 | 2, 17][..], &request_id(ids[usize::from(length) % ids.len()])].concat();
        let named = [&[0, 0, 0, 0, 21, 2 << 3 | 2, 19][..], &id].concat();
        let (payload, tail) = match length {
            250.. => (&named[..], tail),
            _ => tail.split_at(tail.len().min(usize::from(length))),
        };
        records = tail;
        let header = FrameHeader {
            length: payload.len() as u32,
            kind: kind & 15,
            flags: flags & 0x2d,
            stream: u32::from(stream % 8),
        };
        out.extend_from_slice(&header.bytes());
        out.extend_from_slice(payload);
    }
    out
}

fn model_of(max_batch_size: u64, decoupled: bool) -> ModelSpec {
    let tensor = |name: &str, datatype, shape: &[i64]| TensorSpec {
        name: name.to_owned(),
        datatype,
        shape: shape.to_vec(),
        optional: false,
        shape_tensor: false,
    };
    ModelSpec {
        max_batch_size,
        decoupled,
        ..ModelSpec::plain(
            &ModelId::latest("m"),
            Vec::new(),
            vec![tensor("O", DataType::Uint8, &[-1]), tensor("S", DataType::Bytes, &[2])],
        )
    }
}

fn spec_of(model: ModelSpec, watch_responses: bool, validate_replies: bool) -> ClientSpec {
    thread_local! {
        static PAYLOADS: RefCell<Arc<[Payload]>> = RefCell::new(
            [Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: Vec::new(), parameters: Vec::new(), expected: None }]
                .into(),
        );
    }
    ClientSpec {
        slots: STREAMS as usize,
        load_slots: STREAMS as usize,
        replies: if validate_replies { ReplyRule::Fitting } else { ReplyRule::default() },
        watch_responses,
        drain_limit: Duration::ZERO,
        ..ClientSpec::new([model].into(), PAYLOADS.with_borrow(Arc::clone))
    }
}

/// Reads every output and keeps nothing.
struct DiscardOutputs;

impl CompletionSink for DiscardOutputs {
    fn response(&self, _: SlotId, response: &Response<'_>) {
        response.outputs.visit(&mut |output| _ = std::hint::black_box(output.bytes.len()));
    }

    fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
        Next::Idle
    }
}
