//! Entries for the fuzz targets under `fuzz/`: everything that reads what a gRPC server sends.

use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    ClientSpec, Completion, CompletionSink, MAX_REPLY_BYTES, Next, OutputPlan, ReplyForm, RequestOptions, Response,
    SlotId,
};
use crate::backends::grpc::call::Phase;
use crate::backends::grpc::calls::Calls;
use crate::backends::grpc::h2::{
    Connection, ConnectionError, Decoder, Encoder, Events, FrameHeader, HeaderList, Message, Reset, Token,
};
use crate::backends::grpc::message::{MessageReader, Wish};
use crate::backends::grpc::model;
use crate::backends::grpc::proto::control::{Ready, ServerMetadata, TraceSetting};
use crate::backends::grpc::proto::{Answer, InferReply, ModelConfigResponse, ModelMetadata, StreamReply};
use crate::backends::grpc::streams::{request_id, stream_token};
use crate::clock::Stamp;
use crate::data::{Payload, PayloadId};
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{DataType, ModelId, ModelSpec, Scheduler, TensorSpec};
use crate::shm::Placement;

/// Streams that are open before anything is read.
const STREAMS: u64 = 3;
/// SETTINGS, which a server says first: small windows.
const SETTINGS: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 40];

/// Reads bytes as frames of a connection, in one piece and in pieces; both must come to the same.
///
/// # Panics
/// Where a promise is broken.
pub fn frames(piece: usize, bytes: &[u8]) {
    let (whole, pieces) = (heard(bytes.len().max(1), bytes), heard(piece.max(1), bytes));
    assert_eq!(whole, pieces);
}

/// Events, the error that ended the connection, and what we said.
type Heard = (Vec<(u64, String, Vec<u8>)>, Option<ConnectionError>, Vec<u8>);

fn heard(piece: usize, bytes: &[u8]) -> Heard {
    let mut connection = opened(|number| Token(number));
    let mut log = Log::default();
    let error = feed(&mut connection, (piece, bytes), &mut log).err();
    if let Some(error) = &error {
        connection.close(error);
    }
    (log.0, error, said(&mut connection))
}

/// A connection with open streams, one of whose requests still waits for its window.
fn opened(token: impl Fn(u64) -> Token) -> Connection {
    let mut connection = Connection::new();
    connection.receive(&SETTINGS, &mut Log::default()).expect("plain settings");
    for number in 0..STREAMS {
        let stream = connection.open(token(number), &[0x83]);
        let head: &[u8] = if number == 0 { &[7; 100] } else { &[7] };
        connection.send(stream, Message { token: token(number), head, parts: &[], end: number != 2 });
    }
    said(&mut connection);
    connection
}

/// Hands over bytes as a socket would.
fn feed<E: Events>(
    connection: &mut Connection,
    (piece, bytes): (usize, &[u8]),
    events: &mut E,
) -> Result<(), ConnectionError> {
    let mut waiting = Vec::new();
    for part in bytes.chunks(piece) {
        waiting.extend_from_slice(part);
        let used = connection.receive(&waiting, events)?;
        waiting.drain(..used);
    }
    Ok(())
}

/// What waits to be written, which leaves.
fn said(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !connection.out().is_empty() {
        let mut slices = [IoSlice::new(&[]); 16];
        let filled = connection.out().slices(&mut slices);
        let before = bytes.len();
        slices[..filled].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let count = bytes.len() - before;
        connection.wrote(count, |_| ());
    }
    bytes
}

/// Events, the parts of a body joined.
#[derive(Default)]
struct Log(Vec<(u64, String, Vec<u8>)>);

impl Events for Log {
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool) {
        let fields = headers.iter().flat_map(|(name, value)| [name, b"=", value, b";"].concat()).collect();
        self.0.push((token.0, format!("headers {end}"), fields));
    }

    fn data(&mut self, token: Token, bytes: &[u8], end: bool) {
        let joins = |last: &&mut (u64, String, Vec<u8>)| last.0 == token.0 && last.1 == "data";
        match self.0.last_mut().filter(joins) {
            Some(last) => last.2.extend_from_slice(bytes),
            None => self.0.push((token.0, "data".to_owned(), bytes.to_vec())),
        }
        if end {
            self.0.push((token.0, "end".to_owned(), Vec::new()));
        }
    }

    fn reset(&mut self, token: Token, why: Reset<'_>) {
        self.0.push((token.0, format!("{why:?}"), Vec::new()));
    }
}

/// Decodes header blocks, each after its length. What was decoded must come out again where it is encoded anew.
///
/// # Panics
/// Where a promise is broken.
pub fn header_blocks(mut bytes: &[u8]) {
    let (mut decoder, mut list) = (Decoder::default(), HeaderList::default());
    while let Some((&length, rest)) = bytes.split_first() {
        let (block, rest) = rest.split_at(rest.len().min(usize::from(length)));
        bytes = rest;
        if decoder.decode(block, &mut list).is_err() {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
        let fields = list.iter().map(|(name, value)| Ok((text(name)?, text(value)?)));
        let Ok(fields) = fields.collect::<Result<Vec<_>, std::string::FromUtf8Error>>() else { continue };
        let mut again = HeaderList::default();
        Decoder::default().decode(&Encoder::literal(&fields), &mut again).expect("our own encoding");
        assert!(list.iter().eq(again.iter()));
    }
}

/// Puts messages together from one piece and from pieces; both must come to the same.
///
/// # Panics
/// Where a promise is broken.
pub fn messages(piece: usize, bytes: &[u8]) {
    for keep in [true, false] {
        let (whole, pieces) = (arrived(bytes.len().max(1), bytes, keep), arrived(piece.max(1), bytes, keep));
        assert_eq!(whole.1, pieces.1);
        assert_eq!(whole.0.len(), pieces.0.len());
        for (one, other) in whole.0.iter().zip(&pieces.0) {
            // What is not kept is shown only where it comes in one piece.
            assert!(one == other || (!keep && (one.1.is_none() || other.1.is_none()) && one.0 == other.0));
        }
    }
}

type Messages = (Vec<(bool, Option<Vec<u8>>)>, Result<bool, String>);

fn arrived(piece: usize, bytes: &[u8], keep: bool) -> Messages {
    let (mut reader, mut list) = (MessageReader::default(), Vec::new());
    for mut part in bytes.chunks(piece) {
        loop {
            match reader.next(&mut part, Wish { keep, limit: 1 << 12 }) {
                Ok(Some(arrived)) => list.push((arrived.compressed, arrived.bytes.map(<[u8]>::to_vec))),
                Ok(None) => break,
                Err(reason) => return (list, Err(reason)),
            }
        }
    }
    (list, Ok(reader.is_inside()))
}

/// Reads bytes as an answer to an inference, and holds it against a model.
pub fn answer(bytes: &[u8]) {
    thread_local! {
        static MODELS: [ModelSpec; 3] = [model_of(0, false), model_of(8, false), model_of(8, true)];
    }
    let reply = StreamReply::parse(bytes).map(|reply| reply.response).or_else(|| InferReply::parse(bytes));
    let Some(reply) = reply else { return };
    MODELS.with(|models| {
        for model in models {
            let form = ReplyForm { model, batch: 2, contents: !reply.lacks_contents() };
            let _ = form.check(reply.model_name(), &reply);
        }
    });
}

/// Reads bytes as every answer of the control plane.
pub fn control(bytes: &[u8]) {
    let _ = (Ready::read(bytes), ServerMetadata::read(bytes), TraceSetting::read(bytes));
    let _ = StatisticsSnapshot::read(bytes);
    let (metadata, config) = (ModelMetadata::read(bytes), ModelConfigResponse::read(bytes));
    let config = config.ok().and_then(|response| response.config).unwrap_or_default();
    let _ = model::model(&ModelId::latest("m"), metadata.unwrap_or_default(), &config);
}

/// Hands frames to the requests of a client, each record one: type, flags, stream, length, contents. The first byte says how the
/// client was set up. Every request must end at most once.
///
/// # Panics
/// Where one ends twice.
pub fn calls(bytes: &[u8]) {
    let Some((&setup, records)) = bytes.split_first() else { return };
    let (streaming, watch, decoupled, every) = (setup & 1 != 0, setup & 2 != 0, setup & 4 != 0, setup & 8 != 0);
    let spec = spec_of(model_of(0, decoupled), watch, every);
    let mut calls = Calls::new(Arc::new(Deaf), &spec, None);
    calls.streams.grow(STREAMS as usize);
    for slot in 0..STREAMS as usize {
        calls.add_slot(&spec);
        calls.outputs.push(None);
        calls.slots[slot].begin(Stamp::now(), PayloadId(0), (0, decoupled));
        calls.slots[slot].phase = Phase::Outstanding;
        calls.slots[slot].stream = 2 * slot as u32 + 1;
        calls.slots[slot].shared = slot;
        if streaming {
            calls.streams.opened(slot, 2 * slot as u32 + 1);
        }
    }
    let tokens: Vec<Token> = (0..STREAMS as usize).map(|slot| calls.token(slot)).collect();
    let token = |number: u64| if streaming { stream_token(number as usize) } else { tokens[number as usize] };
    let mut connection = opened(token);
    let frames = as_frames(records, &tokens);
    let ended = feed(&mut connection, (usize::from(setup >> 4) * 7 + 1, &frames), &mut calls);
    if ended.is_err() {
        let error = crate::backends::grpc::status::error("Lost", "");
        calls.fail_all(&error);
    }
    let mut over = calls.over.clone();
    over.sort_unstable();
    over.dedup();
    assert_eq!(over.len(), calls.over.len(), "a request ended twice");
}

/// Records as frames. A length from 250 stands for the id of a request in a response.
fn as_frames(mut records: &[u8], tokens: &[Token]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&[kind, flags, stream, length], rest)) = records.split_first_chunk() {
        let id = [&[3 << 3 | 2, 17][..], &request_id(tokens[usize::from(length) % tokens.len()])].concat();
        let named = [&[0, 0, 0, 0, 21, 2 << 3 | 2, 19][..], &id].concat();
        let (payload, rest) = match length {
            250.. => (&named[..], rest),
            _ => rest.split_at(rest.len().min(usize::from(length))),
        };
        records = rest;
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
        id: ModelId::latest("m"),
        versions: Vec::new(),
        platform: String::new(),
        max_batch_size,
        inputs: Vec::new(),
        outputs: vec![tensor("O", DataType::Uint8, &[-1]), tensor("S", DataType::Bytes, &[2])],
        scheduler: Scheduler::Default,
        sequences: false,
        decoupled,
        response_cache: false,
        composing: Vec::new(),
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
        models: [model].into(),
        payloads: PAYLOADS.with_borrow(Arc::clone),
        outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 0 },
        slots: STREAMS as usize,
        load_slots: STREAMS as usize,
        options: Arc::new(RequestOptions::default()),
        max_reply_bytes: MAX_REPLY_BYTES,
        validate_replies,
        watch_responses,
        cancels: false,
        drain_limit: Duration::ZERO,
    }
}

/// Looks at every output and keeps nothing.
struct Deaf;

impl CompletionSink for Deaf {
    fn response(&self, _: SlotId, response: &Response<'_>) {
        response.outputs.visit(&mut |output| drop(std::hint::black_box(output.bytes.len())));
    }

    fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
        Next::Idle
    }
}
