//! Entry point of the fuzz target under `fuzz/`: bytes from a server, in pieces.

use std::sync::Arc;

use crate::backend::{ClientSpec, ReplyChecks, ReplyForm};
use crate::data::PayloadId;
use crate::engine::http1::decompressed;
use crate::kserve_http::body::{Kept, Longest};
use crate::kserve_http::outputs::ReplyOutputs;
use crate::kserve_http::render::JSON_LENGTH;
use crate::kserve_http::reply::{Checker, Wanted};
use crate::model::{ModelId, ModelSpec};
use crate::wire::http1::Malformed;
use crate::wire::http1::ReplyReader;

/// Longest body that is checked, compressed and decompressed.
const MOST: u64 = 16 << 20;

/// Parses `bytes` as a reply in one piece and in pieces of `piece` bytes, with equal results. A complete reply with
/// status 200 is then checked as an answer; if the strict check accepts it, the quick one must, too.
///
/// # Panics
/// Where an invariant is broken.
pub fn reply(piece: usize, bytes: &[u8]) {
    let (whole, pieces) = (read(bytes.len().max(1), bytes), read(piece.max(1), bytes));
    assert_eq!(whole.is_ok(), pieces.is_ok(), "{:?} {:?}", whole.as_ref().err(), pieces.as_ref().err());
    let (Ok((reader, body, used)), Ok((_, other, other_used))) = (whole, pieces) else { return };
    assert_eq!((&body, used), (&other, other_used));
    let Some(head) = reader.head().filter(|head| head.status == 200) else { return };
    let kept = |watch| {
        let mut kept = Kept::default();
        let taken = kept.begin(head, watch, Longest::Allowed(MOST)).and_then(|()| kept.push(&body, body.len() as u64));
        taken.map(|()| kept)
    };
    let (Ok(quick), Ok(strict)) = (kept(false), kept(true)) else { return };
    let model = ModelSpec::plain(&ModelId::latest("m"), Vec::new(), Vec::new());
    let form = || ReplyForm { model: &model, batch: 1, contents: true };
    let checks = ReplyChecks::new(&ClientSpec::new(Arc::from([]), Arc::from([])));
    let wanted = Wanted { shared: false, payload: PayloadId(0), form: &form, checks: &checks };
    let checked = Checker::default().check(head, &quick, reader.body_bytes(), wanted);
    let read = decompressed(head, strict.bytes(), strict.most()).and_then(|body| ReplyOutputs::read(head, body, None));
    if read.is_ok_and(|outputs| outputs.decoded().is_ok()) {
        assert_eq!(checked, Ok(()));
    }
}

/// The reader after all bytes, the body, and how many bytes belong to the reply.
fn read(piece: usize, bytes: &[u8]) -> Result<(ReplyReader, Vec<u8>, usize), Malformed> {
    let (mut reader, mut body, mut used) = (ReplyReader::with_part_length(JSON_LENGTH), Vec::new(), 0);
    for part in bytes.chunks(piece) {
        let mut at = 0;
        while at < part.len() {
            let progress = reader.feed(&part[at..])?;
            body.extend_from_slice(progress.body);
            used += progress.taken;
            if progress.complete {
                return Ok((reader, body, used));
            }
            assert!(progress.taken > 0, "the reader stands still");
            at += progress.taken;
        }
    }
    reader.end()?;
    Ok((reader, body, used))
}
