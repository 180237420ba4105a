//! Entry for the fuzz target under `fuzz/`, and for tests: how bytes from a server are read, in pieces.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{
    ClientSpec, Completion, CompletionSink, Generation, InferError, Next, Request, Response, SlotId, Uncounted,
};
use crate::data::{InputTensor, Payload, PayloadId};
use crate::engine::Exchanges;
use crate::engine::http1::{Headers, Http};
use crate::engine::serial::{Dialogue, Step};
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::openai::bodies::Bodies;
use crate::openai::service::OpenAi;
use crate::openai::stream::Wanted;
use crate::openai::{PAYLOAD, RESPONSE};
use crate::plan::OpenAiPlan;
use crate::shm::{Placement, Region};

/// Most bytes of a body or of an event.
const MOST: u64 = 1 << 20;

/// Reads `bytes` as an answer in one piece and in pieces of `piece` bytes; both must give the same result.
///
/// # Panics
/// If an invariant is broken.
pub fn answer(piece: usize, bytes: &[u8]) {
    let whole = timeless(outcome(std::iter::once(bytes), true, MOST));
    let pieces = timeless(outcome(bytes.chunks(piece.max(1)), true, MOST));
    // Bytes beyond an answer are a failure only where they come with it.
    if whole.broken.is_none() && pieces.broken.is_none() {
        assert_eq!(whole, pieces);
    }
}

/// The outcome of a request: its responses, each `content`, `aside` or an error, with its text; and what was generated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) responses: Vec<(String, String)>,
    pub(super) generation: Option<Generation>,
    /// The text in which to count its tokens.
    pub(super) content: String,
    pub(super) error: Option<InferError>,
    /// Why the connection is unusable.
    pub(super) broken: Option<InferError>,
    pub(super) whole: bool,
}

#[derive(Default)]
struct Log(Mutex<Outcome>);

impl CompletionSink for Log {
    fn response(&self, _: SlotId, response: &Response<'_>) {
        let mut text = String::new();
        response.outputs.visit(&mut |output| {
            assert_eq!((output.name, output.datatype), ("response", DataType::Json));
            let length = u32::from_le_bytes(*output.bytes.first_chunk().unwrap()) as usize;
            assert_eq!(length, output.bytes.len() - 4);
            text = String::from_utf8_lossy(&output.bytes[4..]).into_owned();
        });
        let kind = match response.error {
            Some(error) => error.to_string(),
            None if response.empty => "aside".to_owned(),
            None => "content".to_owned(),
        };
        self.0.lock().responses.push((kind, text));
    }

    fn generated(&self, _: SlotId, generation: &Generation, uncounted: Uncounted<'_>) {
        let mut outcome = self.0.lock();
        (outcome.generation, outcome.content) =
            (Some(*generation), String::from_utf8_lossy(uncounted.answer).into_owned());
    }

    fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
        Next::Idle
    }
}

pub(super) fn payload(text: &str) -> Payload {
    let packed = [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let input = InputTensor {
        name: PAYLOAD.into(),
        datatype: DataType::Json,
        shape: [1].into(),
        len: packed.len(),
        region: Arc::new(Region::filled(Placement::Pageable, &packed).unwrap()),
        offset: 0,
    };
    Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: vec![input], parameters: Vec::new(), expected: None }
}

pub(super) fn spec(payloads: Vec<Payload>) -> ClientSpec {
    let document = |name: &str| vec![TensorSpec::plain(name, DataType::Json, vec![1])];
    let model = ModelSpec::plain(&ModelId::latest("m"), document(PAYLOAD), document(RESPONSE));
    ClientSpec::new([model].into(), payloads.into())
}

pub(super) fn service(spec: &ClientSpec, plan: &OpenAiPlan, mixed: bool, limit: u64) -> OpenAi {
    let endpoint = crate::engine::Endpoint::parse("http://h:80/base", 1).unwrap();
    let bodies = Bodies::new(&endpoint, &Headers::default(), plan, mixed, spec).unwrap();
    OpenAi::new(
        Arc::new(bodies),
        Headers::default(),
        Wanted { limit, event: limit as usize, message: true, content: true, streams: true },
    )
}

/// The outcome of an answer in `pieces`, after which the connection ends if `ends`.
pub(super) fn outcome<'a>(pieces: impl Iterator<Item = &'a [u8]>, ends: bool, limit: u64) -> Outcome {
    let spec = spec(vec![payload("{}")]);
    let mut http = Http::new(service(&spec, &OpenAiPlan::default(), false, limit));
    let log = Arc::new(Log::default());
    let mut exchanges = Exchanges::new(log.clone(), true);
    exchanges.grow(1);
    Dialogue::grow(&mut http, 1).unwrap();
    let request = Request { payload: PayloadId(0), sequence: None };
    exchanges.begin(0, request);
    Dialogue::prepare(&mut http, 0, request).unwrap();
    exchanges.sends(0);
    let mut outcome = Outcome::default();
    let mut pieces = pieces.enumerate();
    while let Some((at, piece)) = pieces.next() {
        exchanges.now = crate::clock::Stamp(u64::MAX / 2 + at as u64);
        match http.receive(0, piece, &mut exchanges) {
            Ok(Step::Partly) => {}
            Ok(step) => {
                outcome.whole = true;
                if step == Step::Enough {
                    http.leave_rest(0, 0);
                    // Whatever it is, it is not part of the answer.
                    while pieces.next().is_some_and(|(_, piece)| http.receive_rest(0, piece) == Ok(Step::Partly)) {}
                }
            }
            Err(error) => outcome.broken = Some(error),
        }
        if outcome.whole || outcome.broken.is_some() {
            break;
        }
    }
    if ends && !outcome.whole && outcome.broken.is_none() {
        match http.end(0, &mut exchanges) {
            Ok(()) => outcome.whole = true,
            Err(error) => outcome.broken = Some(error),
        }
    }
    let log = log.0.lock().clone();
    let error =
        log.responses.iter().find(|(kind, _)| kind != "aside" && kind != "content").map(|(kind, _)| kind.clone());
    let failed = exchanges.has_failed(0).then(|| InferError::new("failed", error.unwrap_or_default()));
    Outcome { error: failed, responses: log.responses, generation: log.generation, content: log.content, ..outcome }
}

/// The same without what depends on time and pieces: timestamps and reads.
pub(super) fn timeless(outcome: Outcome) -> Outcome {
    let generation = outcome.generation.map(|generation| Generation {
        chunks: generation.chunks,
        tokens: generation.tokens,
        events: generation.events,
        unended: generation.unended,
        ..Generation::default()
    });
    Outcome { generation, ..outcome }
}
