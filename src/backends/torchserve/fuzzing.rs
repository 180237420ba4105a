//! Entry for the fuzz target under `fuzz/`: what a server answers, in pieces, and its counters.

use std::sync::Arc;

use crate::backend::{ClientSpec, Completion, CompletionSink, InferError, Next, Request, Response, SlotId};
use crate::data::PayloadId;
use crate::engine::Exchanges;
use crate::engine::http1::{Headers, HttpService};
use crate::model::{ModelId, ModelSpec};
use crate::torchserve::management::Registered;
use crate::torchserve::service::Predictions;
use crate::torchserve::statistics::Counters;
use crate::torchserve::upload::Uploads;
use crate::wire::http1::ReplyReader;

/// Longest answer.
const MOST: u64 = 1 << 16;

/// Reads bytes as an answer, in one piece and in pieces of `piece` bytes, which must give the same result; and as a
/// page of counters.
///
/// # Panics
/// Where they do not.
pub fn answer(piece: usize, bytes: &[u8]) {
    assert_eq!(outcome(bytes.len().max(1), bytes), outcome(piece.max(1), bytes));
    let mut counters = Counters::new("m", None);
    String::from_utf8_lossy(bytes).lines().for_each(|line| counters.take(line));
    let _ = counters.snapshot();
    let _ = Registered::read(bytes).map(|found| found.note("m"));
}

/// The engine's errors for answers that violate the protocol or are cut off.
const BROKEN: &str = "Malformed reply";

/// How a request with this answer ends.
fn outcome(piece: usize, bytes: &[u8]) -> Result<(), String> {
    let models: Arc<[ModelSpec]> = [ModelSpec::plain(&ModelId::latest("m"), Vec::new(), Vec::new())].into();
    let spec = ClientSpec { max_reply_bytes: MOST, ..ClientSpec::new(models, Vec::new().into()) };
    let mut service = Predictions::new(Arc::new(Uploads::none()), Headers::default(), &spec);
    let mut exchanges = Exchanges::new(Arc::new(Deaf), false);
    service.grow(1).expect("slots are memory");
    exchanges.grow(1);
    exchanges.begin(0, Request { payload: PayloadId(0), sequence: None });
    exchanges.sends(0);
    let mut reader = ReplyReader::default();
    let failed = |error: InferError| Err(error.code.to_string());
    for part in bytes.chunks(piece) {
        let mut at = 0;
        while at < part.len() {
            let headless = reader.head().is_none();
            let Ok(progress) = reader.feed(&part[at..]) else { return Err(BROKEN.to_owned()) };
            if let (true, Some(head)) = (headless, reader.head())
                && let Err(error) = service.head(0, head)
            {
                return failed(error);
            }
            if let Err(error) = service.body(0, progress.body, reader.body_bytes(), &mut exchanges) {
                return failed(error);
            }
            if progress.complete {
                return complete(&mut service, &reader, &mut exchanges);
            }
            at += progress.taken;
        }
    }
    // The server hangs up.
    match reader.end() {
        Ok(()) => complete(&mut service, &reader, &mut exchanges),
        Err(_) => Err(BROKEN.to_owned()),
    }
}

fn complete(service: &mut Predictions, reader: &ReplyReader, exchanges: &mut Exchanges) -> Result<(), String> {
    let head = reader.head().expect("a whole answer has a head");
    service.complete(0, head, reader.body_bytes(), exchanges).map_err(|error| error.to_string())
}

struct Deaf;

impl CompletionSink for Deaf {
    fn response(&self, _: SlotId, _: &Response<'_>) {}

    fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
        Next::Idle
    }
}
