//! The part of the fuzz targets that is REST's.

use super::metadata::{Answer, unavailable};
use super::reply::ReplyOutputs;
use crate::backend::{ReplyForm, ReplySource};
use crate::model::ModelId;
use crate::tfserving::signature::Wanted;

/// Reads bytes as an answer.
pub fn answer(bytes: &[u8], form: ReplyForm<'_>) {
    if let Ok(outputs) = ReplyOutputs::read(bytes, form.model) {
        let _ = form.check(ReplySource::default(), &outputs);
    }
}

/// Reads bytes as metadata and as a state.
pub fn control(bytes: &[u8], wanted: &Wanted) {
    let _ = unavailable(bytes);
    if let Ok(answer) = serde_json::from_slice::<Answer>(bytes) {
        let _ = wanted.model(&ModelId::latest("m"), answer.metadata(wanted.signature()));
    }
}
