//! What counts the tokens of answers, where the server does not.

use std::sync::Arc;

use crate::backends::openai;
use crate::data::Tokenizer;
use crate::error::Result;
use crate::plan::Plan;
use crate::record::TextLog;

/// Where answers go whose tokens are to be counted, if they are.
///
/// # Errors
/// If the tokenizer's file is invalid, or a thread cannot be started.
pub fn log(plan: &Plan) -> Result<Option<Arc<TextLog>>> {
    let Some(path) = &plan.target.openai.tokenizer else { return Ok(None) };
    let tokenizer = Tokenizer::read(path)?;
    let count = move |answer: &[u8]| openai::texts(answer).iter().map(|text| tokenizer.count(text)).sum();
    TextLog::start(Box::new(count)).map(Some)
}
