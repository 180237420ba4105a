//! What counts the tokens of requests and answers, where the server does not.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::backends::openai;
use crate::data::Tokenizer;
use crate::error::Result;
use crate::plan::Plan;
use crate::record::{Counted, TextLog};

/// Requests whose counts are remembered: most loads send the same ones again and again, which are often long.
const REMEMBERED: usize = 1 << 16;

/// Where requests go whose tokens are to be counted, if they are.
///
/// # Errors
/// If the tokenizer's file is invalid, or a thread cannot be started.
pub fn log(plan: &Plan) -> Result<Option<Arc<TextLog>>> {
    let Some(path) = &plan.target.openai.tokenizer else { return Ok(None) };
    let tokenizer = Tokenizer::read(path)?;
    let (hasher, counts) = (RandomState::new(), RefCell::new(HashMap::<u64, Option<u64>>::new()));
    TextLog::start(Box::new(move |uncounted| {
        let count = |text: &String| tokenizer.count(text);
        let output = openai::texts(uncounted.answer).iter().map(count).sum();
        if uncounted.request.is_empty() {
            return Counted { input: None, output };
        }
        let mut counts = counts.borrow_mut();
        if counts.len() == REMEMBERED {
            counts.clear();
        }
        let count_request = || {
            let prompt = openai::prompt(uncounted.request)?;
            prompt.texts.iter().map(count).sum::<Option<u64>>().map(|tokens| tokens + prompt.tokens)
        };
        let input = *counts.entry(hasher.hash_one(uncounted.request)).or_insert_with(count_request);
        Counted { input, output }
    }))
    .map(Some)
}
